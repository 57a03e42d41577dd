//! The text of an op's box: its attributes, without those that carry no information.
//!
//! Sizes that show in the result's type, strides of one and borders of zero are omitted: the text form has them all.

use crate::graph::Graph;
use crate::op::{FieldVisitor, Indices, Integers, Op, Word};
use crate::ty::Dims;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

/// The maximum length of a text, so that a box stays readable.
const TEXT_LIMIT: usize = 48;

/// The op's attributes, one text each.
pub(super) fn attributes(graph: &Graph, op: &Op) -> Vec<String> {
    let mut labels = Labels {
        graph,
        rows: Vec::new(),
    };
    // Visitors may write, so the visit works on a copy.
    op.clone().visit_fields(&mut labels);
    labels.rows
}

/// Prepares external text for a drawing: control characters are escaped, and long text is truncated.
pub(super) fn shorten(text: &str) -> String {
    let mut short = String::new();
    for (index, character) in text.chars().enumerate() {
        if index == TEXT_LIMIT {
            short.push('…');
            break;
        }
        if character.is_control() {
            short.extend(character.escape_default());
        } else {
            short.push(character);
        }
    }
    short
}

struct Labels<'a> {
    graph: &'a Graph,
    rows: Vec<String>,
}

impl Labels<'_> {
    fn row(&mut self, name: &str, value: &str) {
        self.rows.push(shorten(&format!("{name} {value}")));
    }

    fn list(&mut self, name: &str, items: impl Iterator<Item = String>) {
        // No more than can be shown, since a list may be long.
        let items: Vec<_> = items.take(TEXT_LIMIT).collect();
        self.row(name, &format!("[{}]", items.join(", ")));
    }
}

impl FieldVisitor for Labels<'_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        if *value {
            self.rows.push(name.to_owned());
        }
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        let ordinary = match name {
            "groups" => 1,
            "batch_axes" => 0,
            _ => usize::MAX,
        };
        if *value != ordinary {
            self.row(name, &value.to_string());
        }
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        self.list(name, value.iter().map(ToString::to_string));
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        if name == "size" || value.iter().any(|&value| value != 1) {
            self.list(name, value.iter().map(ToString::to_string));
        }
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        self.row(name, &format!("{value:?}"));
    }

    fn floats(&mut self, name: &'static str, value: &mut SmallVec<[f64; 4]>) {
        self.list(name, value.iter().map(|value| format!("{value:?}")));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        self.row(name, &self.graph.dims().display(*value).to_string());
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        let dims = self.graph.dims();
        let in_the_type = name == "dims";
        let ordinary = matches!(name, "low" | "high" | "output_padding" | "starts")
            && value.iter().all(|&dim| dims.as_constant(dim) == Some(0));
        if !in_the_type && !ordinary {
            self.list(name, value.iter().map(|&dim| dims.display(dim).to_string()));
        }
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        if name == "to" {
            self.row(name, value.name());
        }
    }

    fn word(&mut self, _name: &'static str, value: &mut dyn Word) {
        self.rows.push(value.as_word().to_owned());
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        self.row(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_wild_texts_are_tamed() {
        assert_eq!(shorten("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shorten(&"é".repeat(100)).chars().count(), TEXT_LIMIT + 1);
    }
}
