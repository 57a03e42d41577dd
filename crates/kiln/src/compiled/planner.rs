//! Builds the plans of one graph for the runtime: fusion, then the program.

use crate::device::Device;
use crate::recording::building;
use kiln_fork_lock::ForkLock;
use kiln_fusion::{FusionLimits, FusionOptions, FusionPlan};
use kiln_ir::Graph;
use kiln_lazy_runtime::Planner;
use kiln_program::{BuildOptions, LayoutPreferences, MemoryBudget, Program, RowMajor};
use kiln_symbolic_shape::FactSelection;
use kiln_timing::Timing;
use std::error::Error;
use std::sync::Arc;

/// The backend's preferences for the layout of kernels' buffers.
type Layouts = dyn LayoutPreferences + Send + Sync;

/// Plans an optimised graph.
pub(crate) struct GraphPlanner {
    graph: Graph,
    layouts: Arc<Layouts>,
    build: BuildOptions,
    /// The limits of fusion for the device, within the user's limits.
    fusion: FusionOptions,
    timing: Timing,
    /// The main plan, if it was stored. Lost in a child forked while a thread takes it: the child replans.
    stored: ForkLock<Option<Program>>,
}

impl GraphPlanner {
    /// A planner that leaves every buffer row-major.
    pub(crate) fn new(graph: Graph) -> Self {
        Self {
            graph,
            layouts: Arc::new(RowMajor),
            build: BuildOptions::default(),
            fusion: FusionOptions::new(),
            timing: Timing::off(),
            stored: ForkLock::default(),
        }
    }

    /// For a device, within the limits on planning.
    pub(crate) fn for_device(self, device: &Device, limits: &FusionLimits) -> Self {
        let fusion = device.fusion().with_limits(limits.clone());
        Self { fusion, ..self }
    }

    /// Uses the layouts that a backend prefers.
    #[cfg(feature = "native")]
    pub(crate) fn with_layouts(self, layouts: Arc<Layouts>) -> Self {
        Self { layouts, ..self }
    }

    /// Sets a memory budget.
    pub(crate) fn with_memory(mut self, memory: MemoryBudget) -> Self {
        self.build.memory = memory;
        self
    }

    /// Sets the number of leading results that exist only to be inspected: layouts are chosen as if they were not
    /// results.
    #[cfg(feature = "native")]
    pub(crate) fn with_watched(mut self, watched: usize) -> Self {
        self.build.watched = watched;
        self
    }

    /// Uses the stored main plan.
    #[cfg(feature = "native")]
    pub(crate) fn with_stored(self, program: Option<Program>) -> Self {
        *self.stored.lock() = program;
        self
    }

    /// Sets a recorder.
    #[cfg(feature = "native")]
    pub(crate) fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// Which ops become one kernel, in the main plan.
    pub(crate) fn fusion(&self) -> Result<FusionPlan, kiln_fusion::FusionError> {
        self.fusion_with(FactSelection::All)
    }

    fn fusion_with(&self, facts: FactSelection) -> Result<FusionPlan, kiln_fusion::FusionError> {
        let _span = tracing::info_span!("kiln.fuse").entered();
        let _time = building(
            &self.timing,
            "fusion",
            "Deciding which ops become one kernel",
        );
        let options = self.fusion.clone().with_facts(facts);
        kiln_fusion::plan(&self.graph, &options)
    }

    /// The program of a fusion plan.
    pub(crate) fn program(
        &self,
        fusion: &FusionPlan,
    ) -> Result<Program, kiln_program::ProgramError> {
        let _span = tracing::info_span!("kiln.program").entered();
        let _time = building(
            &self.timing,
            "plan",
            "Steps, layouts and memory of a program",
        );
        kiln_program::build(self.graph.clone(), fusion, &*self.layouts, &self.build)
    }
}

impl Planner for GraphPlanner {
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        if *facts == FactSelection::All {
            let stored = self.stored.lock().take();
            if let Some(program) = stored {
                return Ok(program);
            }
        }
        let fusion = self.fusion_with(facts.clone())?;
        Ok(self.program(&fusion)?)
    }
}
