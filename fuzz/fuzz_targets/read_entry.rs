//! Any bytes as the file of a cache entry. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::read_entry(bytes));
