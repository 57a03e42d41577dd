//! Shared by the tests of compiled kernels: levels, kernels from text, and comparisons at many sizes.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses a part of it, and a test may panic"
)]

pub(crate) mod graphs;

use kiln_backend::IsaLevel;
use kiln_backend::{KernelCompiler, KernelExecutor, Schedule, Target, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::VerifiedKernel;
use kiln_native::NativeExecutor;
use kiln_schedule_cpu::loops::{self, Loops};
use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{
    Checked, Elements, Variant, check_kernel, covering_sizes, kernel_tensors, random_kernel,
    random_sizes, variants,
};
use kiln_testkit::random::SplitMix64;

/// Ordinary numbers, and indices that are valid for an axis of one element.
pub(crate) const SMOOTH: Elements = Elements {
    flavor: Flavor::Smooth,
    indices: (0, 1),
};

/// The targets of the levels that this machine can run.
pub(crate) fn targets() -> Vec<Target> {
    let here = IsaLevel::of_host();
    here.map(LlvmCompiler::target).collect()
}

/// A kernel from its text.
pub(crate) fn kernel(text: &str) -> VerifiedKernel {
    let kernel =
        kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// The values of a kernel's symbols, in its order.
pub(crate) fn symbols(kernel: &VerifiedKernel, sizes: &[(&str, i64)]) -> Vec<i64> {
    let value = |name: &str| sizes.iter().find(|(given, _)| *given == name).unwrap().1;
    let dims = kernel.dims();
    dims.symbols()
        .map(|symbol| value(dims.symbol_name(symbol)))
        .collect()
}

/// A kernel with every schedule at every level.
pub(crate) fn compiled(kernel: &VerifiedKernel) -> Vec<Variant> {
    try_compiled(kernel).unwrap_or_else(|message| panic!("{message}"))
}

/// The loops of a kernel's schedule.
pub(crate) fn loops_of(kernel: &VerifiedKernel, schedule: &Schedule) -> Loops {
    loops::read(kernel, &schedule.text).unwrap()
}

/// A schedule with other loops.
pub(crate) fn with_loops(
    kernel: &VerifiedKernel,
    schedule: &Schedule,
    change: impl Fn(&mut Loops),
) -> Schedule {
    let mut loops = loops_of(kernel, schedule);
    change(&mut loops);
    Schedule::new("changed").with_text(loops.print(kernel))
}

/// Whether some sizes of a kernel use Winograd's transform under a schedule.
pub(crate) fn has_winograd(kernel: &VerifiedKernel, schedule: &Schedule) -> bool {
    let nests = loops_of(kernel, schedule).nests;
    nests.iter().any(|nest| nest.winograd.is_some())
}

/// A kernel at every level that this machine can run, with the loops of the best schedule modified.
pub(crate) fn compiled_as(kernel: &VerifiedKernel, change: impl Fn(&mut Loops)) -> Vec<Variant> {
    let change = |schedule: &Schedule| with_loops(kernel, schedule, &change);
    compiled_with(&LlvmCompiler::new(), kernel, change)
}

/// A kernel at every level that this machine can run, with the best schedule modified by `change`.
fn compiled_with(
    compiler: &LlvmCompiler,
    kernel: &VerifiedKernel,
    change: impl Fn(&Schedule) -> Schedule,
) -> Vec<Variant> {
    let executor = NativeExecutor::new();
    let variant = |target: &Target| {
        let schedule = compiler.schedules(kernel, target).remove(0).schedule;
        let schedule = change(&schedule);
        let compiled = compiler.compile(kernel, target, &schedule, &mut Unobserved);
        let artifact = compiled.unwrap();
        let loaded = executor.load(&artifact).unwrap();
        Variant { artifact, loaded }
    };
    targets().iter().map(variant).collect()
}

/// A kernel with 3 x 3 windows at every level that this machine can run, with Winograd from the smallest images on, in
/// tiles of up to `sums` sums along an axis.
pub(crate) fn compiled_with_fewer_products(kernel: &VerifiedKernel, sums: u32) -> Vec<Variant> {
    let compiler = LlvmCompiler::new().with_fewer_products(sums > 2);
    let variants = compiled_with(&compiler, kernel, |schedule| {
        // The minimum number of points of an image, for F(2x2, 3x3) and F(4x4, 3x3).
        let text = schedule.text.replace(">= 192 ", ">= 1 ");
        Schedule::new("changed").with_text(text.replace(">= 768 ", ">= 4 "))
    });
    let has_it = |variant: &Variant| has_winograd(kernel, &variant.artifact.schedule);
    let has_fma = |target: &Target| target.level.parse::<IsaLevel>().unwrap().has_fma();
    // A level may keep direct convolution, since which is faster depends on the machine's caches.
    assert_eq!(variants.iter().any(has_it), targets().iter().any(has_fma));
    variants
}

/// Compares compiled kernels with the evaluator at the given sizes of their symbols, with ordinary numbers; all calls
/// must agree.
pub(crate) fn check_variants<const N: usize>(
    kernel: &VerifiedKernel,
    variants: &[Variant],
    names: [&str; N],
    sizes: &[[i64; N]],
) {
    for (seed, sizes) in (1..).zip(sizes) {
        let named: Vec<(&str, i64)> = names.into_iter().zip(sizes.iter().copied()).collect();
        let sizes = symbols(kernel, &named);
        let checked = check_at(kernel, variants, &sizes, SMOOTH, seed);
        assert_eq!(
            checked,
            Some(Checked::Agreed),
            "{named:?}\n{}",
            kiln_kernel::text::print(kernel)
        );
    }
}

/// Compares a kernel with the evaluator at edge sizes; returns how many calls agreed, and how many faulted.
pub(crate) fn try_text(
    text: &str,
    elements: Elements,
    most_work: f64,
) -> Result<(usize, usize), String> {
    let kernel = kernel(text);
    let variants = try_compiled(&kernel)?;
    let sizes = covering_sizes(&kernel, most_work);
    assert!(!sizes.is_empty(), "no sizes for\n{text}");
    let mut tally = (0, 0);
    for (seed, symbols) in (1..).zip(&sizes) {
        match try_at(&kernel, &variants, symbols, elements, seed)? {
            Some(Checked::Agreed) => tally.0 += 1,
            Some(Checked::Faulted) => tally.1 += 1,
            None => {}
        }
    }
    Ok(tally)
}

/// Compares compiled kernels with the evaluator at some sizes.
pub(crate) fn check_at(
    kernel: &VerifiedKernel,
    variants: &[Variant],
    symbols: &[i64],
    elements: Elements,
    seed: u64,
) -> Option<Checked> {
    try_at(kernel, variants, symbols, elements, seed).unwrap_or_else(|message| panic!("{message}"))
}

fn try_compiled(kernel: &VerifiedKernel) -> Result<Vec<Variant>, String> {
    let others: Vec<Target> = IsaLevel::ALL
        .into_iter()
        .filter(|level| !level.runs_here())
        .map(LlvmCompiler::target)
        .collect();
    let (compiler, executor) = (LlvmCompiler::new(), NativeExecutor::new());
    variants(&compiler, &executor, kernel, &targets(), &others)
        .map_err(|finding| format!("{finding}\n{}", kiln_kernel::text::print(kernel)))
}

pub(crate) fn try_at(
    kernel: &VerifiedKernel,
    variants: &[Variant],
    symbols: &[i64],
    elements: Elements,
    seed: u64,
) -> Result<Option<Checked>, String> {
    let mut random = SplitMix64::new(seed);
    let Some(tensors) = kernel_tensors(&mut random, kernel, symbols, elements).unwrap() else {
        return Ok(None);
    };
    let executor = NativeExecutor::new();
    check_kernel(&executor, kernel, variants, symbols, &tensors)
        .map(Some)
        .map_err(|finding| {
            let dims = kernel.dims();
            let names = dims.symbols().map(|symbol| dims.symbol_name(symbol));
            let named: Vec<String> = names
                .zip(symbols)
                .map(|(name, size)| format!("{name} = {size}"))
                .collect();
            let text = kiln_kernel::text::print(kernel);
            format!(
                "{finding}\nat {} (seed {seed}) of\n{text}",
                named.join(", ")
            )
        })
}

/// How many shapes each random kernel is run with.
const N_SHAPES: u64 = 10;

/// Compares a random kernel with the evaluator at random sizes.
pub(crate) fn try_random_kernel(seed: u64) -> Result<(usize, usize), String> {
    let source = random_kernel(seed);
    let kernel = kiln_kernel::text::read(&source).map_err(|errors| errors.render(&source))?;
    let Ok(kernel) = kiln_kernel::verify(kernel) else {
        return Ok((0, 0));
    };
    let variants = try_compiled(&kernel)?;
    let mut random = SplitMix64::new(seed);
    let mut tally = (0, 0);
    for shape in 0..N_SHAPES {
        let Some(symbols) = random_sizes(&mut random, &kernel, 3000.0) else {
            continue;
        };
        let sizes = symbols.iter().copied().filter(|&size| size > 0);
        let smallest = sizes.min().unwrap_or(1).min(5);
        // Indices that are data: one call in five may have some out of bounds.
        let indices = match shape % 5 {
            4 => (-1, smallest + 1),
            _ => (0, smallest),
        };
        let flavor = match shape % 5 {
            2 => Flavor::Special,
            _ => Flavor::Smooth,
        };
        let elements = Elements { flavor, indices };
        match try_at(&kernel, &variants, &symbols, elements, seed * 100 + shape)? {
            Some(Checked::Agreed) => tally.0 += 1,
            Some(Checked::Faulted) => tally.1 += 1,
            None => {}
        }
    }
    Ok(tally)
}
