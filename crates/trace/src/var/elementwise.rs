//! Functions of single elements, operands broadcast against each other.

use super::Var;
use kiln_shape_inference::Number;
use kiln_tensor::DType;

/// An operand of a variable: another one, or a number, which takes the variable's element type.
pub trait Operand {
    /// It as a variable of the recording of `beside`.
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

impl Operand for f64 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.scalar(self)
    }
}

impl Operand for i64 {
    #[track_caller]
    fn into_variable(self, beside: &Var) -> Var {
        beside.number(Number::Integer(self))
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
    /// The same, as a constant: its gradient is zero.
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
}

impl Var {
    /// A scalar function by its name, with its default parameters: `x.map("mish")`.
    #[must_use]
    #[track_caller]
    pub fn map(&self, name: &str) -> Var {
        self.record(|builder, x| builder.map(name, &[x]))
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

    /// Every element in another dtype.
    #[must_use]
    #[track_caller]
    pub fn cast(&self, to: DType) -> Var {
        self.record(|builder, x| builder.cast(x, to))
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
