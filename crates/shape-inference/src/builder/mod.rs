//! The builder: adds ops to a graph and infers their types as they are added.
//!
//! An invalid op is an error immediately and adds nothing; facts that were recorded before the error stay. After an
//! error in a composite or inside a region's closure, drop the builder. Each file adds the methods of one family;
//! composites such as softmax decompose into core ops.
//!
//! Invariant: every value of the graph has the type that inference gave it, and every operand is
//! defined in the region in which it is read.

mod annotate;
mod contraction;
mod control;
mod copy;
mod einsum;
mod elementwise;
mod indexing;
mod movement;
mod normalize;
mod queries;
mod reduction;
mod sizes;
mod slices;

pub use annotate::Disagreement;
pub use control::{LoopBody, LoopOperands};

use crate::context::{InferenceContext, Mode};
use crate::engine::ShapeInferenceEngine;
use crate::error::{InferError, InferErrorKind};
use crate::known::KnownValue;
use crate::node::OpView;
use crate::rule::Inferred;
use crate::state::InferenceState;
use cranelift_entity::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_ir::{Constant, Dims, Graph, NewOp, Op, RegionId, Type, ValueId, verify};
use kiln_symbolic_shape::{
    ContractFact, DimError, DimId, DimLimits, DimTable, FactOrigin, Predicate, Proof, SymbolId,
};
use kiln_tensor::{DType, Tensor};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Builds a graph op by op, with inferred types.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    graph: Graph,
    state: InferenceState,
    engine: ShapeInferenceEngine,
    mode: Mode,
    origin: Option<Arc<str>>,
    /// The region being filled.
    region: RegionId,
    /// The region that defines each value.
    places: SecondaryMap<ValueId, PackedOption<RegionId>>,
    /// Symbols that have a value at this point.
    defined: BTreeSet<SymbolId>,
    disagreements: Vec<Disagreement>,
    /// The remaining number of loop bodies that may be rebuilt.
    rebuilds_left: u32,
    /// The number of symbols made by `bind`, for their names.
    n_bound: u64,
}

impl GraphBuilder {
    /// A builder of an empty graph, with the rules of the core ops.
    pub fn new(name: &str) -> Self {
        Self::with_engine(name, ShapeInferenceEngine::new())
    }

    /// A builder with other rules.
    pub fn with_engine(name: &str, engine: ShapeInferenceEngine) -> Self {
        Self::with_limits(name, engine, DimLimits::default())
    }

    /// A builder with other rules, and other limits for the graph's size table.
    pub fn with_limits(name: &str, engine: ShapeInferenceEngine, limits: DimLimits) -> Self {
        let graph = Graph::with_dims(name, DimTable::with_limits(limits));
        let region = graph.body();
        Self {
            graph,
            state: InferenceState::default(),
            engine,
            mode: Mode::Strict,
            origin: None,
            region,
            places: SecondaryMap::new(),
            defined: BTreeSet::new(),
            disagreements: Vec::new(),
            rebuilds_left: control::REBUILD_LIMIT,
            n_bound: 0,
        }
    }

    /// Sets how [`annotate`](Self::annotate) handles a stated type that is not proved.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Sets the source node of the following ops.
    pub fn origin(&mut self, path: &str) {
        self.origin = Some(path.into());
    }

    /// The following ops have no source node.
    pub fn clear_origin(&mut self) {
        self.origin = None;
    }

    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Facts about the source program, to add to.
    pub fn metadata_mut(&mut self) -> &mut std::collections::BTreeMap<String, String> {
        self.graph.metadata_mut()
    }

    /// The graph's sizes and facts.
    pub fn dims(&self) -> &DimTable {
        self.graph.dims()
    }

    /// The graph's sizes and facts, to add to.
    pub fn dims_mut(&mut self) -> &mut DimTable {
        self.graph.dims_mut()
    }

    /// The symbol `name` as a size, declared if it is new: any size of 0 or more.
    ///
    /// # Errors
    /// When the name is not an identifier.
    pub fn symbol(&mut self, name: &str) -> Result<DimId, InferError> {
        let symbol = self.dims_mut().symbol(name);
        self.place(symbol)
    }

    /// A known size.
    pub fn size(&mut self, size: i64) -> DimId {
        self.dims_mut().constant(size)
    }

    /// Known sizes.
    pub fn sizes(&mut self, sizes: &[i64]) -> Dims {
        sizes.iter().map(|&size| self.size(size)).collect()
    }

    /// Names a value.
    pub fn name(&mut self, value: ValueId, name: &str) {
        self.graph.set_value_name(value, Some(name));
    }

