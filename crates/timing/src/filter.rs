//! Filters, which select the events that are shown.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::category::Category;
use crate::error::TimingError;
use crate::event::EventInfo;

/// Selects the events that are shown: those of the named categories whose names match a pattern. An empty filter shows
/// everything.
///
/// As text: terms separated by commas, each a category or a pattern `name=PATTERN`, in which `*` matches anything.
///
/// ```
/// use kiln_timing::{Category, Filter};
///
/// let filter: Filter = "compile,name=*matmul*".parse()?;
/// assert!(filter.shows(Category::Compile, "compile_matmul_bias"));
/// assert!(!filter.shows(Category::Codegen, "codegen_matmul_bias"));
/// assert!(!filter.shows(Category::Compile, "compile_conv"));
/// # Ok::<(), kiln_timing::TimingError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    categories: BTreeSet<Category>,
    names: BTreeSet<String>,
}

impl Filter {
    /// Everything is shown.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a category, in addition to those already named.
    #[must_use]
    pub fn category(mut self, category: Category) -> Self {
        self.categories.insert(category);
        self
    }

    /// Shows events whose name matches, in addition to those of other patterns; `*` matches anything.
    #[must_use]
    pub fn name(mut self, pattern: impl Into<String>) -> Self {
        self.names.insert(pattern.into());
        self
    }

    /// Whether everything is shown.
    pub fn is_everything(&self) -> bool {
        self.categories.is_empty() && self.names.is_empty()
    }

    /// Whether an event is shown.
    pub fn shows(&self, category: Category, name: &str) -> bool {
        let of_category = self.categories.is_empty() || self.categories.contains(&category);
        let of_name =
            self.names.is_empty() || self.names.iter().any(|pattern| matches(pattern, name));
        of_category && of_name
    }

    pub(crate) fn shows_event(&self, event: &EventInfo) -> bool {
        self.shows(event.category, &event.name)
    }
}

impl FromStr for Filter {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Self, TimingError> {
        let mut filter = Self::new();
        for term in text
            .split(',')
            .map(str::trim)
            .filter(|term| !term.is_empty())
        {
            filter = match term.strip_prefix("name=") {
                Some(pattern) => filter.name(pattern),
                None => filter.category(term.parse()?),
            };
        }
        Ok(filter)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let categories = self.categories.iter().map(ToString::to_string);
        let names = self.names.iter().map(|name| format!("name={name}"));
        f.write_str(&categories.chain(names).collect::<Vec<_>>().join(","))
    }
}

/// Whether a text matches a pattern. Each `*` matches as little as possible; if the rest then fails, the last `*` takes
/// one more character, so the time is at most the product of both lengths.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, position));
                at += 1;
            }
            Some(byte) if Some(byte) == text.get(position) => {
                at += 1;
                position += 1;
            }
            _ => {
                let Some((after, taken)) = star else {
                    return false;
                };
                star = Some((after, taken + 1));
                (at, position) = (after, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text) in [
            ("", ""),
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abc"),
            ("a*c", "ac"),
            ("*b*", "abc"),
            ("a**", "a"),
            ("*ab", "aab"),
            ("é*", "éa"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", ""),
            ("a*c", "ab"),
            ("b*", "abc"),
            ("*b", "abc"),
            ("a*b*c", "acb"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn filters_are_read_and_written() {
        let filter: Filter = " runtime ,compile,name=run_*,name=x,".parse().unwrap();
        assert_eq!(filter.to_string(), "compile,runtime,name=run_*,name=x");
        assert_eq!(filter.to_string().parse::<Filter>().unwrap(), filter);
        assert!(filter.shows(Category::Runtime, "run_conv") && !filter.shows(Category::Build, "x"));
        assert!("".parse::<Filter>().unwrap().is_everything());
        assert!(Filter::new().shows(Category::Build, "anything"));
        assert_eq!("compiler".parse::<Filter>().unwrap_err().code(), "E0750");
    }

    proptest::proptest! {
        #[test]
        fn a_pattern_without_stars_is_equality(left in "[a-c]{0,4}", right in "[a-c]{0,4}") {
            proptest::prop_assert_eq!(matches(&left, &right), left == right);
        }

        #[test]
        fn a_star_stands_for_anything(before in "[ab]{0,3}", between in "[ab]{0,3}", after in "[ab]{0,3}") {
            let pattern = format!("{before}*{after}");
            let text = format!("{before}{between}{after}");
            proptest::prop_assert!(matches(&pattern, &text));
        }
    }
}
