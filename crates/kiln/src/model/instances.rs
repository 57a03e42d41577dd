//! What a model is executed by: one instance, or one for each combination of what calls bring that its graph depends on.
//!
//! A graph depends on the ranks of inputs that leave theirs open; and on what only data or sizes say, such as which branch of
//! an `If` is taken whose branches differ in rank. The model *asks* for the latter: a question is an instance, too, whose one
//! result is the answer. So a model is a tree of questions with graphs for leaves, and a call goes down one path. Nodes are
//! built when a call first comes by, and those that no call came by for longest are dropped beyond a limit.
//!
//! Invariant: an instance never changes once it is here, so calls need no lock while they run; and where there is only one,
//! they need none to find it.

use super::instance::{Built, Instance};
use super::source::Source;
use kiln_fork_lock::ForkLock;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// How many nodes a model keeps.
pub(super) const NODES_LIMIT: usize = 256;

pub(super) enum Instances {
    /// The graph depends on nothing.
    Only(Box<Instance>),
    /// By what it depends on.
    Tree(Tree),
}

/// What a call brings that decides which graph it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    /// Of the inputs whose rank is open.
    pub(crate) ranks: BTreeMap<String, usize>,
    /// To the model's questions, by number.
    pub(crate) answers: BTreeMap<usize, i64>,
}

pub(super) struct Tree {
    /// What further nodes are built from.
    source: Arc<Source>,
    /// Every entry is whole, so a panic of another thread leaves it valid.
    nodes: ForkLock<Nodes<Arc<Built>>>,
}

struct Nodes<T> {
    /// With the time of last use.
    built: BTreeMap<Choice, (u64, T)>,
    now: u64,
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Self {
            built: BTreeMap::new(),
            now: 0,
        }
    }
}

/// An instance for a call.
pub(super) enum Chosen<'a> {
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
    pub(super) fn tree(source: Arc<Source>) -> Self {
        Self::Tree(Tree {
            source,
            nodes: ForkLock::default(),
        })
    }

    /// The only one, or any of those that were built.
    pub(super) fn any(&self) -> Option<Chosen<'_>> {
        match self {
            Self::Only(instance) => Some(Chosen::Only(instance)),
            Self::Tree(tree) => {
                let nodes = tree.nodes.lock();
                let any = nodes.built.values().next();
                any.map(|(_, node)| Chosen::OfTree(Arc::clone(node)))
            }
        }
    }
}

impl Tree {
    /// The node for a choice, built if it is the first time. Two threads that come at once may both build it; the first to
    /// finish wins.
    ///
    /// # Errors
    /// Those of building it.
    pub(super) fn node<E>(
        &self,
        choice: &Choice,
        build: impl FnOnce(&Arc<Source>) -> Result<Built, E>,
    ) -> Result<Arc<Built>, E> {
        if let Some(node) = self.nodes.lock().get(choice) {
            return Ok(node);
        }
        let built = Arc::new(build(&self.source)?);
        Ok(self.nodes.lock().add(choice, built))
    }
}

impl<T: Clone> Nodes<T> {
    fn get(&mut self, choice: &Choice) -> Option<T> {
        self.now += 1;
        let (used, node) = self.built.get_mut(choice)?;
        *used = self.now;
        Some(node.clone())
    }

    /// Adds a node, in place of the one unused for longest where there are too many. One that is there already stays.
    fn add(&mut self, choice: &Choice, node: T) -> T {
        if let Some(before) = self.get(choice) {
            return before;
        }
        if self.built.len() >= NODES_LIMIT {
            let oldest = self.built.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(choice) = oldest.map(|(choice, _)| choice.clone()) {
                self.built.remove(&choice);
            }
        }
        let entry = (self.now, node.clone());
        self.built.insert(choice.clone(), entry);
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(answer: i64) -> Choice {
        Choice {
            answers: BTreeMap::from([(0, answer)]),
            ..Choice::default()
        }
    }

    #[test]
    fn graphs_that_no_call_needed_for_longest_make_room_for_others() {
        let mut nodes = Nodes::default();
        let many = NODES_LIMIT as i64;
        for answer in 0..many {
            assert_eq!(nodes.add(&choice(answer), answer), answer);
            assert_eq!(nodes.get(&choice(0)), Some(0));
        }
        // The first to come stays what the choice is.
        assert_eq!(nodes.add(&choice(2), -2), 2);
        nodes.add(&choice(many), many);
        assert_eq!(nodes.built.len(), NODES_LIMIT);
        assert_eq!(nodes.get(&choice(1)), None);
        for answer in [0, 2, many] {
            assert_eq!(nodes.get(&choice(answer)), Some(answer));
        }
    }
}
