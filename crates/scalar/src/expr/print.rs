//! The text form of an expression.
//!
//! Linear in the expression's size, however often steps are shared, and without recursion. A literal prints as its number
//! where its dtype is clear from its neighbours, and as `1.0 like x0` where it is not, so that the text determines the
//! expression's meaning.

use std::fmt::{self, Write};

use super::{Expr, ExprNode, NodeId};
use crate::{ScalarOp, ScalarValue};

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = names(self);
        for (position, node) in self.nodes.iter().enumerate() {
            if let Some(Some(name)) = names.get(position) {
                write!(f, "t{name} = ")?;
                print(self, &names, node, f)?;
                f.write_str("; ")?;
            }
        }
        print_reference(self, &names, self.result, f)
    }
}

/// A number for each operation that is used more than once.
fn names(expr: &Expr) -> Vec<Option<usize>> {
    let needed = expr.needed();
    let mut uses = vec![0usize; expr.nodes.len()];
    for (node, _) in expr
        .nodes
        .iter()
        .zip(&needed)
        .filter(|(_, needed)| **needed)
    {
        for id in printed_references(expr, node) {
            if let Some(uses) = uses.get_mut(id.index()) {
                *uses += 1;
            }
        }
    }
    let mut next = 0..;
    expr.nodes
        .iter()
        .zip(uses)
        .map(|(node, uses)| match node {
            ExprNode::Apply { .. } if uses > 1 => next.next(),
            _ => None,
        })
        .collect()
}

/// The nodes whose text is part of this node's text, including those of its literals' models.
fn printed_references(expr: &Expr, node: &ExprNode) -> Vec<NodeId> {
    let ExprNode::Apply { op, operands } = node else {
        return Vec::new();
    };
    let mut references = Vec::new();
    for (position, &id) in operands.iter().enumerate() {
        match expr.nodes.get(id.index()) {
            Some(ExprNode::Literal { like, .. }) if !is_plain(expr, *op, operands, position) => {
                let mut model = *like;
                while let Some(ExprNode::Literal { like, .. }) = expr.nodes.get(model.index()) {
                    model = *like;
                }
                references.push(model);
            }
            _ => references.push(id),
        }
    }
    references
}

/// Whether an operand's dtype is determined by another operand that must have the same dtype and is not a literal.
fn is_plain(expr: &Expr, op: ScalarOp, operands: &[NodeId], position: usize) -> bool {
    let first = op.signature().first_shared_operand();
    position >= first
        && operands
            .iter()
            .skip(first)
            .any(|id| !matches!(expr.nodes.get(id.index()), Some(ExprNode::Literal { .. })))
}

/// The pieces still to be printed.
enum Piece<'a> {
    Text(&'static str),
    /// A node in full.
    Node(&'a ExprNode),
    /// A node by its name if it has one, otherwise in full.
    Reference(NodeId),
    /// A literal with its model.
    Modelled(NodeId),
}

fn print_reference(
    expr: &Expr,
    names: &[Option<usize>],
    id: NodeId,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    print_pieces(expr, names, vec![Piece::Modelled(id)], f)
}

fn print(
    expr: &Expr,
    names: &[Option<usize>],
    node: &ExprNode,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    print_pieces(expr, names, vec![Piece::Node(node)], f)
}

/// Prints a stack of pieces, the last one first.
fn print_pieces<'a>(
    expr: &'a Expr,
    names: &[Option<usize>],
    mut stack: Vec<Piece<'a>>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    while let Some(piece) = stack.pop() {
        match piece {
            Piece::Text(text) => f.write_str(text)?,
            Piece::Reference(id) => match (names.get(id.index()), expr.nodes.get(id.index())) {
                (Some(Some(name)), _) => write!(f, "t{name}")?,
                (_, Some(node)) => stack.push(Piece::Node(node)),
                (_, None) => {}
            },
            Piece::Modelled(id) => match expr.nodes.get(id.index()) {
                Some(node @ ExprNode::Literal { like, .. }) => {
                    stack.extend([
                        Piece::Modelled(*like),
                        Piece::Text(" like "),
                        Piece::Node(node),
                    ]);
                }
                _ => stack.push(Piece::Reference(id)),
            },
            Piece::Node(ExprNode::Input(input)) => write!(f, "x{input}")?,
            Piece::Node(ExprNode::Constant(value)) => write!(f, "{}({value})", value.dtype())?,
            Piece::Node(ExprNode::Literal { number, .. }) => {
                write!(f, "{}", ScalarValue::F64(*number))?;
            }
            Piece::Node(ExprNode::Apply { op, operands }) => {
                f.write_str(op.name())?;
                if let ScalarOp::Cast(to) = op {
                    write!(f, "_{to}")?;
                }
                f.write_char('(')?;
                stack.push(Piece::Text(")"));
                for (position, &id) in operands.iter().enumerate().rev() {
                    let plain = is_plain(expr, *op, operands, position);
                    stack.push(if plain {
                        Piece::Reference(id)
                    } else {
                        Piece::Modelled(id)
                    });
                    if position > 0 {
                        stack.push(Piece::Text(", "));
                    }
                }
            }
        }
    }
    Ok(())
}
