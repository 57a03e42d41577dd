//! Graphs from choices or text, run as they are and optimised. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::interpret_graph(bytes));
