//! The graph: values, ops and regions in arenas, and the single way to add to them.
//!
//! Nothing here checks meaning (that is left to the verifier and shape inference); only id ranges are checked. Ops are only
//! ever appended; a pass that changes a graph builds a new one ([`Rebuild`](crate::Rebuild)).
//!
//! Invariants: the body region's parameters are the graph's inputs; every value is the parameter of exactly one region or
//! the result of exactly one op; every op is in exactly one region.

use crate::ids::{OpId, RegionId, ValueId};
use crate::op::Op;
use crate::ty::{TensorType, Type};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use kiln_symbolic_shape::{DimId, DimTable, SizeRequirement, SymbolId};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// The maximum nesting of regions, which bounds the recursion of all walks over them.
pub const REGION_DEPTH_LIMIT: usize = 32;

/// A tensor program: a body of operations over symbolic shapes.
#[derive(Clone, Debug)]
pub struct Graph {
    name: Arc<str>,
    dims: DimTable,
    values: PrimaryMap<ValueId, ValueData>,
    ops: PrimaryMap<OpId, OpData>,
    regions: PrimaryMap<RegionId, Region>,
    body: RegionId,
    output_names: Vec<Arc<str>>,
    metadata: BTreeMap<String, String>,
}

/// The data that the graph stores for a value.
#[derive(Clone, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its definition.
    pub definition: Definition,
    /// Its name, if it has one: an input's name, or one kept from the source program.
    pub name: Option<Arc<str>>,
}

/// The definition of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Parameter `index` of a region; of the body, an input of the graph.
    Parameter {
        /// The region.
        region: RegionId,
        /// The position among its parameters.
        index: usize,
    },
    /// Result `index` of an op.
    Result {
        /// The op.
        op: OpId,
        /// The position among its results.
        index: usize,
    },
}

/// An op in its graph: operation, operands, results.
#[derive(Clone, Debug)]
pub struct OpData {
    /// The operation and its attributes.
    pub op: Op,
    /// Its operands. Regions cannot read any other values from outside.
    pub operands: SmallVec<[ValueId; 4]>,
    /// Its results.
    pub results: SmallVec<[ValueId; 1]>,
    /// The regions of control ops.
    pub regions: SmallVec<[RegionId; 2]>,
    /// The symbols bound by this op: for `bind` the elements of its operand, for control ops the sizes of results that are
    /// known only after they ran.
    pub symbols: SmallVec<[SymbolId; 2]>,
    /// The path of the source node from which it was made, for messages and profiles.
    pub origin: Option<Arc<str>>,
}

/// A list of ops that runs in order, with parameters and results.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// Its parameters.
    pub parameters: Vec<ValueId>,
    /// Symbols in its parameters' types that get a value at each entry.
    pub symbols: Vec<SymbolId>,
    /// Its ops; operands refer to earlier values.
    pub ops: Vec<OpId>,
    /// Its results.
    pub results: Vec<ValueId>,
    /// The requirements of its ops, as the program was written, on sizes whenever it is entered, in order. Passes keep
    /// them, regardless of what they do with the ops. Empty if there are none, or if they were not recorded; not part
    /// of the text.
    pub requirements: Vec<SizeRequirement>,
    /// The position, in the surrounding region as the program was written, of the op that owns it, in terms of
    /// [`SizeRequirement::position`]. Empty if it was not recorded.
    pub position: Vec<u32>,
}

/// The data from which [`Graph::append`] adds an op.
#[derive(Clone, Debug)]
pub struct NewOp {
    /// The operation.
    pub op: Op,
    /// Its operands.
    pub operands: SmallVec<[ValueId; 4]>,
    /// The types of its results.
    pub result_types: SmallVec<[Type; 1]>,
    /// Regions made by [`Graph::add_region`].
    pub regions: SmallVec<[RegionId; 2]>,
    /// Symbols the op defines.
    pub symbols: SmallVec<[SymbolId; 2]>,
    /// The path of the source node from which it was made.
    pub origin: Option<Arc<str>>,
}

