//! Named functions: handles into one table.
//!
//! The table has every primitive operation under its own name, the composite functions of `activations`, and the generator
//! of random bits. A new activation is a row of `activations.rs`.

mod activations;
mod philox;

use kiln_fork_lock::ForkLazy;
use std::cmp::Ordering;
use std::fmt;

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::differentiate::derivative_nodes;
use crate::expr::ExprNode;
use crate::{Expr, ExprBuilder, NodeId, ScalarError, ScalarOp};

/// A named scalar function.
///
/// A copyable handle, ordered by name, the same in every process; it is serialised as its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Function(u16);

/// A parameter of a function other than its operands, fixed when the expression is built.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Parameter {
    /// Its name, as in ONNX if that has one.
    pub name: &'static str,
    /// Its default.
    pub default: f64,
}

/// One row of the table.
struct NamedFunction {
    name: &'static str,
    /// Other names that [`Function::by_name`] knows.
    aliases: &'static [&'static str],
    arity: usize,
    parameters: Vec<Parameter>,
    doc: &'static str,
    definition: Definition,
    derivative: Derivative,
}

/// Builds a node from an operand and all parameters.
type DefineUnary = fn(&mut ExprBuilder, NodeId, &[f64]) -> NodeId;
/// Builds a node from the operands and all parameters.
type DefineMany = fn(&mut ExprBuilder, &[NodeId], &[f64]) -> NodeId;

enum Definition {
    Primitive(ScalarOp),
    Unary(DefineUnary),
    Many(DefineMany),
}

/// How the derivative with respect to each operand is determined.
enum Derivative {
    /// From the definition, by the rules for primitives.
    Rules,
    /// Explicit, for unary functions whose rules lose accuracy or miss a kink.
    Written(DefineUnary),
    /// Explicit, for the operand at a position.
    WrittenFor(fn(&mut ExprBuilder, &[NodeId], usize) -> NodeId),
    /// There is no derivative: the result does not vary smoothly with the operands.
    None,
}

impl Function {
    /// The function with this name or alias.
    pub fn by_name(name: &str) -> Option<Function> {
        let by_name = TABLE.binary_search_by(|row| row.name.cmp(name));
        by_name
            .ok()
            .or_else(|| TABLE.iter().position(|row| row.aliases.contains(&name)))
            .and_then(|position| u16::try_from(position).ok())
            .map(Function)
    }

    /// The generator of random bits: `(position, key, stream)`, all u64, to 32 bits. The meaning of the graph's op of that
    /// name.
    pub fn random_bits() -> Function {
        match Function::by_name(philox::NAME) {
            Some(function) => function,
            None => unreachable!("it is a row of the table"),
        }
    }

    /// Every function, by name.
    pub fn all() -> impl ExactSizeIterator<Item = Function> {
        // The table has far fewer rows than `u16::MAX`.
        (0..TABLE.len() as u16).map(Function)
    }

