//! `+`, `-`, `*`, `/`, `%`, `&`, `|`, `^`, `<<`, `>>` between variables and numbers, their assignment forms, and `-x`,
//! `!x`.
//!
//! A number on the left is an `f64` or an `i64`.

use super::{Operand, Var};
use kiln_tensor::DType;
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, Shr, Sub, SubAssign,
};

macro_rules! operator {
    ($($operator:ident, $method:ident, $name:literal;)*) => {$(
        impl<O: Operand> $operator<O> for Var {
            type Output = Var;

            #[track_caller]
            fn $method(self, right: O) -> Var {
                self.map2($name, right)
            }
        }

        impl<O: Operand> $operator<O> for &Var {
            type Output = Var;

            #[track_caller]
            fn $method(self, right: O) -> Var {
                self.map2($name, right)
            }
        }

        operator!(@number $operator, $method, $name, f64 i64);
    )*};
    (@number $operator:ident, $method:ident, $name:literal, $($number:ty)*) => {$(
        impl $operator<Var> for $number {
            type Output = Var;

            #[track_caller]
            fn $method(self, right: Var) -> Var {
                self.into_variable(&right).map2($name, right)
            }
        }

        impl $operator<&Var> for $number {
            type Output = Var;

            #[track_caller]
            fn $method(self, right: &Var) -> Var {
                self.into_variable(right).map2($name, right)
            }
        }
    )*};
}

operator! {
    Add, add, "add";
    Sub, sub, "sub";
    Mul, mul, "mul";
    Div, div, "div";
}

/// Operators that have no form with a number on the left.
macro_rules! of_variables {
    ($($operator:ident, $method:ident, |$left:ident, $right:ident| $result:expr;)*) => {$(
        impl<O: Operand> $operator<O> for Var {
            type Output = Var;

            #[track_caller]
            fn $method(self, $right: O) -> Var {
                let $left = &self;
                $result
            }
        }

        impl<O: Operand> $operator<O> for &Var {
            type Output = Var;

            #[track_caller]
            fn $method(self, $right: O) -> Var {
                let $left = self;
                $result
            }
        }
    )*};
}

of_variables! {
    // As for Rust's own numbers: the remainder has the sign of the dividend.
    Rem, rem, |left, right| left.map2("rem", right);
    BitAnd, bitand, |left, right| left.map_bits("and", "bit_and", right);
    BitOr, bitor, |left, right| left.map_bits("or", "bit_or", right);
    BitXor, bitxor, |left, right| left.map_bits("xor", "bit_xor", right);
    Shl, shl, |left, right| left.map2("shl", right);
    Shr, shr, |left, right| left.map2("shr", right);
}

macro_rules! assigning {
    ($($operator:ident, $method:ident, $plain:ident;)*) => {$(
        impl<O: Operand> $operator<O> for Var {
            #[track_caller]
            fn $method(&mut self, right: O) {
                *self = (&*self).$plain(right);
            }
        }
    )*};
}

assigning! {
    AddAssign, add_assign, add;
    SubAssign, sub_assign, sub;
    MulAssign, mul_assign, mul;
    DivAssign, div_assign, div;
    RemAssign, rem_assign, rem;
    BitAndAssign, bitand_assign, bitand;
    BitOrAssign, bitor_assign, bitor;
    BitXorAssign, bitxor_assign, bitxor;
}

macro_rules! unary {
    ($($operator:ident, $method:ident, |$x:ident| $result:expr;)*) => {$(
        impl $operator for Var {
            type Output = Var;

            #[track_caller]
            fn $method(self) -> Var {
                let $x = &self;
                $result
            }
        }

        impl $operator for &Var {
            type Output = Var;

            #[track_caller]
            fn $method(self) -> Var {
                let $x = self;
                $result
            }
        }
    )*};
}

unary! {
    Neg, neg, |x| x.map("neg");
    // Logical on booleans, bitwise on integers.
    Not, not, |x| x.map(if x.dtype() == Some(DType::Bool) { "not" } else { "bit_not" });
}
