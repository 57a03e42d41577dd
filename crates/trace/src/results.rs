//! The results of a recorded function: one or several variables, and the tensors they become.

use crate::var::Var;
use kiln_tensor::Tensor;

/// The results of a recorded function.
pub trait Results {
    /// The same structure with a tensor for each variable.
    type Tensors;

    /// The variables in order.
    fn into_variables(self) -> Vec<Var>;

    /// Replaces the variables by tensors; `None` when the number differs.
    fn from_tensors(tensors: Vec<Tensor>) -> Option<Self::Tensors>;
}

impl Results for Var {
    type Tensors = Tensor;

    fn into_variables(self) -> Vec<Var> {
        vec![self]
    }

    fn from_tensors(tensors: Vec<Tensor>) -> Option<Tensor> {
        let [tensor] = <[Tensor; 1]>::try_from(tensors).ok()?;
        Some(tensor)
    }
}

impl Results for Vec<Var> {
    type Tensors = Vec<Tensor>;

    fn into_variables(self) -> Vec<Var> {
        self
    }

    fn from_tensors(tensors: Vec<Tensor>) -> Option<Vec<Tensor>> {
        Some(tensors)
    }
}

impl<const N: usize> Results for [Var; N] {
    type Tensors = [Tensor; N];

    fn into_variables(self) -> Vec<Var> {
        self.into()
    }

    fn from_tensors(tensors: Vec<Tensor>) -> Option<[Tensor; N]> {
        tensors.try_into().ok()
    }
}

macro_rules! tuple {
    ($($result:ident: $var:ty => $tensor:ty),+) => {
        impl Results for ($($var,)+) {
            type Tensors = ($($tensor,)+);

            fn into_variables(self) -> Vec<Var> {
                let ($($result,)+) = self;
                vec![$($result),+]
            }

            fn from_tensors(tensors: Vec<Tensor>) -> Option<Self::Tensors> {
                let mut tensors = tensors.into_iter();
                let results = ($({ let $result: $tensor = tensors.next()?; $result },)+);
                tensors.next().is_none().then_some(results)
            }
        }
    };
}

tuple!(a: Var => Tensor);
tuple!(a: Var => Tensor, b: Var => Tensor);
tuple!(a: Var => Tensor, b: Var => Tensor, c: Var => Tensor);
tuple!(a: Var => Tensor, b: Var => Tensor, c: Var => Tensor, d: Var => Tensor);
