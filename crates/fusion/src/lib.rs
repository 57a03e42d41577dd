//! Which operators become one kernel, and why; lowering to kernels.

#![forbid(unsafe_code)]
