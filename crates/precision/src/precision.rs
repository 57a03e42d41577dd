//! Which format each product gets.

use crate::error::PrecisionError;
use crate::format::Format;
use glob::Pattern;

/// A format for all products of a graph, and others for some of them, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precision {
    format: Format,
    exceptions: Vec<(Pattern, Format)>,
}

impl Precision {
    /// One format for every product.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            exceptions: Vec::new(),
        }
    }

    /// Another format for the products whose names match a pattern, in which `*` stands for any text. The name of a product
    /// is that of the model's node it comes from, or else that of its value. The last pattern that matches decides.
    ///
    /// # Errors
    /// E0643 for a text that is no pattern.
    pub fn and(mut self, names: &str, format: Format) -> Result<Self, PrecisionError> {
        let pattern = Pattern::new(names).map_err(|error| PrecisionError::Pattern {
            found: names.to_owned(),
            reason: error.msg.to_owned(),
        })?;
        self.exceptions.push((pattern, format));
        Ok(self)
    }

    /// The format of the product with this name.
    pub fn format_of(&self, name: &str) -> Format {
        let mut exceptions = self.exceptions.iter().rev();
        let exception = exceptions.find(|(pattern, _)| pattern.matches(name));
        exception.map_or(self.format, |(_, format)| *format)
    }

    /// The first pattern that matches none of these names.
    pub(crate) fn unmatched<'a>(
        &self,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<&str> {
        let mut patterns = self.exceptions.iter().map(|(pattern, _)| pattern);
        let unmatched = patterns.find(|pattern| !names.clone().any(|name| pattern.matches(name)));
        unmatched.map(Pattern::as_str)
    }
}

impl From<Format> for Precision {
    fn from(format: Format) -> Self {
        Self::of(format)
    }
}
