//! Element-wise functions, whose operands are broadcast against each other.

use super::Var;
use crate::size::Size;
use kiln_shape_inference::Number;
use kiln_tensor::{DType, Tensor};

/// An operand of a variable: another one, a constant tensor, or a number or a size, which takes the variable's element type.
pub trait Operand {
    /// Converts it to a variable of the recording of `beside`.
    fn into_variable(self, beside: &Var) -> Var;
}

impl Operand for Var {
    fn into_variable(self, _beside: &Var) -> Var {
        self
    }
}

impl Operand for &Var {
    fn into_variable(self, _beside: &Var) -> Var {
        self.clone()
    }
}

impl Operand for &Tensor {
    /// The tensor as a constant.
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.constant(self)
    }
}

impl Operand for f64 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.scalar(self)
    }
}

impl Operand for f32 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.scalar(self.into())
    }
}

impl Operand for i64 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.number(Number::Integer(self))
    }
}

impl Operand for i32 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.number(Number::Integer(self.into()))
    }
}

impl Operand for bool {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.number(Number::Integer(self.into()))
    }
}

impl Operand for Size {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        (&self).into_variable(beside)
    }
}

impl Operand for &Size {
    /// The size as a number of the variable's element type.
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        let (Some(dim), Some(dtype)) = (self.dim(&beside.recorder), beside.dtype()) else {
            return Var::new(&beside.recorder, None);
        };
        beside.record(|builder, _| {
            let sizes = builder.dims_tensor(&[dim])?;
            let size = builder.reshape(sizes, &[])?;
            builder.cast(size, dtype)
        })
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident $name:literal;)*) => {
        impl Var {$(
            $(#[$doc])*
            #[must_use]
            #[track_caller]
            pub fn $method(&self) -> Var {
                self.map($name)
            }
        )*}
    };
}

unary! {
    /// `max(x, 0)`.
    relu "relu";
    /// `x / 2 * (1 + erf(x / sqrt(2)))`.
    gelu "gelu";
    /// `x * sigmoid(x)`.
    silu "silu";
    /// The logistic function.
    sigmoid "sigmoid";
    /// The hyperbolic tangent.
    tanh "tanh";
    /// `e` to the `x`.
    exp "exp";
    /// The natural logarithm.
    log "log";
    /// The square root.
    sqrt "sqrt";
    /// One over the square root.
    rsqrt "rsqrt";
    /// `x * x`.
    square "square";
    /// The same values, treated as constant: their gradient is zero.
    stop_gradient "stop_gradient";
    /// The absolute value.
    abs "abs";
    /// The error function.
    erf "erf";
    /// The sine.
    sin "sin";
    /// The cosine.
    cos "cos";
    /// Rounds down.
    floor "floor";
    /// Rounds up.
    ceil "ceil";
    /// Rounds towards zero.
    trunc "trunc";
    /// Rounds to the nearest integer, halves to the even one.
    round "round_even";
    /// -1, 0 or 1.
    sign "sign";
    /// One over it.
    reciprocal "reciprocal";
    /// 2 to the `x`.
    exp2 "exp2";
    /// `e` to the `x`, minus 1, exact near 0.
    exp_m1 "expm1";
    /// The natural logarithm, as [`log`](Self::log).
    ln "log";
    /// The logarithm to base 2.
    log2 "log2";
    /// The natural logarithm of `1 + x`, exact near 0.
    ln_1p "log1p";
    /// The tangent.
    tan "tan";
    /// The inverse sine.
    asin "asin";
    /// The inverse cosine.
    acos "acos";
    /// The inverse tangent.
    atan "atan";
    /// The hyperbolic sine.
    sinh "sinh";
    /// The hyperbolic cosine.
    cosh "cosh";
    /// The inverse hyperbolic sine.
    asinh "asinh";
    /// The inverse hyperbolic cosine.
    acosh "acosh";
    /// The inverse hyperbolic tangent.
    atanh "atanh";
    /// `log(1 + exp(x))`, without overflow inside.
    softplus "softplus";
    /// Whether NaN.
    is_nan "is_nan";
    /// Whether an infinity.
    is_infinite "is_inf";
}

