//! The options of fusion.

use kiln_symbolic_shape::FactSelection;

use crate::cost::Rates;
use crate::limits::FusionLimits;

/// Limits and switches of [`plan`](crate::plan()). Those of a device are its legal limits (`max_ops`, `max_buffers`),
/// what its windows read (`widens_in_windows`), and its [`Rates`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FusionOptions {
    /// The plan facts that may be assumed. A plan for sizes for which some facts fail omits those facts.
    pub facts: FactSelection,
    /// Whether ops are joined at all; if not, every op is its own node.
    pub fuse: bool,
    /// The maximum number of ops in one kernel.
    pub max_ops: usize,
    /// The maximum number of buffers of one kernel.
    pub max_buffers: usize,
    /// Estimated speed-up from which two nodes are joined.
    pub threshold: f64,
    /// The assumed value of a symbol without a hint when costs are estimated.
    pub likely_size: i64,
    /// The assumed rates of the device when costs are estimated.
    pub rates: Rates,
    /// Whether windows read bytes and 16-bit floats as wider floats, as contractions do: for devices that convert an element
    /// once for a whole tile, and not once for each tap of the window.
    pub widens_in_windows: bool,
    /// Limits on the size of a kernel and the work of a plan.
    pub limits: FusionLimits,
}

impl FusionOptions {
    /// The default options, suitable for most programs.
    pub fn new() -> Self {
        Self {
            facts: FactSelection::All,
            fuse: true,
            max_ops: 96,
            max_buffers: 24,
            threshold: 1.0,
            likely_size: 64,
            rates: Rates::CPU,
            widens_in_windows: false,
            limits: FusionLimits::default(),
        }
    }

    /// Sets the selection of plan facts that may be assumed.
    #[must_use]
    pub fn with_facts(mut self, facts: FactSelection) -> Self {
        self.facts = facts;
        self
    }

    /// Enables fusion, or makes one node per op.
    #[must_use]
    pub fn with_fusion(mut self, fuse: bool) -> Self {
        self.fuse = fuse;
        self
    }

    /// Sets the limit on the ops of a kernel.
    #[must_use]
    pub fn with_max_ops(mut self, max_ops: usize) -> Self {
        self.max_ops = max_ops.max(1);
        self
    }

    /// Sets the limit on the buffers of a kernel.
    #[must_use]
    pub fn with_max_buffers(mut self, max_buffers: usize) -> Self {
        self.max_buffers = max_buffers;
        self
    }

    /// Sets the rates of the device.
    #[must_use]
    pub fn with_rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    /// Sets whether windows read narrow numbers as wider floats.
    #[must_use]
    pub fn with_widening_in_windows(mut self, widens: bool) -> Self {
        self.widens_in_windows = widens;
        self
    }

    /// Sets the limits. Of two limits on the ops of a kernel, the lower one applies.
    #[must_use]
    pub fn with_limits(mut self, limits: FusionLimits) -> Self {
        self.max_ops = self.max_ops.min(limits.kernel_ops).max(1);
        self.limits = limits;
        self
    }

    /// Sets the estimated speed-up from which nodes are joined.
    #[must_use]
    pub fn with_threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }
}

impl Default for FusionOptions {
    fn default() -> Self {
        Self::new()
    }
}
