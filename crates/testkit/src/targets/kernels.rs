//! Kernels: their text, verifier, canonical form and evaluator, and compiled code.

use std::sync::Arc;

use kiln_backend::{FALLBACK_SCHEDULE, KernelCompiler, KernelExecutor, MemoryLimits, Unobserved};
use kiln_kernel::{Kernel, Node, VerifiedKernel, canonicalize, evaluate, text, verify};
use kiln_native::NativeExecutor;
use kiln_scalar::Mode;
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;

use super::{assert_plain, fail_with};
use crate::generate::Flavor;
use crate::kernels::{
    Elements, Finding, Variant, buffer_shapes, check_kernel, kernel_tensors, random_kernel,
    random_sizes,
};
use crate::random::SplitMix64;

/// The maximum length of a text: several times that of any kernel that fusion builds from a few ops.
const TEXT_LIMIT: usize = 1 << 13;

/// The maximum total number of elements of a kernel's buffers.
const ELEMENT_LIMIT: usize = 1 << 14;

/// The approximate maximum number of computed points.
const WORK_LIMIT: f64 = 400.0;

/// The number of sets of sizes at which a kernel is run.
const N_SIZES: u64 = 4;

/// Operations with jumps, or whose results change a lot with a small change of the operands.
const JUMPS: [&str; 24] = [
    "floor",
    "ceil",
    "trunc",
    "round_even",
    "sign",
    "rem",
    "floor_mod",
    "floor_div",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "cast",
    "div",
    "recip",
    "log",
    "sqrt",
    "rsqrt",
    "pow",
    "tan",
    "exp",
    "atan2",
];

/// Bytes as the text of a kernel, or as the seed of a random one: accepted or rejected; an accepted kernel prints and reads
/// back; one that the verifier accepts has a meaning at every size, and a canonical form with the same meaning.
pub fn read_kernel(bytes: &[u8]) {
    let Some((kernel, mut random)) = kernel_of(bytes) else {
        return;
    };
    let printed = text::print(&kernel);
    match text::read(&printed) {
        Ok(read) => assert_eq!(text::print(&read), printed),
        Err(errors) => fail_with(&format!("{}\n{printed}", errors.render(&printed))),
    }
    let kernel = match verify(kernel) {
        Ok(kernel) => kernel,
        Err(errors) => return assert_plain(&errors.to_string()),
    };
    let canonical = canonicalize(&kernel);
    let once = canonical.text();
    // Sizes that only unused stages need are generalised only after these stages are removed.
    if canonical.kernel.stages().len() == kernel.stages().len() {
        let again = canonicalize(&canonical.kernel).text();
        assert_eq!(once, again, "canonicalised twice, of\n{printed}");
    }
    for _ in 0..N_SIZES {
        let Some((symbols, tensors)) = operands(&mut random, &kernel) else {
            continue;
        };
        let Some(expected) = meaning(&kernel, &symbols, &tensors) else {
            continue;
        };
        let Some((values, merged)) = canonical_operands(&kernel, &symbols, &tensors) else {
            fail_with(&format!(
                "no canonical operands at {symbols:?} of\n{printed}"
            ));
        };
        let Some(found) = meaning(&canonical.kernel, &values, &merged) else {
            fail_with(&format!(
                "a fault at {values:?} of\n{once}\nand none of\n{printed}"
            ));
        };
        for (expected, found) in expected.iter().zip(&found) {
            let same = expected.as_bytes().ok() == found.as_bytes().ok();
            assert!(
                same,
                "at {symbols:?} of\n{printed}\nand {values:?} of\n{once}"
            );
        }
    }
}

/// The same bytes as for [`read_kernel`]: a kernel that the verifier accepts compiles with the fallback schedule and
/// the best one, and computes its meaning, accessing no memory other than its operands.
pub fn run_kernel(compiler: &Arc<dyn KernelCompiler>, bytes: &[u8]) {
    let Some((kernel, mut random)) = kernel_of(bytes) else {
        return;
    };
    let is_text = is_text(bytes);
    let Ok(kernel) = verify(kernel) else {
        return;
    };
    let printed = text::print(&kernel);
    let limits = MemoryLimits::new().with_kept_bytes(0);
    let executor = NativeExecutor::new().with_memory_limits(limits);
    let target = compiler.host();
    let mut schedules = compiler.schedules(&kernel, &target);
    schedules.truncate(1);
    let best = schedules.into_iter().map(|candidate| candidate.schedule);
    let plain = kiln_backend::Schedule::new(FALLBACK_SCHEDULE);
    let mut variants = Vec::new();
    for schedule in best.chain([plain]) {
        let variant = compiler
            .compile(&kernel, &target, &schedule, &mut Unobserved)
            .map_err(|error| format!("{} {error}", error.code))
            .and_then(|artifact| {
                let loaded = executor.load(&artifact);
                let loaded = loaded.map_err(|error| format!("{} {error}", error.code))?;
                Ok(Variant { artifact, loaded })
            });
        match variant {
            Ok(variant) => variants.push(variant),
            Err(error) => fail_with(&format!("{error}\n{printed}")),
        }
    }
    for _ in 0..N_SIZES {
        let Some((symbols, tensors)) = operands(&mut random, &kernel) else {
            continue;
        };
        match check_kernel(&executor, &kernel, &variants, &symbols, &tensors) {
            Ok(_) | Err(Finding::Evaluate(_)) => {}
            // The effect of rounding on a kernel with jumps is unknown; generated ones have tame operands.
            Err(Finding::Result { .. }) if is_text && !is_smooth(&kernel) => {}
            // Which of two faults comes first is undefined.
            Err(Finding::Fault {
                expected: Some(_),
                found: Some(_),
                ..
            }) => {}
            Err(finding) => fail_with(&format!("{finding}\nat {symbols:?} of\n{printed}")),
        }
    }
}

