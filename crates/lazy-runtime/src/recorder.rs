//! A `timing` recorder, and the events that this crate records.
//!
//! A program has its own recorder or uses the runtime's. A recorder counts only the requests of its owner, not those of
//! other programs that share the runtime.

use std::collections::HashSet;
use std::sync::Arc;

use kiln_fork_lock::ForkLock;
use kiln_kernel_cache::{MissCategory, Source, TierMiss};
use kiln_timing::{Category, Counter, EventId, FunctionEvents, Span, Timing};

use crate::compile::KernelIdentity;

/// A recorder and its events.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    pub(crate) timing: Timing,
    launch_plan: EventId,
    constants: EventId,
    load_constants: EventId,
    pack_constants: EventId,
    store_constants: EventId,
    wait: EventId,
    stores: EventId,
    timed: Arc<ForkLock<Timed>>,
}

/// The functions whose compiles were timed since all code was last cleared.
#[derive(Debug, Default)]
struct Timed {
    /// How often it was cleared.
    generation: u64,
    functions: HashSet<FunctionEvents>,
}

impl Recorder {
    /// Registers the events.
    pub(crate) fn of(timing: Timing) -> Self {
        let event = |category, name, description| timing.named_exactly(category, name, description);
        Self {
            launch_plan: event(
                Category::Build,
                "launch_plan",
                "Everything that depends on sizes, evaluated",
            ),
            constants: event(
                Category::Build,
                "constants",
                "Constants, converted to the form that kernels read",
            ),
            load_constants: event(
                Category::Build,
                "load_constants",
                "Constants, read from files and stores and checked",
            ),
            pack_constants: event(
                Category::Build,
                "pack_constants",
                "Constants, repacked for kernels",
            ),
            store_constants: event(
                Category::Build,
                "store_constants",
                "Packed constants, stored in the background",
            ),
            wait: event(
                Category::Compile,
                "wait_for_code",
                "Calls that wait for code",
            ),
            stores: event(
                Category::Compile,
                "kernel_stores",
                "Kernels looked up in stores, loaded from them, and stored",
            ),
            timed: Arc::default(),
            timing,
        }
    }

    /// Making the launch plan of a combination of sizes.
    pub(crate) fn launch_plan(&self) -> Span<'_> {
        self.timing.begin(self.launch_plan)
    }

    /// Preparing a constant for a kernel.
    pub(crate) fn constants(&self) -> Span<'_> {
        self.timing.begin(self.constants)
    }

    /// Looking up packed constants in stores.
    pub(crate) fn load_constants(&self) -> Span<'_> {
        self.timing.begin(self.load_constants)
    }

    /// Packing a constant.
    pub(crate) fn pack_constants(&self) -> Span<'_> {
        self.timing.begin(self.pack_constants)
    }

    /// Storing packed constants.
    pub(crate) fn store_constants(&self) -> Span<'_> {
        self.timing.begin(self.store_constants)
    }

    /// A call's wait for code.
    pub(crate) fn wait(&self) -> Span<'_> {
        self.timing.wait(self.wait)
    }

    /// Querying or writing stores.
    pub(crate) fn stores(&self) -> Span<'_> {
        self.timing.begin(self.stores)
    }

    /// The events of a kernel.
    pub(crate) fn function(&self, identity: &KernelIdentity) -> FunctionEvents {
        self.timing
            .function_of(identity.function(), identity.digest_text())
    }

    /// The events of a kernel that is to be compiled now. Functions timed before all code was cleared, which the runtime
    /// did `generation` times, are timed again.
    pub(crate) fn function_to_compile(
        &self,
        identity: &KernelIdentity,
        generation: u64,
    ) -> FunctionEvents {
        let function = self.function(identity);
        let mut timed = self.timed.lock();
        if timed.generation < generation {
            timed.generation = generation;
            for forgotten in timed.functions.drain() {
                self.timing.invalidate(&forgotten);
            }
        }
        timed.functions.insert(function);
        function
    }

    pub(crate) fn count(&self, counter: Counter) {
        self.timing.counters().count(counter);
    }

    /// Counts where code came from; compiled code was counted when it was compiled.
    pub(crate) fn count_source(&self, source: &Source) {
        let misses: &[TierMiss] = match source {
            Source::Compiled { misses, .. } => misses,
            Source::Tier { misses, .. } => {
                self.count(Counter::Hit);
                misses
            }
            _ => {
                self.count(Counter::Hit);
                &[]
            }
        };
        for miss in misses {
            match miss.miss.category() {
                MissCategory::Corrupt => self.count(Counter::Corrupt),
                MissCategory::Rejected => self.count(Counter::Rejected),
                MissCategory::IoError => self.count(Counter::IoError),
                _ => {}
            }
        }
    }
}
