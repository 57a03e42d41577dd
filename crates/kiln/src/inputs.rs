//! The inputs of a call: tensors by name or by position, borrowed or donated.
//!
//! Shapes are passed in the same way when a call is only prepared.
//!
//! Invariant: a slice of tensors, in the model's order, is passed on without allocating.

use kiln_lazy_runtime::Donations;
use kiln_tensor::Tensor;
use std::fmt;

/// The inputs of a call, by name or by position; every call accepts anything that converts into them.
///
/// | given | as |
/// |---|---|
/// | `[("x", &x), ("w", &w)]`, or a `Vec` of such pairs | names, in any order |
/// | `&[("x", x), ("w", w)]`, a slice or a `Vec` of owned tensors with names | names, in any order |
/// | `[&x, &w]`, or a `Vec` of references | positions, in the model's order |
/// | `&[x, w]`, a slice or a `Vec` of tensors | positions; a compiled call then allocates nothing for its inputs |
/// | [`Inputs::default`] | none |
/// | [`Inputs::donated`] | positions; some of the tensors are donated |
/// | an iterator of pairs or references that is collected | as its items |
///
/// To prepare a call ([`Model::precompile`](crate::Model::precompile)), pass shapes instead of tensors.
///
/// ```
/// use kiln::{Inputs, Model, Source, Tensor};
///
/// let model = Model::load(Source::text("graph @sub(%x: f32[N], %y: f32[N]) -> f32[N] {
///   %z = sub %x, %y
///   return %z
/// }"))?;
/// let (x, y) = (Tensor::full(&[2], 3.0f32)?, Tensor::full(&[2], 1.0f32)?);
/// let pairs = [("y", y.clone()), ("x", x.clone())];
/// for inputs in [
///     Inputs::from([("y", &y), ("x", &x)]),
///     Inputs::from(&pairs),
///     Inputs::from([&x, &y]),
///     Inputs::from(&[x.clone(), y.clone()]),
///     ["y", "x"].into_iter().zip([&y, &x]).collect(),
/// ] {
///     assert_eq!(model.run(inputs)?[0].to_vec::<f32>()?, [2.0, 2.0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inputs<'a, T = Tensor>(pub(crate) Given<'a, T>);

pub(crate) enum Given<'a, T> {
    /// In the model's order.
    Slice(&'a [T]),
    /// Inputs without a name have the positions at which they are listed.
    Listed(Vec<Input<'a, T>>),
    /// In the model's order, with donations of their memory.
    Donated(&'a mut [T], &'a mut Donations),
}

/// One input of a call: with a name, or at the position where it is listed.
pub struct Input<'a, T = Tensor> {
    pub(crate) name: Option<&'a str>,
    pub(crate) value: &'a T,
}

/// None.
impl<T> Default for Inputs<'_, T> {
    fn default() -> Self {
        Self(Given::Slice(&[]))
    }
}

impl<'a> Inputs<'a> {
    /// Tensors in the model's order, some of which are donated: an output may be computed in the memory of the input
    /// that it is paired with, so that elements that the graph leaves unchanged are not copied. An input whose memory
    /// was taken is no longer usable: reading it is an error, `E0943`. `donations` report the fate of each.
    ///
    /// The call fails with `E0898` if a pair names an input or output that does not exist. Inputs are then unchanged,
    /// except those that are [spoiled](crate::DonationFate::Spoiled).
    ///
    /// For tensors that are kept from call to call use a [`Session`](crate::Session), whose calls donate nothing else.
    ///
    /// ```
    /// use kiln::{Donations, Inputs, Model, Source, Tensor};
    ///
    /// let model = Model::load(Source::text(
    ///     "graph @set(%rows: f32[N, 2], %at: i64[1], %row: f32[1, 2]) -> f32[N, 2] {
    ///        %y = update_slice %rows, %at, %row {axes = [0]}
    ///        return %y
    ///      }",
    /// ))?;
    /// let rows = Tensor::full(&[3, 2], 0.0f32)?;
    /// let mut tensors = [rows, Tensor::from_slice(&[1], &[1i64])?, Tensor::full(&[1, 2], 7.0f32)?];
    /// let mut donations = Donations::new([(0, 0)])?;
    /// let outputs = model.run(Inputs::donated(&mut tensors, &mut donations))?;
    /// assert_eq!(outputs[0].to_vec::<f32>()?, [0.0, 0.0, 7.0, 7.0, 0.0, 0.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn donated(tensors: &'a mut [Tensor], donations: &'a mut Donations) -> Self {
        Self(Given::Donated(tensors, donations))
    }
}

