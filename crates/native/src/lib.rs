//! Object code to callable kernels, without LLVM.
