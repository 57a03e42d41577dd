//! Test cases as files: a program, and comments that state what is expected of it.
//!
//! `testdata/` has a folder per topic, with graphs (`.kiln`), kernels (`.kernel`), and kernels with loops (`.loops`). A file is the text of one program, so
//! `kiln inspect` reads it too. Comments before the program are prose; comments after it are directives:
//!
//! ```text
//! // A sum of rows.
//! kernel @sum(%x: in f32[M, N], %y: out f32[M]) {
//!   outer i < M
//!   s = reduce add[r < N] %x[i, r]
//!   store %y[i] = s
//! }
//! // also: add -> mul | max
//! // run: edges {elements = special}
//! // run: M N = 0 3 | 2 17
//! // run: M N = 2 2
//! //   %x = [1.0, 2.0, 3.0, 4.0]
//! //   %y == [3.0, 7.0]
//! // schedules:
//! //   llvm:portable row(…)
//! ```
//!
//! - `run: edges` runs it at sizes around the widths of vectors and tiles; `run: M N = 0 3 | 2 17` at those sizes (further
//!   lines of the block that begin with `|` continue the list). A run is compiled with the fallback schedule and with every
//!   schedule that is offered, for every instruction-set level that the machine has, and compared with the interpreter or
//!   the kernel evaluator. All calls must have results; with `{may_fault}` some of them, with `{faults}` none. `{elements =
//!   smooth | small | edges | special, indices = 0..3}` says what generated operands are made of: a [`Flavor`], and the range
//!   of `i64`s. `{work = 3000}` bounds the points of a call at `edges`.
//! - `%x = […]` gives an operand's elements, row by row. `%y == […]` is a result as interpreted.
//! - `also: f32 & add -> f64 & mul | i32 & max` runs the program with other words too: each alternative replaces the words on
//!   the left, in the runs that follow. Several `also` combine, and a block continues the list.
//! - Any other directive is a stage: the text of the program at that stage. For kernels [`KERNEL_STAGES`], for graphs
//!   [`GRAPH_STAGES`]. `cargo xtask bless --files` rewrites stages and results.
//!
//! A file that does not follow these rules is an error with its line. [`Case::check`] does what a file says; a further kind of
//! program is one more implementation of `form::Form`.
//!
//! [`Flavor`]: crate::generate::Flavor

mod also;
mod case;
mod directive;
mod form;
mod graph;
mod kernel;
mod literal;
mod run;

pub use case::{Case, CaseError, folder, topic, topics};
pub use form::Engine;
pub use graph::GRAPH_STAGES;
pub use kernel::KERNEL_STAGES;
