//! [`CacheKey`]: a digest of everything the content of an entry depends on, with those fields by name.
//!
//! The digest identifies the entry; the fields explain misses, and detect two different things that share a digest. The
//! first field is the *subject*: what was compiled; the others are how. Paths, times, pointers, map order and processor
//! names are never part of a key.

use std::fmt;
use std::sync::Arc;

/// The version of the digest scheme of [`CacheKey::of_fields`]; a new version changes every digest.
const FORMAT: &str = "kiln cache key 1";

/// Field values up to this many bytes are kept as text, longer ones as digests.
const TEXT_LIMIT: usize = 256;

/// The key of an entry. Cheap to clone; two keys are equal if kind and digest are.
#[derive(Clone)]
pub struct CacheKey(Arc<Parts>);

struct Parts {
    kind: EntryKind,
    digest: KeyDigest,
    fields: Vec<KeyField>,
}

/// The kind of content of an entry, by name; opaque to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKind(&'static str);

/// A BLAKE3 digest; prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest([u8; 32]);

/// One input of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyField {
    /// Its name: `compiler`.
    pub name: String,
    /// Its value.
    pub value: FieldValue,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A short one.
    Text(String),
    /// A long one.
    Digest {
        /// Its length.
        bytes: u64,
        /// Its digest.
        digest: KeyDigest,
    },
}

/// A field in which two keys differ; `None` on the side of a key that lacks the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// The field's name.
    pub name: String,
    /// The value of the requested key.
    pub wanted: Option<FieldValue>,
    /// The value of the other key.
    pub found: Option<FieldValue>,
}

impl CacheKey {
    /// A key with a digest computed by the caller from at least these fields; the first is the subject.
    pub fn new<N: Into<String>, V: AsRef<str>>(
        kind: EntryKind,
        digest: KeyDigest,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let fields = fields
            .into_iter()
            .map(|(name, value)| KeyField::new(name, value.as_ref()))
            .collect();
        Self(Arc::new(Parts {
            kind,
            digest,
            fields,
        }))
    }

    /// A key with a digest of its kind and fields in this order; the first is the subject.
    pub fn of_fields<N: Into<String>, V: AsRef<str>>(
        kind: EntryKind,
        fields: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut hasher = blake3::Hasher::new();
        // Each part is preceded by its length, so different lists of parts never give the same bytes.
        let mut put = |part: &str| {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        };
        put(FORMAT);
        put(kind.name());
        let mut kept = Vec::new();
        for (name, value) in fields {
            let (name, value) = (name.into(), value.as_ref());
            put(&name);
            put(value);
            kept.push(KeyField::new(name, value));
        }
        let digest = KeyDigest(*hasher.finalize().as_bytes());
        Self(Arc::new(Parts {
            kind,
            digest,
            fields: kept,
        }))
    }

    /// The kind of content.
    pub fn kind(&self) -> EntryKind {
        self.0.kind
    }

    /// The digest.
    pub fn digest(&self) -> KeyDigest {
        self.0.digest
    }

    /// The fields, the subject first.
    pub fn fields(&self) -> &[KeyField] {
        &self.0.fields
    }
}

impl PartialEq for CacheKey {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.digest() == other.digest()
    }
}

impl Eq for CacheKey {}

impl fmt::Display for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind(), self.digest().short())
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CacheKey({} {})", self.kind(), self.digest())
    }
}

impl EntryKind {
    /// Compiled kernels.
    pub const KERNEL: Self = Self("kernel");
    /// Serialised programs.
    pub const PROGRAM: Self = Self("program");
    /// Constants computed when a program was built: elements, row-major.
    pub const CONSTANT: Self = Self("constant");
    /// Constants in a kernel's layout.
    pub const PACKED: Self = Self("packed");
    /// The contents of a file with a known identity.
    pub const FILE: Self = Self("file");
    /// The configuration with which a graph runs best, as measured.
    pub const TUNING: Self = Self("tuning");

    /// Another kind.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Whether content of this kind is executed.
    pub fn is_code(self) -> bool {
        self == Self::KERNEL
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl KeyDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = 16 * value(pair[0])? + value(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// The first eight digits, for display.
    pub fn short(&self) -> String {
        self.to_string().chars().take(8).collect()
    }
}

impl From<[u8; 32]> for KeyDigest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyDigest({self})")
    }
}

