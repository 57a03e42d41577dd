//! What keys of devices may be.

/// Whether a key is made of lower-case letters, digits and `-`, and begins with a letter: so that it can be typed, and no
/// level or list can be mistaken for a part of it.
pub(super) fn is_allowed(key: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_can_be_typed_and_have_no_level() {
        for key in ["cpu", "cuda0", "my-card"] {
            assert!(is_allowed(key), "{key}");
        }
        for key in ["", "0", "-a", "CPU", "cpu:avx2", "a b", "a,b", "ä"] {
            assert!(!is_allowed(key), "{key}");
        }
    }
}
