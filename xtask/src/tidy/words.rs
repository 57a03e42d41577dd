//! Words that no file of the project may contain: paths of one machine, hosts of package registries.
//!
//! The words are in `xtask/words.toml`, in pieces, so that no file need be exempt for naming them.

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tree::{Problem, Tree};

const WORDS: &str = "xtask/words.toml";

#[derive(Deserialize)]
struct Words {
    exempt: Vec<String>,
    /// The words, each in two pieces.
    words: Vec<(String, String)>,
}

/// Searches every file.
pub(super) fn check(tree: &Tree) -> Result<Vec<Problem>> {
    let words: Words =
        toml::from_str(&tree.read(WORDS)?).with_context(|| format!("cannot read {WORDS}"))?;
    let mut problems = Vec::new();
    for path in tree
        .files
        .iter()
        .filter(|path| !words.exempt.contains(path))
    {
        let text = tree.read(path)?;
        for (start, end) in &words.words {
            let word = format!("{start}{end}");
            if let Some(at) = text.find(&word) {
                let line = text[..at].matches('\n').count() + 1;
                problems.push(Problem::at(
                    path,
                    line,
                    format!("holds `{word}`, which belongs to one machine or host"),
                ));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tree::said;

    #[test]
    fn a_forbidden_word_is_found_on_its_line() {
        let words = "exempt = ['c.lock']\nwords = [['/sec', 'ret/']]";
        let (_folder, tree) = Tree::of(&[
            (WORDS, words),
            ("a.txt", "fine\nsee /secret/x"),
            ("b.txt", "secret"),
            ("c.lock", "/secret/"),
        ]);
        let said = said(&check(&tree).unwrap());
        assert_eq!(
            said,
            ["a.txt:2: holds `/secret/`, which belongs to one machine or host"]
        );
    }
}