    /// Adds an input. Symbols that are sizes by themselves get their value from it.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[DimId]) -> ValueId {
        self.input_of_type(name, Type::tensor(dtype, dims.iter().copied()))
    }

    /// Adds an input of any type.
    pub fn input_of_type(&mut self, name: &str, ty: Type) -> ValueId {
        let bare: Vec<SymbolId> = ty
            .innermost()
            .dims
            .iter()
            .filter_map(|&dim| self.dims().as_symbol(dim))
            .collect();
        self.defined.extend(bare);
        let value = self.graph.add_input(name, ty);
        self.places[value] = self.graph.body().into();
        value
    }

    /// Adds a constant.
    ///
    /// # Errors
    /// When a strided tensor cannot be made contiguous for lack of memory.
    pub fn constant(&mut self, tensor: Tensor) -> Result<ValueId, InferError> {
        let constant =
            Constant::new(tensor).map_err(|cause| self.mistake(InferErrorKind::Tensor(cause)))?;
        self.op1(Op::Constant(constant), &[])
    }

    /// Adds an op; returns its results.
    ///
    /// # Errors
    /// When the operands do not fit the op; nothing is added then.
    pub fn op(
        &mut self,
        op: Op,
        operands: &[ValueId],
    ) -> Result<SmallVec<[ValueId; 1]>, InferError> {
        self.append(op, operands, &[], &[])
    }

    /// Adds an op; returns its first result.
    ///
    /// # Errors
    /// As [`op`](Self::op), and when the op has no result.
    pub fn op1(&mut self, op: Op, operands: &[ValueId]) -> Result<ValueId, InferError> {
        let results = self.op(op, operands)?;
        results.first().copied().ok_or_else(|| {
            self.mistake(InferErrorKind::Region {
                what: "results".to_owned(),
                expected: "1".to_owned(),
                found: "0".to_owned(),
            })
        })
    }

    /// What is known about a value's elements.
    pub fn known(&self, value: ValueId) -> Option<&KnownValue> {
        self.state.known(&self.graph, value)
    }

    /// The elements of a small integer or bool tensor as expressions, if all are known.
    pub fn known_values(&self, value: ValueId) -> Option<&[DimId]> {
        self.known(value)?.as_dims()
    }

    /// Sets the graph's outputs and verifies it.
    ///
    /// # Errors
    /// When an output is not defined in the body, or the graph violates a structural rule.
    pub fn finish<N: AsRef<str>>(mut self, outputs: &[(N, ValueId)]) -> Result<Graph, InferError> {
        self.clear_origin();
        let values: Vec<ValueId> = outputs.iter().map(|&(_, value)| value).collect();
        self.check_places("return", &values)?;
        self.graph
            .set_outputs(outputs.iter().map(|(name, value)| (name, *value)));
        match verify(&self.graph) {
            Ok(()) => Ok(self.graph),
            Err(errors) => Err(InferError::new("graph", InferErrorKind::Structure(errors))),
        }
    }

    fn append(
        &mut self,
        op: Op,
        operands: &[ValueId],
        regions: &[RegionId],
        symbols: &[SymbolId],
    ) -> Result<SmallVec<[ValueId; 1]>, InferError> {
        let origin = self.origin.clone();
        let node = OpView {
            op: &op,
            operands,
            regions,
            symbols,
            origin: origin.as_deref(),
            result: Some(ValueId::new(self.graph.n_values())),
        };
        self.check_places(&node.label(), operands)?;
        let mut ctx = InferenceContext::new(&mut self.graph, &mut self.state);
        let inferred = self.engine.infer(&mut ctx, &node)?;
        let new = NewOp {
            op,
            operands: operands.into(),
            result_types: inferred.types.clone(),
            regions: regions.into(),
            symbols: symbols.into(),
            origin,
        };
        Ok(self.add_op(new, inferred))
    }

    fn add_op(&mut self, new: NewOp, inferred: Inferred) -> SmallVec<[ValueId; 1]> {
        self.defined.extend(new.symbols.iter().copied());
        let op = self.graph.append(self.region, new);
        self.state.remember(op, inferred);
        let results = self.graph.op(op).results.clone();
        for &result in &results {
            self.places[result] = self.region.into();
        }
        results
    }

    /// Every value must be of this graph and defined in the region being filled.
    fn check_places(&self, label: &str, values: &[ValueId]) -> Result<(), InferError> {
        let here = Some(self.region);
        match values
            .iter()
            .position(|&value| self.places[value].expand() != here)
        {
            None => Ok(()),
            Some(index) => {
                let value = values[index].to_string();
                Err(InferError::new(
                    label,
                    InferErrorKind::NotDefined { index, value },
                ))
            }
        }
    }

    /// Proves a predicate, or leaves its check to the run time; false when it never holds. Regions may never run, so
    /// nothing is recorded there.
    fn require(&mut self, predicate: Predicate, what: String) -> Result<bool, InferError> {
        match self.dims().prove(&predicate) {
            Proof::Proved => return Ok(true),
            Proof::Disproved => return Ok(false),
            Proof::Unknown if self.state.depth > 0 => return Ok(true),
            Proof::Unknown => {}
        }
        let origin = FactOrigin::Required(match &self.origin {
            Some(origin) => format!("{what} ({})", origin.escape_debug()),
            None => what,
        });
        match self.dims_mut().assume(ContractFact { predicate, origin }) {
            Ok(()) => Ok(true),
            Err(DimError::Contradiction { .. }) => Ok(false),
            Err(cause) => Err(self.mistake(InferErrorKind::Size(cause))),
        }
    }

    /// An error that does not concern one core op: about the source node, or the call.
    fn mistake(&self, kind: InferErrorKind) -> InferError {
        self.mistake_of("builder", kind)
    }

    /// An error about the source node, or otherwise about a composite.
    fn mistake_of(&self, composite: &str, kind: InferErrorKind) -> InferError {
        match &self.origin {
            Some(origin) => InferError::new(origin.escape_debug().to_string(), kind),
            None => InferError::new(composite, kind),
        }
    }

    /// Attaches a place to an error of computing sizes.
    fn place<T>(&self, result: Result<T, DimError>) -> Result<T, InferError> {
        result.map_err(|cause| self.mistake(InferErrorKind::Size(cause)))
    }
}