    /// The name in text forms.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its meaning, in a line, with its derivative at kinks.
    pub fn doc(self) -> &'static str {
        self.row().doc
    }

    /// Whether it may fault on integers, such as by a zero divisor: whether one of its primitives may. On floats no
    /// function faults.
    pub fn may_fault_on_integers(self) -> bool {
        if let Definition::Primitive(op) = self.row().definition {
            return faults_on_integers(op);
        }
        // Without its parameters, its primitives are not known.
        self.expression(&[]).map_or(true, |expression| {
            let mut nodes = expression.nodes().iter();
            nodes.any(|node| matches!(node, ExprNode::Apply { op, .. } if faults_on_integers(*op)))
        })
    }

    /// The number of operands.
    pub fn arity(self) -> usize {
        self.row().arity
    }

    /// The parameters, in order.
    pub fn parameters(self) -> &'static [Parameter] {
        &self.row().parameters
    }

    /// Whether it is a primitive whose two operands can be swapped: [`ScalarOp::is_commutative`].
    pub fn is_commutative(self) -> bool {
        self.primitive().is_some_and(ScalarOp::is_commutative)
    }

    /// The primitive operation, if this function is one.
    pub fn primitive(self) -> Option<ScalarOp> {
        match self.row().definition {
            Definition::Primitive(op) => Some(op),
            Definition::Unary(_) | Definition::Many(_) => None,
        }
    }

    /// The definition as an expression of the operands; missing parameters take their defaults.
    pub fn expression(self, parameters: &[f64]) -> Result<Expr, ScalarError> {
        let mut b = ExprBuilder::new(self.arity());
        let operands = b.inputs();
        let result = self.define(&mut b, &operands, parameters)?;
        b.finish(result)
    }

    /// The dtype of the result with default parameters. Other parameters matter only for integers, which may not represent
    /// them; query the [`Function::expression`] then.
    pub fn result_type(self, operands: &[DType]) -> Result<DType, ScalarError> {
        self.check_arity(operands.len())?;
        self.expression(&[])?.result_type(operands)
    }

    /// The derivative with respect to one operand, as an expression of the operands and, last, the derivative with
    /// respect to the result, by which it is multiplied.
    ///
    /// `None` where it is not meaningful: operands that only select (a `bool`, a compared value), and functions whose
    /// result is not a number or whose slope is zero everywhere.
    pub fn derivative(
        self,
        parameters: &[f64],
        operand: usize,
    ) -> Result<Option<Expr>, ScalarError> {
        let n_inputs = self.arity();
        if operand >= n_inputs {
            return Err(ScalarError::InputOutOfRange {
                input: operand,
                n_inputs,
            });
        }
        let mut b = ExprBuilder::new(n_inputs + 1);
        let mut operands = b.inputs();
        let Some(upstream) = operands.pop() else {
            unreachable!("there is one input at least")
        };
        let slope = match self.row().derivative {
            Derivative::None => None,
            Derivative::Written(define) => {
                Some(define(&mut b, first(&operands), &self.filled(parameters)?))
            }
            Derivative::WrittenFor(define) => Some(define(&mut b, &operands, operand)),
            Derivative::Rules => {
                derivative_nodes(&mut b, &self.expression(parameters)?, &operands, operand)
            }
        };
        let Some(slope) = slope else { return Ok(None) };
        let product = b.mul(upstream, slope);
        b.finish(product).map(Some)
    }

    /// Adds the function to an expression.
    pub(crate) fn define(
        self,
        b: &mut ExprBuilder,
        operands: &[NodeId],
        parameters: &[f64],
    ) -> Result<NodeId, ScalarError> {
        self.check_arity(operands.len())?;
        let parameters = self.filled(parameters)?;
        Ok(match self.row().definition {
            Definition::Primitive(op) => b.apply(op, operands),
            Definition::Unary(define) => define(b, first(operands), &parameters),
            Definition::Many(define) => define(b, operands, &parameters),
        })
    }

    fn check_arity(self, found: usize) -> Result<(), ScalarError> {
        let expected = self.arity();
        if found == expected {
            Ok(())
        } else {
            Err(ScalarError::Arity {
                name: self.name(),
                expected,
                found,
            })
        }
    }

    fn filled(self, given: &[f64]) -> Result<Vec<f64>, ScalarError> {
        let parameters = self.parameters();
        if given.len() > parameters.len() {
            let (expected, found) = (parameters.len(), given.len());
            return Err(ScalarError::ParameterCount {
                name: self.name(),
                expected,
                found,
            });
        }
        let defaults = parameters
            .iter()
            .skip(given.len())
            .map(|parameter| parameter.default);
        Ok(given.iter().copied().chain(defaults).collect())
    }

    fn row(self) -> &'static NamedFunction {
        match TABLE.get(usize::from(self.0)) {
            Some(row) => row,
            None => unreachable!("handles are made for rows of the table only"),
        }
    }
}

/// The operand of a unary function.
fn first(operands: &[NodeId]) -> NodeId {
    match operands.first() {
        Some(&operand) => operand,
        None => unreachable!("the arity was checked"),
    }
}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Function) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares by name, since the table is sorted.
impl Ord for Function {
    fn cmp(&self, other: &Function) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({})", self.name())
    }
}

/// Prints the name.
impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<Function> for String {
    fn from(function: Function) -> String {
        function.name().to_owned()
    }
}

impl TryFrom<String> for Function {
    type Error = String;

    fn try_from(name: String) -> Result<Function, String> {
        Function::by_name(&name)
            .ok_or_else(|| format!("no scalar function is named `{}`", name.escape_default()))
    }
}

/// Whether a primitive faults on some integers.
fn faults_on_integers(op: ScalarOp) -> bool {
    matches!(
        op,
        ScalarOp::Div | ScalarOp::FloorDiv | ScalarOp::Rem | ScalarOp::FloorMod | ScalarOp::Pow
    )
}

/// All functions, sorted by name.
static TABLE: ForkLazy<Vec<NamedFunction>> = ForkLazy::new(|| {
    let primitives = ScalarOp::ALL.iter().map(|&op| NamedFunction {
        name: op.name(),
        aliases: &[],
        arity: op.arity(),
        parameters: Vec::new(),
        doc: op.meaning(),
        definition: Definition::Primitive(op),
        derivative: Derivative::Rules,
    });
    let mut table: Vec<NamedFunction> = primitives
        .chain(activations::table())
        .chain(philox::table())
        .collect();
    table.sort_by_key(|row| row.name);
    table
});

#[cfg(test)]
mod tests;
