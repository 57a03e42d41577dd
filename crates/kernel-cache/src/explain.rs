//! Explains a cache miss: the result of each tier, and a field-by-field comparison with the nearest stored entry.

use std::fmt;

use crate::entry::EntryHead;
use crate::key::{CacheKey, FieldDifference, KeyDigest, differences};
use crate::miss::TierMiss;

/// Why a key is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissReport {
    /// The key.
    pub key: CacheKey,
    /// Whether the key is in memory, and so not a miss.
    pub is_in_memory: bool,
    /// The result of each tier in order, up to the first hit.
    pub tiers: Vec<TierMiss>,
    /// The tier that has the entry.
    pub found_in: Option<String>,
    /// A remembered compile failure that is not due for a retry yet.
    pub failure: Option<String>,
    /// The nearest stored entry; `None` if the key's subject has no entries.
    pub nearest: Option<Nearest>,
}

/// A stored entry of the same subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its tier.
    pub tier: String,
    /// The digest of its key.
    pub digest: KeyDigest,
    /// The fields in which its key differs.
    pub differences: Vec<FieldDifference>,
}

/// A snapshot of what the tiers hold: taken once, used to explain many keys.
#[derive(Clone, Debug, Default)]
pub struct StoredHeads(pub(crate) Vec<(String, EntryHead)>);

impl StoredHeads {
    /// The entry of the key's kind and subject that differs from it in the fewest fields.
    pub fn nearest(&self, key: &CacheKey) -> Option<Nearest> {
        let heads = self.0.iter();
        nearest(key, heads.map(|(tier, head)| (tier.as_str(), head)))
    }
}

impl fmt::Display for MissReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.key)?;
        match &self.found_in {
            _ if self.is_in_memory => return formatter.write_str("in memory"),
            Some(tier) => return write!(formatter, "stored in {tier}"),
            None => formatter.write_str("not in memory")?,
        }
        for miss in &self.tiers {
            write!(formatter, "; {miss}")?;
        }
        if let Some(failure) = &self.failure {
            write!(formatter, "\n  failed before: {failure}")?;
        }
        let subject = self.key.fields().first();
        match (&self.nearest, subject) {
            (Some(nearest), _) => {
                let Nearest { tier, digest, .. } = nearest;
                write!(formatter, "\n  nearest in {tier}: {}", digest.short())?;
                nearest
                    .differences
                    .iter()
                    .try_for_each(|difference| write!(formatter, "\n    {difference}"))
            }
            (None, Some(subject)) => {
                write!(formatter, "\n  nothing is stored for this {}", subject.name)
            }
            (None, None) => Ok(()),
        }
    }
}

/// The entry of the same kind and subject that differs in the fewest fields.
pub(crate) fn nearest<'a>(
    key: &CacheKey,
    heads: impl IntoIterator<Item = (&'a str, &'a EntryHead)>,
) -> Option<Nearest> {
    let subject = key.fields().first()?;
    heads
        .into_iter()
        .filter(|(_, head)| head.kind == key.kind().name())
        .filter(|(_, head)| head.digest != key.digest() && head.fields.first() == Some(subject))
        .map(|(tier, head)| Nearest {
            tier: tier.to_owned(),
            digest: head.digest,
            differences: differences(key.fields(), &head.fields),
        })
        .min_by_key(|nearest| (nearest.differences.len(), nearest.digest))
}
