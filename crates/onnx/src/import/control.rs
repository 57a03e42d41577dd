//! Control flow: `If` and `Loop`, whose bodies become regions, and code shared with `Scan`.
//!
//! Branches that differ in rank, dtype or kind have no region: the caller determines which is taken (see
//! [`questions`](super::questions)), and that branch is imported in place.
//!
//! Regions are isolated: outside values that a body reads are passed in, except constants, which are duplicated inside
//! so that they are known there.

use std::cell::RefCell;
use std::collections::HashSet;

use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError, InferErrorKind, LoopBody};
use kiln_tensor::{DType, Tensor};

use super::captures::captures_of;
use super::context::{NodeContext, Outputs};
use super::graph::{Frame, import_body, origin_of};
use super::item::{Item, Stacked};
use super::names::{Binding, Names};
use super::questions::Place;
use super::unroll::{Trips, unrolled_loop};
use crate::{Error, ModelGraph, ModelNode};

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

/// The outside values that bodies read.
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
                    Some(tensor) => captures.constants.push((name.to_owned(), tensor)),
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
                // The node that reads it reports the error.
                None => {}
            }
        }
        captures
    }

    pub(super) fn values(&self) -> Vec<ValueId> {
        let items = self.passed.iter();
        items.flat_map(|(_, item)| item.values()).collect()
    }

    /// The names inside a region whose captures are `parameters`.
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

/// Binds a body's input, shadowing any outside meaning of its name.
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
        let expected = format!("a body of {expected} inputs, as the node's operands require");
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

/// `If`: if the condition is known, or the caller answered it, its branch is imported directly.
pub(crate) fn import_if(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let condition = ctx.input(0)?;
    let condition = ctx.build(|builder| builder.reshape(condition, &[]))?;
    let then = ctx.attributes().require::<&ModelGraph>("then_branch")?;
    let otherwise = ctx.attributes().require::<&ModelGraph>("else_branch")?;
    if let Some(&[known]) = ctx.constant_integers(condition).as_deref() {
        return import_taken(ctx, if known != 0 { then } else { otherwise });
    }
    let place = ctx.place(condition);
    match ctx.answer(place)? {
        Some(answer) => import_taken(ctx, if answer != 0 { then } else { otherwise }),
        None => import_both(ctx, place, condition, [then, otherwise]),
    }
}

/// The taken branch, in place.
fn import_taken(ctx: &mut NodeContext<'_>, body: &ModelGraph) -> Result<Outputs, Error> {
    let captures = Captures::of(ctx, &[body]);
    let origin = origin_of(ctx.frame, ctx.node);
    let names = captures.names(ctx.builder, &captures.values());
    let names = ctx.placed(names)?;
    let items = import_region(ctx.frame, ctx.builder, body, names, &origin);
    Ok(ctx.placed(items)?.into())
}

/// Both branches, as regions.
fn import_both(
    ctx: &mut NodeContext<'_>,
    place: Place,
    condition: ValueId,
    [then, otherwise]: [&ModelGraph; 2],
) -> Result<Outputs, Error> {
    let captures = Captures::of(ctx, &[then, otherwise]);
    let origin = origin_of(ctx.frame, ctx.node);
    let frame = ctx.frame.within_region(true);
    // The results of each branch, if they are more than tensors.
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
    let forms = forms.into_inner();
    let are_alike = match forms.as_slice() {
        [one, other] => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.is_like(b))
        }
        _ => true,
    };
    if !are_alike {
        let what =
            "branches that return values of different kinds, where data decide which is taken";
        return Err(ctx.left_open(place, ctx.unsupported(what)));
    }
    // Branches that differ, here or in a nested `If`.
    let is_open = match &results {
        Err(RegionError::Infer(error)) => matches!(*error.kind, InferErrorKind::Region { .. }),
        Err(RegionError::Import(_)) => ctx.is_unanswered_inside(),
        Ok(_) => false,
    };
    let results = match ctx.placed(results) {
        Err(error) if is_open => return Err(ctx.left_open(place, error)),
        results => results?,
    };
    let Some(form) = forms.first() else {
        return Ok(results.into_iter().map(Item::Tensor).collect());
    };
    let mut results = results.into_iter();
    let items = form.iter().map(|item| item.with_values(&mut results));
    Ok(items.collect())
}

