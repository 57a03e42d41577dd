//! Control flow: regions filled from separate choices, so that a body can be built twice identically.

use super::scope::{Scope, Step};
use super::{GraphOptions, Stop};
use arbitrary::Unstructured;
use kiln_ir::{ReduceFunction, TensorType, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, LoopBody};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

/// The maximum nesting of regions.
const DEPTH_LIMIT: usize = 3;

/// The maximum number of ops that one region may try.
const REGION_OPS: usize = 5;

/// The number of bytes of choices of a region.
const REGION_BYTES: usize = 192;

pub(super) fn if_else(scope: &mut Scope<'_, '_>) -> Step {
    expect_room(scope)?;
    let condition = condition(scope)?;
    let captures = captures(scope)?;
    let (then, otherwise) = (region_bytes(scope)?, region_bytes(scope)?);
    let model: TensorType = {
        let index = scope.between(0, captures.len() - 1)?;
        scope.builder.tensor(captures[index])?
    };
    let around = Around::of(scope);
    let before = scope.builder.clone();
    let results = scope.builder.if_else::<Stop>(
        condition,
        &captures,
        |builder, values| around.branch(builder, then, values, &model),
        |builder, values| around.branch(builder, otherwise, values, &model),
    );
    finish(scope, before, results)
}

pub(super) fn repeat(scope: &mut Scope<'_, '_>) -> Step {
    expect_room(scope)?;
    let trips = if scope.one_in(2)? {
        let raw = scope.of_type(DType::I64, &[])?;
        let three = scope.scalar(DType::I64, 3.0)?;
        scope.builder.min(raw, three)?
    } else {
        let trips = scope.between(0, 3)?;
        scope.scalar(DType::I64, trips as f64)?
    };
    let go = if scope.one_in(4)? {
        condition(scope)?
    } else {
        scope.scalar(DType::Bool, 1.0)?
    };
    let captures = captures(scope)?;
    let mut carried = Vec::new();
    for _ in 0..scope.between(0, 2)? {
        carried.push(scope.any()?);
    }
    let bytes = region_bytes(scope)?;
    let around = Around::of(scope);
    let before = scope.builder.clone();
    let results = scope.builder.loop_::<Stop>(
        trips,
        go,
        &carried,
        &captures,
        |builder, iteration, carried, captures| {
            around.iterate(builder, bytes, iteration, carried, captures)
        },
    );
    finish(scope, before, results)
}

/// Keeps the results, or restores the previous state.
fn finish(
    scope: &mut Scope<'_, '_>,
    before: GraphBuilder,
    results: Result<Vec<ValueId>, Stop>,
) -> Step {
    match results {
        Ok(results) => {
            for result in results {
                let dims = scope.builder.shape(result)?;
                let known = |&dim: &DimId| scope.builder.dims().as_symbol(dim).is_some();
                let new: Vec<DimId> = dims.into_iter().filter(known).collect();
                scope.sizes.extend(new);
                scope.keep(result);
            }
            Ok(())
        }
        Err(stop) => {
            *scope.builder = before;
            Err(stop)
        }
    }
}

fn expect_room(scope: &Scope<'_, '_>) -> Step {
    if scope.depth < DEPTH_LIMIT {
        Ok(())
    } else {
        Err(Stop::NoOperand)
    }
}

/// A bool from data.
fn condition(scope: &mut Scope<'_, '_>) -> Result<ValueId, Stop> {
    if scope.one_in(3)? {
        return scope.of_type(DType::Bool, &[]);
    }
    let x = scope.number()?;
    let zero = scope.builder.dtype(x)?;
    let zero = scope.scalar(zero, 0.0)?;
    let positive = scope.builder.greater(x, zero)?;
    let axes: Vec<usize> = (0..scope.builder.rank(x)?).collect();
    Ok(scope
        .builder
        .reduce(positive, ReduceFunction::Any, &axes, false)?)
}

fn captures(scope: &mut Scope<'_, '_>) -> Result<Vec<ValueId>, Stop> {
    (0..scope.between(1, 3)?).map(|_| scope.any()).collect()
}

fn region_bytes<'b>(scope: &mut Scope<'_, 'b>) -> Result<&'b [u8], Stop> {
    let length = scope.choices.len().min(REGION_BYTES);
    Ok(scope.choices.bytes(length)?)
}

/// The shared state of the regions of an op.
struct Around<'a> {
    options: &'a GraphOptions,
    sizes: Vec<DimId>,
    depth: usize,
}

impl<'a> Around<'a> {
    fn of(scope: &Scope<'a, '_>) -> Self {
        Self {
            options: scope.options,
            sizes: scope.sizes.clone(),
            depth: scope.depth + 1,
        }
    }

    /// A branch: one or two results with the model's dtype and rank, and any sizes.
    fn branch(
        &self,
        builder: &mut GraphBuilder,
        bytes: &[u8],
        values: &[ValueId],
        model: &TensorType,
    ) -> Result<Vec<ValueId>, Stop> {
        let mut choices = Unstructured::new(bytes);
        let mut scope = Scope::region(
            &mut choices,
            builder,
            self.options,
            values,
            &self.sizes,
            self.depth,
        );
        let n_ops = scope.between(0, REGION_OPS)?;
        scope.take_steps(n_ops)?;
        let alike = |ty: &TensorType| ty.dtype == model.dtype && ty.rank() == model.rank();
        Ok(vec![scope.find(alike)?, scope.find(alike)?])
    }

    fn iterate(
        &self,
        builder: &mut GraphBuilder,
        bytes: &[u8],
        iteration: ValueId,
        carried: &[ValueId],
        captures: &[ValueId],
    ) -> Result<LoopBody, Stop> {
        let mut choices = Unstructured::new(bytes);
        let values = [&[iteration], carried, captures].concat();
        let mut scope = Scope::region(
            &mut choices,
            builder,
            self.options,
            &values,
            &self.sizes,
            self.depth,
        );
        let n_ops = scope.between(0, REGION_OPS)?;
        scope.take_steps(n_ops)?;
        let mut next = Vec::with_capacity(carried.len());
        for &value in carried {
            let Type::Tensor(model) = scope.builder.ty(value).clone() else {
                return Err(Stop::NoOperand);
            };
            // Mostly of the same sizes; otherwise the loop changes a size.
            let exactly = !scope.one_in(4)?;
            next.push(scope.find(|ty| {
                ty.dtype == model.dtype
                    && ty.rank() == model.rank()
                    && (!exactly || ty.dims == model.dims)
            })?);
        }
        let condition = if scope.one_in(3)? {
            let limit = scope.scalar(DType::I64, 1.0)?;
            scope.builder.less(iteration, limit)?
        } else {
            scope.scalar(DType::Bool, 1.0)?
        };
        let stacked = if scope.one_in(2)? {
            vec![scope.any()?]
        } else {
            Vec::new()
        };
        Ok(LoopBody {
            condition,
            carried: next,
            stacked,
        })
    }
}
