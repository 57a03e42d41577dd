//! What a model is executed by: one instance, or one for each combination of ranks that calls brought.
//!
//! Invariant: an instance never changes once it is here, so calls need no lock while they run; and where there is only one,
//! they need none to find it.

use super::instance::Instance;
use super::source::Source;
use kiln_fork_lock::{ForkCell, ForkLock};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

pub(super) enum Instances {
    /// No input's rank is open.
    Only(Box<Instance>),
    /// By the ranks of the inputs whose rank is open.
    ByRanks(ByRanks),
}

pub(super) struct ByRanks {
    /// What further instances are built from.
    source: Arc<Source>,
    /// Only ever added to, so a panic of another thread leaves it valid.
    built: ForkLock<BTreeMap<Vec<usize>, Built>>,
}

/// Where an instance is once it is built.
pub(super) type Built = Arc<ForkCell<Arc<Instance>>>;

/// An instance for a call.
pub(super) enum Chosen<'a> {
    Only(&'a Instance),
    OfRanks(Arc<Instance>),
}

impl Deref for Chosen<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        match self {
            Self::Only(instance) => instance,
            Self::OfRanks(instance) => instance,
        }
    }
}

impl Instances {
    pub(super) fn of_ranks(source: Arc<Source>) -> Self {
        Self::ByRanks(ByRanks {
            source,
            built: ForkLock::default(),
        })
    }

    /// The only one, or any of those that were built.
    pub(super) fn any(&self) -> Option<Chosen<'_>> {
        match self {
            Self::Only(instance) => Some(Chosen::Only(instance)),
            Self::ByRanks(by_ranks) => {
                let built = by_ranks.built.lock();
                let any = built.values().find_map(|instance| instance.get().cloned());
                any.map(Chosen::OfRanks)
            }
        }
    }
}

impl ByRanks {
    /// Where the instance for these ranks is, or is to be.
    pub(super) fn of(&self, ranks: &[usize]) -> Built {
        let mut built = self.built.lock();
        if let Some(instance) = built.get(ranks) {
            return Arc::clone(instance);
        }
        Arc::clone(built.entry(ranks.to_vec()).or_default())
    }

    /// What instances are built from.
    pub(super) fn source(&self) -> &Arc<Source> {
        &self.source
    }
}
