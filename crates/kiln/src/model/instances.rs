//! The instances of a model: one, or one for each combination of what its graph depends on.
//!
//! A graph may depend on the ranks of inputs whose rank is not declared, and on decisions that only data or sizes
//! determine, such as which branch is taken of an `If` whose branches differ in rank. For the latter the model asks
//! *questions*: a question is an instance too, whose only result is the answer. So a model is a tree of questions with
//! graphs as leaves, and a call follows one path. Nodes are built when a call first reaches them; beyond a limit, the
//! least recently used are dropped.
//!
//! Invariant: an instance never changes once it is built, so calls hold no lock while they run; if there is only one
//! instance, finding it takes no lock either.

use super::instance::{Built, Instance};
use super::origin::Origin;
use crate::error::{Error, Failure};
use crate::options::Options;
use kiln_fork_lock::{ForkCell, ForkLock};
use kiln_lazy_runtime::CallControl;
use kiln_tensor::Tensor;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// The maximum number of nodes that a model keeps.
const NODES_LIMIT: usize = 256;

/// The maximum number of questions for one call before its graph is known.
const QUESTIONS_LIMIT: usize = 64;

pub(super) enum Instances {
    /// The graph depends on nothing.
    Only(Box<Instance>),
    /// The instances, keyed by the values on which the graph depends.
    Tree(Tree),
}

/// The values that determine which graph a call needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    /// The ranks of inputs whose rank is open.
    pub(crate) ranks: BTreeMap<String, usize>,
    /// The answers to the model's questions, by number.
    pub(crate) answers: BTreeMap<usize, i64>,
}

pub(super) struct Tree {
    /// The source from which further nodes are built.
    source: Arc<Origin>,
    /// Every entry is complete, so a panic of another thread leaves it valid.
    nodes: ForkLock<TreeNodes<Place>>,
}

/// The place of a node, empty until it is built.
type Place = Arc<ForkCell<Arc<Built>>>;

struct TreeNodes<T> {
    /// With the time of last use.
    places: BTreeMap<Choice, (u64, T)>,
    now: u64,
}

impl<T> Default for TreeNodes<T> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            now: 0,
        }
    }
}

/// An instance for a call.
pub(crate) enum Chosen<'a> {
    Only(&'a Instance),
    OfTree(Arc<Built>),
}

impl Deref for Chosen<'_> {
    type Target = Instance;

    fn deref(&self) -> &Instance {
        match self {
            Self::Only(instance) => instance,
            Self::OfTree(node) => node.instance(),
        }
    }
}

impl Instances {
    pub(super) fn tree(source: Arc<Origin>) -> Self {
        Self::Tree(Tree {
            source,
            nodes: ForkLock::default(),
        })
    }

    /// The only instance, or any instance that was built.
    pub(super) fn any(&self) -> Option<Chosen<'_>> {
        match self {
            Self::Only(instance) => Some(Chosen::Only(instance)),
            Self::Tree(tree) => tree.built().into_iter().next().map(Chosen::OfTree),
        }
    }

    /// The only instance, or all instances that were built.
    pub(super) fn all(&self) -> Vec<Chosen<'_>> {
        match self {
            Self::Only(instance) => vec![Chosen::Only(instance)],
            Self::Tree(tree) => tree.built().into_iter().map(Chosen::OfTree).collect(),
        }
    }
}

impl Tree {
    fn built(&self) -> Vec<Arc<Built>> {
        let nodes = self.nodes.lock();
        let places = nodes.places.values();
        places
            .filter_map(|(_, place)| place.get().cloned())
            .collect()
    }

    /// The instance for a call with these ranks of open inputs: evaluates the questions on the path to it, and builds the
    /// nodes that no call has reached before.
    ///
    /// # Errors
    /// When a node cannot be built or a question fails, when there are too many questions, and when the call is to end.
    pub(super) fn find(
        &self,
        ranks: BTreeMap<String, usize>,
        inputs: &[Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
    ) -> Result<Chosen<'static>, Error> {
        let mut choice = Choice {
            ranks,
            answers: BTreeMap::new(),
        };
        loop {
            let node = self.node(&choice, options, control)?;
            let &Built::Question(number, ref question) = &*node else {
                return Ok(Chosen::OfTree(node));
            };
            if choice.answers.len() >= QUESTIONS_LIMIT {
                let limit = QUESTIONS_LIMIT;
                return Err(Failure::Questions { limit }.into());
            }
            let given = question.run(inputs, options, control, None)?;
            choice.answers.insert(number, answer_in(&given)?);
        }
    }

    /// The node for a choice.
    fn node(
        &self,
        choice: &Choice,
        options: &Options,
        control: Option<&Arc<CallControl>>,
    ) -> Result<Arc<Built>, Error> {
        let place = self.nodes.lock().place(choice);
        if let Some(node) = place.get() {
            return Ok(Arc::clone(node));
        }
        let (source, choice, options) = (Arc::clone(&self.source), choice.clone(), options.clone());
        waiting(control.map(Deref::deref), move || {
            let build = || Instance::build(&source, &choice, &options).map(Arc::new);
            place.get_or_try_init(build).cloned()
        })
    }
}

/// Work that cannot be interrupted: if the call can be cancelled, it runs on a separate thread, and the call waits
/// until it is done or the call is to end.
pub(super) fn waiting<T: Send + 'static>(
    control: Option<&CallControl>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match control {
        Some(control) => control.wait_for(work)?,
        None => work(),
    }
}

/// The answer computed by a question's graph: a `bool`, or an integer.
fn answer_in(given: &[Tensor]) -> Result<i64, Error> {
    let Some(answer) = given.first() else {
        unreachable!("a question has one output");
    };
    Ok(match answer.item::<bool>() {
        Ok(answer) => i64::from(answer),
        Err(_) => answer.item::<i64>()?,
    })
}

impl<T: Clone + Default> TreeNodes<T> {
    /// The place for a choice. A new one may replace the least recently used.
    fn place(&mut self, choice: &Choice) -> T {
        self.now += 1;
        if let Some((used, place)) = self.places.get_mut(choice) {
            *used = self.now;
            return place.clone();
        }
        if self.places.len() >= NODES_LIMIT {
            let oldest = self.places.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(choice) = oldest.map(|(choice, _)| choice.clone()) {
                self.places.remove(&choice);
            }
        }
        let place = T::default();
        let entry = (self.now, place.clone());
        self.places.insert(choice.clone(), entry);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;
    use std::sync::atomic::Ordering::Relaxed;

    fn choice(answer: i64) -> Choice {
        Choice {
            answers: BTreeMap::from([(0, answer)]),
            ..Choice::default()
        }
    }

    #[test]
    fn the_least_recently_used_graph_makes_room_for_another() {
        let mut nodes = TreeNodes::<Arc<AtomicI64>>::default();
        let many = NODES_LIMIT as i64;
        for answer in 1..many {
            nodes.place(&choice(answer)).store(answer, Relaxed);
            nodes.place(&choice(0));
        }
        assert_eq!(nodes.place(&choice(2)).load(Relaxed), 2);
        nodes.place(&choice(many)).store(many, Relaxed);
        assert_eq!(nodes.places.len(), NODES_LIMIT);
        assert!(!nodes.places.contains_key(&choice(1)));
        for answer in [0, 2, many] {
            assert_eq!(nodes.place(&choice(answer)).load(Relaxed), answer);
        }
    }
}
