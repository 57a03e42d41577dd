//! Any bytes as a `.npy` file. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::read_array(bytes));
