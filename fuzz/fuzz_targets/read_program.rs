//! Any bytes as a stored program, or choices of one and of its damage. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::read_program(bytes));
