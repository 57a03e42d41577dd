//! The public items of a crate, read from its source on the stable toolchain.
//!
//! `module_tree` parses the files, `resolve` follows `use`, `list` prints what can be reached from outside. `circles`
//! finds modules that need each other, `reach` what some crates use of others.
//! Not seen: items that a macro makes (a `pub use` of one is still listed, as `item`), and trait implementations.

mod circles;
mod imports;
mod list;
mod module_tree;
mod reach;
mod resolve;

pub(crate) use circles::circles;
pub(crate) use imports::flatten;
pub(crate) use list::public_items;
pub(crate) use module_tree::is_test_only;
pub(crate) use reach::Reach;
