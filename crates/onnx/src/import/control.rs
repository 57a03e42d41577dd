//! Control flow: `If` and `Loop`, whose bodies become regions, and what `Scan` shares with them.
//!
//! Regions are isolated: what a body reads from around it is passed in, except constants, which are
//! repeated inside, where what they say is known.

use std::cell::RefCell;
use std::collections::HashSet;

use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError, LoopBody};
use kiln_tensor::{DType, Tensor};

use super::captures::captures_of;
use super::context::{NodeContext, Outputs};
use super::graph::{Frame, import_body, origin_of};
use super::item::Item;
use super::names::{Binding, Names};
use super::unroll::unrolled_loop;
use crate::{Error, ModelGraph, Node};

/// An error inside a region's closure: of the builder, or of the import.
pub(super) enum RegionError {
    Infer(InferError),
    Import(Error),
}

impl From<InferError> for RegionError {
    fn from(error: InferError) -> Self {
        Self::Infer(error)
    }
}

impl From<Error> for RegionError {
    fn from(error: Error) -> Self {
        Self::Import(error)
    }
}

/// What bodies read from around them.
pub(super) struct Captures {
    passed: Vec<(String, Item)>,
    constants: Vec<(String, Tensor)>,
    missing: Vec<(String, String)>,
}

impl Captures {
    pub(super) fn of(ctx: &NodeContext<'_>, bodies: &[&ModelGraph]) -> Self {
        let mut captures = Self {
            passed: Vec::new(),
            constants: Vec::new(),
            missing: Vec::new(),
        };
        let mut seen = HashSet::new();
        let names = bodies.iter().flat_map(|body| captures_of(body));
        for name in names.filter(|&name| seen.insert(name)) {
            match ctx.names.get(name) {
                Some(Binding::Value(Item::Tensor(value))) => match ctx.constant(*value) {
                    Some(tensor) => captures.constants.push((name.to_owned(), tensor.clone())),
                    None => captures
                        .passed
                        .push((name.to_owned(), Item::Tensor(*value))),
                },
                Some(Binding::Value(item)) => {
                    captures.passed.push((name.to_owned(), item.clone()));
                }
                Some(Binding::Missing(giver)) => {
                    captures.missing.push((name.to_owned(), giver.clone()));
                }
                // The node that reads it reports it.
                None => {}
            }
        }
        captures
    }

    pub(super) fn values(&self) -> Vec<ValueId> {
        let items = self.passed.iter();
        items.flat_map(|(_, item)| item.values()).collect()
    }

    /// The names inside a region that got `parameters` for the captures.
    pub(super) fn names(
        &self,
        builder: &mut GraphBuilder,
        parameters: &[ValueId],
    ) -> Result<Names, RegionError> {
        let mut names = Names::default();
        let mut parameters = parameters.iter().copied();
        for (name, item) in &self.passed {
            names.bind(name, Binding::Value(item.with_values(&mut parameters)));
        }
        for (name, tensor) in &self.constants {
            let value = builder.constant(tensor.clone())?;
            names.bind(name, Binding::Value(Item::Tensor(value)));
        }
        for (name, giver) in &self.missing {
            names.bind(name, Binding::Missing(giver.clone()));
        }
        Ok(names)
    }
}

/// Imports a body into the open region; `origin` is the control node's.
pub(super) fn import_region(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    body: &ModelGraph,
    mut names: Names,
    origin: &str,
) -> Result<Vec<Item>, RegionError> {
    let results = import_body(frame, builder, body, &mut names)?;
    builder.origin(origin);
    Ok(results)
}

/// Binds a body's input, whatever else its name stands for outside.
pub(super) fn bind_input(names: &mut Names, body: &ModelGraph, index: usize, value: ValueId) {
    if let Some(input) = body.inputs().get(index) {
        names.bind(&input.name, Binding::Value(Item::Tensor(value)));
    }
}

impl NodeContext<'_> {
    pub(super) fn placed<T>(&self, result: Result<T, RegionError>) -> Result<T, Error> {
        match result {
            Ok(value) => Ok(value),
            Err(RegionError::Infer(error)) => self.at(Err(error)),
            Err(RegionError::Import(error)) => Err(error),
        }
    }

    pub(super) fn expect_inputs(&self, body: &ModelGraph, expected: usize) -> Result<(), Error> {
        let found = body.inputs().len();
        if found == expected {
            return Ok(());
        }
        let expected = format!("a body of {expected} inputs, as the node's operands ask");
        Err(self.attribute_error("body", expected, found))
    }

    pub(super) fn expect_outputs(&self, body: &ModelGraph, at_least: usize) -> Result<(), Error> {
        let found = body.outputs().len();
        if found >= at_least {
            return Ok(());
        }
        let expected = format!("a body of {at_least} outputs or more");
        Err(self.attribute_error("body", expected, found))
    }
}