macro_rules! binary {
    ($($(#[$doc:meta])* $method:ident $name:literal;)*) => {
        impl Var {$(
            $(#[$doc])*
            #[must_use]
            #[track_caller]
            pub fn $method(&self, other: impl Operand) -> Var {
                self.map2($name, other)
            }
        )*}
    };
}

binary! {
    /// To the power of `other`.
    pow "pow";
    /// The maximum, element by element.
    maximum "max";
    /// The minimum, element by element.
    minimum "min";
    /// Whether equal.
    equal "eq";
    /// Whether not equal.
    not_equal "ne";
    /// Whether less.
    less "lt";
    /// Whether less or equal.
    less_equal "le";
    /// Whether greater.
    greater "gt";
    /// Whether greater or equal.
    greater_equal "ge";
    /// Whether both.
    logical_and "and";
    /// Whether either.
    logical_or "or";
    /// Whether exactly one.
    logical_xor "xor";
    /// The angle of the point (x = `other`, y = this).
    atan2 "atan2";
    /// The integral value at or below the quotient (Python's `//`).
    floor_divide "floor_div";
    /// The remainder of [`floor_divide`](Self::floor_divide), with the sign of `other` (Python's `%`).
    remainder "floor_mod";
}

impl Var {
    /// A scalar function by its name, with its default parameters: `x.map("mish")`.
    #[must_use]
    #[track_caller]
    pub fn map(&self, name: &str) -> Var {
        self.record(|builder, x| builder.map(name, &[x]))
    }

    /// A scalar function by its name, with parameters; those left out have their defaults.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Var, trace};
    ///
    /// let f = |x: Var| x.map_with("leaky_relu", &[0.2]);
    /// let graph = trace("f", &f, &[ArgumentType::new(DType::F32, 1)])?;
    /// assert_eq!(graph.ops().count(), 1);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn map_with(&self, name: &str, parameters: &[f64]) -> Var {
        self.record(|builder, x| builder.map_with(name, parameters, &[x]))
    }

    /// `yes` where this is true, else `no`.
    #[must_use]
    #[track_caller]
    pub fn select(&self, yes: impl AsRef<Var>, no: impl AsRef<Var>) -> Var {
        self.record_with(
            &[yes.as_ref(), no.as_ref()],
            |builder, condition, others| {
                let operands = [&[condition], others].concat();
                builder.map("select", &operands)
            },
        )
    }

    /// Clamps to at least `low` and at most `high`; `high` wins where `low` is larger.
    #[must_use]
    #[track_caller]
    pub fn clip(&self, low: impl Operand, high: impl Operand) -> Var {
        let (low, high) = (low.into_variable(self), high.into_variable(self));
        self.record_with(&[&low, &high], |builder, x, bounds| {
            builder.map("clip", &[&[x], bounds].concat())
        })
    }

    /// Whether neither NaN nor an infinity.
    #[must_use]
    #[track_caller]
    pub fn is_finite(&self) -> Var {
        self.is_nan().logical_or(self.is_infinite()).map("not")
    }

    /// Every element in a different dtype.
    #[must_use]
    #[track_caller]
    pub fn cast(&self, to: DType) -> Var {
        self.record(|builder, x| builder.cast(x, to))
    }

    /// A logical function of booleans, or the corresponding bitwise function of integers.
    #[track_caller]
    pub(super) fn map_bits(&self, of_bools: &str, of_integers: &str, other: impl Operand) -> Var {
        match self.dtype() {
            Some(DType::Bool) => self.map2(of_bools, other),
            _ => self.map2(of_integers, other),
        }
    }

    /// A scalar function of two operands.
    #[track_caller]
    pub(super) fn map2(&self, name: &str, other: impl Operand) -> Var {
        let other = other.into_variable(self);
        self.record_with(&[&other], |builder, x, others| {
            let operands = [&[x], others].concat();
            builder.map(name, &operands)
        })
    }
}

impl AsRef<Var> for Var {
    fn as_ref(&self) -> &Var {
        self
    }
}
