//! Choices and an ONNX model, through every stage before machine code. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::run_onnx(bytes));
