//! Request parameters that change the meaning of a request, for either protocol.

use crate::error::ServeError;
use std::time::Duration;

/// A parameter's value.
pub(crate) enum Parameter<'a> {
    Bool(bool),
    Number(i64),
    Text(&'a str),
    Other,
}

/// Parameters that would change the response, and that Kiln does not support.
const REFUSED: [(&str, &str); 7] = [
    (
        "sequence_id",
        "requests are independent: pass states as inputs and outputs",
    ),
    (
        "sequence_start",
        "requests are independent: pass states as inputs and outputs",
    ),
    (
        "sequence_end",
        "requests are independent: pass states as inputs and outputs",
    ),
    ("shared_memory_region", "send the tensor with the request"),
    ("shared_memory_offset", "send the tensor with the request"),
    (
        "shared_memory_byte_size",
        "send the tensor with the request",
    ),
    ("classification", "ask for the output, and select from it"),
];

/// Rejects a parameter that would change the response; other unknown parameters are ignored, as the protocol requires.
///
/// # Errors
/// E1512 for a parameter that is not supported.
pub(crate) fn refuse(name: &str, value: &Parameter<'_>) -> Result<(), ServeError> {
    let Some((name, next)) = REFUSED.iter().find(|(refused, _)| *refused == name) else {
        return Ok(());
    };
    // Clients send default values, which have no effect.
    let means_nothing = match value {
        Parameter::Bool(value) => !value,
        Parameter::Number(value) => *value == 0,
        Parameter::Text(value) => value.is_empty(),
        Parameter::Other => false,
    };
    match means_nothing {
        true => Ok(()),
        false => Err(ServeError::Unsupported {
            what: format!("the parameter `{name}`"),
            next,
        }),
    }
}

/// The time that a `timeout` in microseconds allows; `None` for 0.
///
/// # Errors
/// E1501 for anything but a non-negative number.
pub(crate) fn timeout(value: &Parameter<'_>) -> Result<Option<Duration>, ServeError> {
    let Parameter::Number(number) = value else {
        return Err(ServeError::malformed(
            "the parameter `timeout`",
            "expected a number of microseconds",
        ));
    };
    match u64::try_from(*number) {
        Ok(0) => Ok(None),
        Ok(micros) => Ok(Some(Duration::from_micros(micros))),
        Err(_) => Err(ServeError::malformed(
            "the parameter `timeout`",
            format!("expected a number of microseconds, found {number}"),
        )),
    }
}

/// Rejects parameters of loading and unloading other than these; these have no effect.
///
/// # Errors
/// E1512 for another parameter.
pub(crate) fn refuse_control<'a>(
    mut names: impl Iterator<Item = &'a str>,
    allowed: &[&str],
) -> Result<(), ServeError> {
    match names.find(|name| !allowed.contains(name)) {
        None => Ok(()),
        Some(name) => Err(ServeError::Unsupported {
            what: format!("the parameter `{}`", name.escape_debug()),
            next: "change the model's `config.json` and files in the repository, and load it again",
        }),
    }
}
