//! Why a key misses: what each tier says, and the stored entry that comes nearest, field by field.

use std::fmt;

use crate::entry::EntryHead;
use crate::key::{CacheKey, FieldDifference, KeyDigest, differences};
use crate::miss::TierMiss;

/// Why a key is not found now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissReport {
    /// The key.
    pub key: CacheKey,
    /// Whether it is in memory, and so misses nothing.
    pub is_in_memory: bool,
    /// What each tier says, in their order, up to one that has it.
    pub tiers: Vec<TierMiss>,
    /// The tier that has it.
    pub found_in: Option<String>,
    /// The failure of a compile that is not tried again yet.
    pub failure: Option<String>,
    /// The stored entry that comes nearest; none where nothing of the key's subject is stored.
    pub nearest: Option<Nearest>,
}

/// An entry of the same subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its tier.
    pub tier: String,
    /// The digest of its key.
    pub digest: KeyDigest,
    /// In what its key differs.
    pub differences: Vec<FieldDifference>,
}

/// What the tiers hold at some moment: taken once, asked about many keys.
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
                write!(formatter, "\n  nothing of this {} is stored", subject.name)
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
