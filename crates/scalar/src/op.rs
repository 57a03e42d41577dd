//! The primitive operations and their behaviour on every input, in one table.
//!
//! Common to all of them:
//! - operands have the dtypes of the [`Signature`]; there is no promotion;
//! - floats follow IEEE 754: round to nearest even, denormals kept, no traps, NaN in gives NaN
//!   out unless the entry says otherwise; which NaN is not defined;
//! - f32 functions beyond `+ - * / sqrt` are computed in f64 and rounded once; f16 and bf16
//!   arithmetic is computed in f32, their functions in f64, and rounded again;
//! - integers are two's complement; `add`, `sub`, `mul`, `neg`, `abs` and `pow` wrap around;
//! - there is no undefined behaviour: an operation without a value is a typed fault ([`crate::ScalarFault`]).
//!
//! The tests have an example of each edge case (`edge_behaviour_of_every_primitive_is_defined`).

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

/// Calls a macro with the table: `Variant name Signature "meaning";` for each operation.
macro_rules! for_each_scalar_op {
    ($callback:ident) => {
        $callback! {
            Add add Numeric2 "`a + b`. Integers wrap.";
            Sub sub Numeric2 "`a - b`. Integers wrap.";
            Mul mul Numeric2 "`a * b`. Integers wrap.";
            Div div Numeric2 "`a / b`. Integers: truncated; by zero is a fault; `MIN / -1` is `MIN`. Floats: by zero is an infinity or NaN.";
            FloorDiv floor_div Numeric2 "The integral value at or below `a / b` (Python's `//`). Integers: by zero is a fault; `MIN floor_div -1` is `MIN`. Floats: the quotient, rounded, then `floor`; by zero is an infinity or NaN.";
            Rem rem Numeric2 "The remainder of truncated division, with the sign of `a` (C's `%` and `fmod`). Integers: by zero is a fault; `MIN rem -1` is 0. Floats: of an infinity or by zero is NaN; by an infinity is `a`.";
            FloorMod floor_mod Numeric2 "The remainder of floored division, with the sign of `b` (Python's `%`); a float zero has the sign of `b` too. Integers: by zero is a fault. Floats: of an infinity or by zero is NaN; by an infinity of the other sign is that infinity.";
            Pow pow Numeric2 "`a` to the power of `b`. Integers: wraps; 0 to the 0 is 1; a negative `b` gives 1/x truncated (1 for 1, alternating for -1, 0 for the rest), and a fault for `a` = 0. Floats: as C's `pow` (x to the 0 and 1 to the x are 1, even for NaN; a negative base needs an integral `b`).";
            Min min Numeric2 "The smaller one. Floats: NaN if either is NaN; -0 is less than +0.";
            Max max Numeric2 "The larger one. Floats: NaN if either is NaN; +0 is more than -0.";
            Neg neg Numeric1 "`-a`. Integers wrap, so `MIN` stays. Floats: flips the sign of zeros and NaNs too.";
            Abs abs Numeric1 "`|a|`. Integers: `MIN` stays. Floats: clears the sign of zeros and NaNs too.";
            Sign sign Numeric1 "-1, 0 or 1. Floats: a zero keeps its sign, NaN stays.";
            Floor floor Float1 "The integral value at or below; -0 and infinities stay.";
            Ceil ceil Float1 "The integral value at or above; above -1 and below 0 it is -0.";
            RoundEven round_even Float1 "The nearest integral value, halves to the even one; keeps the sign of zero.";
            Trunc trunc Float1 "The integral value towards zero; keeps the sign of zero.";
            Sqrt sqrt Float1 "Square root, correctly rounded. Of -0 is -0; of less is NaN.";
            Rsqrt rsqrt Float1 "One over the square root. Of +0 is +inf, of -0 is -inf, of +inf is 0; of less than zero is NaN.";
            Exp exp Float1 "e to the a. Of -inf is 0; overflows to +inf.";
            Exp2 exp2 Float1 "2 to the a. Of -inf is 0; overflows to +inf.";
            Expm1 expm1 Float1 "e to the a, minus 1, accurate near 0. Of -inf is -1; -0 stays.";
            Log log Float1 "Natural logarithm. Of either zero is -inf; of less is NaN.";
            Log2 log2 Float1 "Logarithm to base 2. Of either zero is -inf; of less is NaN.";
            Log1p log1p Float1 "Natural logarithm of 1 + a, accurate near 0. Of -1 is -inf; of less is NaN; -0 stays.";
            Sin sin Float1 "Sine, of radians. Of an infinity is NaN; -0 stays.";
            Cos cos Float1 "Cosine, of radians. Of an infinity is NaN.";
            Tan tan Float1 "Tangent, of radians. Of an infinity is NaN; -0 stays.";
            Asin asin Float1 "Inverse sine, in [-pi/2, pi/2]. Outside [-1, 1] is NaN; -0 stays.";
            Acos acos Float1 "Inverse cosine, in [0, pi]. Outside [-1, 1] is NaN.";
            Atan atan Float1 "Inverse tangent, in [-pi/2, pi/2], the ends for infinities; -0 stays.";
            Sinh sinh Float1 "Hyperbolic sine. Infinities and -0 stay.";
            Cosh cosh Float1 "Hyperbolic cosine. Of infinities is +inf.";
            Tanh tanh Float1 "Hyperbolic tangent. Of infinities is -1 and 1; -0 stays.";
            Asinh asinh Float1 "Inverse hyperbolic sine. Infinities and -0 stay.";
            Acosh acosh Float1 "Inverse hyperbolic cosine. Below 1 is NaN; +inf stays.";
            Atanh atanh Float1 "Inverse hyperbolic tangent. Of -1 and 1 is an infinity; beyond is NaN; -0 stays.";
            Erf erf Float1 "The error function. Of infinities is -1 and 1; -0 stays.";
            Sigmoid sigmoid Float1 "1 / (1 + exp(-a)), without overflow inside. Of -inf is 0, of +inf is 1.";
            Atan2 atan2 Float2 "The angle of the point (x = `b`, y = `a`), in [-pi, pi]; zeros and infinities as C's `atan2`.";
            Eq eq Compare "Whether both are equal. False for NaN; zeros are equal.";
            Ne ne Compare "Whether both differ. True for NaN.";
            Lt lt Compare "Whether `a` is less. False for NaN; `false` is less than `true`.";
            Le le Compare "Whether `a` is less or equal. False for NaN.";
            Gt gt Compare "Whether `a` is more. False for NaN.";
            Ge ge Compare "Whether `a` is more or equal. False for NaN.";
            And and Logical2 "Whether both are true; both operands are always computed.";
            Or or Logical2 "Whether either is true; both operands are always computed.";
            Xor xor Logical2 "Whether exactly one is true.";
            Not not Logical1 "Whether it is false.";
            BitAnd bit_and Bits2 "Bits set in both.";
            BitOr bit_or Bits2 "Bits set in either.";
            BitXor bit_xor Bits2 "Bits set in exactly one.";
            BitNot bit_not Bits1 "Every bit flipped.";
            Shl shl Bits2 "Bits moved up by `b`, zeros in. A shift by the width or more, or by a negative number, gives 0.";
            Shr shr Bits2 "Bits moved down by `b`, copies of the sign in (zeros if unsigned). A shift by the width or more, or by a negative number, leaves the sign alone: 0 or -1.";
            Select select Select "`b` where `a` is true, else `c`. Both are always computed, so a fault in the one not chosen is still a fault; its NaN is not seen.";
            IsNan is_nan FloatTest "Whether it is NaN.";
            IsInf is_inf FloatTest "Whether it is an infinity.";
        }
    };
}

