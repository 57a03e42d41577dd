//! `+`, `-`, `*`, `/` between variables and numbers, and `-x`, `!x`.

use super::{Operand, Var};
use std::ops::{Add, Div, Mul, Neg, Not, Sub};

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

macro_rules! unary {
    ($($operator:ident, $method:ident, $name:literal;)*) => {$(
        impl $operator for Var {
            type Output = Var;

            #[track_caller]
            fn $method(self) -> Var {
                self.map($name)
            }
        }

        impl $operator for &Var {
            type Output = Var;

            #[track_caller]
            fn $method(self) -> Var {
                self.map($name)
            }
        }
    )*};
}

unary! {
    Neg, neg, "neg";
    Not, not, "not";
}