/// Whether bytes are meant as a text: of a kernel, perhaps with a comment before it.
fn is_text(bytes: &[u8]) -> bool {
    bytes.starts_with(b"kernel") || bytes.starts_with(b"//")
}

/// The kernel of which some bytes are the text or the seed, and choices that follow from them.
fn kernel_of(bytes: &[u8]) -> Option<(Kernel, SplitMix64)> {
    let (source, seed) = if is_text(bytes) {
        let text = std::str::from_utf8(bytes).ok()?;
        (text.to_owned(), bytes.len() as u64)
    } else {
        let mut word = [0; 8];
        word.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        let seed = u64::from_le_bytes(word);
        (random_kernel(seed), seed)
    };
    if source.len() > TEXT_LIMIT {
        return None;
    }
    match text::read(&source) {
        Ok(kernel) => Some((kernel, SplitMix64::new(seed))),
        Err(errors) => {
            assert_plain(&errors.render(&source));
            None
        }
    }
}

/// Values of a kernel's symbols, and operands of their sizes; `None` if no small enough ones were found.
fn operands(random: &mut SplitMix64, kernel: &VerifiedKernel) -> Option<(Vec<i64>, Vec<Tensor>)> {
    let symbols = random_sizes(random, kernel, WORK_LIMIT)?;
    let elements = buffer_shapes(kernel, &symbols)?
        .iter()
        .map(|shape| shape.iter().copied().fold(1, usize::saturating_mul))
        .fold(0, usize::saturating_add);
    if elements > ELEMENT_LIMIT {
        return None;
    }
    let highest = symbols.iter().copied().filter(|&size| size > 0).min();
    let elements = Elements {
        flavor: Flavor::Smooth,
        indices: (-1, highest.unwrap_or(1).min(5) + 1),
    };
    let tensors = kernel_tensors(random, kernel, &symbols, elements).ok()??;
    Some((symbols, tensors))
}

/// A kernel's outputs; `None` if it faults, or one of its sizes has no value.
fn meaning(kernel: &VerifiedKernel, symbols: &[i64], tensors: &[Tensor]) -> Option<Vec<Tensor>> {
    use kiln_kernel::EvaluateError as Error;
    let mut buffers = tensors.to_vec();
    match evaluate(kernel, symbols, &mut buffers, Mode::Declared) {
        Ok(()) => {}
        Err(error) if error.is_fault() => return None,
        Err(Error::Size(_) | Error::Memory { .. }) => return None,
        Err(error) => fail_with(&format!(
            "{} {error}\nat {symbols:?} of\n{}",
            error.code(),
            text::print(kernel)
        )),
    }
    let written = kernel.buffers().values().zip(buffers);
    let written = written.filter(|(buffer, _)| buffer.role.is_written());
    Some(written.map(|(_, tensor)| tensor).collect())
}

/// The symbols and operands of the canonical form for those of a kernel; operands are the same bytes.
fn canonical_operands(
    kernel: &VerifiedKernel,
    symbols: &[i64],
    tensors: &[Tensor],
) -> Option<(Vec<i64>, Vec<Tensor>)> {
    let canonical = canonicalize(kernel);
    let dims = kernel.dims();
    let binding: Binding = dims
        .symbols()
        .zip(symbols.iter().copied())
        .filter(|&(symbol, _)| dims.definition(symbol).is_none())
        .collect();
    let value = |&dim| canonical.dims.evaluate(dim, &binding).ok();
    let values: Vec<i64> = canonical.values.iter().map(value).collect::<Option<_>>()?;
    let shapes = buffer_shapes(&canonical.kernel, &values)?;
    let operand = |(tensor, shape): (&Tensor, Vec<usize>)| {
        let bytes = tensor.contiguous().ok()?;
        Tensor::from_bytes(tensor.dtype(), &shape, bytes.as_bytes().ok()?).ok()
    };
    let operands = tensors.iter().zip(shapes).map(operand);
    Some((values, operands.collect::<Option<_>>()?))
}

/// Whether a small change of a kernel's operand changes its results only slightly, for operands of about 1.
fn is_smooth(kernel: &Kernel) -> bool {
    let is_jump = |name: &str| JUMPS.contains(&name);
    kernel.nodes().values().all(|data| match &data.node {
        Node::Apply { op, .. } => !is_jump(op.name()),
        Node::Call { function, .. } => !is_jump(function.name()),
        Node::Literal(value) => {
            let size = value.to_f64().abs();
            !value.dtype().is_float() || size == 0.0 || (1e-3..=1e3).contains(&size)
        }
        _ => true,
    })
}
