//! The runtime's threads: [`SpinPool`], a [`TaskPool`](kiln_backend::TaskPool) for launches of a few microseconds.
//!
//! Entering a work-stealing pool from outside takes tens of microseconds; here the caller publishes a job, works on it
//! too, and finds the workers still spinning from the previous launch.

mod spin;
mod sync;

#[cfg(test)]
mod tests;

pub use spin::SpinPool;
