//! Functions that can be recorded: of one to twelve variables.

use crate::results::Results;
use crate::var::Var;
use kiln_tensor::Tensor;

/// The variables that a function takes, as a tuple: `(Var, Var)`.
pub trait Arguments {
    /// The number of variables.
    const COUNT: usize;
    /// The corresponding values of a call.
    type Tensors<'a>: AsRef<[&'a Tensor]>;
}

/// A function of variables, such as a closure.
pub trait TraceFunction<A: Arguments> {
    /// Its result.
    type Output: Results;

    /// Calls it; `None` when the number of variables does not match.
    fn apply(&self, variables: Vec<Var>) -> Option<Self::Output>;
}

macro_rules! function {
    ($count:literal: $($argument:ident),+) => {
        impl Arguments for ($(function!(@var $argument),)+) {
            const COUNT: usize = $count;
            type Tensors<'a> = [&'a Tensor; $count];
        }

        impl<F, R> TraceFunction<($(function!(@var $argument),)+)> for F
        where
            F: Fn($(function!(@var $argument)),+) -> R,
            R: Results,
        {
            type Output = R;

            fn apply(&self, variables: Vec<Var>) -> Option<R> {
                let [$($argument),+] = <[Var; $count]>::try_from(variables).ok()?;
                Some(self($($argument),+))
            }
        }
    };
    (@var $argument:ident) => { Var };
}

function!(1: a);
function!(2: a, b);
function!(3: a, b, c);
function!(4: a, b, c, d);
function!(5: a, b, c, d, e);
function!(6: a, b, c, d, e, f);
function!(7: a, b, c, d, e, f, g);
function!(8: a, b, c, d, e, f, g, h);
function!(9: a, b, c, d, e, f, g, h, i);
function!(10: a, b, c, d, e, f, g, h, i, j);
function!(11: a, b, c, d, e, f, g, h, i, j, k);
function!(12: a, b, c, d, e, f, g, h, i, j, k, l);
