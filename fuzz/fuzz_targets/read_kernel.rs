//! Any bytes as kernel text, or the seed of a random kernel. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::read_kernel(bytes));