/// The dtypes of an operation's operands and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Signature {
    /// An integer or a float, to the same.
    Numeric1,
    /// Two integers or two floats of one dtype, to the same.
    Numeric2,
    /// A float, to the same.
    Float1,
    /// Two floats of one dtype, to the same.
    Float2,
    /// Two operands of the same dtype, whichever it is, to `bool`.
    Compare,
    /// `bool` to `bool`.
    Logical1,
    /// Two `bool`s to `bool`.
    Logical2,
    /// An integer, to the same.
    Bits1,
    /// Two integers of one dtype, to the same.
    Bits2,
    /// A `bool` and two of any one dtype, to that dtype.
    Select,
    /// A float to `bool`.
    FloatTest,
    /// Any dtype to the one named.
    Cast(DType),
}

impl Signature {
    /// The number of operands.
    pub const fn arity(self) -> usize {
        match self {
            Signature::Numeric1
            | Signature::Float1
            | Signature::Logical1
            | Signature::Bits1
            | Signature::FloatTest
            | Signature::Cast(_) => 1,
            Signature::Numeric2
            | Signature::Float2
            | Signature::Compare
            | Signature::Logical2
            | Signature::Bits2 => 2,
            Signature::Select => 3,
        }
    }

    /// The operands that must share one dtype: all, or the last two of a selection.
    pub(crate) const fn first_shared_operand(self) -> usize {
        match self {
            Signature::Select => 1,
            _ => 0,
        }
    }

