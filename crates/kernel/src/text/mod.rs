//! The kernel's text form: printer and reader, inverses of each other.
//!
//! Laws, each a property test: reading printed text gives a kernel that prints the same, with its symbols in the same
//! order; printing is deterministic; any text is read or rejected with a diagnostic. Text is also the serialised form
//! of kernels and the input of keys. The grammar is in the book's page on the kernel form.

mod names;
mod operand;
mod print;
mod print_expression;
mod read;
mod read_axes;
mod read_call;
mod read_expression;
mod read_header;
mod serialize;
mod simplify;
mod words;

#[cfg(test)]
mod tests;

pub use print::print;
pub use read::{read, read_within};
