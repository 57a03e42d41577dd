//! Kernels are serialised as their text.

use std::fmt;
use std::str::FromStr;

use kiln_symbolic_shape::text::Diagnostics;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{print, read};
use crate::form::Kernel;

/// The text form.
impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self))
    }
}

impl FromStr for Kernel {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Kernel, Diagnostics> {
        read(text)
    }
}

/// As a string, the text form.
impl Serialize for Kernel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&print(self))
    }
}

impl<'de> Deserialize<'de> for Kernel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kernel, D::Error> {
        let text = String::deserialize(deserializer)?;
        read(&text).map_err(de::Error::custom)
    }
}
