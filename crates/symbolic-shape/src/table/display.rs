//! Printing expressions and predicates in the text form that `text::parse_dim` reads back.
//!
//! Operands of commutative operations are sorted by their text (products of more factors first), so the output does not
//! depend on the order in which a table was filled. Recursion is bounded by the table's depth and size limits.

use std::fmt;

use super::{Atom, DimTable};
use crate::fact::Predicate;
use crate::ids::{AtomId, DimId};
use crate::polynomial::Term;

/// Prints an expression; made by [`DimTable::display`].
pub struct DimDisplay<'a> {
    table: &'a DimTable,
    dim: DimId,
}

/// Prints a list of expressions in brackets; made by [`DimTable::display_shape`].
pub struct ShapeDisplay<'a> {
    table: &'a DimTable,
    dims: &'a [DimId],
}

/// Prints a predicate; made by [`DimTable::display_predicate`].
pub struct PredicateDisplay<'a> {
    table: &'a DimTable,
    predicate: &'a Predicate,
}

impl DimTable {
    /// The expression in the text form, such as `2*H*W + S / 8`.
    pub fn display(&self, dim: DimId) -> DimDisplay<'_> {
        DimDisplay { table: self, dim }
    }

    /// A shape in the text form, such as `[B, S, 384]`.
    pub fn display_shape<'a>(&'a self, dims: &'a [DimId]) -> ShapeDisplay<'a> {
        ShapeDisplay { table: self, dims }
    }

    /// A predicate in the text form, such as `N % 8 == 0`.
    pub fn display_predicate<'a>(&'a self, predicate: &'a Predicate) -> PredicateDisplay<'a> {
        PredicateDisplay {
            table: self,
            predicate,
        }
    }

    fn render(&self, dim: DimId) -> String {
        let polynomial = self.polynomial(dim);
        let mut terms: Vec<(std::cmp::Reverse<usize>, Vec<String>, &Term)> = polynomial
            .terms
            .iter()
            .map(|term| {
                let mut factors: Vec<String> = term
                    .factors
                    .iter()
                    .map(|&atom| self.render_atom(atom))
                    .collect();
                factors.sort();
                (std::cmp::Reverse(factors.len()), factors, term)
            })
            .collect();
        terms.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut text = String::new();
        for (_, factors, term) in &terms {
            let first = text.is_empty();
            text.push_str(match (first, term.coefficient < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            });
            let magnitude = term.coefficient.unsigned_abs();
            let alone = magnitude == 1 && factors.len() == 1;
            if magnitude != 1 {
                text.push_str(&magnitude.to_string());
                text.push('*');
            }
            let factors: Vec<String> = factors
                .iter()
                .map(|factor| {
                    if alone && !(first && term.coefficient < 0) {
                        factor.clone()
                    } else {
                        enclosed(factor)
                    }
                })
                .collect();
            text.push_str(&factors.join("*"));
        }
        match polynomial.constant {
            0 if !text.is_empty() => {}
            value if text.is_empty() => text = value.to_string(),
            value => {
                text.push_str(if value < 0 { " - " } else { " + " });
                text.push_str(&value.unsigned_abs().to_string());
            }
        }
        text
    }

    fn render_atom(&self, atom: AtomId) -> String {
        let call = |name: &str, args: &[DimId]| {
            let mut args: Vec<String> = args.iter().map(|&dim| self.render(dim)).collect();
            args.sort();
            format!("{name}({})", args.join(", "))
        };
        match &self.atoms[atom].atom {
            Atom::Symbol(symbol) => self.symbol_name(*symbol).to_string(),
            Atom::FloorDiv(a, b) => format!(
                "{} / {}",
                enclosed(&self.render(*a)),
                enclosed(&self.render(*b))
            ),
            Atom::Mod(a, b) => format!(
                "{} % {}",
                enclosed(&self.render(*a)),
                enclosed(&self.render(*b))
            ),
            Atom::Min(args) => call("min", args),
            Atom::Max(args) => call("max", args),
            Atom::Bcast(args) => call("bcast", args),
        }
    }

    /// The texts of `dims` with `separator` between them, for messages.
    pub(super) fn join(&self, dims: &[DimId], separator: &str) -> String {
        let texts: Vec<String> = dims
            .iter()
            .take(8)
            .map(|&dim| enclosed(&self.render(dim)))
            .collect();
        texts.join(separator)
    }
}

/// `text` in parentheses unless it binds tighter than every operator.
fn enclosed(text: &str) -> String {
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            // There are spaces around `+`, `-`, `/` and `%`; a comma's space is inside a call.
            ' ' | '*' | '-' if depth == 0 => return format!("({text})"),
            _ => {}
        }
    }
    text.to_string()
}

impl fmt::Display for DimDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table.render(self.dim))
    }
}

impl fmt::Display for ShapeDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self
            .dims
            .iter()
            .map(|&dim| self.table.render(dim))
            .collect();
        write!(f, "[{}]", texts.join(", "))
    }
}

impl fmt::Display for PredicateDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |dim: &DimId| self.table.render(*dim);
        match self.predicate {
            Predicate::Equal(a, b) => {
                // Without the parentheses this would read back as divisibility.
                let is_remainder = self.table.as_constant(*b) == Some(0)
                    && matches!(self.table.lone_atom(*a), Some(Atom::Mod(..)));
                let left = if is_remainder {
                    enclosed(&text(a))
                } else {
                    text(a)
                };
                write!(f, "{left} == {}", text(b))
            }
            Predicate::NotEqual(a, b) => write!(f, "{} != {}", text(a), text(b)),
            Predicate::LessEqual(a, b) if self.table.as_constant(*a).is_some() => {
                write!(f, "{} >= {}", text(b), text(a))
            }
            Predicate::LessEqual(a, b) => write!(f, "{} <= {}", text(a), text(b)),
            Predicate::Less(a, b) if self.table.as_constant(*a).is_some() => {
                write!(f, "{} > {}", text(b), text(a))
            }
            Predicate::Less(a, b) => write!(f, "{} < {}", text(a), text(b)),
            Predicate::Divides { divisor, dim } => {
                write!(f, "{} % {divisor} == 0", enclosed(&text(dim)))
            }
            Predicate::ProductEqual(a, b) => {
                let list = |dims: &[DimId]| dims.iter().map(text).collect::<Vec<_>>().join(", ");
                write!(f, "product({}) == product({})", list(a), list(b))
            }
        }
    }
}
