//! Converts blueprints to graphs: [`GraphConverter`].
//!
//! Each kind of node has a row in a table: its name, how many operands and results it has, the function that adds it to a
//! graph, and how it is written as Rust. `primitives` are the ops of the graph, with the attributes of its text form;
//! `composites` are layers, which become several ops.
//!
//! *Invariant:* the meaning of a node is defined once, by its function; sizes stay symbols.

mod attributes;
mod code;
mod composites;
mod node;
mod order;
mod primitives;

pub use order::{Ordering, OrderingMethod};

use crate::blueprint::{Blueprint, BlueprintLimits, Size};
use crate::error::{Problem, ServiceError};
use kiln::internals::ir::{Graph, ValueId};
use kiln::internals::shape_inference::GraphBuilder;
use kiln::internals::symbolic_shape::text::{Cursor, TokenKind, parse_dim, parse_where};
use kiln::internals::symbolic_shape::{DimId, DimTable, SymbolicDimension};
use node::Node;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// A kind of node.
pub struct Kind {
    /// The name in blueprints.
    pub name: &'static str,
    /// How many operands it takes.
    pub operands: RangeInclusive<usize>,
    /// How many results it has.
    pub results: RangeInclusive<usize>,
    /// How it is written as Rust: `{0}` is an operand, `{axis}` an attribute; empty for the general form.
    code: &'static str,
    /// Adds it to a graph.
    build: fn(&mut Node<'_, '_>) -> Built,
}

/// The values that a node computes, or its problem.
type Built = Result<Vec<ValueId>, Problem>;

/// The row of a kind with one result.
const fn row(
    name: &'static str,
    operands: RangeInclusive<usize>,
    code: &'static str,
    build: fn(&mut Node<'_, '_>) -> Built,
) -> Kind {
    Kind {
        name,
        operands,
        results: 1..=1,
        code,
        build,
    }
}

/// The kind of this name.
pub(crate) fn kind(name: &str) -> Option<&'static Kind> {
    let mut known = kinds();
    known.find(|kind| kind.name == name)
}

/// Every kind of node: layers, ops, then scalar functions by name.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    let written = composites::KINDS.iter().chain(primitives::KINDS);
    written.chain(primitives::functions())
}

/// Converts blueprints into graphs.
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphConverter {
    limits: BlueprintLimits,
}

impl GraphConverter {
    /// A converter with these limits.
    pub fn new(limits: BlueprintLimits) -> Self {
        Self { limits }
    }

