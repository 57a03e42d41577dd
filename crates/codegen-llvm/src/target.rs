//! LLVM's target machine: always a generic processor, with each feature of the level enabled explicitly.

use kiln_backend::IsaLevel;

/// The processor name passed to LLVM: the baseline of the architecture.
pub(crate) const fn cpu(level: IsaLevel) -> &'static str {
    match level.is_aarch64() {
        true => "generic",
        false => "x86-64",
    }
}

/// The target triple. No operating system: objects are ELF everywhere and call nothing.
pub(crate) const fn triple(level: IsaLevel) -> &'static str {
    match level.is_aarch64() {
        true => "aarch64-unknown-none-elf",
        false => "x86_64-unknown-none-elf",
    }
}
