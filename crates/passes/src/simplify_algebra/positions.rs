//! Integer tensors whose elements are sums of positions times sizes.
//!
//! `iota * S + iota` is the position in row-major order of each element of `[B, S]`; a gather with these indices is the
//! identity. Exporters write attention masks like this.

use crate::constants::{Splat, splat};
use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

/// The maximum number of ops through which indices are traced.
const DEPTH_LIMIT: usize = 12;

/// Elements `offset + sum of factors[axis] * position[axis]`.
struct Affine {
    offset: DimId,
    factors: Vec<DimId>,
}

/// A gather of every position in order is a reshape.
pub(super) fn gather_to_reshape(site: &mut Site<'_>) -> Option<Rewrite> {
    let (&Op::Gather { axis }, &[x, indices]) = (site.op(), site.operands()) else {
        return None;
    };
    let all = site.size(x, axis)?;
    let affine = affine(site, indices, DEPTH_LIMIT)?;
    let mut stride = site.dims_mut().constant(1);
    for (&size, &factor) in site.dims_of(indices)?.iter().zip(&affine.factors).rev() {
        if site.is(size, 1) {
            continue;
        }
        if !site.equal(factor, stride) {
            return None;
        }
        stride = site.dims_mut().mul(stride, size).ok()?;
    }
    let in_order = site.is(affine.offset, 0) && site.equal(stride, all);
    in_order.then(|| {
        Rewrite::op(
            Op::Reshape {
                dims: site.ty().dims.clone(),
            },
            [x],
        )
    })
}

/// The elements of an i64 value as a sum over its axes. Recursion is bounded by `depth`.
fn affine(site: &mut Site<'_>, value: ValueId, depth: usize) -> Option<Affine> {
    let depth = depth.checked_sub(1)?;
    let ty = site.tensor(value)?.clone();
    if ty.dtype != DType::I64 {
        return None;
    }
    let zero = site.dims_mut().constant(0);
    let single = |offset| Affine {
        offset,
        factors: vec![zero; ty.rank()],
    };
    let (op, operands) = site
        .definition(value)
        .map(|data| (data.op.clone(), data.operands.clone()))?;
    match (op, operands.as_slice()) {
        (Op::Iota { axis, .. }, []) => {
            let mut counting = single(zero);
            *counting.factors.get_mut(axis)? = site.dims_mut().constant(1);
            Some(counting)
        }
        (Op::Dims { sizes }, []) => match sizes.as_slice() {
            &[only] => Some(single(only)),
            _ => None,
        },
        (Op::Constant(constant), []) => match splat(&constant.tensor())? {
            Splat::Integer(number) => {
                let number = i64::try_from(number).ok()?;
                Some(single(site.dims_mut().constant(number)))
            }
            _ => None,
        },
        (Op::Reshape { .. }, &[source]) => reshaped(site, source, &ty.dims, depth),
        (Op::Broadcast { .. }, &[source]) => broadcast(site, source, &ty.dims, depth),
        (Op::Map { function, .. }, &[left, right]) => {
            let left = broadcast(site, left, &ty.dims, depth)?;
            let right = broadcast(site, right, &ty.dims, depth)?;
            match function.name() {
                "add" => sum(site, &left, &right),
                "mul" if is_single(site, &left) => scaled(site, &right, left.offset),
                "mul" if is_single(site, &right) => scaled(site, &left, right.offset),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Axes of size 1 are added and removed; the others keep their order.
fn reshaped(site: &mut Site<'_>, source: ValueId, to: &[DimId], depth: usize) -> Option<Affine> {
    let from = site.dims_of(source)?;
    let affine = affine(site, source, depth)?;
    let zero = site.dims_mut().constant(0);
    let mut kept = from
        .iter()
        .zip(&affine.factors)
        .filter(|&(&size, _)| !site.is(size, 1));
    let mut factors = Vec::with_capacity(to.len());
    for &size in to {
        factors.push(if site.is(size, 1) {
            zero
        } else {
            let (&before, &factor) = kept.next()?;
            site.equal(before, size).then_some(factor)?
        });
    }
    kept.next().is_none().then_some(Affine {
        offset: affine.offset,
        factors,
    })
}

/// A position on an axis of size 1 is always 0.
fn broadcast(site: &mut Site<'_>, source: ValueId, to: &[DimId], depth: usize) -> Option<Affine> {
    let from = site.dims_of(source)?;
    let affine = affine(site, source, depth)?;
    let zero = site.dims_mut().constant(0);
    let front = to.len().checked_sub(from.len())?;
    let mut factors = vec![zero; front];
    for ((&before, &after), &factor) in from.iter().zip(to.get(front..)?).zip(&affine.factors) {
        factors.push(if site.is(before, 1) {
            zero
        } else {
            site.equal(before, after).then_some(factor)?
        });
    }
    Some(Affine {
        offset: affine.offset,
        factors,
    })
}

fn is_single(site: &Site<'_>, affine: &Affine) -> bool {
    affine.factors.iter().all(|&factor| site.is(factor, 0))
}

fn sum(site: &mut Site<'_>, left: &Affine, right: &Affine) -> Option<Affine> {
    let dims = site.dims_mut();
    let offset = dims.add(left.offset, right.offset).ok()?;
    let factors = left
        .factors
        .iter()
        .zip(&right.factors)
        .map(|(&a, &b)| dims.add(a, b).ok());
    Some(Affine {
        offset,
        factors: factors.collect::<Option<_>>()?,
    })
}

fn scaled(site: &mut Site<'_>, affine: &Affine, by: DimId) -> Option<Affine> {
    let dims = site.dims_mut();
    let offset = dims.mul(affine.offset, by).ok()?;
    let factors = affine
        .factors
        .iter()
        .map(|&factor| dims.mul(factor, by).ok());
    Some(Affine {
        offset,
        factors: factors.collect::<Option<_>>()?,
    })
}
