//! The state of inference between the ops of a graph: results per op, and known elements.

use crate::known::KnownValue;
use crate::rule::Inferred;
use cranelift_entity::SecondaryMap;
use kiln_ir::{Definition, Graph, OpId, ValueId};

/// The state of inference between the ops of a graph: results per op, and known elements.
#[derive(Clone, Debug, Default)]
pub struct InferenceState {
    inferred: SecondaryMap<OpId, Option<Box<Inferred>>>,
    parameters: SecondaryMap<ValueId, Option<KnownValue>>,
    /// The number of regions around the op, not counting the body.
    pub(crate) depth: usize,
}

impl InferenceState {
    /// Records the results inferred for an op.
    pub(crate) fn remember(&mut self, op: OpId, inferred: Inferred) {
        self.inferred[op] = Some(Box::new(inferred));
    }

    /// Records what is known about a region's parameter.
    pub(crate) fn remember_parameter(&mut self, value: ValueId, known: Option<KnownValue>) {
        self.parameters[value] = known;
    }

    /// The results inferred for an op.
    pub(crate) fn inferred(&self, op: OpId) -> Option<&Inferred> {
        self.inferred[op].as_deref()
    }

    /// What is known about a value's elements.
    pub(crate) fn known(&self, graph: &Graph, value: ValueId) -> Option<&KnownValue> {
        match graph.value(value).definition {
            Definition::Parameter { .. } => self.parameters[value].as_ref(),
            Definition::Result { op, index } => self.inferred(op)?.values.get(index)?.as_ref(),
        }
    }
}
