//! Text of the page: escaping, shortening, and figures with units.

use serde::Serialize;

/// A text with everything that HTML could mistake for markup replaced, and control characters made visible.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Bidirectional control characters would reorder the text around a name.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON that is safe in a `script` element: nothing in it can end the element.
pub(super) fn json(value: &impl Serialize) -> String {
    // Serialising a report cannot fail.
    let text = serde_json::to_string(value).unwrap_or_else(|_| "[]".to_owned());
    text.replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// The first characters of a text, with an ellipsis if there are more.
pub(super) fn short(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(characters.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

/// A shortened name, which keeps its end, because that is more informative than the beginning:
/// `/encoder/layer.11/attention/Add` as `…layer.11/attention/Add`.
pub(super) fn short_name(name: &str, characters: usize) -> String {
    let n = name.chars().count();
    match n > characters {
        false => name.to_owned(),
        true => {
            let kept = name.chars().skip(n - characters + 1);
            std::iter::once('…').chain(kept).collect()
        }
    }
}

/// A figure with three digits and no unit.
pub(super) fn count(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, " G"),
        value if value >= 1e6 => (value / 1e6, " M"),
        value if value >= 1e4 => (value / 1e3, " k"),
        value => (value, ""),
    };
    let digits = match value {
        value if value >= 100.0 || value.fract() == 0.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// A number of bytes.
pub(super) fn bytes(bytes: f64) -> String {
    let (value, unit) = match bytes {
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes if bytes >= 1e6 => (bytes / 1e6, "MB"),
        bytes if bytes >= 1e3 => (bytes / 1e3, "kB"),
        bytes => return format!("{bytes:.0} B"),
    };
    let digits = if value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {unit}")
}

/// The CSS class of a step's colour.
pub(super) fn colour(kind: &str, class: Option<&str>) -> &'static str {
    match (kind, class) {
        ("kernel", Some("map")) => "c-map",
        ("kernel", Some("row")) => "c-row",
        ("kernel", Some("contraction")) => "c-contraction",
        ("kernel", Some("window")) => "c-window",
        ("kernel", Some("attention")) => "c-attention",
        ("kernel", Some("scan")) => "c-scan",
        ("interpret", _) => "c-interpret",
        _ => "c-other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_element() {
        let name = "</script><img src=x onerror=alert(1)>'\"\u{202e}\u{0}";
        let escaped = escape(name);
        assert!(
            !escaped.contains(['<', '>', '"', '\'', '\u{202e}', '\u{0}']),
            "{escaped}"
        );
        assert!(!json(&name).contains('<'));
        assert_eq!(serde_json::from_str::<String>(&json(&name)).unwrap(), name);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(
            [count(0.5), count(12.34), count(20_000.0)],
            ["0.50", "12.3", "20 k"]
        );
        assert_eq!(
            [bytes(12.0), bytes(4096.0), bytes(2.5e8)],
            ["12 B", "4.1 kB", "250 MB"]
        );
        assert_eq!(short_name("/a/b/c", 4), "…b/c");
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
