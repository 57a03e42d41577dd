//! The launch metadata of a kernel: the arguments of its code, its phases, and the sites that can fault.

use std::cell::RefCell;
use std::collections::HashMap;

use kiln_backend::{Phase, Quantity};

/// Collects the launch metadata while code is generated.
#[derive(Debug, Default)]
pub(crate) struct LaunchBuilder {
    arguments: RefCell<Vec<Quantity>>,
    positions: RefCell<HashMap<Quantity, usize>>,
    fault_sites: RefCell<Vec<String>>,
    phases: RefCell<Vec<Phase>>,
}

/// The collected metadata.
#[derive(Debug)]
pub(crate) struct LaunchMetadata {
    pub(crate) arguments: Vec<Quantity>,
    pub(crate) fault_sites: Vec<String>,
    pub(crate) phases: Vec<Phase>,
}

impl LaunchBuilder {
    /// The position of a number among the arguments; equal numbers are passed once.
    pub(crate) fn argument(&self, quantity: &Quantity) -> usize {
        if let Some(&position) = self.positions.borrow().get(quantity) {
            return position;
        }
        let mut arguments = self.arguments.borrow_mut();
        let position = arguments.len();
        arguments.push(quantity.clone());
        self.positions
            .borrow_mut()
            .insert(quantity.clone(), position);
        position
    }

    /// The number of a site that can fault.
    pub(crate) fn fault_site(&self, description: String) -> usize {
        let mut sites = self.fault_sites.borrow_mut();
        let known = sites.iter().position(|site| *site == description);
        known.unwrap_or_else(|| {
            sites.push(description);
            sites.len() - 1
        })
    }

    /// The symbol of the next phase's code.
    pub(crate) fn next_entry(&self) -> String {
        format!("phase{}", self.phases.borrow().len())
    }

    /// Adds a phase.
    pub(crate) fn phase(&self, phase: Phase) {
        self.phases.borrow_mut().push(phase);
    }

    pub(crate) fn finish(self) -> LaunchMetadata {
        LaunchMetadata {
            arguments: self.arguments.into_inner(),
            fault_sites: self.fault_sites.into_inner(),
            phases: self.phases.into_inner(),
        }
    }
}