impl<'a, T> From<&'a T> for Input<'a, T> {
    fn from(value: &'a T) -> Self {
        Self { name: None, value }
    }
}

impl<'a, T, N: AsRef<str> + ?Sized> From<(&'a N, &'a T)> for Input<'a, T> {
    fn from((name, value): (&'a N, &'a T)) -> Self {
        Self {
            name: Some(name.as_ref()),
            value,
        }
    }
}

impl<'a, T> From<&'a [T]> for Inputs<'a, T> {
    fn from(values: &'a [T]) -> Self {
        Self(Given::Slice(values))
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for Inputs<'a, T> {
    fn from(values: &'a [T; N]) -> Self {
        Self(Given::Slice(values))
    }
}

impl<'a, T> From<&'a Vec<T>> for Inputs<'a, T> {
    fn from(values: &'a Vec<T>) -> Self {
        Self(Given::Slice(values))
    }
}

impl<'a, T, N: AsRef<str>> From<&'a [(N, T)]> for Inputs<'a, T> {
    fn from(pairs: &'a [(N, T)]) -> Self {
        pairs
            .iter()
            .map(|(name, value)| (name.as_ref(), value))
            .collect()
    }
}

impl<'a, T, N: AsRef<str>, const LENGTH: usize> From<&'a [(N, T); LENGTH]> for Inputs<'a, T> {
    fn from(pairs: &'a [(N, T); LENGTH]) -> Self {
        Self::from(pairs.as_slice())
    }
}

impl<'a, T, N: AsRef<str>> From<&'a Vec<(N, T)>> for Inputs<'a, T> {
    fn from(pairs: &'a Vec<(N, T)>) -> Self {
        Self::from(pairs.as_slice())
    }
}

impl<'a, T, N: AsRef<str>> From<&'a [(N, &'a T)]> for Inputs<'a, T> {
    fn from(pairs: &'a [(N, &'a T)]) -> Self {
        pairs
            .iter()
            .map(|(name, value)| (name.as_ref(), *value))
            .collect()
    }
}

impl<'a, T, I: Into<Input<'a, T>>, const N: usize> From<[I; N]> for Inputs<'a, T> {
    fn from(inputs: [I; N]) -> Self {
        inputs.into_iter().collect()
    }
}

impl<'a, T, I: Into<Input<'a, T>>> From<Vec<I>> for Inputs<'a, T> {
    fn from(inputs: Vec<I>) -> Self {
        inputs.into_iter().collect()
    }
}

impl<'a, T, I: Into<Input<'a, T>>> FromIterator<I> for Inputs<'a, T> {
    fn from_iter<Iter: IntoIterator<Item = I>>(inputs: Iter) -> Self {
        Self(Given::Listed(inputs.into_iter().map(Into::into).collect()))
    }
}

impl<T> fmt::Debug for Inputs<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Given::Slice(values) => write!(f, "Inputs({} by position)", values.len()),
            Given::Listed(inputs) => f.debug_list().entries(inputs).finish(),
            Given::Donated(tensors, donations) => {
                write!(f, "Inputs({} by position, {donations:?})", tensors.len())
            }
        }
    }
}

impl<T> fmt::Debug for Input<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({})", self.name.unwrap_or("by position"))
    }
}
