//! Graphs through machine code. See `kiln_testkit::targets`.
#![no_main]

use kiln_codegen_llvm::LlvmCompiler;
use kiln_backend::KernelCompiler;
use std::sync::{Arc, LazyLock};

static COMPILER: LazyLock<Arc<dyn KernelCompiler>> = LazyLock::new(|| Arc::new(LlvmCompiler::new()));

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kiln_testkit::targets::run_compiled(&COMPILER, bytes));
