//! What can be done with a single node: made from ops, extended, compared, validated.

use std::collections::BTreeSet;

use cranelift_entity::EntityRef;
use kiln_ir::{Graph, OpId, TensorType, structural_hash};
use kiln_shape_inference::{InferenceContext, InferenceState, Node, ShapeInferenceEngine};
use kiln_symbolic_shape::{Binding, DimTable, FactSelection};

use super::node::{FusionNode, FusionNodeId, NodeKind};
use crate::candidate::{Refusal, describe_op, examine};
use crate::cost;
use crate::error::FusionError;
use crate::lower::{Region, lower};
use crate::name::name_of_ops;
use crate::options::FusionOptions;
use crate::sizes::{Answer, Sizes};
use crate::subgraph;

impl FusionNode {
    /// A kernel node of these ops, outside of any plan.
    ///
    /// # Errors
    /// When an id is not of this graph, when the ops cannot be one kernel, or when lowering refuses.
    pub fn of_ops(
        graph: &Graph,
        ops: &[OpId],
        options: &FusionOptions,
    ) -> Result<FusionNode, FusionError> {
        let set: BTreeSet<OpId> = ops.iter().copied().collect();
        if let Some(op) = set.iter().find(|&&op| !graph.contains_op(op)) {
            return Err(FusionError::Unknown {
                what: "an op",
                of: "graph",
                found: op.to_string(),
            });
        }
        let (Some(&first), Some(&last)) = (set.first(), set.last()) else {
            return Err(FusionError::NoKernel {
                node: "an empty node".to_owned(),
                reason: "it has no ops".to_owned(),
            });
        };
        let sizes = Sizes::of_options(graph, options);
        let outputs = subgraph::outputs(graph, &set);
        let profile =
            examine(graph, &sizes, &set, &outputs).map_err(|refusal| FusionError::Refused {
                producer: describe_op(graph, first),
                consumer: describe_op(graph, last),
                reason: refusal.describe(graph),
            })?;
        let facts = profile.facts.iter();
        let facts: Vec<_> = facts
            .filter_map(|&number| sizes.fact(number).cloned())
            .collect();
        let name = name_of_ops(graph, &set, Some(profile.class));
        let ops: Vec<OpId> = set.iter().copied().collect();
        let region = Region {
            ops: &ops,
            outputs: &outputs,
            facts: &facts,
            name: &name,
        };
        let kernel = lower(graph, &region).map_err(|source| FusionError::Lower {
            node: name.clone(),
            source: Box::new(source),
        })?;
        let apart: Vec<_> = ops
            .iter()
            .map(|&op| {
                let results = graph.op(op).results.to_vec();
                cost::of_kernel(graph, &sizes, &BTreeSet::from([op]), &results)
            })
            .collect();
        let together = cost::of_kernel(graph, &sizes, &set, &outputs);
        Ok(FusionNode {
            id: FusionNodeId::new(0),
            kind: NodeKind::Kernel,
            name,
            region: graph.body(),
            inputs: cost::inputs(graph, &set),
            ops,
            recomputed: Vec::new(),
            outputs,
            facts,
            class: Some(profile.class),
            kernel: Some(kernel),
            benefit: cost::benefit(&apart, together, profile.complexity),
            notes: Vec::new(),
        })
    }

    /// Whether this node and one that reads it can be one kernel. `intermediate` are the shapes of what
    /// goes from one to the other, in order; they have to be what the graph says, by proof.
    ///
    /// # Errors
    /// The rule that is against it.
    pub fn can_fuse_with(
        &self,
        graph: &Graph,
        next: &FusionNode,
        intermediate: &[TensorType],
        options: &FusionOptions,
    ) -> Result<(), Refusal> {
        let between: Vec<_> = self
            .outputs
            .iter()
            .copied()
            .filter(|value| next.inputs.contains(value))
            .collect();
        if between.is_empty() {
            return Err(Refusal::Unrelated);
        }
        let sizes = Sizes::of_options(graph, options);
        for (&value, stated) in between.iter().zip(intermediate) {
            let dims = graph.tensor_ty(value).map_or(&[][..], |ty| &ty.dims);
            for (&left, &right) in stated.dims.iter().zip(dims) {
                let equality = sizes.equal(left, right);
                if matches!(equality, Answer::Unknown | Answer::Disproved) {
                    return Err(Refusal::Sizes {
                        value,
                        left,
                        right,
                        possible: equality == Answer::Unknown && sizes.may_be_equal(left, right),
                    });
                }
            }
        }
        let ops: BTreeSet<OpId> = self.all_ops().into_iter().chain(next.all_ops()).collect();
        let outputs = subgraph::outputs(graph, &ops);
        examine(graph, &sizes, &ops, &outputs).map(|_| ())
    }

