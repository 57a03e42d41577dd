//! Any bytes as an ONNX model without files next to it. See `kiln_testkit::targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::import_onnx(bytes));
