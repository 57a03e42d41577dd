//! The kernel form between fusion and the backends.

#![forbid(unsafe_code)]