/// `If`: a condition that is known takes its branch at once.
pub(crate) fn import_if(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let condition = ctx.input(0)?;
    let condition = ctx.build(|builder| builder.reshape(condition, &[]))?;
    let then = ctx.attributes().require::<&ModelGraph>("then_branch")?;
    let otherwise = ctx.attributes().require::<&ModelGraph>("else_branch")?;
    let known = ctx.constant_integers(condition).is_some();
    let captures = Captures::of(ctx, &[then, otherwise]);
    let origin = origin_of(ctx.frame, ctx.node);
    let frame = ctx.frame.within_region(!known);
    // What each branch gives, as far as that is more than tensors.
    let forms: RefCell<Vec<Vec<Item>>> = RefCell::default();
    let import = |body| {
        let (frame, captures, origin, forms) = (&frame, &captures, &origin, &forms);
        move |builder: &mut GraphBuilder, parameters: &[ValueId]| {
            let names = captures.names(builder, parameters)?;
            let items = import_region(frame, builder, body, names, origin)?;
            let values = items.iter().flat_map(Item::values).collect();
            forms.borrow_mut().push(items);
            Ok::<_, RegionError>(values)
        }
    };
    let values = captures.values();
    let results = ctx
        .builder
        .if_else(condition, &values, import(then), import(otherwise));
    let results = ctx.placed(results)?;
    let forms = forms.into_inner();
    let Some((first, others)) = forms.split_first() else {
        return Ok(results.into_iter().map(Item::Tensor).collect());
    };
    let alike = |other: &Vec<Item>| {
        other.len() == first.len() && other.iter().zip(first).all(|(a, b)| a.is_like(b))
    };
    if !others.iter().all(alike) {
        let what =
            "branches that give values of different kinds, where only the data say which is taken";
        return Err(ctx.unsupported(what));
    }
    let mut results = results.into_iter();
    let items = first.iter().map(|item| item.with_values(&mut results));
    Ok(items.collect())
}

/// `Loop`: without a trip count it goes on until the condition is false, without a condition until
/// the trip count is reached.
pub(crate) fn import_loop(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let body = ctx.attributes().require::<&ModelGraph>("body")?;
    let n_carried = ctx.node.inputs().len().saturating_sub(2);
    ctx.expect_inputs(body, n_carried + 2)?;
    ctx.expect_outputs(body, n_carried + 1)?;
    let is_tensor = |index: usize| matches!(ctx.item(index + 2), None | Some(Item::Tensor(_)));
    if !(0..n_carried).all(is_tensor) {
        return unrolled_loop(ctx, body);
    }
    let (trips, condition) = (ctx.optional(0), ctx.optional(1));
    let trips = match trips {
        Some(trips) => ctx.build(|builder| builder.reshape(trips, &[]))?,
        None => ctx.add_constant(Tensor::scalar(i64::MAX))?,
    };
    let is_conditional = condition.is_some();
    let condition = match condition {
        Some(condition) => ctx.build(|builder| builder.reshape(condition, &[]))?,
        None => ctx.build(|builder| builder.scalar(DType::Bool, 1.0))?,
    };
    let carried = (0..n_carried).map(|index| ctx.input(index + 2));
    let carried = carried.collect::<Result<Vec<_>, _>>()?;
    let captures = Captures::of(ctx, &[body]);
    let origin = origin_of(ctx.frame, ctx.node);
    let frame = ctx.frame.within_region(true);
    let values = captures.values();
    let path = ctx.node;
    let results = ctx.builder.loop_(
        trips,
        condition,
        &carried,
        &values,
        |builder, iteration, carried, captured| {
            let mut names = captures.names(builder, captured)?;
            bind_input(&mut names, body, 0, iteration);
            // An iteration runs only while the condition is true.
            let always = builder.scalar(DType::Bool, 1.0)?;
            bind_input(&mut names, body, 1, always);
            for (index, &value) in carried.iter().enumerate() {
                bind_input(&mut names, body, index + 2, value);
            }
            let results = import_region(&frame, builder, body, names, &origin)?;
            let mut results = tensors(path, results)?.into_iter();
            let condition = match results.next() {
                Some(condition) if is_conditional => builder.reshape(condition, &[])?,
                _ => always,
            };
            Ok(LoopBody {
                condition,
                carried: results.by_ref().take(n_carried).collect(),
                stacked: results.collect(),
            })
        },
    );
    let results = ctx.placed(results)?;
    Ok(results.into_iter().map(Item::Tensor).collect())
}

/// What a body gives, if it is nothing but tensors.
pub(super) fn tensors(node: &Node, items: Vec<Item>) -> Result<Vec<ValueId>, RegionError> {
    let tensor = |item: Item| match item {
        Item::Tensor(value) => Ok(value),
        other => Err(RegionError::Import(Error::Unsupported {
            node: node.path(),
            what: format!("a body that gives {}", other.kind()),
        })),
    };
    items.into_iter().map(tensor).collect()
}
