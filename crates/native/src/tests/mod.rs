//! Tests across the crate's files: real objects are loaded and run, unusual and damaged ones are rejected.

mod damaged;
pub(crate) mod fixtures;
mod linked;
mod refused;
mod running;
