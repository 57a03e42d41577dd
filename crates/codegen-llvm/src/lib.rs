//! Kernels to object code for CPUs, through LLVM.
