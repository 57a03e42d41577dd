//! Each op and some regions: lowered, verified, evaluated, and compared with the interpreter.

mod harness;

mod elementwise;
mod indexing;
mod movement;
mod recurrence;
mod reduction;
mod regions;
mod windows;

use harness::{Case, check, check_with, class_of, refused};
