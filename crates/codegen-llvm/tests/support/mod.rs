//! What tests of compiled kernels share: levels, kernels from text, and comparing at many sizes.

#![allow(dead_code, reason = "each test file uses a part of it")]

use kiln_codegen_llvm::{IsaLevel, LlvmCompiler};
use kiln_kernel::{Target, VerifiedKernel};
use kiln_native::NativeExecutor;
use kiln_testkit::kernels::{
    Checked, Elements, Variant, check_kernel, covering_sizes, kernel_tensors, variants,
};
use kiln_testkit::random::SplitMix64;

/// The targets of the levels that this machine runs.
pub(crate) fn targets() -> Vec<Target> {
    let here = IsaLevel::ALL.into_iter().filter(|level| level.runs_here());
    here.map(LlvmCompiler::target).collect()
}

/// A kernel from its text.
pub(crate) fn kernel(text: &str) -> VerifiedKernel {
    let kernel =
        kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// A kernel with every schedule at every level.
pub(crate) fn compiled(kernel: &VerifiedKernel) -> Vec<Variant> {
    variants(&LlvmCompiler::new(), &NativeExecutor::new(), kernel, &targets())
        .unwrap_or_else(|finding| panic!("{finding}"))
}

/// Compares a kernel with its meaning at sizes that cover the edges; how many calls agreed, and how many faulted.
pub(crate) fn check_text(text: &str, elements: Elements, most_work: f64) -> (usize, usize) {
    let kernel = kernel(text);
    let variants = compiled(&kernel);
    let sizes = covering_sizes(&kernel, most_work);
    assert!(!sizes.is_empty(), "no sizes for\n{text}");
    let mut tally = (0, 0);
    for (seed, symbols) in (1..).zip(&sizes) {
        match check_at(&kernel, &variants, symbols, elements, seed) {
            Some(Checked::Agreed) => tally.0 += 1,
            Some(Checked::Faulted) => tally.1 += 1,
            None => {}
        }
    }
    tally
}

/// Compares compiled kernels with their meaning at some sizes.
pub(crate) fn check_at(
    kernel: &VerifiedKernel,
    variants: &[Variant],
    symbols: &[i64],
    elements: Elements,
    seed: u64,
) -> Option<Checked> {
    let mut random = SplitMix64::new(seed);
    let tensors = kernel_tensors(&mut random, kernel, symbols, elements).unwrap()?;
    let executor = NativeExecutor::new();
    match check_kernel(&executor, kernel, variants, symbols, &tensors) {
        Ok(checked) => Some(checked),
        Err(finding) => {
            let names = kernel.dims().symbols().map(|symbol| kernel.dims().symbol_name(symbol));
            let named: Vec<String> = names
                .zip(symbols)
                .map(|(name, size)| format!("{name} = {size}"))
                .collect();
            let text = kiln_kernel::text::print(kernel);
            panic!("{finding}\nat {} (seed {seed}) of\n{text}", named.join(", "))
        }
    }
}
