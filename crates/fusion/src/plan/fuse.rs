//! Queries on a single node: whether another node could join it, and whether its shapes are valid.

use std::collections::BTreeSet;

use kiln_ir::{Graph, OpId, ValueId};
use kiln_shape_inference::{InferError, InferErrorKind, TypeChecker};

use super::node::{FusionNode, NodeKind};
use crate::analyzer::FusionCandidateAnalyzer;
use crate::benefit::FusionBenefit;
use crate::candidate::Refusal;
use crate::error::FusionError;
use crate::subgraph;

impl FusionNode {
    /// The benefit of fusing this node with one that reads its result, or that reads the same operand, into one kernel.
    /// The order of other nodes is ignored.
    ///
    /// # Errors
    /// The rule that forbids it.
    pub fn can_fuse_with(
        &self,
        next: &FusionNode,
        analyzer: &FusionCandidateAnalyzer<'_>,
    ) -> Result<FusionBenefit, Refusal> {
        for node in [self, next] {
            if !matches!(node.kind, NodeKind::Kernel | NodeKind::View)
                && let Some(&op) = node.ops.first()
            {
                return Err(Refusal::Apart { op });
            }
        }
        let ops: BTreeSet<OpId> = self.all_ops().into_iter().chain(next.all_ops()).collect();
        let outputs = subgraph::outputs(analyzer.graph, &ops);
        let profile = analyzer.examine(&ops, &outputs)?;
        let parts = [self, next].map(|node| {
            let ops = node.all_ops().into_iter().collect();
            analyzer.cost(&ops, &node.outputs)
        });
        Ok(analyzer.benefit(&parts, &ops, &outputs, profile.complexity))
    }

    /// Re-infers every shape inside a kernel or view, and compares it with the graph's. The checker is of that graph, and
    /// may serve all its nodes. Every other node is a single op, which the graph's own check covers.
    ///
    /// # Errors
    /// The first value whose shape differs, or is not proved equal by a checker that has steps left.
    pub fn validate_fusion(
        &self,
        graph: &Graph,
        checker: &mut TypeChecker,
    ) -> Result<(), FusionError> {
        let is_control = |&op: &OpId| !graph.op(op).regions.is_empty();
        if !matches!(self.kind, NodeKind::Kernel | NodeKind::View)
            || self.ops.iter().any(is_control)
        {
            // One op, whose type the graph's own check covers.
            return Ok(());
        }
        for op in self.all_ops() {
            let Err(error) = checker.check(op) else {
                continue;
            };
            if is_unproved(&error) && checker.is_prover_spent() {
                continue;
            }
            if let Some(&value) = graph.op(op).results.first() {
                return Err(self.wrong_shape(graph, value, &error));
            }
        }
        Ok(())
    }

    fn wrong_shape(&self, graph: &Graph, value: ValueId, error: &InferError) -> FusionError {
        FusionError::Shape {
            node: self.name.clone(),
            value,
            expected: graph.ty(value).display(graph.dims()).to_string(),
            found: match &*error.kind {
                InferErrorKind::Annotation { expected, .. } => expected.clone(),
                _ => error.to_string(),
            },
        }
    }
}

/// Whether an unproved type may still be right.
fn is_unproved(error: &InferError) -> bool {
    matches!(
        &*error.kind,
        InferErrorKind::Annotation {
            disproved: false,
            ..
        }
    )
}
