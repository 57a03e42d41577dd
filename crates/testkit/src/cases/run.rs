//! `run` lines: sizes, the contents of operands, and expected results.

use super::directive::{AtLine, Directive};
use crate::generate::Flavor;
use crate::kernels::Elements;

/// The maximum number of points that a call computes, because the evaluator is slow.
const MAX_WORK: f64 = 20_000.0;

/// One `run` line.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Whether the graph's gradient runs, and is checked, in its place.
    pub(super) of_gradient: bool,
    /// The sizes.
    pub(super) sizes: Sizes,
    /// The distribution of generated operands.
    pub(super) elements: Elements,
    /// The outcome of calls.
    pub(super) outcome: Outcome,
    /// The maximum number of points that a call at `edges` computes.
    pub(super) work: f64,
    /// The given operands, by name.
    pub(super) given: Vec<(String, String)>,
    /// Whether it states results.
    pub(super) has_results: bool,
}

/// Sizes of a run.
#[derive(Clone, Debug)]
pub(super) enum Sizes {
    /// Around the widths of vectors and tiles.
    Edges,
    /// Rows of sizes of the named symbols.
    Listed {
        /// The symbols.
        names: Vec<String>,
        /// The sizes.
        rows: Vec<Vec<i64>>,
    },
}

/// The outcome of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Every call has results.
    Results,
    /// Some calls have results, others fail with a fault.
    Some,
    /// Every call fails with a fault.
    Faults,
}

impl Run {
    /// Reads a directive.
    pub(super) fn read(directive: &Directive) -> Result<Self, AtLine> {
        let here = |message| (directive.line, message);
        let (sizes, attributes) = match directive.rest.split_once('{') {
            Some((sizes, attributes)) => match attributes.strip_suffix('}') {
                Some(attributes) => (sizes.trim(), attributes),
                None => return Err(here("expected `}` at the end of the line".to_owned())),
            },
            None => (directive.rest.as_str(), ""),
        };
        let mut run = Self {
            of_gradient: directive.word == "gradient",
            sizes: Sizes::Edges,
            elements: Elements::default(),
            outcome: Outcome::Results,
            work: MAX_WORK,
            given: Vec::new(),
            has_results: false,
        };
        for attribute in attributes
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            run.set(attribute).map_err(here)?;
        }
        let mut sizes = sizes.to_owned();
        for (line, text) in (directive.line + 1..).zip(&directive.block) {
            if text.starts_with('|') {
                sizes = format!("{sizes} {text}");
            } else if result_name(text).is_some() {
                run.has_results = true;
            } else if let Some((name, elements)) = operand(text) {
                run.given.push((name.to_owned(), elements.to_owned()));
            } else {
                let expected = "`%name = [...]`, `%name == [...]` or `| sizes`";
                return Err((line, format!("expected {expected}, found `{text}`")));
            }
        }
        if sizes != "edges" {
            run.sizes = listed(&sizes).map_err(here)?;
        }
        let is_one = matches!(&run.sizes, Sizes::Listed { rows, .. } if rows.len() == 1);
        if (run.has_results || !run.given.is_empty()) && !is_one {
            return Err(here(
                "expected one row of sizes, as elements are given".to_owned(),
            ));
        }
        Ok(run)
    }

    fn set(&mut self, attribute: &str) -> Result<(), String> {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let (name, value) = (name.trim(), value.trim());
        let unknown = || format!("expected a value of `{name}`, found `{value}`");
        match (name, value) {
            ("may_fault", "") => self.outcome = Outcome::Some,
            ("faults", "") => self.outcome = Outcome::Faults,
            ("work", value) => self.work = value.parse().map_err(|_| unknown())?,
            ("elements", value) => {
                self.elements.flavor = match value {
                    "smooth" => Flavor::Smooth,
                    "small" => Flavor::Small,
                    "edges" => Flavor::Edges,
                    "special" => Flavor::Special,
                    _ => return Err(unknown()),
                };
            }
            ("indices", value) => {
                let ends = value.split_once("..");
                let ends =
                    ends.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
                self.elements.indices = ends.ok_or_else(unknown)?;
            }
            _ => {
                let expected = "elements, indices, work, may_fault or faults";
                return Err(format!("expected {expected}, found `{name}`"));
            }
        }
        Ok(())
    }
}

/// Reads `M N = 1 2 | 3 4`; empty for a program without symbols.
fn listed(text: &str) -> Result<Sizes, String> {
    let (names, rows) = text.split_once('=').unwrap_or((text, ""));
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    let mut read = Vec::new();
    for row in rows.split('|') {
        let sizes: Result<Vec<i64>, _> = row.split_whitespace().map(str::parse).collect();
        match sizes {
            Ok(sizes) if sizes.len() == names.len() => read.push(sizes),
            _ => {
                return Err(format!(
                    "expected a size for each of `{}`, found `{row}`",
                    names.join(" ")
                ));
            }
        }
    }
    Ok(Sizes::Listed { names, rows: read })
}

/// The name and the elements of a given operand.
fn operand(text: &str) -> Option<(&str, &str)> {
    let (name, elements) = text.strip_prefix('%')?.split_once(" = ")?;
    elements.starts_with('[').then_some((name, elements))
}

/// The name of a result that a line states.
pub(super) fn result_name(text: &str) -> Option<&str> {
    Some(text.strip_prefix('%')?.split_once(" ==")?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rest: &str, block: &[&str]) -> Result<Run, AtLine> {
        Run::read(&Directive {
            line: 7,
            word: "run".to_owned(),
            rest: rest.to_owned(),
            block: block.iter().map(|&line| line.to_owned()).collect(),
        })
    }

    #[test]
    fn sizes_go_on_in_the_block() {
        let run = read("M N = 1 2 {indices = -1..3, faults}", &["| 3 4"]).unwrap();
        let Sizes::Listed { names, rows } = run.sizes else {
            panic!("they are listed")
        };
        assert_eq!((names.len(), rows), (2, vec![vec![1, 2], vec![3, 4]]));
        assert_eq!(
            (run.elements.indices, run.outcome),
            ((-1, 3), Outcome::Faults)
        );
    }

    #[test]
    fn what_is_malformed_is_named_with_its_line() {
        for (rest, block, line, message) in [
            (
                "edges {elements = rough}",
                &[][..],
                7,
                "expected a value of `elements`, found `rough`",
            ),
            ("edges {seed = 3}", &[], 7, "found `seed`"),
            ("M N = 1", &[], 7, "expected a size for each of `M N`"),
            ("M = 1", &["%x = 3"], 8, "found `%x = 3`"),
            ("edges", &["%x = [3]"], 7, "expected one row of sizes"),
        ] {
            let (at, found) = read(rest, block).unwrap_err();
            assert!(at == line && found.contains(message), "{at}: {found}");
        }
    }
}
