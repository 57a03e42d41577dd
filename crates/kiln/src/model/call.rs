//! The inputs of a call: named tensors in the model's order, checked.

use super::signature::Signature;
use crate::error::{Error, Failure};
use kiln_lazy_runtime::CallControl;
use kiln_tensor::Tensor;

/// Puts named inputs into the model's order.
///
/// # Errors
/// When a name is unknown, given twice or missing, or a tensor has another dtype or rank.
pub(super) fn arrange<'a, N: AsRef<str>>(
    signature: &Signature,
    inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
) -> Result<Vec<Tensor>, Error> {
    let arranged = arrange_beside(signature, inputs, &|_| false)?;
    Ok(arranged.into_iter().flatten().cloned().collect())
}

/// The same where some inputs, by position, exist already: their places stay empty, and they may not be given.
///
/// # Errors
/// As [`arrange`].
pub(crate) fn arrange_beside<'a, N: AsRef<str>>(
    signature: &Signature,
    inputs: impl IntoIterator<Item = (N, &'a Tensor)>,
    is_there: &dyn Fn(usize) -> bool,
) -> Result<Vec<Option<&'a Tensor>>, Error> {
    let mut arranged: Vec<Option<&Tensor>> = vec![None; signature.inputs.len()];
    for (name, tensor) in inputs {
        let name = name.as_ref();
        let position = signature
            .inputs
            .iter()
            .position(|input| input.name() == name);
        if position.is_some_and(is_there) {
            return Err(not_once("already held", name, signature, is_there));
        }
        let Some(place) = position.and_then(|position| arranged.get_mut(position)) else {
            return Err(not_once("unknown", name, signature, is_there));
        };
        if place.replace(tensor).is_some() {
            return Err(not_once("repeated", name, signature, is_there));
        }
    }
    let described = signature.inputs.iter().zip(&arranged).enumerate();
    for (position, (description, tensor)) in described {
        if is_there(position) {
            continue;
        }
        let Some(tensor) = tensor else {
            return Err(Failure::MissingInput {
                expected: description.to_string(),
            }
            .into());
        };
        let dtype_fits = description
            .dtype()
            .is_none_or(|dtype| dtype == tensor.dtype());
        let rank_fits = description
            .shape()
            .is_none_or(|shape| shape.rank() == tensor.rank());
        if !dtype_fits || !rank_fits {
            let (name, expected) = split(&description.to_string());
            return Err(Failure::InputType {
                name,
                expected,
                given: type_text(tensor),
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

fn type_text(tensor: &Tensor) -> String {
    let sizes = tensor
        .shape()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    format!("{}[{}]", tensor.dtype(), sizes.join(", "))
}

/// What nothing can end: where a call may be ended, it is done on a thread of its own, and the call waits for it until it is
/// to end.
pub(super) fn waiting<T: Send + 'static>(
    control: Option<&CallControl>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match control {
        Some(control) => control.wait_for(work)?,
        None => work(),
    }
}
