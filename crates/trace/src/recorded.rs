//! A finished recording: its graph, and the custom gradients of its values.

use crate::gradient_ops::{engine, without_rules};
use kiln_autodiff::{
    GradientError, GradientRequest, GradientRules, JointGraph, differentiate_with,
};
use kiln_ir::Graph;
use std::sync::Arc;

/// A graph as it was recorded.
///
/// [`graph`](Self::graph) is an ordinary graph; the gradients of [`custom_gradient`](crate::custom_gradient) are not
/// part of it, but [`differentiate`](Self::differentiate) uses them.
#[derive(Clone, Debug)]
pub struct Recorded {
    graph: Arc<Graph>,
    /// The graph with custom ops, and their gradients; `None` if it has none.
    whole: Option<Arc<(Graph, GradientRules)>>,
}

impl Recorded {
    pub(crate) fn new(graph: Graph, rules: GradientRules) -> Self {
        if rules.is_empty() {
            return Self {
                graph: Arc::new(graph),
                whole: None,
            };
        }
        Self {
            graph: Arc::new(without_rules(graph.clone())),
            whole: Some(Arc::new((graph, rules))),
        }
    }

    /// The graph.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Whether values have custom gradients, so that the graph alone cannot be differentiated.
    pub fn has_custom_gradients(&self) -> bool {
        self.whole.is_some()
    }

    /// The graph together with gradients of it.
    ///
    /// # Errors
    /// As [`kiln_autodiff::differentiate`]; and those of a custom gradient, which have the code of their cause.
    pub fn differentiate(&self, request: &GradientRequest) -> Result<JointGraph, GradientError> {
        let Some(whole) = &self.whole else {
            return kiln_autodiff::differentiate(&self.graph, request);
        };
        let (graph, rules) = &**whole;
        let joint = differentiate_with(graph, request, rules, &engine())?;
        Ok(JointGraph {
            graph: without_rules(joint.graph),
            ..joint
        })
    }
}
