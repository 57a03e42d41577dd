//! The place of a graph in a model, for errors.
//!
//! Scopes form a chain from the inside out, shared by all nodes of a graph: a path costs memory
//! once per graph, however deep.

use std::fmt;
use std::sync::Arc;

/// A graph's place: a label, inside another scope.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    outer: Option<Arc<Scope>>,
    label: Box<str>,
}

impl Scope {
    /// A root place: a model's main graph (no label) or a function.
    pub(crate) fn top(label: impl Into<Box<str>>) -> Arc<Self> {
        Arc::new(Self {
            outer: None,
            label: label.into(),
        })
    }

    /// A place inside `outer`. The label must be safe to print.
    pub(crate) fn inside(outer: &Arc<Self>, label: impl Into<Box<str>>) -> Arc<Self> {
        Arc::new(Self {
            outer: Some(Arc::clone(outer)),
            label: label.into(),
        })
    }
}

/// Each label followed by ` > `, outermost first.
impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut chain = vec![self];
        while let Some(outer) = chain.last().and_then(|scope| scope.outer.as_deref()) {
            chain.push(outer);
        }
        let labels = chain
            .iter()
            .rev()
            .map(|scope| &scope.label)
            .filter(|label| !label.is_empty());
        labels
            .into_iter()
            .try_for_each(|label| write!(formatter, "{label} > "))
    }
}
