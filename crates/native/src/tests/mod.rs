//! Tests across the crate's files: real objects loaded and run, strange and damaged ones refused.

mod damaged;
pub(crate) mod fixtures;
mod linked;
mod refused;
mod running;
