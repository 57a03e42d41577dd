//! The format of each product.

use crate::error::PrecisionError;
use crate::format::Format;
use glob::Pattern;
use std::str::FromStr;

/// A format for all products of a graph, and other formats for some of them, by name.
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

    /// Another format for the products whose names match a pattern, in which `*` stands for any text. The name of a
    /// product is that of the model's node from which it comes, or otherwise that of its value. The last pattern that
    /// matches decides.
    ///
    /// # Errors
    /// E0643 for a text that is not a pattern.
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

/// A list with commas: formats, and formats of products by name: `int8, lm_head*=f32`. The last format without a name is for
/// all other products; without one they stay f32.
impl FromStr for Precision {
    type Err = PrecisionError;

    fn from_str(text: &str) -> Result<Self, PrecisionError> {
        let mut precision = Self::of(Format::F32);
        for part in text.split(',') {
            precision = match part.rsplit_once('=') {
                Some((names, format)) => precision.and(names.trim(), format.trim().parse()?)?,
                None => Self {
                    format: part.trim().parse()?,
                    ..precision
                },
            };
        }
        Ok(precision)
    }
}

impl From<Format> for Precision {
    fn from(format: Format) -> Self {
        Self::of(format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_formats_by_name_and_one_for_the_others() {
        let precision: Precision = "lm_head*=f32, int8-weights,router=bf16".parse().unwrap();
        assert_eq!(precision.format_of("lm_head/MatMul"), Format::F32);
        assert_eq!(precision.format_of("router"), Format::BF16);
        assert_eq!(
            precision.format_of("other"),
            "int8-weights".parse().unwrap()
        );
        let only: Precision = "router=bf16".parse().unwrap();
        assert_eq!(only.format_of("other"), Format::F32);
        for wrong in ["", "int8,", "int9", "a=", "[=int8"] {
            assert!(wrong.parse::<Precision>().is_err(), "{wrong}");
        }
    }
}
