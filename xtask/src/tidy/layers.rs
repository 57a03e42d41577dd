//! The table of crates, `xtask/layers.toml`: read, checked for order, and transitively closed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::tree::Tree;

/// The path of the table.
pub(super) const PATH: &str = "xtask/layers.toml";

/// One crate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layer {
    /// Its short name: the folder under `crates/`, or at the root.
    pub(super) name: String,
    /// Its purpose.
    pub(super) what: String,
    /// Its allowed direct dependencies.
    #[serde(default)]
    pub(super) may: Vec<String>,
    /// Where under `src/` unsafe code is allowed.
    #[serde(default, rename = "unsafe")]
    pub(super) unsafe_in: Vec<String>,
    /// The parts of the outside world that it may use.
    #[serde(default)]
    pub(super) touches: Vec<String>,
    /// Whether it is for developers only.
    #[serde(default)]
    pub(super) tool: bool,
}

/// The whole table, bottom up.
#[derive(Debug, Deserialize)]
pub(super) struct Layers {
    /// The crates.
    #[serde(rename = "layer")]
    pub(super) all: Vec<Layer>,
}

impl Layers {
    /// Reads the tree's table.
    pub(super) fn load(tree: &Tree) -> Result<Self> {
        Self::parse(&tree.read(PATH)?)
    }

    fn parse(text: &str) -> Result<Self> {
        let layers: Self = toml::from_str(text).with_context(|| format!("cannot read {PATH}"))?;
        let mut above = BTreeSet::new();
        for layer in &layers.all {
            for name in layer.may.iter().filter(|name| *name != "*") {
                if !above.contains(name.as_str()) {
                    bail!(
                        "{PATH}: `{}` names `{name}`, which is not listed above it",
                        layer.name
                    );
                }
            }
            if !above.insert(layer.name.as_str()) {
                bail!("{PATH}: `{}` is listed twice", layer.name);
            }
        }
        Ok(layers)
    }

    /// All crates on which each crate may depend, transitively.
    pub(super) fn closure(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut closed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (index, layer) in self.all.iter().enumerate() {
            let mut allowed = BTreeSet::new();
            for name in &layer.may {
                if name == "*" {
                    allowed.extend(
                        self.all[..index]
                            .iter()
                            .filter(|its| !its.tool)
                            .map(|its| its.name.as_str()),
                    );
                } else {
                    allowed.insert(name.as_str());
                    allowed.extend(closed.get(name.as_str()).into_iter().flatten().copied());
                }
            }
            closed.insert(&layer.name, allowed);
        }
        closed
    }
}

/// A package's short name: `kiln-ir` is `ir`; other names are unchanged.
pub(super) fn short(package: &str) -> &str {
    package.strip_prefix("kiln-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "
        [[layer]]\nname = 'a'\nwhat = 'A'
        [[layer]]\nname = 'b'\nwhat = 'B'\nmay = ['a']
        [[layer]]\nname = 'c'\nwhat = 'C'\nmay = ['b']
        [[layer]]\nname = 'tool'\nwhat = 'T'\nmay = ['*']\ntool = true
        [[layer]]\nname = 'top'\nwhat = 'U'\nmay = ['*']";

    #[test]
    fn allowed_dependencies_are_transitive() {
        let layers = Layers::parse(TABLE).unwrap();
        let closed = layers.closure();
        assert_eq!(closed["c"], BTreeSet::from(["a", "b"]));
        assert_eq!(closed["top"], BTreeSet::from(["a", "b", "c"]));
        assert!(closed["a"].is_empty());
    }

    #[test]
    fn the_table_reads_bottom_up() {
        let error = Layers::parse("[[layer]]\nname = 'a'\nwhat = ''\nmay = ['b']").unwrap_err();
        assert!(error.to_string().contains("not listed above"), "{error}");
        let twice = "[[layer]]\nname = 'a'\nwhat = ''\n[[layer]]\nname = 'a'\nwhat = ''";
        assert!(
            Layers::parse(twice)
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
