//! The equation of an einsum, such as `bij,bjk->bik`: the labels of each operand's axes and of the result's.

use crate::error::InferErrorKind;
use std::fmt;

/// A letter, or the `i`-th axis of an ellipsis, counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Ellipsis(usize),
    Letter(char),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ellipsis(_) => f.write_str("..."),
            Self::Letter(letter) => letter.fmt(f),
        }
    }
}

/// An equation for operands of certain ranks.
pub(super) struct Equation {
    /// The text of each operand's term.
    pub(super) terms: Vec<String>,
    /// The labels of each operand's axes, as in its term: a label may be repeated.
    pub(super) operands: Vec<Vec<Label>>,
    /// The labels of the result's axes: each once, and each of an operand.
    pub(super) result: Vec<Label>,
}

impl Equation {
    /// Reads an equation for operands of these ranks.
    pub(super) fn parse(text: &str, ranks: &[usize]) -> Result<Self, InferErrorKind> {
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match compact.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (compact.as_str(), None),
        };
        let terms: Vec<String> = left.split(',').map(str::to_owned).collect();
        if terms.len() != ranks.len() {
            let expected = format!("{} terms, one per operand", ranks.len());
            return Err(mistake(expected, format!("{} in {compact:?}", terms.len())));
        }
        let mut operands = Vec::with_capacity(terms.len());
        for (index, (text, &rank)) in terms.iter().zip(ranks).enumerate() {
            let term = Term::parse(text)?;
            let rest = rank.checked_sub(term.n_letters());
            match rest.filter(|&rest| rest == 0 || term.has_ellipsis()) {
                Some(rest) => operands.push(term.labels(rest)),
                None => {
                    let expected =
                        format!("a label for each of the {rank} axes of operand {index}");
                    return Err(mistake(expected, format!("{text:?}")));
                }
            }
        }
        let all = operands.concat();
        let result = match right {
            Some(text) => explicit_result(text, &all)?,
            None => implicit_result(&all),
        };
        Ok(Self {
            terms,
            operands,
            result,
        })
    }
}

/// The letters of a term, before and after its ellipsis.
struct Term {
    before: Vec<Label>,
    after: Option<Vec<Label>>,
}

impl Term {
    fn parse(text: &str) -> Result<Self, InferErrorKind> {
        let letters = |part: &str| -> Result<Vec<Label>, InferErrorKind> {
            let label = |c: char| match c.is_ascii_alphabetic() {
                true => Ok(Label::Letter(c)),
                false => {
                    let expected = "letters and at most one ellipsis in each term";
                    Err(mistake(expected, format!("{text:?}")))
                }
            };
            part.chars().map(label).collect()
        };
        Ok(match text.split_once("...") {
            Some((before, after)) => Self {
                before: letters(before)?,
                after: Some(letters(after)?),
            },
            None => Self {
                before: letters(text)?,
                after: None,
            },
        })
    }

    fn has_ellipsis(&self) -> bool {
        self.after.is_some()
    }

    fn n_letters(&self) -> usize {
        self.before.len() + self.after.as_ref().map_or(0, Vec::len)
    }

    /// Its labels, with this number of axes for the ellipsis.
    fn labels(self, n_axes: usize) -> Vec<Label> {
        let mut labels = self.before;
        if let Some(after) = self.after {
            labels.extend((0..n_axes).rev().map(Label::Ellipsis));
            labels.extend(after);
        }
        labels
    }
}

/// The labels of an explicit result. Its ellipsis represents those of all operands.
fn explicit_result(text: &str, all: &[Label]) -> Result<Vec<Label>, InferErrorKind> {
    let n_axes = all.iter().filter_map(|label| match label {
        Label::Ellipsis(index) => Some(index + 1),
        Label::Letter(_) => None,
    });
    let labels = Term::parse(text)?.labels(n_axes.max().unwrap_or(0));
    for (index, label) in labels.iter().enumerate() {
        if labels[..index].contains(label) {
            let expected = "each label once in the result";
            return Err(mistake(expected, format!("`{label}` twice in {text:?}")));
        }
        if !all.contains(label) {
            let expected = "labels of operands in the result";
            return Err(mistake(expected, format!("`{label}` in {text:?}")));
        }
    }
    Ok(labels)
}

/// The labels without an explicit result: the ellipsis, then the letters that occur once, in alphabetical order.
fn implicit_result(all: &[Label]) -> Vec<Label> {
    let count = |label: &Label| all.iter().filter(|&other| other == label).count();
    let mut result: Vec<Label> = all
        .iter()
        .copied()
        .filter(|label| matches!(label, Label::Ellipsis(_)) || count(label) == 1)
        .collect();
    result.sort_by_key(|label| match label {
        Label::Ellipsis(index) => (0, usize::MAX - index, ' '),
        Label::Letter(letter) => (1, 0, *letter),
    });
    result.dedup();
    result
}

fn mistake(expected: impl Into<String>, found: String) -> InferErrorKind {
    InferErrorKind::Attribute {
        name: "equation",
        expected: expected.into(),
        found,
    }
}
