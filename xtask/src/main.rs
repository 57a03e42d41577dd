//! Kiln's project tasks.
fn main() {}
