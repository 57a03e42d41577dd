//! Resizes of several axes whose results are weighted sums of many elements.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, Resize, ResizeMode, TensorType, ValueId};
use kiln_symbolic_shape::Predicate;
use kiln_tensor::DType;

/// Splits a resize by axes, since its weights are products of weights along each axis: 4 x 4 taps become 4 and 4. Sums
/// along the first axis are written in between, so for two taps per axis this is not worth it.
///
/// Shrunk axes come first, outermost first, and leave fewer elements; enlarged ones innermost first: along the contiguous
/// axis each element costs most.
pub(super) fn separate_resize(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Resize(resize), Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let is_wide = match resize.mode {
        ResizeMode::Nearest => false,
        ResizeMode::Linear => resize.antialias,
        ResizeMode::Cubic => true,
    };
    let mut factors = Vec::new();
    for place in 0..resize.axes.len() {
        factors.push((place, factor(site, resize, operand, place)?));
    }
    factors.retain(|(_, factor)| *factor != Factor::Unchanged);
    if !is_wide || factors.len() < 2 {
        return None;
    }
    let &(first, _) = factors
        .iter()
        .find(|(_, factor)| *factor == Factor::Shrunk)
        .or(factors.last())?;
    if !keeps_faults(site, resize, operand, first) {
        return None;
    }
    let original = site.ty().dtype;
    let dtype = match original {
        DType::F16 | DType::BF16 => DType::F32,
        DType::F32 | DType::F64 => original,
        // Rounded once, at the end.
        _ => return None,
    };
    let of_dtype = |ty: &TensorType| TensorType::new(dtype, ty.dims.iter().copied());
    let mut ty = of_dtype(site.tensor(operand)?);
    let operand = match original == dtype {
        true => operand,
        false => site.emit(Op::Cast { to: dtype }, [operand], ty.clone()),
    };
    *ty.dims.get_mut(*resize.axes.get(first)?)? = *resize.sizes.get(first)?;
    let (along_first, along_others) = (
        part(resize, |place| place == first),
        part(resize, |place| place != first),
    );
    let sums = site.emit(Op::Resize(along_first), [operand], ty);
    if original == dtype {
        return Some(Rewrite::op(Op::Resize(along_others), [sums]));
    }
    let result = of_dtype(site.ty());
    let resized = site.emit(Op::Resize(along_others), [sums], result);
    Some(Rewrite::op(Op::Cast { to: original }, [resized]))
}

/// Resampling no elements is a fault, unless the result is empty. Whether the sums along the first axis fault only in
/// that case: the axis has elements, or has none after the resize either, or no other axis becomes empty.
fn keeps_faults(site: &mut Site<'_>, resize: &Resize, operand: ValueId, first: usize) -> bool {
    let one = site.dims_mut().constant(1);
    let sizes = resize.axes.iter().zip(&resize.sizes).enumerate();
    let mut others = sizes.filter(|&(place, _)| place != first);
    if others.all(|(_, (_, &size))| site.proved(&Predicate::LessEqual(one, size))) {
        return true;
    }
    let before = resize
        .axes
        .get(first)
        .and_then(|&axis| site.size(operand, axis));
    let (Some(before), Some(&after)) = (before, resize.sizes.get(first)) else {
        return false;
    };
    let most = resize
        .scales
        .get(first)
        .map_or(1.0, |scale| scale.ceil())
        .max(1.0);
    let most = site.dims_mut().constant(most as i64);
    let is_empty_after = match site.dims_mut().mul(before, most) {
        Ok(grown) => site.proved(&Predicate::LessEqual(after, grown)),
        Err(_) => false,
    };
    is_empty_after || site.proved(&Predicate::LessEqual(one, before))
}

/// The effect of a resize along an axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    Unchanged,
    Shrunk,
    /// The axis is enlarged, or its factor is not known.
    Enlarged,
}

fn factor(site: &Site<'_>, resize: &Resize, operand: ValueId, place: usize) -> Option<Factor> {
    let (axis, &size) = (*resize.axes.get(place)?, resize.sizes.get(place)?);
    let (&scale, before) = (resize.scales.get(place)?, site.size(operand, axis)?);
    let is_stated = scale > 0.0;
    if site.equal(before, size) && (scale == 1.0 || !is_stated) {
        return Some(Factor::Unchanged);
    }
    let constant = |dim| site.dims().as_constant(dim);
    let is_shrunk = match (constant(before), constant(size)) {
        _ if is_stated => scale < 1.0,
        (Some(before), Some(after)) => after < before,
        _ => false,
    };
    Some(if is_shrunk {
        Factor::Shrunk
    } else {
        Factor::Enlarged
    })
}

/// The resize along some of its axes.
fn part(resize: &Resize, is_kept: impl Fn(usize) -> bool) -> Resize {
    let kept = |place: &usize| is_kept(*place);
    let places = (0..resize.axes.len()).filter(kept);
    Resize {
        axes: places.clone().map(|place| resize.axes[place]).collect(),
        sizes: places.clone().map(|place| resize.sizes[place]).collect(),
        scales: places.map(|place| resize.scales[place]).collect(),
        ..resize.clone()
    }
}
