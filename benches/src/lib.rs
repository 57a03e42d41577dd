//! Benchmarks of Kiln, one file per promise, under `benches/`.
#![forbid(unsafe_code)]
