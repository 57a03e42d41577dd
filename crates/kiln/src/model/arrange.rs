//! Puts the inputs of a call in the model's order and checks them.

use super::signature::Signature;
use crate::description::ValueDescription;
use crate::error::{Error, Failure};
use crate::inputs::{Given, Input, Inputs};
use kiln_tensor::Tensor;
use std::borrow::Cow;

/// A value that can be passed for an input.
pub(crate) trait Value: Clone {
    /// Its rank.
    fn rank(&self) -> usize;

    /// Whether it is of the input's dtype, as far as both are known.
    fn has_dtype_of(&self, description: &ValueDescription) -> bool;

    /// Its type, for messages.
    fn type_text(&self) -> String;
}

impl Value for Tensor {
    fn rank(&self) -> usize {
        Self::rank(self)
    }

    fn has_dtype_of(&self, description: &ValueDescription) -> bool {
        description
            .dtype()
            .is_none_or(|dtype| dtype == self.dtype())
    }

    fn type_text(&self) -> String {
        format!("{}{}", self.dtype(), sizes_text(self.shape()))
    }
}

impl Value for Vec<usize> {
    fn rank(&self) -> usize {
        self.len()
    }

    fn has_dtype_of(&self, _description: &ValueDescription) -> bool {
        true
    }

    fn type_text(&self) -> String {
        sizes_text(self)
    }
}

fn sizes_text(shape: &[usize]) -> String {
    let sizes: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", sizes.join(", "))
}

/// Inputs in the model's order. Inputs passed in that order are checked when they are run.
///
/// # Errors
/// When a name is unknown, given twice or missing, or an input has the wrong dtype or rank.
pub(super) fn arrange<'a, T: Value>(
    signature: &Signature,
    inputs: &'a Inputs<'_, T>,
) -> Result<Cow<'a, [T]>, Error> {
    match &inputs.0 {
        Given::Slice(values) => Ok(Cow::Borrowed(values)),
        Given::Donated(values, _) => Ok(Cow::Borrowed(values)),
        Given::Listed(listed) => {
            if let Some(values) = in_order(signature, listed) {
                return Ok(values.into());
            }
            let arranged = arrange_beside(signature, listed, &|_| false)?;
            Ok(arranged.into_iter().flatten().cloned().collect())
        }
    }
}

/// The values of inputs that are listed in the model's order and match it: the usual case, without extra allocations.
fn in_order<T: Value>(signature: &Signature, listed: &[Input<'_, T>]) -> Option<Vec<T>> {
    let is_it = |(description, input): (&ValueDescription, &Input<'_, T>)| {
        input.name.is_none_or(|name| name == description.name()) && fits(description, input.value)
    };
    let is_whole = listed.len() == signature.inputs.len();
    let is_in_order = is_whole && signature.inputs.iter().zip(listed).all(is_it);
    is_in_order.then(|| listed.iter().map(|input| input.value.clone()).collect())
}

/// Whether a value is of the input's dtype and rank, as far as both are known.
fn fits<T: Value>(description: &ValueDescription, value: &T) -> bool {
    let shape = description.shape();
    value.has_dtype_of(description) && shape.is_none_or(|shape| shape.rank() == value.rank())
}

/// Arranges listed inputs when some inputs, whose positions are given, already exist: their slots stay empty, and they
/// may not be passed. An input without a name has the position, among the other inputs, at which it is listed.
///
/// # Errors
/// As [`arrange`].
pub(crate) fn arrange_beside<'a, T: Value>(
    signature: &Signature,
    inputs: &[Input<'a, T>],
    is_there: &dyn Fn(usize) -> bool,
) -> Result<Vec<Option<&'a T>>, Error> {
    let mut arranged: Vec<Option<&T>> = vec![None; signature.inputs.len()];
    for (index, Input { name, value }) in inputs.iter().enumerate() {
        let position = match name {
            Some(name) => {
                let mut known = signature.inputs.iter();
                known.position(|input| input.name() == *name)
            }
            None => {
                let mut open = (0..arranged.len()).filter(|&position| !is_there(position));
                open.nth(index)
            }
        };
        let refused = |problem| match name {
            Some(name) => not_once(problem, name, signature, is_there),
            None => not_once(
                problem,
                &format!("number {}", index + 1),
                signature,
                is_there,
            ),
        };
        if position.is_some_and(is_there) {
            return Err(refused("already held"));
        }
        let Some(place) = position.and_then(|position| arranged.get_mut(position)) else {
            return Err(refused("unknown"));
        };
        if place.replace(value).is_some() {
            return Err(refused("repeated"));
        }
    }
    let described = signature.inputs.iter().zip(&arranged).enumerate();
    for (position, (description, value)) in described {
        if is_there(position) {
            continue;
        }
        let Some(value) = value else {
            return Err(Failure::MissingInput {
                expected: description.to_string(),
            }
            .into());
        };
        if !fits(description, *value) {
            let (name, expected) = split(&description.to_string());
            return Err(Failure::InputType {
                name,
                expected,
                given: value.type_text(),
            }
            .into());
        }
    }
    Ok(arranged)
}

fn not_once(
    problem: &'static str,
    name: &str,
    signature: &Signature,
    is_there: &dyn Fn(usize) -> bool,
) -> Error {
    let open = signature.inputs.iter().enumerate();
    let open = open.filter(|(position, _)| !is_there(*position));
    let names: Vec<String> = open.map(|(_, input)| input.to_string()).collect();
    let name = name.escape_debug().to_string();
    Failure::UnknownInput {
        problem,
        name,
        expected: names.join(", "),
    }
    .into()
}

/// `x: f32[N]` as name and type. The name was escaped, so its first `: ` may be part of it.
fn split(description: &str) -> (String, String) {
    let (name, ty) = description.rsplit_once(": ").unwrap_or((description, ""));
    (name.to_owned(), ty.to_owned())
}