    /// Adds an op that reads this node, or that it reads, and makes the kernel anew.
    ///
    /// # Errors
    /// When the ops cannot be one kernel; the node is as it was.
    pub fn add_operation(
        &mut self,
        graph: &Graph,
        op: OpId,
        options: &FusionOptions,
    ) -> Result<(), FusionError> {
        let mut ops = self.all_ops();
        ops.push(op);
        let grown = FusionNode::of_ops(graph, &ops, options)?;
        *self = FusionNode {
            id: self.id,
            region: self.region,
            ..grown
        };
        Ok(())
    }

    /// The node's ops as a graph over the same sizes: what it reads are inputs, what it gives are outputs.
    pub fn to_graph(&self, graph: &Graph) -> Graph {
        let ops = self.all_ops().into_iter().collect();
        let dims = graph.dims().clone();
        let copy = &mut |_: &mut DimTable, dim| dim;
        subgraph::extract(graph, &self.name, &ops, &self.outputs, dims, copy).graph
    }

    /// A stable signature of what the node computes and over which shapes: equal for equal nodes, of any graph.
    pub fn fused_signature(&self, graph: &Graph) -> String {
        structural_hash(&self.to_graph(graph)).to_string()
    }

    /// Infers every shape inside the node again and compares it with the graph's.
    ///
    /// # Errors
    /// The first value whose shape differs, or is not proved to be the same.
    pub fn validate_fusion(&self, graph: &Graph) -> Result<(), FusionError> {
        let is_control = |&op: &OpId| !graph.op(op).regions.is_empty();
        if !matches!(self.kind, NodeKind::Kernel | NodeKind::View)
            || self.ops.iter().any(is_control)
        {
            // One op, whose type the graph's own check compares.
            return Ok(());
        }
        let mut scratch = graph.clone();
        let mut state = InferenceState::default();
        let engine = ShapeInferenceEngine::new();
        for op in self.all_ops() {
            let data = graph.op(op).clone();
            let mut ctx = InferenceContext::new(&mut scratch, &mut state);
            let mismatch = |found: String| {
                let value = data.results.first().copied();
                value.map(|value| FusionError::Shape {
                    node: self.name.clone(),
                    value,
                    expected: graph.ty(value).display(graph.dims()).to_string(),
                    found,
                })
            };
            let types = match engine.infer(&mut ctx, &Node::of_op(&data)) {
                Ok(inferred) => inferred.types,
                Err(error) => match mismatch(error.to_string()) {
                    Some(error) => return Err(error),
                    None => continue,
                },
            };
            let sizes = Sizes::new(&scratch, &FactSelection::All, 1);
            for (&value, ty) in data.results.iter().zip(&types) {
                let (stated, found) = (graph.ty(value).innermost(), ty.innermost());
                let equal = stated.dtype == found.dtype
                    && stated.dims.len() == found.dims.len()
                    && stated.dims.iter().zip(&found.dims).all(|(&a, &b)| {
                        matches!(sizes.equal(a, b), Answer::Proved | Answer::Under(_))
                    });
                if !equal {
                    let found = ty.display(scratch.dims()).to_string();
                    return mismatch(found).map_or(Ok(()), Err);
                }
            }
        }
        Ok(())
    }

    /// Checks the plan facts that the node rests on against actual sizes.
    ///
    /// # Errors
    /// The first fact that is false, or a size without a value.
    pub fn check_facts(&self, dims: &DimTable, binding: &Binding) -> Result<(), FusionError> {
        for fact in &self.facts {
            let value = |dim| {
                dims.evaluate(dim, binding)
                    .map_err(|source| FusionError::Size {
                        node: self.name.clone(),
                        source,
                    })
            };
            let (left, right) = (value(fact.left)?, value(fact.right)?);
            if left != right {
                return Err(FusionError::FactFails {
                    node: self.name.clone(),
                    fact: fact.name(dims),
                    left,
                    right,
                });
            }
        }
        Ok(())
    }
}
