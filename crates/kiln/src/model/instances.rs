//! What a model is executed by: one instance, or one for each combination of ranks that calls brought.
//!
//! Invariant: an instance never changes once it is here, so calls need no lock while they run; and where there is only one,
//! they need none to find it.

use super::instance::Instance;
use super::source::Source;
use kiln_fork_lock::ForkLock;
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
    built: ForkLock<BTreeMap<Vec<usize>, Arc<Instance>>>,
}

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
                let any = by_ranks.built.lock().values().next().cloned();
                any.map(Chosen::OfRanks)
            }
        }
    }
}

impl ByRanks {
    /// The instance for these ranks, built if it is the first time. Two threads that come at once may both build it; the
    /// first to finish wins.
    ///
    /// # Errors
    /// Those of building it.
    pub(super) fn of<E>(
        &self,
        ranks: Vec<usize>,
        build: impl FnOnce(&Arc<Source>, &[usize]) -> Result<Instance, E>,
    ) -> Result<Chosen<'_>, E> {
        if let Some(instance) = self.built.lock().get(&ranks) {
            return Ok(Chosen::OfRanks(Arc::clone(instance)));
        }
        let built = Arc::new(build(&self.source, &ranks)?);
        let mut instances = self.built.lock();
        let instance = instances.entry(ranks).or_insert(built);
        Ok(Chosen::OfRanks(Arc::clone(instance)))
    }
}
