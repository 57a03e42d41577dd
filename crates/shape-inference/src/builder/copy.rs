//! Continues a graph: a builder over its sizes, and copies of its inputs and ops.

use super::GraphBuilder;
use crate::engine::ShapeInferenceEngine;
use crate::error::InferError;
use kiln_ir::{Graph, OpData, ValueId};
use smallvec::SmallVec;

impl GraphBuilder {
    /// A builder over the sizes, facts and metadata of a graph, without its inputs and ops: every size of the graph is valid here.
    pub fn over(graph: &Graph, engine: ShapeInferenceEngine) -> Self {
        let mut builder = Self::with_engine(graph.name(), engine);
        builder.graph = Graph::with_dims(graph.name(), graph.dims().clone());
        builder.region = builder.graph.body();
        builder.metadata_mut().clone_from(graph.metadata());
        builder
    }

    /// Adds an input with the name and type of one of the graph that this builder is [over](Self::over).
    pub fn copy_input(&mut self, graph: &Graph, input: ValueId) -> ValueId {
        self.input_of_type(&graph.input_name(input), graph.ty(input).clone())
    }

    /// Adds a copy of an op without regions, which defines the same symbols; returns its results. Its sizes must be valid in
    /// this builder, and no other copy may define symbols.
    ///
    /// # Errors
    /// When the operands do not fit the op; nothing is added then.
    pub fn copy_op(
        &mut self,
        data: &OpData,
        operands: &[ValueId],
    ) -> Result<SmallVec<[ValueId; 1]>, InferError> {
        let outside = std::mem::replace(&mut self.origin, data.origin.clone());
        let results = self.append(data.op.clone(), operands, &[], &data.symbols);
        self.origin = outside;
        results
    }
}
