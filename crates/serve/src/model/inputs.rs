//! The tensors of a request in the model's order, and whether the request can be batched with others.

use crate::error::{ServeError, excerpt};
use kiln::internals::symbolic_shape::SymbolicShape;
use kiln::{Tensor, ValueDescription};
use std::collections::HashMap;

/// The tensors in the order of the model's inputs. Whether their types fit is checked by the call.
///
/// # Errors
/// E1502 for an input that is missing, unknown or given twice.
pub(super) fn arranged(
    described: &[ValueDescription],
    given: Vec<(String, Tensor)>,
) -> Result<Vec<Tensor>, ServeError> {
    let mut slots: Vec<Option<Tensor>> = vec![None; described.len()];
    for (name, tensor) in given {
        let position =
            position(described, &name).ok_or_else(|| unknown("input", described, &name))?;
        if slots[position].replace(tensor).is_some() {
            return Err(misfit("input", &name, "one tensor".to_owned(), "two"));
        }
    }
    let tensors = slots.into_iter().zip(described).map(|(slot, described)| {
        slot.ok_or_else(|| misfit("input", described.name(), described.to_string(), "none"))
    });
    tensors.collect()
}

/// The positions of the outputs with these names; of all outputs if there are no names.
///
/// # Errors
/// E1502 for an output that is unknown or requested twice.
pub(super) fn positions(
    described: &[ValueDescription],
    names: &[String],
) -> Result<Vec<usize>, ServeError> {
    if names.is_empty() {
        return Ok((0..described.len()).collect());
    }
    let mut positions = Vec::with_capacity(names.len().min(described.len()));
    for name in names {
        let position =
            position(described, name).ok_or_else(|| unknown("output", described, name))?;
        if positions.contains(&position) {
            let expected = "to be asked for once".to_owned();
            return Err(misfit("output", name, expected, "twice"));
        }
        positions.push(position);
    }
    Ok(positions)
}

/// Whether the tensors fit the model's inputs, with one size for each symbol. A request whose tensors do not fit is
/// called by itself, so that other requests do not get its error.
pub(super) fn fit(described: &[ValueDescription], tensors: &[Tensor]) -> bool {
    let mut symbols: HashMap<&str, i64> = HashMap::new();
    described.iter().zip(tensors).all(|(described, tensor)| {
        let sizes = tensor.shape().iter();
        let sizes: Vec<i64> = sizes
            .map(|&size| i64::try_from(size).unwrap_or(i64::MAX))
            .collect();
        let Some(shape) = described.shape() else {
            return false;
        };
        let is_type = described.dtype() == Some(tensor.dtype());
        let is_shape = shape.is_compatible_with(&SymbolicShape::from_concrete(&sizes));
        let mut named = shape.dimensions().iter().zip(sizes);
        is_type
            && is_shape
            && named.all(|(dimension, size)| {
                dimension.name().is_empty()
                    || *symbols.entry(dimension.name()).or_insert(size) == size
            })
    })
}

fn position(described: &[ValueDescription], name: &str) -> Option<usize> {
    described.iter().position(|known| known.name() == name)
}

fn misfit(what: &'static str, name: &str, expected: String, found: &str) -> ServeError {
    ServeError::Tensor {
        what,
        name: excerpt(name),
        expected,
        found: found.to_owned(),
    }
}

fn unknown(what: &'static str, described: &[ValueDescription], name: &str) -> ServeError {
    let known = described
        .iter()
        .map(|known| known.name().escape_debug().to_string());
    let known: Vec<String> = known.collect();
    misfit(
        what,
        name,
        format!("one of {}", known.join(", ")),
        "a name that the model does not have",
    )
}