impl KeyField {
    pub(crate) fn new(name: impl Into<String>, value: &str) -> Self {
        let value = if value.len() <= TEXT_LIMIT {
            FieldValue::Text(value.to_owned())
        } else {
            FieldValue::Digest {
                bytes: value.len() as u64,
                digest: KeyDigest::of(value.as_bytes()),
            }
        };
        Self {
            name: name.into(),
            value,
        }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(formatter, "{text:?}"),
            Self::Digest { bytes, digest } => {
                write!(formatter, "{bytes} bytes {}", digest.short())
            }
        }
    }
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<FieldValue>| match value {
            Some(value) => value.to_string(),
            None => "none".to_owned(),
        };
        let Self {
            name,
            wanted,
            found,
        } = self;
        write!(formatter, "{name}: {}, there {}", show(wanted), show(found))
    }
}

/// The fields in which two lists differ, in order.
pub(crate) fn differences(wanted: &[KeyField], found: &[KeyField]) -> Vec<FieldDifference> {
    let value = |fields: &[KeyField], name: &str| {
        fields
            .iter()
            .find(|field| field.name == name)
            .map(|field| field.value.clone())
    };
    let mut names: Vec<&str> = Vec::new();
    for field in wanted.iter().chain(found) {
        if !names.contains(&field.name.as_str()) {
            names.push(&field.name);
        }
    }
    names
        .into_iter()
        .map(|name| FieldDifference {
            name: name.to_owned(),
            wanted: value(wanted, name),
            found: value(found, name),
        })
        .filter(|difference| difference.wanted != difference.found)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_change_of_a_field_changes_the_digest() {
        let key = |kind, fields: &[(&'static str, &'static str)]| {
            CacheKey::of_fields(kind, fields.iter().copied()).digest()
        };
        let all = [
            key(EntryKind::KERNEL, &[("a", "b"), ("c", "d")]),
            key(EntryKind::PROGRAM, &[("a", "b"), ("c", "d")]),
            key(EntryKind::KERNEL, &[("a", "b"), ("c", "e")]),
            key(EntryKind::KERNEL, &[("a", "bc"), ("", "d")]),
            key(EntryKind::KERNEL, &[("a", "b")]),
            key(EntryKind::KERNEL, &[("c", "d"), ("a", "b")]),
            key(EntryKind::KERNEL, &[]),
        ];
        for (position, left) in all.iter().enumerate() {
            for right in &all[position + 1..] {
                assert_ne!(left, right);
            }
        }
    }

    #[test]
    fn the_digest_of_fields_is_frozen() {
        let key = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp"), ("level", "avx2")]);
        insta::assert_snapshot!(key.digest(), @"2c202177edce13b90ccdece16fc82f4a014785c6ecacc41c3869cb03f59cedbf");
        insta::assert_snapshot!(key, @"program 2c202177");
    }

    #[test]
    fn digests_round_trip_and_other_texts_are_refused() {
        let digest = KeyDigest::of(b"x");
        assert_eq!(KeyDigest::from_hex(&digest.to_string()), Some(digest));
        let text = digest.to_string();
        for wrong in [
            "",
            "zz",
            &text[1..],
            &text.to_uppercase(),
            &text.replacen(&text[..1], "+", 1),
        ] {
            assert_eq!(KeyDigest::from_hex(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn differences_name_the_field_and_both_values() {
        let long = "k".repeat(1000);
        let one = CacheKey::of_fields(EntryKind::KERNEL, [("kernel", &*long), ("level", "avx2")]);
        let two = CacheKey::of_fields(EntryKind::KERNEL, [("kernel", "k"), ("lanes", "8")]);
        let shown: Vec<String> = differences(one.fields(), two.fields())
            .iter()
            .map(ToString::to_string)
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @r#"
        kernel: 1000 bytes b3da5738, there "k"
        level: "avx2", there none
        lanes: none, there "8"
        "#);
        assert_eq!(differences(one.fields(), one.fields()), []);
    }
}
