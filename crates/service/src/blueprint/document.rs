//! The document: the types that the JSON maps to, and their reading and writing.

use super::limits::BlueprintLimits;
use super::place::Place;
use crate::error::{Problem, ServiceError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The version of the format that this build writes, and the only one it reads.
pub const VERSION: u32 = 1;

/// A computation graph as a document.
///
/// ```
/// use kiln_service::blueprint::{Blueprint, BlueprintLimits};
///
/// let text = r#"{
///   "blueprint": 1,
///   "name": "double",
///   "inputs": [{"name": "x", "dtype": "f32", "shape": ["N"]}],
///   "nodes": [{"kind": "add", "operands": ["x", "x"], "results": ["y"]}],
///   "outputs": [{"name": "y", "value": "y"}]
/// }"#;
/// let blueprint = Blueprint::from_json(text, &BlueprintLimits::default())?;
/// blueprint.validate(&BlueprintLimits::default())?;
/// assert_eq!(blueprint.nodes.len(), 1);
/// # Ok::<(), kiln_service::ServiceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Blueprint {
    /// The version of the format: 1.
    #[serde(rename = "blueprint")]
    pub version: u32,
    /// The graph's name, an identifier.
    pub name: String,
    /// Texts stored with the graph.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What is known of symbols. A symbol that is not listed is any size of 0 or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub symbols: Vec<BlueprintSymbol>,
    /// What holds between sizes besides, such as `H % 8 == 0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<String>,
    /// The inputs, in order.
    pub inputs: Vec<BlueprintInput>,
    /// The nodes, in any order.
    pub nodes: Vec<BlueprintNode>,
    /// The outputs, in order.
    pub outputs: Vec<BlueprintOutput>,
    /// The text that it was read from, for positions in errors.
    #[serde(skip)]
    pub(crate) source: Source,
}

/// What is known of a symbol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlueprintSymbol {
    /// The symbol, an identifier.
    pub name: String,
    /// The least value; 0 if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The greatest value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
    /// A number that divides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple_of: Option<i64>,
    /// A likely value: what is optimised for and measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub likely: Option<i64>,
}

/// An input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlueprintInput {
    /// Its name.
    pub name: String,
    /// Its element type, such as `f32`.
    pub dtype: String,
    /// Its sizes, outermost first.
    pub shape: Vec<Size>,
    /// Whether it changes from call to call.
    #[serde(default, skip_serializing_if = "InputRole::is_data")]
    pub role: InputRole,
}

/// Whether an input changes from call to call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// It does.
    #[default]
    Data,
    /// It is a parameter, such as a weight: its gradient is of interest.
    Parameter,
}

impl InputRole {
    fn is_data(&self) -> bool {
        *self == Self::Data
    }
}

/// A size: a number, or an expression of symbols such as `2*H + 1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Size {
    /// A number.
    Fixed(i64),
    /// An expression, in the syntax of graph texts.
    Expression(String),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Expression(text) => f.write_str(text),
        }
    }
}

/// A node: one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlueprintNode {
    /// The operation: see [`crate::convert::kinds`].
    pub kind: String,
    /// The names of the values that it reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operands: Vec<String>,
    /// The names of the values that it computes.
    pub results: Vec<String>,
    /// Its attributes by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
}

/// An output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlueprintOutput {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The text of a document; none for one that was built. Not part of equality.
#[derive(Clone, Default)]
pub(crate) struct Source(Option<Arc<str>>);

impl PartialEq for Source {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "read" } else { "built" })
    }
}

impl Blueprint {
    /// Reads a document.
    ///
    /// # Errors
    /// E1401 where the text is not JSON, or not of this form; E1402 for a different version; E1403 beyond a limit. Each
    /// names the path in the document, the line and the column.
    pub fn from_json(text: &str, limits: &BlueprintLimits) -> Result<Self, ServiceError> {
        if text.len() > limits.json_bytes {
            let message = format!(
                "expected at most {} bytes of JSON, found {}",
                limits.json_bytes,
                text.len()
            );
            return Err(Problem::new(Problem::LIMIT, "", message).into());
        }
        check_version(text)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let read: Result<Self, _> = serde_path_to_error::deserialize(&mut reader);
        let mut blueprint = read.map_err(|error| {
            let path = error.path().to_string();
            malformed(&path, error.inner())
        })?;
        reader.end().map_err(|error| malformed("", &error))?;
        blueprint.source = Source(Some(text.into()));
        Ok(blueprint)
    }

    /// The document as JSON, with line breaks.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| unreachable!("a document of texts and numbers: {error}"));
        text.push('\n');
        text
    }

    /// The digest of the document's content, whatever its layout: 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        let text = serde_json::to_string(self)
            .unwrap_or_else(|error| unreachable!("a document of texts and numbers: {error}"));
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// The problem, with line and column where the document was read from text.
    pub(crate) fn placed(&self, mut problem: Problem) -> Problem {
        if let Some(text) = &self.source.0 {
            problem.place = problem.place.located(text);
        }
        problem
    }
}

/// Rejects a different version before anything else is read, so that the other fields of that version may differ.
fn check_version(text: &str) -> Result<(), Problem> {
    #[derive(Deserialize)]
    struct Header {
        blueprint: u64,
    }
    let Ok(Header { blueprint }) = serde_json::from_str(text) else {
        // Reading the whole document reports the problem.
        return Ok(());
    };
    if blueprint == u64::from(VERSION) {
        return Ok(());
    }
    let message = format!(
        "expected a blueprint of version {VERSION}, found version {blueprint}; write it for version {VERSION}"
    );
    let mut problem = Problem::new(Problem::VERSION, "blueprint", message);
    problem.place = problem.place.located(text);
    Err(problem)
}

fn malformed(path: &str, error: &serde_json::Error) -> Problem {
    let path = if path == "." { "" } else { path };
    // The position is reported by the place instead.
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    let mut problem = Problem::new(Problem::MALFORMED, path, message.escape_debug().to_string());
    problem.place = Place {
        line: Some(error.line()),
        column: Some(error.column()),
        ..problem.place
    };
    problem
}
