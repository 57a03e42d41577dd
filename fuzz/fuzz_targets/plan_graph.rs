//! Graphs from choices or text, fused and built into programs. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::plan_graph(bytes));