    /// The graph of a blueprint, its ops in the order that [`order`](Self::order) finds.
    ///
    /// # Errors
    /// E1402 to E1411, with the place in the document.
    ///
    /// ```
    /// use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
    /// use kiln_service::convert::GraphConverter;
    ///
    /// let limits = BlueprintLimits::default();
    /// let mlp = STANDARD.iter().find(|standard| standard.name == "mlp").ok_or("no mlp")?;
    /// let blueprint = Blueprint::from_json(mlp.json, &limits)?;
    /// let graph = GraphConverter::new(limits).convert(&blueprint)?;
    /// assert_eq!(graph.outputs().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn convert(&self, blueprint: &Blueprint) -> Result<Graph, ServiceError> {
        blueprint.validate(&self.limits)?;
        let order = self.ordered(blueprint)?;
        self.build(blueprint, &order.nodes).map(|built| built.graph)
    }

    /// The order of nodes with the lowest peak of live bytes that is found, and that peak.
    ///
    /// # Errors
    /// As [`convert`](Self::convert).
    pub fn order(&self, blueprint: &Blueprint) -> Result<Ordering, ServiceError> {
        blueprint.validate(&self.limits)?;
        self.ordered(blueprint)
    }

    /// Readable Rust that builds the same graph with a `GraphBuilder`.
    ///
    /// # Errors
    /// As [`convert`](Self::convert).
    pub fn builder_code(&self, blueprint: &Blueprint) -> Result<String, ServiceError> {
        blueprint.validate(&self.limits)?;
        let order = self.ordered(blueprint)?;
        self.build(blueprint, &order.nodes)?;
        Ok(code::write(blueprint, &order.nodes))
    }

    fn ordered(&self, blueprint: &Blueprint) -> Result<Ordering, ServiceError> {
        let given = order::topological(blueprint);
        let built = self.build(blueprint, &given)?;
        Ok(order::fewest_live_bytes(blueprint, &built))
    }

    /// Adds the nodes of a valid blueprint in this order.
    fn build(&self, blueprint: &Blueprint, order: &[usize]) -> Result<BuiltGraph, ServiceError> {
        let mut builder = GraphBuilder::new(&blueprint.name);
        declare_symbols(blueprint, builder.dims_mut())?;
        let mut values: HashMap<String, ValueId> = HashMap::new();
        for (index, input) in blueprint.inputs.iter().enumerate() {
            let at = |field: &str| format!("inputs[{index}].{field}");
            let dtype = input.dtype.parse().map_err(|_| {
                let found = input.dtype.escape_debug();
                let message = format!("expected a dtype such as f32, found `{found}`");
                blueprint.placed(Problem::new(Problem::ATTRIBUTE, &at("dtype"), message))
            })?;
            let mut dims = Vec::with_capacity(input.shape.len());
            for (axis, size) in input.shape.iter().enumerate() {
                let dim = read_size(size, builder.dims_mut()).map_err(|message| {
                    let path = format!("inputs[{index}].shape[{axis}]");
                    blueprint.placed(Problem::new(Problem::SIZE, &path, message))
                })?;
                dims.push(dim);
            }
            values.insert(input.name.clone(), builder.input(&input.name, dtype, &dims));
        }
        declare_facts(blueprint, builder.dims_mut())?;
        builder.metadata_mut().extend(blueprint.metadata.clone());
        let mut constant_bytes = self.limits.constant_bytes;
        for &index in order {
            self.add(
                blueprint,
                index,
                &mut builder,
                &mut values,
                &mut constant_bytes,
            )?;
        }
        let outputs: Vec<(&str, ValueId)> = (blueprint.outputs.iter())
            .map(|output| (output.name.as_str(), values[&output.value]))
            .collect();
        let graph = builder.finish(&outputs).map_err(|error| {
            blueprint.placed(Problem::new(Problem::NODE, "outputs", error.to_string()))
        })?;
        Ok(BuiltGraph { graph, values })
    }

    fn add(
        &self,
        blueprint: &Blueprint,
        index: usize,
        builder: &mut GraphBuilder,
        values: &mut HashMap<String, ValueId>,
        constant_bytes: &mut usize,
    ) -> Result<(), ServiceError> {
        let data = &blueprint.nodes[index];
        let Some(kind) = kind(&data.kind) else {
            unreachable!("validation refuses unknown kinds");
        };
        let path = match data.results.first() {
            Some(result) => format!("nodes[{index}] {result}"),
            None => format!("nodes[{index}]"),
        };
        builder.origin(&path.escape_debug().to_string());
        let operands = data.operands.iter().map(|name| values[name]).collect();
        let mut node = Node::new(blueprint, index, builder, operands, constant_bytes);
        let results = (kind.build)(&mut node)?;
        node.refuse_unknown_attributes()?;
        for (name, value) in data.results.iter().zip(results) {
            // An identity node returns its operand, which keeps its name.
            if builder.graph().value(value).name.is_none() {
                builder.name(value, name);
            }
            values.insert(name.clone(), value);
        }
        Ok(())
    }
}

/// A graph, and the value of each name.
struct BuiltGraph {
    graph: Graph,
    values: HashMap<String, ValueId>,
}

