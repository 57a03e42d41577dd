//! The book's listings: a `text` block that begins with `$ kiln` is the output of that command.
//!
//! A file `NAME.kiln` in a command is the last `kiln` block before the listing; `models/…` is an example model. A line
//! `…` stands for any lines. Commands on files that the reader provides are illustrations, and are not run.

use super::support::Workshop;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that mark commands as illustrations: the reader's own files, and the reader's cache.
const ILLUSTRATED: [&str; 4] = [
    "model.onnx",
    "old-export.onnx",
    "model.kiln-bundle",
    "cache",
];

/// The line that matches any lines.
const ELISION: &str = "…";

/// A command of the book, and its expected output.
struct Listing {
    page: PathBuf,
    line: usize,
    command: Vec<String>,
    expected: Vec<String>,
    /// The preceding graph.
    graph: Option<String>,
}

#[test]
fn commands_on_graphs_of_the_book_print_their_listings() {
    let listings = listings()
        .into_iter()
        .filter(|listing| !listing.names_model());
    let n_checked = listings.map(|listing| listing.check(None)).count();
    assert!(n_checked >= 5, "found {n_checked} listings in the book");
}

#[test]
fn real_model_commands_of_the_book_print_their_listings() {
    let Some(models) = std::env::var_os("KILN_MODELS") else {
        println!("skipped: KILN_MODELS is not set");
        return;
    };
    let listings = listings().into_iter().filter(Listing::names_model);
    let n_checked = listings
        .map(|listing| listing.check(Some(Path::new(&models))))
        .count();
    assert!(n_checked >= 3, "found {n_checked} listings in the book");
}

/// The listings of all pages, except illustrations.
fn listings() -> Vec<Listing> {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let mut found = Vec::new();
    for folder in ["tutorial", "guide", "internals", "reference"] {
        let mut pages: Vec<PathBuf> = fs::read_dir(book.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect();
        pages.sort();
        pages.iter().for_each(|page| of_page(page, &mut found));
    }
    found
}

fn of_page(page: &Path, found: &mut Vec<Listing>) {
    let text = fs::read_to_string(page).unwrap();
    let mut lines = text.lines().enumerate();
    let mut graph = None;
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block = lines.by_ref().map(|(_, line)| line);
        let block: Vec<String> = block
            .take_while(|line| !line.starts_with("```"))
            .map(str::to_owned)
            .collect();
        match (language, block.first()) {
            ("kiln", _) => graph = Some(block.join("\n")),
            ("text", Some(first)) if first.starts_with("$ kiln ") => {
                let listing = Listing::of_block(page, number + 1, block, graph.clone());
                found.extend(listing.filter(|listing| !listing.is_illustration()));
            }
            _ => {}
        }
    }
}

impl Listing {
    fn of_block(
        page: &Path,
        line: usize,
        block: Vec<String>,
        graph: Option<String>,
    ) -> Option<Self> {
        let mut lines = block.into_iter();
        let mut command = lines.next()?;
        while let Some(first) = command.strip_suffix('\\') {
            command = format!("{first}{}", lines.next()?);
        }
        let words = command.strip_prefix("$ kiln ")?.split_whitespace();
        Some(Self {
            page: page.to_owned(),
            line,
            command: words.map(str::to_owned).collect(),
            expected: lines.collect(),
            graph,
        })
    }

    fn is_illustration(&self) -> bool {
        let is_illustrated = |word: &String| ILLUSTRATED.contains(&word.as_str());
        self.command.iter().any(is_illustrated)
    }

    fn names_model(&self) -> bool {
        self.command.iter().any(|word| word.starts_with("models/"))
    }

    /// Runs the command and compares its output.
    fn check(self, models: Option<&Path>) {
        let workshop = Workshop::new();
        let at = format!("{}:{}", self.page.display(), self.line);
        let words = self.command.iter().map(|word| {
            if word.ends_with(".kiln") {
                let graph = self
                    .graph
                    .as_ref()
                    .unwrap_or_else(|| panic!("{at}: no graph"));
                fs::write(workshop.path(word), graph).unwrap();
            }
            match (word.strip_prefix("models/"), models) {
                (Some(model), Some(models)) => models.join(model).display().to_string(),
                _ => word.clone(),
            }
        });
        let words: Vec<String> = words.collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Debug builds interpret by default.
        words.extend(["--device", "cpu"]);
        let output = workshop.kiln(&words);
        let (printed, errors) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        let lines: Vec<&str> = printed.trim_end().lines().collect();
        let expected: Vec<&str> = self.expected.iter().map(String::as_str).collect();
        assert!(
            matches(&expected, &lines),
            "{at}: `kiln {}` prints\n{printed}{errors}",
            self.command.join(" ")
        );
    }
}

/// Whether lines match the expected ones, where `…` matches any lines.
fn matches(expected: &[&str], lines: &[&str]) -> bool {
    let mut rest = lines;
    let mut parts = expected.split(|line| line.trim() == ELISION);
    let first = parts.next().unwrap_or_default();
    let parts: Vec<&[&str]> = parts.collect();
    let Some(after) = rest.strip_prefix(first) else {
        return false;
    };
    rest = after;
    let Some((last, middle)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in middle.iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == *part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn an_elision_matches_any_lines() {
    let is_match = |expected: &str, lines: &str| {
        let expected: Vec<&str> = expected.split(' ').collect();
        let lines: Vec<&str> = lines.split(' ').collect();
        matches(&expected, &lines)
    };
    assert!(is_match("a b", "a b"));
    assert!(!is_match("a", "a b"));
    assert!(is_match("a … d", "a b c d"));
    assert!(is_match("a … d", "a d"));
    assert!(is_match("a … c … e", "a b c d e"));
    assert!(!is_match("a … x … e", "a b c d e"));
    assert!(is_match("… c", "a b c"));
}
