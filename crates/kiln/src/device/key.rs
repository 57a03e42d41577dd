//! The syntax of device keys.

/// Whether a key consists of lower-case letters, digits and `-` and starts with a letter: easy to type, and never
/// ambiguous next to a level or in a list.
pub(super) fn is_allowed(key: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_lower_case_letters_digits_and_dashes() {
        for key in ["cpu", "cuda0", "my-card"] {
            assert!(is_allowed(key), "{key}");
        }
        for key in ["", "0", "-a", "CPU", "cpu:avx2", "a b", "a,b", "ä"] {
            assert!(!is_allowed(key), "{key}");
        }
    }
}
