//! The arguments passed to a kernel's functions, and the sites that can fault.

use std::collections::HashMap;

use kiln_backend::Quantity;

/// Collects the arguments of a launch while code is generated.
#[derive(Debug, Default)]
pub(super) struct LaunchBuilder {
    arguments: Vec<Quantity>,
    positions: HashMap<Quantity, usize>,
    sites: Vec<String>,
}

impl LaunchBuilder {
    /// The position of a number among the arguments; equal numbers are passed once.
    pub(super) fn argument(&mut self, quantity: &Quantity) -> usize {
        if let Some(&position) = self.positions.get(quantity) {
            return position;
        }
        let position = self.arguments.len();
        self.arguments.push(quantity.clone());
        self.positions.insert(quantity.clone(), position);
        position
    }

    /// The number of a site that can fault.
    pub(super) fn site(&mut self, description: String) -> usize {
        let known = self.sites.iter().position(|site| *site == description);
        known.unwrap_or_else(|| {
            self.sites.push(description);
            self.sites.len() - 1
        })
    }

    /// The number of arguments so far.
    pub(super) fn n_arguments(&self) -> usize {
        self.arguments.len()
    }

    /// The arguments and the sites.
    pub(super) fn finish(self) -> (Vec<Quantity>, Vec<String>) {
        (self.arguments, self.sites)
    }
}
