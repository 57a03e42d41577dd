//! Any bytes as a request over gRPC. See `crates/serve/tests/targets`.
#![no_main]

#[allow(dead_code, reason = "the other target has its own")]
#[path = "../../crates/serve/tests/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    targets::serve_grpc(bytes);
});
