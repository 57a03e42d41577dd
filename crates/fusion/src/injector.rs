//! Guarded plans as data: check sizes, take the fused kernel where they fit, the plain ones where not.
//!
//! Nothing runs here: a runtime executes these operations, or takes them as what a plan's facts mean.

use std::fmt::{self, Write};

use kiln_ir::{Graph, OpId};
use kiln_symbolic_shape::{Binding, DimTable, EvaluateError, PlanFact};

use crate::candidate::describe_op;
use crate::plan::{FusionNode, NearMiss};

/// One operation of a guarded plan.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlanOperation {
    /// Compares the two sides of each fact; the fused kernel may run where all are equal.
    CheckShapes {
        /// What is compared.
        facts: Vec<PlanFact>,
    },
    /// Runs ops as one kernel.
    RunFused {
        /// The kernel's name.
        name: String,
        /// The ops it does.
        ops: Vec<OpId>,
    },
    /// Runs one op by itself, with what it was given at run time and nothing assumed.
    RunGeneric {
        /// The op.
        op: OpId,
    },
    /// Takes the first way if all facts hold and the second if not.
    Dispatch {
        /// What decides.
        facts: Vec<PlanFact>,
        /// Where they hold.
        then: Vec<PlanOperation>,
        /// Where not.
        otherwise: Vec<PlanOperation>,
    },
}

/// Makes guarded plans for fusions that rest on facts about sizes.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeShapeInjector<'a> {
    graph: &'a Graph,
}

impl<'a> RuntimeShapeInjector<'a> {
    /// An injector for nodes of a graph.
    pub fn new(graph: &'a Graph) -> Self {
        Self { graph }
    }

    /// The check that stands before a node's kernel; `None` when everything about it is proved.
    pub fn inject_shape_check(&self, node: &FusionNode) -> Option<PlanOperation> {
        (!node.facts.is_empty()).then(|| PlanOperation::CheckShapes {
            facts: node.facts.clone(),
        })
    }

    /// A node's kernel where its facts hold, its ops one by one where not.
    pub fn generate_shape_dispatch(&self, node: &FusionNode) -> PlanOperation {
        PlanOperation::Dispatch {
            facts: node.facts.clone(),
            then: vec![PlanOperation::RunFused {
                name: node.name.clone(),
                ops: node.all_ops(),
            }],
            otherwise: self.generate_generic_fallback(node),
        }
    }

    /// Two nodes that would be one under a fact: one kernel where it holds, both as they are where not.
    pub fn dispatch_of_near_miss(
        &self,
        near: &NearMiss,
        producer: &FusionNode,
        consumer: &FusionNode,
    ) -> PlanOperation {
        let run = |node: &FusionNode| PlanOperation::RunFused {
            name: node.name.clone(),
            ops: node.all_ops(),
        };
        let mut ops = producer.all_ops();
        ops.extend(consumer.all_ops());
        ops.sort_unstable();
        ops.dedup();
        PlanOperation::Dispatch {
            facts: vec![near.fact.clone()],
            then: vec![PlanOperation::RunFused {
                name: format!("{}_{}", producer.name, consumer.name),
                ops,
            }],
            otherwise: vec![run(producer), run(consumer)],
        }
    }

    /// The node's ops one by one, in program order: right for all sizes.
    pub fn generate_generic_fallback(&self, node: &FusionNode) -> Vec<PlanOperation> {
        let ops = node.all_ops().into_iter();
        ops.map(|op| PlanOperation::RunGeneric { op }).collect()
    }

    /// The operation as text.
    pub fn describe(&self, operation: &PlanOperation) -> String {
        Description {
            graph: self.graph,
            operation,
        }
        .to_string()
    }
}

impl PlanOperation {
    /// Whether the facts of a check or dispatch hold for actual sizes; others always may run.
    ///
    /// # Errors
    /// When a size has no value.
    pub fn holds(&self, dims: &DimTable, binding: &Binding) -> Result<bool, EvaluateError> {
        let facts = match self {
            PlanOperation::CheckShapes { facts } | PlanOperation::Dispatch { facts, .. } => facts,
            PlanOperation::RunFused { .. } | PlanOperation::RunGeneric { .. } => return Ok(true),
        };
        for fact in facts {
            if dims.evaluate(fact.left, binding)? != dims.evaluate(fact.right, binding)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What runs for actual sizes, in order.
    ///
    /// # Errors
    /// When a size has no value.
    pub fn select(
        &self,
        dims: &DimTable,
        binding: &Binding,
    ) -> Result<Vec<&PlanOperation>, EvaluateError> {
        let mut selected = Vec::new();
        let mut pending = vec![self];
        while let Some(operation) = pending.pop() {
            match operation {
                PlanOperation::Dispatch {
                    then, otherwise, ..
                } => {
                    let way = match operation.holds(dims, binding)? {
                        true => then,
                        false => otherwise,
                    };
                    pending.extend(way.iter().rev());
                }
                PlanOperation::CheckShapes { .. } => {}
                run => selected.push(run),
            }
        }
        Ok(selected)
    }
}

struct Description<'a> {
    graph: &'a Graph,
    operation: &'a PlanOperation,
}

/// What is left to print.
enum Piece<'a> {
    Operation(&'a PlanOperation, usize),
    Line(&'static str, usize),
}

impl fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pending = vec![Piece::Operation(self.operation, 0)];
        while let Some(piece) = pending.pop() {
            let (operation, depth) = match piece {
                Piece::Line(text, depth) => {
                    writeln!(f, "{:1$}{text}", "", depth * 2)?;
                    continue;
                }
                Piece::Operation(operation, depth) => (operation, depth),
            };
            write!(f, "{:1$}", "", depth * 2)?;
            match operation {
                PlanOperation::CheckShapes { facts } => {
                    writeln!(f, "check {}", self.facts(facts))?;
                }
                PlanOperation::RunFused { name, ops } => {
                    writeln!(f, "run @{name} ({} ops)", ops.len())?;
                }
                PlanOperation::RunGeneric { op } => {
                    writeln!(f, "run {}", describe_op(self.graph, *op))?;
                }
                PlanOperation::Dispatch {
                    facts,
                    then,
                    otherwise,
                } => {
                    writeln!(f, "if {} {{", self.facts(facts))?;
                    pending.push(Piece::Line("}", depth));
                    let inner = |operation| Piece::Operation(operation, depth + 1);
                    pending.extend(otherwise.iter().rev().map(inner));
                    pending.push(Piece::Line("} else {", depth));
                    pending.extend(then.iter().rev().map(inner));
                }
            }
        }
        Ok(())
    }
}

impl Description<'_> {
    fn facts(&self, facts: &[PlanFact]) -> String {
        let dims = self.graph.dims();
        let mut text = String::new();
        for (position, fact) in facts.iter().enumerate() {
            let and = if position == 0 { "" } else { " and " };
            let (left, right) = (dims.display(fact.left), dims.display(fact.right));
            // Writing to a string does not fail.
            let _ = write!(text, "{and}{left} == {right}");
        }
        if facts.is_empty() {
            "true".to_owned()
        } else {
            text
        }
    }
}
