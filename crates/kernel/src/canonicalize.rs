//! Canonicalisation: gives all kernels that a backend would compile to the same code the same text.
//!
//! In this order: axes that are always used together are merged; sizes become fresh symbols where no proof depends on them;
//! unneeded facts and unused parts are dropped; names are assigned by order. The verifier checks each step: merging is undone
//! if it changes the class, a later step if less is proved after it.
//!
//! A canonical kernel is launched with the values of its own symbols, which are expressions over the original's sizes
//! ([`CanonicalKernel::values`]). Buffers keep their order; their shapes may have fewer axes.

mod generalize;
mod merge_axes;
mod positions;
mod rebuild;
mod slots;
mod steps;

#[cfg(test)]
mod tests;

use kiln_symbolic_shape::{DimId, DimTable};

pub(crate) use merge_axes::merge_axes;
pub(crate) use slots::{put, slots};

use crate::text::print;
use crate::verified::{IndexClass, VerifiedKernel};
use crate::verify::verify;

/// The policy that decides which constant sizes stay constant because schedules use them.
///
/// Literals in expressions always do: the strides and dilations of windows, offsets, sizes as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanonicalPolicy {
    /// Inner extents up to this one: windows and short loops are unrolled.
    pub inner: i64,
    /// Inner extents of attention up to this one: a head's vectors stay in registers.
    pub attention: i64,
    /// Outer extents up to this one that run through weights and are not a multiple of `multiple`: tiles are chosen to
    /// leave no remainder.
    pub channels: i64,
    /// A constant that becomes a symbol remains a multiple of this number, or of half of it, if it is one: no tail is
    /// needed then.
    pub multiple: i64,
}

impl Default for CanonicalPolicy {
    fn default() -> Self {
        Self {
            inner: 16,
            attention: 256,
            channels: 64,
            multiple: 16,
        }
    }
}

/// A canonical kernel, and its symbols in terms of the original.
#[derive(Clone, Debug)]
pub struct CanonicalKernel {
    /// The kernel.
    pub kernel: VerifiedKernel,
    /// The original's sizes, and those derived from them.
    pub dims: DimTable,
    /// The value of each symbol of the kernel, in the order of its table: sizes of `dims`.
    pub values: Vec<DimId>,
}

impl CanonicalKernel {
    /// The text from which keys are computed.
    pub fn text(&self) -> String {
        print(self.kernel.kernel())
    }
}

/// The canonical form of a kernel, with the usual policy.
pub fn canonicalize(kernel: &VerifiedKernel) -> CanonicalKernel {
    canonicalize_with(kernel, &CanonicalPolicy::default())
}

/// The canonical form of a kernel.
pub fn canonicalize_with(kernel: &VerifiedKernel, policy: &CanonicalPolicy) -> CanonicalKernel {
    let merged = merge_axes(kernel.kernel().clone());
    let merged = match verify(merged) {
        Ok(merged) if merged.classification().class == kernel.classification().class => merged,
        _ => kernel.clone(),
    };
    let dims = merged.dims().clone();
    let general = generalize::generalize(&merged, policy);
    for facts in [rebuild::Facts::Multiples, rebuild::Facts::All] {
        let Some((rebuilt, symbols)) = rebuild::rebuild(general.kernel.kernel(), facts) else {
            continue;
        };
        let Ok(rebuilt) = verify(rebuilt) else {
            continue;
        };
        // The class may change, because it is determined without the unused stages.
        if !as_good(&general.kernel, &rebuilt) {
            continue;
        }
        let values = symbols
            .iter()
            .map(|&symbol| general.value(symbol))
            .collect();
        return CanonicalKernel {
            kernel: rebuilt,
            dims,
            values,
        };
    }
    let symbols = merged.dims().symbols();
    CanonicalKernel {
        values: symbols.map(|symbol| merged.dims().dim(symbol)).collect(),
        kernel: with_plain_names(merged),
        dims,
    }
}

/// The kernel with only its names changed, so that equal kernels with other names still share their code.
fn with_plain_names(kernel: VerifiedKernel) -> VerifiedKernel {
    let mut renamed = kernel.kernel().clone().renamed("kernel");
    renamed.dims.rename_symbols(|symbol| format!("s{symbol}"));
    for (number, buffer) in renamed.buffers.values_mut().enumerate() {
        buffer.name = format!("b{number}");
    }
    // What is proved of a kernel does not depend on names.
    verify(renamed).unwrap_or(kernel)
}

/// Whether at least as much is known of a kernel as of the one from which it was derived.
pub(crate) fn as_good(before: &VerifiedKernel, after: &VerifiedKernel) -> bool {
    let unproved = |kernel: &VerifiedKernel| {
        let nodes = crate::verify::used_nodes(kernel);
        let loads = nodes.iter().flat_map(|&node| &kernel.info().loads[node]);
        let stores = kernel.info().stores.iter().flat_map(|store| &store.indices);
        let mut counts = [0_usize; 2];
        for class in loads.chain(stores) {
            match class {
                IndexClass::Proved => {}
                IndexClass::Inside => counts[0] += 1,
                IndexClass::Checked => counts[1] += 1,
            }
        }
        counts
    };
    let serial = |kernel: &VerifiedKernel| -> Vec<usize> {
        let stores = kernel.info().stores.iter();
        stores.map(|store| store.serial.len()).collect()
    };
    let (old, new) = (unproved(before), unproved(after));
    new.iter().zip(old).all(|(&new, old)| new <= old) && serial(before) == serial(after)
}
