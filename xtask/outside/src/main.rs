//! A program that uses Kiln as a stranger would, with nothing of the workspace around it.
//!
//! `cargo xtask test` builds and runs it: it ends well only if its assertions hold.
#![forbid(unsafe_code)]

use kiln as _;

fn main() {}
