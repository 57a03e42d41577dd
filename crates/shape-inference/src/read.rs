//! Reads graph text whose types may be omitted.
//!
//! Stated types are checked against the inferred ones, by proof. The parameters of regions always state their types.

use crate::check::check_types_with;
use crate::context::InferenceContext;
use crate::engine::ShapeInferenceEngine;
use crate::error::InferError;
use crate::node::OpView;
use crate::rule::Inferred;
use crate::state::InferenceState;
use cranelift_entity::EntityRef;
use kiln_ir::text::{NewResults, ReadLimits, ResultTypes, read_within};
use kiln_ir::{BlobMap, Graph, OpId, Type, ValueId};
use kiln_symbolic_shape::text::{Diagnostic, Diagnostics};
use smallvec::SmallVec;

/// Reads a graph, filling in the types that the text omits; large constants come from `blobs`.
///
/// # Errors
/// E01xx for the text, E02xx when the verifier rejects the graph, E03xx when types do not fit.
pub fn read_graph(text: &str, blobs: &BlobMap) -> Result<Graph, Diagnostics> {
    read_graph_with(text, blobs, &ShapeInferenceEngine::new())
}

/// As [`read_graph`], with other rules.
///
/// # Errors
/// As [`read_graph`].
pub fn read_graph_with(
    text: &str,
    blobs: &BlobMap,
    engine: &ShapeInferenceEngine,
) -> Result<Graph, Diagnostics> {
    read_graph_within(text, blobs, engine, &ReadLimits::default())
}

/// As [`read_graph_with`], with limits other than the defaults.
///
/// # Errors
/// E0134 when the text is too long; as [`read_graph`].
pub fn read_graph_within(
    text: &str,
    blobs: &BlobMap,
    engine: &ShapeInferenceEngine,
    limits: &ReadLimits,
) -> Result<Graph, Diagnostics> {
    let mut types = InferredTypes::new(engine.clone());
    let graph = read_within(text, blobs, &mut types, limits)?;
    if types.deferred {
        check_types_with(&graph, engine).map_err(|errors| {
            let mut diagnostics = Diagnostics::new();
            for error in errors.errors() {
                diagnostics.push(Diagnostic::new(error.code(), error.to_string(), None));
            }
            diagnostics
        })?;
    }
    Ok(graph)
}

/// The source of types for a reader: inference, and a check of stated types.
#[derive(Debug)]
pub struct InferredTypes {
    engine: ShapeInferenceEngine,
    state: InferenceState,
    /// The results inferred for the op that is about to be added.
    pending: Option<Inferred>,
    /// Whether stated types inside regions were trusted, because nothing is known about captures while a region is
    /// read.
    deferred: bool,
}

impl InferredTypes {
    /// A source of types with the rules of `engine`.
    pub fn new(engine: ShapeInferenceEngine) -> Self {
        Self {
            engine,
            state: InferenceState::default(),
            pending: None,
            deferred: false,
        }
    }

    fn infer(&mut self, graph: &mut Graph, new: &NewResults<'_>) -> Result<Inferred, InferError> {
        let node = OpView {
            op: new.op,
            operands: new.operands,
            regions: new.regions,
            symbols: new.symbols,
            origin: new.origin,
            result: Some(ValueId::new(graph.n_values())),
        };
        self.state.depth = new.depth;
        let mut ctx = InferenceContext::new(graph, &mut self.state);
        let stated: Option<Vec<Type>> = new.annotated.iter().cloned().collect();
        let Some(stated) = stated else {
            let mut inferred = self.engine.infer(&mut ctx, &node)?;
            for (index, (ty, stated)) in inferred.types.iter_mut().zip(new.annotated).enumerate() {
                if let Some(stated) = stated {
                    ctx.check_type(&node, &format!("result {index}"), ty, stated)?;
                    ty.clone_from(stated);
                }
            }
            return Ok(inferred);
        };
        match self.engine.validate(&mut ctx, &node, &stated) {
            Ok(inferred) => Ok(Inferred {
                types: stated.into(),
                ..inferred
            }),
            Err(_) if new.depth > 0 => {
                self.deferred = true;
                Ok(Inferred::all(stated))
            }
            Err(error) => Err(error),
        }
    }
}

impl ResultTypes for InferredTypes {
    fn result_types(
        &mut self,
        graph: &mut Graph,
        new: &NewResults<'_>,
    ) -> Result<SmallVec<[Type; 1]>, String> {
        let inferred = self
            .infer(graph, new)
            .map_err(|error| format!("{error} [{}]", error.code()))?;
        let types = inferred.types.clone();
        self.pending = Some(inferred);
        Ok(types)
    }

    fn appended(&mut self, _graph: &Graph, op: OpId) {
        if let Some(inferred) = self.pending.take() {
            self.state.remember(op, inferred);
        }
    }
}
