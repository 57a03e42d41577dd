//! The verifier: whether a kernel means something, and what can be proved of its indices.
//!
//! It collects: one run reports every broken rule it finds, up to a limit, in four steps.
//!
//! 1. Ids are of this kernel ([`ids`]); nothing else is looked at where they are not.
//! 2. Names, scopes and places: axes belong to one stage, store or block; stages are read where they have a value.
//! 3. Types, roles and strides.
//! 4. Indices: each is classified ([`crate::IndexClass`]), plain stores are proved to write each element once,
//!    combining ones to serialise the axes that they must.
//!
//! A kernel that passed means the same to every backend, and makes them panic-free.

mod ids;
mod scope;
mod types;

#[cfg(test)]
mod tests;

use crate::classify::classify;
use crate::error::{KernelError, KernelErrors};
use crate::form::{Item, Kernel};
use crate::verified::{IndexClass, KernelInfo, StoreInfo, VerifiedKernel};

/// How many errors are reported at most.
const MAX_ERRORS: usize = 64;

/// Checks a kernel and finds out how its indices stay within their buffers.
///
/// # Errors
/// Everything that is wrong with it, up to a limit.
pub fn verify(kernel: Kernel) -> Result<VerifiedKernel, KernelErrors> {
    let mut report = Report::default();
    ids::check(&kernel, &mut report);
    if report.is_clean() {
        scope::check(&kernel, &mut report);
        types::check(&kernel, &mut report);
    }
    let mut info = KernelInfo::default();
    if report.is_clean() {
        info = unproved(&kernel);
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

/// Every index checked.
fn unproved(kernel: &Kernel) -> KernelInfo {
    let mut info = KernelInfo::default();
    for (id, data) in kernel.nodes() {
        if let crate::form::Node::Load(load) = &data.node {
            info.loads[id] = vec![IndexClass::Checked; load.indices.len()];
        }
    }
    for store in stores(kernel) {
        info.stores.push(StoreInfo {
            indices: vec![IndexClass::Checked; store.indices.len()],
            serial: kernel.outer().to_vec(),
        });
    }
    info
}

/// Every store, in the order of the items, a block's inside it.
fn stores(kernel: &Kernel) -> Vec<&crate::form::Store> {
    let mut found = Vec::new();
    for item in kernel.items() {
        match item {
            Item::Store(store) => found.push(store),
            Item::Carry(carry) => found.extend(carry.items.iter().filter_map(|item| match item {
                Item::Store(store) => Some(store),
                _ => None,
            })),
            Item::Stage(_) => {}
        }
    }
    found
}