impl NewOp {
    /// An op without regions, symbols or origin.
    pub fn new(
        op: Op,
        operands: impl IntoIterator<Item = ValueId>,
        result_types: impl IntoIterator<Item = Type>,
    ) -> Self {
        Self {
            op,
            operands: operands.into_iter().collect(),
            result_types: result_types.into_iter().collect(),
            regions: SmallVec::new(),
            symbols: SmallVec::new(),
            origin: None,
        }
    }
}

impl Graph {
    /// An empty graph.
    pub fn new(name: &str) -> Self {
        Self::with_dims(name, DimTable::new())
    }

    /// An empty graph over an existing table of dimensions, whose ids stay valid.
    pub fn with_dims(name: &str, dims: DimTable) -> Self {
        let mut regions = PrimaryMap::new();
        let body = regions.push(Region::default());
        Self {
            name: name.into(),
            dims,
            values: PrimaryMap::new(),
            ops: PrimaryMap::new(),
            regions,
            body,
            output_names: Vec::new(),
            metadata: BTreeMap::new(),
        }
    }

    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames the graph.
    pub fn set_name(&mut self, name: &str) {
        self.name = name.into();
    }

    /// The table that every [`DimId`](kiln_symbolic_shape::DimId) of this graph belongs to, with its facts.
    pub fn dims(&self) -> &DimTable {
        &self.dims
    }

    /// The table of dimensions, to add to.
    pub fn dims_mut(&mut self) -> &mut DimTable {
        &mut self.dims
    }

    /// The body.
    pub fn body(&self) -> RegionId {
        self.body
    }

    /// The inputs: the body's parameters.
    #[inline]
    pub fn inputs(&self) -> &[ValueId] {
        &self.regions[self.body].parameters
    }

    /// The outputs: the body's results.
    #[inline]
    pub fn outputs(&self) -> &[ValueId] {
        &self.regions[self.body].results
    }

    /// The outputs' names, in the order of [`outputs`](Self::outputs).
    pub fn output_names(&self) -> &[Arc<str>] {
        &self.output_names
    }

