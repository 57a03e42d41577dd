//! Element-wise ops: any scalar function that accepts the operands' dtypes, with all kinds of broadcasts.
//!
//! All except `pow` of floats: passes may round it differently from the function, and preserve everything else bit for bit.

use super::Stop;
use super::scope::{Scope, Step};
use kiln_ir::{Dims, ValueId};
use kiln_scalar::Function;
use kiln_tensor::DType;

/// Continuous functions, with a slope of at most a few times their operands' range.
const SMOOTH: &[&str] = &[
    "add",
    "sub",
    "mul",
    "min",
    "max",
    "neg",
    "abs",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
    "silu",
    "gelu",
    "leaky_relu",
    "softplus",
    "sin",
    "cos",
    "atan",
    "identity",
    "square",
    "hard_swish",
];

pub(super) fn unary(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let dtype = scope.builder.dtype(x)?;
    let function = function(scope, &[dtype])?;
    let y = scope.builder.map(function.name(), &[x])?;
    scope.keep(y);
    Ok(())
}

pub(super) fn binary(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.any()?;
    let dtype = scope.builder.dtype(x)?;
    let function = function(scope, &[dtype, dtype])?;
    let mut other = partner(scope, x)?;
    let divides = ["div", "floor_div", "rem", "floor_mod", "pow"].contains(&function.name());
    if dtype.is_integer() && divides && !scope.one_in(8)? {
        // At least 1, so that nothing is divided by zero.
        let one = scope.scalar(dtype, 1.0)?;
        let magnitude = scope.builder.abs(other)?;
        other = scope.builder.max(magnitude, one)?;
    }
    let operands = if scope.one_in(4)? && !divides {
        [other, x]
    } else {
        [x, other]
    };
    let y = scope.builder.map(function.name(), &operands)?;
    scope.keep(y);
    Ok(())
}

/// A constant that an algebraic rule may match: 0, 1, -0, 2, a half.
pub(super) fn with_special_constant(scope: &mut Scope<'_, '_>) -> Step {
    let x = scope.number()?;
    let dtype = scope.builder.dtype(x)?;
    let value = scope.pick(&[0.0, 1.0, -0.0, 2.0, 0.5, -1.0])?;
    let constant = scope.scalar(dtype, value)?;
    let names = ["add", "sub", "mul", "div", "min", "max", "eq", "lt", "pow"];
    let name = scope.pick(&names[..if dtype.is_float() { 8 } else { 9 }])?;
    let zero_divisor = dtype.is_integer() && value.abs() < 1.0;
    if (scope.options.smooth && !SMOOTH.contains(&name)) || (zero_divisor && name == "div") {
        return Err(Stop::NoOperand);
    }
    let flip = scope.one_in(3)? && !["div", "pow"].contains(&name);
    let operands = if flip { [constant, x] } else { [x, constant] };
    let y = scope.builder.map(name, &operands)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn select(scope: &mut Scope<'_, '_>) -> Step {
    let a = scope.any()?;
    let b = partner(scope, a)?;
    let dims = scope.builder.shape(a)?;
    let condition = scope.of_type(DType::Bool, &dims)?;
    let y = scope.builder.select(condition, a, b)?;
    scope.keep(y);
    Ok(())
}

pub(super) fn cast(scope: &mut Scope<'_, '_>) -> Step {
    if scope.options.smooth {
        return Err(Stop::NoOperand);
    }
    let x = scope.any()?;
    let to = scope.pick(&DType::ALL)?;
    let y = scope.builder.cast(x, to)?;
    let y = if scope.one_in(3)? {
        let back = scope.builder.dtype(x)?;
        scope.builder.cast(y, back)?
    } else {
        y
    };
    scope.keep(y);
    Ok(())
}

/// A function that takes operands of these dtypes.
fn function(scope: &mut Scope<'_, '_>, dtypes: &[DType]) -> Result<Function, Stop> {
    let smooth = scope.options.smooth;
    let fitting: Vec<Function> = Function::all()
        .filter(|function| function.arity() == dtypes.len())
        .filter(|function| !smooth || SMOOTH.contains(&function.name()))
        .filter(|function| {
            function.name() != "pow" || dtypes.iter().all(|dtype| dtype.is_integer())
        })
        .filter(|function| function.result_type(dtypes).is_ok())
        .collect();
    // Plain arithmetic half of the time: there are many more activations than sums in the table.
    let plain: Vec<Function> = ["add", "sub", "mul", "neg", "and", "not"]
        .into_iter()
        .filter_map(Function::by_name)
        .filter(|function| fitting.contains(function))
        .collect();
    let among = if !plain.is_empty() && scope.one_in(2)? {
        &plain
    } else {
        &fitting
    };
    scope.pick(among)
}

/// A second operand that broadcasts with `x`: of its shape, with axes of size 1 or without outer axes.
fn partner(scope: &mut Scope<'_, '_>, x: ValueId) -> Result<ValueId, Stop> {
    let (dtype, dims) = (scope.builder.dtype(x)?, scope.builder.shape(x)?);
    if scope.one_in(12)? {
        // Whether they broadcast is then decided by inference, or at run time.
        return scope.find(|ty| ty.dtype == dtype);
    }
    if scope.one_in(8)? {
        return Ok(x);
    }
    let one = scope.builder.size(1);
    let mut other: Dims = dims;
    let kind = scope.between(0, 4)?;
    match kind {
        0 if !other.is_empty() => {
            let axis = scope.between(0, other.len() - 1)?;
            other[axis] = one;
        }
        1 if !other.is_empty() => {
            let dropped = scope.between(1, other.len())?;
            other.drain(..dropped);
        }
        2 if other.len() < 4 => {
            let size = scope.size()?;
            other.insert(0, size);
        }
        _ => {}
    }
    scope.of_type(dtype, &other)
}
