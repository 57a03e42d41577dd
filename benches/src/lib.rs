//! Benchmarks of Kiln, one file per promise, under `benches/`.
