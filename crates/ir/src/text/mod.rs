//! The graph's text form: printer and reader, inverses of each other.
//!
//! Laws, each a property test and a fuzz target: reading printed text gives an equal graph; printing a graph that was read
//! is a fixpoint; printing is deterministic; floats round-trip bit for bit. The grammar is in the book's chapter on the
//! graph text format.

mod elements;
mod input;
mod limits;
mod print;
mod read;
mod read_attributes;
mod read_header;

pub use limits::{ReadLimits, TextLimits};
pub use print::{PrintOptions, print, print_with};
pub use read::{AnnotatedTypes, NewResults, ResultTypes, read, read_with, read_within};
