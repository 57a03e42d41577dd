//! Reads attributes: converts JSON values to the types that nodes take. An error states what was expected.

use crate::blueprint::Size;
use kiln::DType;
use serde_json::Value;

fn found(expected: &str, value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    format!("expected {expected}, found {}", short.escape_debug())
}

/// True or false.
pub(super) fn flag(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| found("true or false", value))
}

/// An integer.
pub(super) fn integer(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| found("an integer", value))
}

/// An integer of 0 or more.
pub(super) fn index(value: &Value) -> Result<usize, String> {
    let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
    index.ok_or_else(|| found("an integer of 0 or more", value))
}

/// A number; `inf`, `-inf` and `NaN` are words.
pub(super) fn number(value: &Value) -> Result<f64, String> {
    let word = match value.as_str() {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some("NaN") => Some(f64::NAN),
        _ => value.as_f64(),
    };
    word.ok_or_else(|| found("a number", value))
}

/// A text.
pub(super) fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| found("a text", value))
}

/// An element type.
pub(super) fn dtype(value: &Value) -> Result<DType, String> {
    let dtype = value.as_str().and_then(|name| name.parse().ok());
    dtype.ok_or_else(|| found("a dtype such as f32", value))
}

/// A size.
pub(super) fn size(value: &Value) -> Result<Size, String> {
    match value {
        Value::String(text) => Ok(Size::Expression(text.clone())),
        other => integer(other)
            .map(Size::Fixed)
            .map_err(|_| found("a size: an integer, or an expression as a text", value)),
    }
}

/// A list.
pub(super) fn list<T>(
    value: &Value,
    element: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let elements = value.as_array().ok_or_else(|| found("a list", value))?;
    elements.iter().map(element).collect()
}

/// A list of `count` integers, or one integer for all.
pub(super) fn repeated(count: usize) -> impl Fn(&Value) -> Result<Vec<i64>, String> {
    move |value| match value {
        Value::Array(elements) if elements.len() == count => list(value, integer),
        Value::Array(_) => Err(found(&format!("{count} integers, or one"), value)),
        other => Ok(vec![integer(other)?; count]),
    }
}