    /// The requirement on the operands, in words.
    pub(crate) const fn expectation(self) -> &'static str {
        match self {
            Signature::Numeric1 => "a number",
            Signature::Numeric2 => "two numbers of one dtype",
            Signature::Float1 | Signature::FloatTest => "a float",
            Signature::Float2 => "two floats of one dtype",
            Signature::Compare => "two operands of one dtype",
            Signature::Logical1 => "a bool",
            Signature::Logical2 => "two bools",
            Signature::Bits1 => "an integer",
            Signature::Bits2 => "two integers of one dtype",
            Signature::Select => "a bool and two operands of one dtype",
            Signature::Cast(_) => "one operand",
        }
    }

    /// The result's dtype, or `None` if the operands do not fit.
    pub fn result_type(self, operands: &[DType]) -> Option<DType> {
        let number = |dtype: DType| dtype.is_float() || dtype.is_integer();
        match (self, operands) {
            (Signature::Numeric1, &[a]) if number(a) => Some(a),
            (Signature::Numeric2, &[a, b]) if a == b && number(a) => Some(a),
            (Signature::Float1, &[a]) if a.is_float() => Some(a),
            (Signature::Float2, &[a, b]) if a == b && a.is_float() => Some(a),
            (Signature::Compare, &[a, b]) if a == b => Some(DType::Bool),
            (Signature::Logical1, &[DType::Bool]) => Some(DType::Bool),
            (Signature::Logical2, &[DType::Bool, DType::Bool]) => Some(DType::Bool),
            (Signature::Bits1, &[a]) if a.is_integer() => Some(a),
            (Signature::Bits2, &[a, b]) if a == b && a.is_integer() => Some(a),
            (Signature::Select, &[DType::Bool, a, b]) if a == b => Some(a),
            (Signature::FloatTest, &[a]) if a.is_float() => Some(DType::Bool),
            (Signature::Cast(to), &[_]) => Some(to),
            _ => None,
        }
    }
}

macro_rules! define_scalar_op {
    ($($variant:ident $name:ident $signature:ident $meaning:literal;)*) => {
        /// A primitive operation on scalars; each variant documents its edge cases.
        ///
        /// For all operations: integers are two's complement, floats follow IEEE 754 (round to nearest even, denormals
        /// kept), NaN in gives NaN out unless stated otherwise, and there is no undefined behaviour: an operation
        /// without a value is a [`crate::ScalarFault`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ScalarOp {
            $(#[doc = $meaning] $variant,)*
            /// Conversion to a dtype. Float to integer: truncates, saturates, NaN is 0. Integer
            /// to integer: keeps the low bits. To float: rounds once, to nearest even. To `bool`:
            /// whether it is not zero (true for NaN). From `bool`: 0 or 1.
            Cast(DType),
        }

        impl ScalarOp {
            /// Every operation except the casts.
            pub const ALL: &'static [ScalarOp] = &[$(ScalarOp::$variant,)*];

            /// The name in text forms; all casts are `cast`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ScalarOp::$variant => stringify!($name),)*
                    ScalarOp::Cast(_) => "cast",
                }
            }

            /// Its operand and result dtypes.
            pub const fn signature(self) -> Signature {
                match self {
                    $(ScalarOp::$variant => Signature::$signature,)*
                    ScalarOp::Cast(to) => Signature::Cast(to),
                }
            }

            /// Its meaning, including edge cases, in a line.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(ScalarOp::$variant => $meaning,)*
                    ScalarOp::Cast(_) => "Conversion to a dtype.",
                }
            }
        }
    };
}

for_each_scalar_op!(define_scalar_op);

impl ScalarOp {
    /// The number of operands.
    pub const fn arity(self) -> usize {
        self.signature().arity()
    }

    /// Whether swapping its two operands changes no bit of a result that is not NaN.
    pub const fn is_commutative(self) -> bool {
        matches!(
            self,
            ScalarOp::Add
                | ScalarOp::Mul
                | ScalarOp::Min
                | ScalarOp::Max
                | ScalarOp::Eq
                | ScalarOp::Ne
                | ScalarOp::And
                | ScalarOp::Or
                | ScalarOp::Xor
                | ScalarOp::BitAnd
                | ScalarOp::BitOr
                | ScalarOp::BitXor
        )
    }
}
