//! The JSON schema of blueprints, as published in `docs/schemas`.

use super::document::Blueprint;

/// The JSON schema (draft 2020-12) of blueprints: the form, not the kinds of nodes.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Blueprint);
    let mut text = serde_json::to_string_pretty(&schema)
        .unwrap_or_else(|error| unreachable!("a schema is JSON: {error}"));
    text.push('\n');
    text
}
