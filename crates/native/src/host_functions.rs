//! The host functions that a kernel may call: those that move and fill memory, nothing else.
//!
//! A compiler emits such calls for loops and copies, even if the source has none. Everything else a kernel needs is in
//! its object.
#![allow(unsafe_code, reason = "the C library's functions are foreign")]

/// The names, in the order of [`HostFunction`]'s variants.
pub(crate) const NAMES: [&str; 3] = ["memcpy", "memmove", "memset"];

/// A function of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostFunction {
    /// `memcpy`.
    Copy,
    /// `memmove`.
    Move,
    /// `memset`.
    Set,
}

impl HostFunction {
    /// The function of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        match name {
            "memcpy" => Some(Self::Copy),
            "memmove" => Some(Self::Move),
            "memset" => Some(Self::Set),
            _ => None,
        }
    }

    /// Its address in this process.
    pub(crate) fn address(self) -> u64 {
        let address = match self {
            Self::Copy => memcpy as *const (),
            Self::Move => memmove as *const (),
            Self::Set => memset as *const (),
        };
        address as usize as u64
    }
}

// The standard library links these in, on every system.
unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8;
    fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_functions_are_found_by_name() {
        let functions = NAMES.map(|name| HostFunction::by_name(name).unwrap());
        assert_eq!(
            functions,
            [HostFunction::Copy, HostFunction::Move, HostFunction::Set]
        );
        for function in functions {
            assert_ne!(function.address(), 0);
        }
        assert_ne!(functions[0].address(), functions[2].address());
        assert_eq!(HostFunction::by_name("expf"), None);
    }
}
