//! Dependencies' licences against the allow-list in `deny.toml`.
//!
//! Checks what cargo resolves for the current platform. An expression passes when the allowed licences alone satisfy it:
//! `OR` needs one side, `AND` both.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};

const ALLOW: &str = "deny.toml";

#[derive(Deserialize)]
struct Rules {
    licenses: Allowed,
}

#[derive(Deserialize)]
struct Allowed {
    allow: Vec<String>,
}

/// Checks every third-party package.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let Rules { licenses: allowed } =
        toml::from_str(&tree.read(ALLOW)?).with_context(|| format!("cannot read {ALLOW}"))?;
    let mut problems = Vec::new();
    for package in tree.metadata.foreign() {
        let licence = package.license.as_deref().unwrap_or("none declared");
        if !is_met(licence, &allowed.allow) {
            let message = format!(
                "{} {} has licence `{licence}`, which is not allowed",
                package.name, package.version
            );
            problems.push(Problem::new(ALLOW, message));
        }
    }
    Ok(problems)
}

/// Evaluates an SPDX expression; an unreadable one fails.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    // The form before SPDX expressions: `MIT/Apache-2.0`.
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &[String]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &[String]) -> bool {
    match words.next() {
        Some("(") => any(words, allowed) & words.next_if_eq(&")").is_some(),
        Some(id) => {
            let mut licence = id.to_owned();
            if words.next_if_eq(&"WITH").is_some() {
                licence = format!("{licence} WITH {}", words.next().unwrap_or_default());
            }
            allowed.contains(&licence)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn licence_expressions_follow_spdx() {
        let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].map(str::to_owned);
        for met in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_met(met, &allowed), "{met}");
        }
        for unmet in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "Apache-2.0",
            "",
            "(MIT",
            "MIT MIT",
            "GPL-3.0 WITH MIT",
        ] {
            assert!(!is_met(unmet, &allowed), "{unmet}");
        }
    }

    #[test]
    fn a_package_without_an_allowed_licence_is_a_problem() {
        let (_folder, mut tree) = Tree::of(&[(ALLOW, "[licenses]\nallow = ['MIT']")]);
        let packages = r#"{"workspace_members":["1"],"packages":[{"name":"kiln","id":"1"},
            {"name":"good","id":"2","license":"MIT"},{"name":"bad","id":"3","version":"1.0.0"}]}"#;
        tree.metadata = serde_json::from_str(packages).unwrap();
        assert_eq!(
            said(&check(&tree).unwrap()),
            ["deny.toml: bad 1.0.0 has licence `none declared`, which is not allowed"]
        );
    }
}