/// `Loop`: without a trip count it continues until the condition is false, without a condition until
/// the trip count is reached.
pub(crate) fn import_loop(ctx: &mut NodeContext<'_>) -> Result<Outputs, Error> {
    let body = ctx.attributes().require::<&ModelGraph>("body")?;
    let n_carried = ctx.node.inputs().len().saturating_sub(2);
    ctx.expect_inputs(body, n_carried + 2)?;
    ctx.expect_outputs(body, n_carried + 1)?;
    let carried: Vec<Item> = (0..n_carried)
        .map(|index| ctx.item(index + 2).cloned().unwrap_or(Item::Nothing))
        .collect();
    let is_tensor = |item: &Item| matches!(item, Item::Tensor(_) | Item::Nothing);
    if carried.iter().all(is_tensor) {
        return loop_of_regions(ctx, body, None);
    }
    match ctx.trips_to_write_out(body, &carried)? {
        Trips::Known(trips) => unrolled_loop(ctx, body, carried, trips),
        Trips::Stacked(place) => loop_of_regions(ctx, body, Some(place)),
    }
}

/// A loop whose body is a region. Sequences, to which it appends one entry per iteration, are returned stacked; `place`
/// is where a question about their length may be asked.
fn loop_of_regions(
    ctx: &mut NodeContext<'_>,
    body: &ModelGraph,
    place: Option<Place>,
) -> Result<Outputs, Error> {
    let n_carried = ctx.node.inputs().len().saturating_sub(2);
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
    let is_sequence = |index: usize| matches!(ctx.item(index + 2), Some(Item::Sequence(_)));
    let is_sequence: Vec<bool> = (0..n_carried).map(is_sequence).collect();
    let carried = (0..n_carried).filter(|&index| !is_sequence[index]);
    let carried = carried.map(|index| ctx.input(index + 2));
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
            let mut carried = carried.iter();
            for (index, &is_sequence) in is_sequence.iter().enumerate() {
                // A body that appends to an empty sequence yields the appended entry.
                let item = match carried.as_slice().first() {
                    Some(&value) if !is_sequence => {
                        carried.next();
                        Item::Tensor(value)
                    }
                    _ => Item::Sequence([].into()),
                };
                if let Some(input) = body.inputs().get(index + 2) {
                    names.bind(&input.name, Binding::Value(item));
                }
            }
            let results = import_region(&frame, builder, body, names, &origin)?;
            let results = results.into_iter().map(appended).collect();
            let mut results = tensors(path, results)?.into_iter();
            let condition = match results.next() {
                Some(condition) if is_conditional => builder.reshape(condition, &[])?,
                _ => always,
            };
            let (mut next, mut stacked) = (Vec::new(), Vec::new());
            for (&is_sequence, value) in is_sequence.iter().zip(results.by_ref()) {
                match is_sequence {
                    false => next.push(value),
                    true => stacked.push(value),
                }
            }
            stacked.extend(results);
            Ok(LoopBody {
                condition,
                carried: next,
                stacked,
            })
        },
    );
    let results = ctx.placed(results)?;
    let (carried, stacked) = results.split_at(carried.len().min(results.len()));
    let (mut carried, mut stacked) = (carried.iter(), stacked.iter());
    let mut outputs = Outputs::new();
    for &is_sequence in &is_sequence {
        let item = match (is_sequence, place) {
            (true, Some(place)) => stacked
                .next()
                .map(|&value| Item::Stacked(Stacked { value, place })),
            _ => carried.next().map(|&value| Item::Tensor(value)),
        };
        outputs.extend(item);
    }
    outputs.extend(stacked.map(|&value| Item::Tensor(value)));
    if let Some(place) = place {
        ctx.check_entries(place, &outputs)?;
    }
    Ok(outputs)
}

/// The entries appended to an empty sequence.
fn appended(item: Item) -> Item {
    match &item {
        Item::Sequence(entries) => match &**entries {
            [entry] => entry.clone(),
            _ => item,
        },
        _ => item,
    }
}

/// The results of a body, if they are only tensors.
pub(super) fn tensors(node: &ModelNode, items: Vec<Item>) -> Result<Vec<ValueId>, RegionError> {
    let tensor = |item: Item| match item {
        Item::Tensor(value) => Ok(value),
        other => Err(RegionError::Import(Error::Unsupported {
            node: node.path(),
            what: format!("a body that returns {}", other.kind()),
        })),
    };
    items.into_iter().map(tensor).collect()
}
