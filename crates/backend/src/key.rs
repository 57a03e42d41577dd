//! The key of compiled code: BLAKE3 of everything that determines a backend's output, and of nothing else.
//!
//! Names, paths, times, pointers, map order and processor names are never part of a key. A difference in any field
//! gives another key, and equal fields give the same key in every process and on every machine.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::schedule::{Schedule, Target};

/// The version of this format of fields; changing it changes all keys.
const FORMAT: &str = "kiln kernel key 4";

/// A stable hash of everything on which compiled code depends; prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

/// Everything on which a backend's code depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFields {
    /// The canonical kernel, as text.
    pub kernel: String,
    /// What the variant assumes in addition to the kernel's contract, as texts; empty for the generic kernel.
    pub variant: BTreeSet<String>,
    /// The schedule.
    pub schedule: Schedule,
    /// The target.
    pub target: Target,
    /// The target's features, as passed to the compiler.
    pub features: BTreeSet<String>,
    /// Kiln's version.
    pub kiln: String,
    /// The compiler's version: [`KernelCompiler::version`](crate::KernelCompiler::version).
    pub compiler: String,
    /// Options that change code, by name.
    pub options: BTreeMap<String, String>,
}

/// The key of these fields.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// use kiln_backend::{KeyFields, Schedule, Target, stable_key};
///
/// let fields = KeyFields {
///     kernel: "kernel @kernel() {\n}\n".to_owned(),
///     variant: BTreeSet::new(),
///     schedule: Schedule::new("fallback"),
///     target: Target { backend: "llvm".to_owned(), level: "avx2+fma".to_owned() },
///     features: BTreeSet::from(["+avx2".to_owned(), "+fma".to_owned()]),
///     kiln: "0.1.0".to_owned(),
///     compiler: "llvm 19.1.7".to_owned(),
///     options: BTreeMap::new(),
/// };
/// let mut other = fields.clone();
/// other.variant.insert("s0 % 8 == 0".to_owned());
/// assert_ne!(stable_key(&fields), stable_key(&other));
/// assert_eq!(fields.differences(&other), ["variant"]);
/// ```
pub fn stable_key(fields: &KeyFields) -> Key {
    let mut hasher = blake3::Hasher::new();
    // Each part is preceded by its length, so that no two lists of parts give the same bytes.
    let mut put = |part: &str| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    };
    put(FORMAT);
    for (name, parts) in fields.parts() {
        put(name);
        put(&parts.len().to_string());
        parts.iter().for_each(|part| put(part));
    }
    Key(*hasher.finalize().as_bytes())
}

impl KeyFields {
    /// The fields in which two differ, by name: the reason for a recompile.
    pub fn differences(&self, other: &KeyFields) -> Vec<&'static str> {
        let pairs = self.parts().into_iter().zip(other.parts());
        pairs
            .filter(|((_, left), (_, right))| left != right)
            .map(|((name, _), _)| name)
            .collect()
    }

    /// Every field: its name and its parts, the subject first.
    pub fn parts(&self) -> [(&'static str, Vec<String>); 8] {
        // Destructured by name, so that a new field cannot be forgotten.
        let Self {
            kernel,
            variant,
            schedule,
            target,
            features,
            kiln,
            compiler,
            options,
        } = self;
        let Schedule { name, text } = schedule;
        let Target { backend, level } = target;
        let chosen = options
            .iter()
            .flat_map(|(name, value)| [name.clone(), value.clone()]);
        [
            ("kernel", vec![kernel.clone()]),
            ("variant", variant.iter().cloned().collect()),
            ("schedule", vec![name.clone(), text.clone()]),
            ("target", vec![backend.clone(), level.clone()]),
            ("features", features.iter().cloned().collect()),
            ("kiln", vec![kiln.clone()]),
            ("compiler", vec![compiler.clone()]),
            ("options", chosen.collect()),
        ]
    }
}

impl Key {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Key {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({self})")
    }
}

/// E0250: a text that is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits of a key, in lower case")]
pub struct KeyError;

impl KeyError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        "E0250"
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Key, KeyError> {
        let digits = text.as_bytes();
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(KeyError),
        };
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(KeyError);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = 16 * value(pair[0])? + value(pair[1])?;
        }
        Ok(Key(bytes))
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}