fn declare_symbols(blueprint: &Blueprint, dims: &mut DimTable) -> Result<(), ServiceError> {
    for (index, symbol) in blueprint.symbols.iter().enumerate() {
        let described = SymbolicDimension::named(symbol.name.clone())
            .with_constraints(symbol.min.unwrap_or(0), symbol.max)
            .and_then(|dimension| dimension.multiple_of(symbol.multiple_of.unwrap_or(1)))
            .map(|dimension| match symbol.likely {
                Some(likely) => dimension.likely(likely),
                None => dimension,
            });
        let declared = described.and_then(|dimension| dims.declare(dimension));
        declared.map_err(|error| {
            let path = format!("symbols[{index}]");
            blueprint.placed(Problem::new(Problem::SIZE, &path, error.to_string()))
        })?;
    }
    Ok(())
}

fn declare_facts(blueprint: &Blueprint, dims: &mut DimTable) -> Result<(), ServiceError> {
    for (index, fact) in blueprint.facts.iter().enumerate() {
        let text = format!("where {fact}");
        let mut cursor = Cursor::new(&text);
        let read = cursor
            .expect_keyword("where")
            .and_then(|_| parse_where(&mut cursor, dims))
            .and_then(|()| cursor.expect(&TokenKind::End).map(drop));
        read.map_err(|diagnostic| {
            let path = format!("facts[{index}]");
            blueprint.placed(Problem::new(Problem::SIZE, &path, diagnostic.message))
        })?;
    }
    Ok(())
}

/// A size as a dimension of a table.
fn read_size(size: &Size, dims: &mut DimTable) -> Result<DimId, String> {
    let text = match size {
        Size::Fixed(size) => return Ok(dims.constant(*size)),
        Size::Expression(text) => text,
    };
    let mut cursor = Cursor::new(text);
    let read = parse_dim(&mut cursor, dims);
    let read = read.and_then(|dim| cursor.expect(&TokenKind::End).map(|_| dim));
    read.map_err(|diagnostic| diagnostic.message)
}

/// A size expression such as `2*H`, for [builder code](GraphConverter::builder_code).
///
/// # Errors
/// E1410 for anything else.
pub fn size(builder: &mut GraphBuilder, text: &str) -> Result<DimId, ServiceError> {
    let size = Size::Expression(text.to_owned());
    let read = read_size(&size, builder.dims_mut());
    read.map_err(|message| Problem::new(Problem::SIZE, "", message).into())
}

/// Adds a node of any kind, with its attributes as JSON, for [builder code](GraphConverter::builder_code).
///
/// # Errors
/// E1407 for an unknown kind; E1409 to E1411 as [`GraphConverter::convert`].
pub fn add(
    builder: &mut GraphBuilder,
    kind: &str,
    operands: &[ValueId],
    attributes: &str,
) -> Result<Vec<ValueId>, ServiceError> {
    let malformed =
        |error: serde_json::Error| Problem::new(Problem::MALFORMED, "", error.to_string());
    let mut blueprint = Blueprint::default();
    blueprint.nodes.push(crate::blueprint::BlueprintNode {
        kind: kind.to_owned(),
        attributes: serde_json::from_str(attributes).map_err(malformed)?,
        ..Default::default()
    });
    let kind = self::kind(kind).ok_or_else(|| {
        let message = format!("no kind of node is called `{}`", kind.escape_debug());
        Problem::new(Problem::UNKNOWN_KIND, "nodes[0].kind", message)
    })?;
    if !kind.operands.contains(&operands.len()) {
        let message = format!("{} takes another number of operands", kind.name);
        return Err(Problem::new(Problem::COUNT, "nodes[0].operands", message).into());
    }
    let mut bytes = BlueprintLimits::default().constant_bytes;
    let mut node = Node::new(&blueprint, 0, builder, operands.to_vec(), &mut bytes);
    let results = (kind.build)(&mut node)?;
    node.refuse_unknown_attributes()?;
    Ok(results)
}
