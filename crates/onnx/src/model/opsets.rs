//! The operator set versions of a model.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::{Error, Name};

/// The versions of the standard operators that can be imported.
pub const SUPPORTED_OPSETS: RangeInclusive<i64> = 1..=28;

/// Operator-set versions by domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opsets(BTreeMap<String, i64>);

impl Opsets {
    /// Collects the imports of a model or function.
    ///
    /// # Errors
    /// [`Error::Opset`] for a version of the standard domain outside [`SUPPORTED_OPSETS`],
    /// [`Error::Structure`] when a domain comes twice with different versions.
    pub(crate) fn collect(imports: impl IntoIterator<Item = (String, i64)>) -> Result<Self, Error> {
        let mut versions = BTreeMap::new();
        for (domain, version) in imports {
            let domain = canonical_domain(domain);
            if domain.is_empty() && !SUPPORTED_OPSETS.contains(&version) {
                return Err(Error::Opset { version });
            }
            if let Some(other) = versions.insert(domain.clone(), version)
                && other != version
            {
                let domain = Name::from(domain.as_str());
                return Err(Error::Structure {
                    reason: format!(
                        "operator set {domain} is imported in versions {other} and {version}"
                    ),
                });
            }
        }
        Ok(Self(versions))
    }

    /// The version of the standard operators, if the model imports them.
    pub fn standard(&self) -> Option<i64> {
        self.version("")
    }

    /// The version imported for `domain`; the standard domain is the empty one.
    pub fn version(&self, domain: &str) -> Option<i64> {
        self.0.get(domain).copied()
    }

    /// All domains and their versions, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0
            .iter()
            .map(|(domain, version)| (domain.as_str(), *version))
    }
}

/// The standard domain has two spellings; the empty one is kept.
pub(crate) fn canonical_domain(domain: String) -> String {
    if domain == "ai.onnx" {
        String::new()
    } else {
        domain
    }
}
