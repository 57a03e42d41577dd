//! Runs programs: launch plans, compiling on first use, the task pool.

#![forbid(unsafe_code)]
