//! File names in a folder of entries. Files with other names are not touched.

use std::fmt;

use crate::entry::FORMAT;
use crate::key::KeyDigest;

/// A file of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileName {
    /// An entry in this format.
    Entry(KeyDigest),
    /// An entry in a different format: takes space, and is not read.
    Foreign(KeyDigest),
    /// A draft being written.
    Draft(u64),
    /// Locked by the process that makes an entry.
    Claim(KeyDigest),
    /// Locked by the evicting process.
    Eviction,
}

const ENTRY: &str = ".kiln";
const DRAFT: &str = ".draft";
const CLAIM: &str = ".claim";
const EVICTION: &str = "eviction.claim";

impl FileName {
    /// The file with this name, if it is one of the cache's.
    pub(super) fn read(name: &str) -> Option<Self> {
        if name == EVICTION {
            return Some(Self::Eviction);
        }
        if let Some((digits, format)) = name.split_once(ENTRY) {
            let digest = KeyDigest::from_hex(digits)?;
            let format: u32 = format.parse().ok()?;
            let is_ours = format == FORMAT && name == Self::Entry(digest).to_string();
            return Some(match is_ours {
                true => Self::Entry(digest),
                false => Self::Foreign(digest),
            });
        }
        if let Some(digits) = name.strip_suffix(CLAIM) {
            return KeyDigest::from_hex(digits).map(Self::Claim);
        }
        let digits = name.strip_suffix(DRAFT)?;
        let is_number = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_number
            .then(|| u64::from_str_radix(digits, 16).ok().map(Self::Draft))
            .flatten()
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(digest) => write!(formatter, "{digest}{ENTRY}{FORMAT}"),
            Self::Foreign(digest) => write!(formatter, "{digest}{ENTRY}"),
            Self::Draft(number) => write!(formatter, "{number:016x}{DRAFT}"),
            Self::Claim(digest) => write!(formatter, "{digest}{CLAIM}"),
            Self::Eviction => formatter.write_str(EVICTION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_file_names_round_trip_and_foreign_names_are_ignored() {
        let digest = KeyDigest::of(b"x");
        for name in [
            FileName::Entry(digest),
            FileName::Draft(0xab),
            FileName::Claim(digest),
            FileName::Eviction,
        ] {
            assert_eq!(FileName::read(&name.to_string()), Some(name));
        }
        let foreign = Some(FileName::Foreign(digest));
        assert_eq!(FileName::read(&format!("{digest}.kiln1")), foreign);
        assert_eq!(FileName::read(&format!("{digest}.kiln02")), foreign);
        for other in [
            "",
            "a.kiln2",
            ".claim",
            "notes.txt",
            "+00000000000000a.draft",
            "1.draft",
        ] {
            assert_eq!(FileName::read(other), None, "{other}");
        }
        assert_eq!(FileName::read(&format!("{digest}.kiln")), None);
        assert_eq!(FileName::read(&format!("{digest}.kiln2x")), None);
    }
}
