//! Contractions and windows: matching operands, strides, groups, padding.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::{
    Coordinates, Dims, NearestRounding, PoolFunction, Resize, ResizeMode, ValueId, Window,
};
use kiln_tensor::DType;

pub(super) fn matmul(scope: &mut Scope<'_, '_>) -> Step {
    let a = scope.find(|ty| ty.dtype != DType::Bool && ty.rank() >= 2)?;
    let (dtype, dims) = (scope.builder.dtype(a)?, scope.builder.shape(a)?);
    let [batch @ .., _, inner] = dims.as_slice() else {
        return Err(Stop::NoOperand);
    };
    // The second operand has the same batch axes, fewer, or sizes of 1 there.
    let dropped = scope.between(0, batch.len())?;
    let mut other: Dims = batch[dropped..].into();
    if !other.is_empty() && scope.one_in(3)? {
        other[0] = scope.builder.size(1);
    }
    let columns = scope.size()?;
    other.extend([*inner, columns]);
    let b = scope.of_type(dtype, &other)?;
    let y = scope.builder.matmul(a, b)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn conv(scope: &mut Scope<'_, '_>) -> Step {
    let (x, dtype, channels) = image(scope, |dtype| dtype != DType::Bool)?;
    let spatial = scope.builder.rank(x)? - 2;
    let groups = scope.pick(&[1, 1, 2, channels])?;
    if groups < 1 || channels % groups != 0 {
        return Err(Stop::NoOperand);
    }
    let (kernel, window) = window(scope, spatial)?;
    let filters = groups * scope.pick(&[1, 2, 3])?;
    let mut weights = vec![filters, channels / groups];
    weights.extend(kernel);
    let weights = weights_of(scope, dtype, &weights)?;
    let y = scope.builder.conv(x, weights, window, groups as usize)?;
    let y = if scope.one_in(2)? {
        follow_up(scope, y, filters)?
    } else {
        y
    };
    scope.keep(y);
    Ok(())
}

pub(super) fn conv_transpose(scope: &mut Scope<'_, '_>) -> Step {
    let (x, dtype, channels) = image(scope, DType::is_float)?;
    let spatial = scope.builder.rank(x)? - 2;
    let groups = scope.pick(&[1, 1, channels])?;
    if groups < 1 || channels % groups != 0 {
        return Err(Stop::NoOperand);
    }
    let (kernel, window) = window(scope, spatial)?;
    let mut output_padding = Dims::new();
    for &stride in &window.strides {
        output_padding.push(match scope.one_in(4)? {
            true => scope.size()?,
            false => scope.builder.size((stride - 1).min(1)),
        });
    }
    let mut weights = vec![channels, scope.pick(&[1, 2])?];
    weights.extend(kernel);
    let weights = weights_of(scope, dtype, &weights)?;
    let y = scope
        .builder
        .conv_transpose(x, weights, window, &output_padding, groups as usize)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn pool(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.find(|ty| ty.dtype != DType::Bool && ty.rank() >= 3)?;
    let spatial = scope.builder.rank(x)? - 2;
    let function = scope.pick(PoolFunction::ALL)?;
    let (size, window) = window(scope, spatial)?;
    let y = scope.builder.pool(x, function, &size, window)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn arg_pool(scope: &mut Scope<'_, '_>) -> Step {
    if scope.options.smooth {
        return Err(Stop::NoOperand);
    }
    let x = scope.find(|ty| ty.dtype != DType::Bool && ty.rank() >= 3)?;
    let spatial = scope.builder.rank(x)? - 2;
    let (size, window) = window(scope, spatial)?;
    let y = scope.builder.arg_pool(x, &size, window)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn resize(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.find(|ty| ty.dtype.is_float() && ty.rank() >= 1)?;
    let smooth = scope.options.smooth;
    let mut axes = vec![scope.axis(x)?];
    let other = scope.axis(x)?;
    if !axes.contains(&other) {
        axes.push(other);
    }
    let (mut sizes, mut scales) = (Dims::new(), Vec::new());
    for &axis in &axes {
        let from = scope.builder.shape(x)?[axis];
        sizes.push(match scope.one_in(2)? {
            true => {
                let two = scope.builder.size(2);
                let dims = scope.builder.dims_mut();
                dims.mul(from, two).map_err(|_| Stop::NoOperand)?
            }
            false => scope.size()?,
        });
        scales.push(scope.pick(&[0.0, 0.0, 2.0])?);
    }
    let mode = if smooth {
        ResizeMode::Linear
    } else {
        scope.pick(ResizeMode::ALL)?
    };
    let resize = Resize {
        axes: axes.into_iter().collect(),
        sizes,
        scales: scales.into_iter().collect(),
        mode,
        coordinates: scope.pick(Coordinates::ALL)?,
        rounding: scope.pick(NearestRounding::ALL)?,
        cubic_coefficient: -0.75,
        exclude_outside: scope.one_in(4)?,
        antialias: scope.one_in(4)?,
    };
    let y = scope.builder.resize(x, resize)?;
    scope.keep(y);
    Ok(())
}

/// A tensor with a batch, a known number of channels and one or two spatial axes.
fn image(
    scope: &mut Scope<'_, '_>,
    fits: fn(DType) -> bool,
) -> Result<(ValueId, DType, i64), Stop> {
    let found = scope.find(|ty| fits(ty.dtype) && (3..=4).contains(&ty.rank()));
    if let Ok(x) = found {
        let (dtype, channels) = (scope.builder.dtype(x)?, scope.builder.shape(x)?[1]);
        if let Some(channels @ 1..=8) = scope.builder.dims().as_constant(channels) {
            return Ok((x, dtype, channels));
        }
    }
    let dtype = Some(scope.dtype()?)
        .filter(|&dtype| fits(dtype))
        .unwrap_or(DType::F32);
    let channels = scope.pick(&[1, 2, 3, 4])?;
    let mut dims: Dims = [scope.size()?, scope.builder.size(channels)]
        .into_iter()
        .collect();
    for _ in 0..scope.between(1, 2)? {
        dims.push(scope.size()?);
    }
    let x = scope.fresh(dtype, &dims)?;
    Ok((x, dtype, channels))
}

/// A kernel's sizes, and a window whose padding is mostly such that the kernel fits.
fn window(scope: &mut Scope<'_, '_>, spatial: usize) -> Result<(Vec<i64>, Window), Stop> {
    let mut rows = [(); 5].map(|()| Vec::with_capacity(spatial));
    for _ in 0..spatial {
        let kernel = scope.pick(&[3_i64, 1, 2])?;
        let dilation = scope.pick(&[1, 1, 2])?;
        let reach = (kernel - 1) * dilation;
        let (low, high) = if scope.one_in(4)? {
            (0, 0)
        } else {
            (reach / 2, reach - reach / 2)
        };
        let stride = scope.pick(&[1, 1, 2, 3])?;
        for (row, value) in rows.iter_mut().zip([kernel, stride, dilation, low, high]) {
            row.push(value);
        }
    }
    let [kernel, strides, dilations, low, high] = rows;
    let window = scope.builder.window(&strides, &dilations, &low, &high);
    Ok((kernel, window))
}

fn weights_of(scope: &mut Scope<'_, '_>, dtype: DType, dims: &[i64]) -> Result<ValueId, Stop> {
    let dims = scope.builder.sizes(dims);
    scope.fresh(dtype, &dims)
}

/// The typical ops after a convolution in models, which freezing folds into it: a scale or a shift per channel.
fn follow_up(scope: &mut Scope<'_, '_>, y: ValueId, filters: i64) -> Result<ValueId, Stop> {
    let (dtype, rank) = (scope.builder.dtype(y)?, scope.builder.rank(y)?);
    let mut sizes = vec![filters];
    sizes.resize(rank - 1, 1);
    let shape: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
    let tensor = scope.random_tensor(dtype, &shape)?;
    let vector = scope.builder.constant(tensor)?;
    let name = scope.pick(&["add", "mul", "sub"])?;
    Ok(scope.builder.map(name, &[y, vector])?)
}
