//! The checked name of a data file.
//!
//! Invariant: one or more parts joined by `/`, none of them empty, `.` or `..`, no backslash, colon
//! or control character. So a location cannot climb, start at a root or a drive, or mean different
//! things to different systems.

use std::fmt;

use super::Refusal;
use crate::Name;

/// A relative name beneath the model's folder, checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location(Name);

/// The maximum length of a name, in bytes; that of a path on Linux.
const LONGEST: usize = 4095;
/// The maximum number of parts of a name.
const MAX_PARTS: usize = 16;

impl Location {
    /// Checks a name from a model.
    ///
    /// # Errors
    /// The [`Refusal`] for the name.
    pub fn parse(raw: &str) -> Result<Self, Refusal> {
        if raw.len() > LONGEST {
            return Err(Refusal::TooLong);
        }
        if raw.starts_with('/') {
            return Err(Refusal::Absolute);
        }
        if raw
            .chars()
            .any(|character| matches!(character, '\\' | ':') || character.is_control())
        {
            return Err(Refusal::Character);
        }
        for (index, part) in raw.split('/').enumerate() {
            match part {
                "" => return Err(Refusal::Empty),
                "." | ".." => return Err(Refusal::Dots),
                _ if index >= MAX_PARTS => return Err(Refusal::TooLong),
                _ => {}
            }
        }
        Ok(Self(Name::from(raw)))
    }

    /// The name, parts separated by `/`.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The parts of the name, outermost folder first.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.as_str().split('/')
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_file_names_are_accepted() {
        for raw in ["weights.bin", "data/w.0", "..data", "a..b", "x y"] {
            assert_eq!(
                Location::parse(raw).map(|location| location.as_str().to_owned()),
                Ok(raw.to_owned())
            );
        }
        assert_eq!(
            Location::parse("a/b").unwrap().parts().collect::<Vec<_>>(),
            ["a", "b"]
        );
    }

    #[test]
    fn unsafe_file_locations_are_refused() {
        let long = "x".repeat(5000);
        let deep = ["x"; 17].join("/");
        for (raw, refusal) in [
            ("", Refusal::Empty),
            ("a//b", Refusal::Empty),
            ("a/", Refusal::Empty),
            ("/etc/passwd", Refusal::Absolute),
            ("/proc/self/environ", Refusal::Absolute),
            ("..", Refusal::Dots),
            ("../x", Refusal::Dots),
            ("a/../../x", Refusal::Dots),
            ("./x", Refusal::Dots),
            ("..\\x", Refusal::Character),
            ("C:x", Refusal::Character),
            ("file:///etc/passwd", Refusal::Character),
            ("a\0b", Refusal::Character),
            ("a\nb", Refusal::Character),
            (&long, Refusal::TooLong),
            (&deep, Refusal::TooLong),
        ] {
            assert_eq!(Location::parse(raw), Err(refusal), "{raw:?}");
        }
    }
}
