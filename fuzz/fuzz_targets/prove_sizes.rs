//! Any bytes as facts of sizes and questions about them. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::prove_sizes(bytes));
