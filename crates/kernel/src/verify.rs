//! The verifier: checks whether a kernel is valid, and what can be proved about its indices.
//!
//! One run reports every violated rule it finds, up to a limit, in four steps.
//!
//! 1. Ids are of this kernel ([`ids`]); if not, nothing else is checked.
//! 2. Names, scopes and places: axes belong to one stage, store or block; stages are read where they have a value.
//! 3. Types, roles and strides.
//! 4. Indices: each is classified ([`crate::IndexClass`]), plain stores are proved to write each element once,
//!    combining stores to serialise the necessary axes.
//!
//! A verified kernel has the same meaning for every backend, and lets backends be panic-free.

mod budget;
mod combining;
mod coverage;
mod digits;
mod factors;
mod ids;
mod indices;
mod points;
mod scope;
mod sizes;
mod types;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use budget::Budget;

use crate::classify::classify;
use crate::error::{KernelError, KernelErrors};
use crate::form::{Extent, Kernel, NodeId, reachable, stores};
use crate::verified::{KernelInfo, VerifiedKernel};

/// The maximum number of reported errors.
const MAX_ERRORS: usize = 64;

/// The maximum number of steps of all proofs about one kernel.
const BUDGET: u64 = 1 << 24;

/// Checks a kernel and determines how its indices stay within their buffers.
///
/// # Errors
/// All errors, up to a limit.
pub fn verify(kernel: Kernel) -> Result<VerifiedKernel, KernelErrors> {
    let mut report = Report::default();
    ids::check(&kernel, &mut report);
    if report.is_clean() {
        scope::check(&kernel, &mut report);
        types::check(&kernel, &mut report);
    }
    let mut info = KernelInfo::default();
    if report.is_clean() {
        let mut budget = Budget::new(BUDGET);
        let used = used_nodes(&kernel);
        indices::check(&kernel, &used, &mut info, &mut budget, &mut report);
        info.stores = coverage::check(&kernel, &used, &mut budget, &mut report);
    }
    if !report.is_clean() {
        return Err(KernelErrors {
            kernel: kernel.name().to_string(),
            errors: report.errors,
        });
    }
    let classification = classify(&kernel);
    Ok(VerifiedKernel::new(kernel, info, classification))
}

/// The errors found so far.
#[derive(Debug, Default)]
struct Report {
    errors: Vec<KernelError>,
}

impl Report {
    fn push(&mut self, error: KernelError) {
        if self.errors.len() < MAX_ERRORS && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn is_clean(&self) -> bool {
        self.errors.is_empty()
    }
}

/// Every node that the items need.
pub(crate) fn used_nodes(kernel: &Kernel) -> BTreeSet<NodeId> {
    let mut roots: Vec<NodeId> = Vec::new();
    for stage in kernel.stages().values() {
        roots.push(stage.value);
        roots.extend(stage.init);
    }
    for store in stores(kernel) {
        roots.push(store.value);
        roots.extend(&store.indices);
    }
    for axis in kernel.axes().values() {
        if let Extent::Clamped { value, .. } = axis.extent {
            roots.push(value);
        }
    }
    reachable(kernel, &roots)
}