    /// The name of an input, or its id if it has none.
    pub fn input_name(&self, value: ValueId) -> String {
        self.values[value]
            .name
            .as_deref()
            .map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Adds an input.
    pub fn add_input(&mut self, name: &str, ty: Type) -> ValueId {
        let value = self.add_parameter(self.body, ty);
        self.values[value].name = Some(name.into());
        value
    }

    /// Sets the graph's outputs, by name.
    pub fn set_outputs<N: AsRef<str>>(&mut self, outputs: impl IntoIterator<Item = (N, ValueId)>) {
        let (names, values) = outputs
            .into_iter()
            .map(|(name, value)| (name.as_ref().into(), value))
            .unzip();
        self.output_names = names;
        self.regions[self.body].results = values;
    }

    /// An empty region, to be passed to a control op.
    pub fn add_region(&mut self) -> RegionId {
        self.regions.push(Region::default())
    }

    /// Adds a parameter to a region.
    pub fn add_parameter(&mut self, region: RegionId, ty: Type) -> ValueId {
        let index = self.regions[region].parameters.len();
        let value = self.values.push(ValueData {
            ty,
            definition: Definition::Parameter { region, index },
            name: None,
        });
        self.regions[region].parameters.push(value);
        value
    }

    /// Declares that a region's parameters bind `symbol` at each entry.
    pub fn add_region_symbol(&mut self, region: RegionId, symbol: SymbolId) {
        self.regions[region].symbols.push(symbol);
    }

    /// Sets a region's results.
    pub fn set_results(&mut self, region: RegionId, results: impl IntoIterator<Item = ValueId>) {
        self.regions[region].results = results.into_iter().collect();
    }

    /// Records a region's requirements on sizes, and its position.
    pub fn set_requirements(
        &mut self,
        region: RegionId,
        requirements: Vec<SizeRequirement>,
        position: Vec<u32>,
    ) {
        let region = &mut self.regions[region];
        region.requirements = requirements;
        region.position = position;
    }

    /// Whether any region's requirements were recorded.
    pub fn has_requirements(&self) -> bool {
        let mut regions = self.regions.values();
        regions.any(|region| !region.requirements.is_empty())
    }

    /// Appends an op to a region.
    pub fn append(&mut self, region: RegionId, new: NewOp) -> OpId {
        let NewOp {
            op,
            operands,
            result_types,
            regions,
            symbols,
            origin,
        } = new;
        let id = self.ops.push(OpData {
            op,
            operands,
            results: SmallVec::new(),
            regions,
            symbols,
            origin,
        });
        for (index, ty) in result_types.into_iter().enumerate() {
            let value = self.values.push(ValueData {
                ty,
                definition: Definition::Result { op: id, index },
                name: None,
            });
            self.ops[id].results.push(value);
        }
        self.regions[region].ops.push(id);
        id
    }

    /// An op.
    pub fn op(&self, op: OpId) -> &OpData {
        &self.ops[op]
    }

    /// A value.
    pub fn value(&self, value: ValueId) -> &ValueData {
        &self.values[value]
    }

    /// A region.
    pub fn region(&self, region: RegionId) -> &Region {
        &self.regions[region]
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        &self.values[value].ty
    }

    /// The tensor type of a value, if it is a tensor.
    #[inline]
    pub fn tensor_ty(&self, value: ValueId) -> Option<&TensorType> {
        self.values[value].ty.as_tensor()
    }

    /// Replaces the type of a value: for inference, which fills in and refines types.
    pub fn set_ty(&mut self, value: ValueId, ty: Type) {
        self.values[value].ty = ty;
    }

    /// Sets the name of a value.
    pub fn set_value_name(&mut self, value: ValueId, name: Option<&str>) {
        self.values[value].name = name.map(Into::into);
    }

    /// Rewrites every size in types and attributes as simply as the facts allow. Bare symbols are kept, since a symbol
    /// may get its value there.
    pub(crate) fn simplify_sizes(&mut self) {
        let Self {
            dims, values, ops, ..
        } = self;
        let mut simpler = BTreeMap::new();
        let mut simplify = |dim: DimId| {
            if dims.as_symbol(dim).is_some() || dims.as_constant(dim).is_some() {
                return Ok::<DimId, Infallible>(dim);
            }
            // A size that is too large to simplify is kept.
            let simplest = || dims.simplify(dim).unwrap_or(dim);
            Ok(*simpler.entry(dim).or_insert_with(simplest))
        };
        for value in values.values_mut() {
            let Ok(ty) = value.ty.try_map_dims(&mut simplify);
            value.ty = ty;
        }
        for data in ops.values_mut() {
            let Ok(()) = data.op.try_map_dims(&mut simplify);
        }
    }

    /// Whether the ids are those of this graph, so that the accessors do not panic.
    pub fn contains_value(&self, value: ValueId) -> bool {
        self.values.is_valid(value)
    }

    /// Whether the id is of this graph.
    pub fn contains_op(&self, op: OpId) -> bool {
        self.ops.is_valid(op)
    }

    /// Whether the id is of this graph.
    pub fn contains_region(&self, region: RegionId) -> bool {
        self.regions.is_valid(region)
    }

    /// The number of values ever added, including those of dropped regions.
    pub fn n_values(&self) -> usize {
        self.values.len()
    }

    /// The number of ops ever added.
    pub fn n_ops(&self) -> usize {
        self.ops.len()
    }

    /// The number of regions ever added.
    pub fn n_regions(&self) -> usize {
        self.regions.len()
    }

    /// Every op in the order it was added, including those of nested regions.
    pub fn ops(&self) -> impl Iterator<Item = (OpId, &OpData)> {
        self.ops.iter()
    }

    /// The number of uses of each value: as an operand, a region's result or an output.
    pub fn use_counts(&self) -> SecondaryMap<ValueId, u32> {
        let mut counts = SecondaryMap::with_capacity(self.values.len());
        let operands = self.ops.values().flat_map(|op| op.operands.iter());
        let results = self
            .regions
            .values()
            .flat_map(|region| region.results.iter());
        for &value in operands.chain(results) {
            counts[value] += 1;
        }
        counts
    }

    /// Facts about the source program: key and value text, such as a model's author.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// The metadata, to add to.
    pub fn metadata_mut(&mut self) -> &mut BTreeMap<String, String> {
        &mut self.metadata
    }
}
