//! The keywords and punctuation of the kernel grammar, shared by printer and reader.

use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::text::TokenKind;
use kiln_tensor::DType;

/// Words that cannot name an axis or a stage.
pub(super) const KEYWORDS: &[&str] = &[
    "and", "carry", "clamp", "else", "false", "if", "inf", "init", "inside", "last", "nan", "not",
    "or", "outer", "prev", "reduce", "reverse", "size", "store", "true", "where",
];

/// The precedence of an expression: a higher one binds more tightly.
pub(super) type Level = u8;

/// A load with a condition, `%x[i] if c else v`.
pub(super) const CONDITIONAL: Level = 0;
pub(super) const OR: Level = 1;
pub(super) const AND: Level = 2;
pub(super) const NOT: Level = 3;
pub(super) const COMPARE: Level = 4;
pub(super) const SUM: Level = 5;
pub(super) const PRODUCT: Level = 6;
/// An expression that never needs parentheses.
pub(super) const PRIMARY: Level = 7;

/// The symbol and level of an infix operation on a dtype.
pub(super) fn infix(op: ScalarOp, dtype: DType) -> Option<(&'static str, Level)> {
    Some(match op {
        ScalarOp::Add => ("+", SUM),
        ScalarOp::Sub => ("-", SUM),
        ScalarOp::Mul => ("*", PRODUCT),
        ScalarOp::Div if dtype.is_float() => ("/", PRODUCT),
        ScalarOp::FloorDiv if dtype.is_integer() => ("/", PRODUCT),
        ScalarOp::FloorMod if dtype.is_integer() => ("%", PRODUCT),
        ScalarOp::Eq => ("==", COMPARE),
        ScalarOp::Ne => ("!=", COMPARE),
        ScalarOp::Lt => ("<", COMPARE),
        ScalarOp::Le => ("<=", COMPARE),
        ScalarOp::Gt => (">", COMPARE),
        ScalarOp::Ge => (">=", COMPARE),
        ScalarOp::And => ("and", AND),
        ScalarOp::Or => ("or", OR),
        _ => return None,
    })
}

/// An infix operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// One operation for every dtype.
    Plain(ScalarOp),
    /// `/`: a quotient of floats, a floored one of integers.
    Divide,
    /// `%`: the remainder of a floored division of integers.
    Modulo,
}

impl Operator {
    /// The operator of a token, with its level.
    pub(super) fn of(token: &TokenKind<'_>) -> Option<(Operator, Level)> {
        let (op, level) = match token {
            TokenKind::Plus => (ScalarOp::Add, SUM),
            TokenKind::Minus => (ScalarOp::Sub, SUM),
            TokenKind::Star => (ScalarOp::Mul, PRODUCT),
            TokenKind::Slash => return Some((Operator::Divide, PRODUCT)),
            TokenKind::Percent => return Some((Operator::Modulo, PRODUCT)),
            TokenKind::EqualEqual => (ScalarOp::Eq, COMPARE),
            TokenKind::NotEqual => (ScalarOp::Ne, COMPARE),
            TokenKind::Less => (ScalarOp::Lt, COMPARE),
            TokenKind::LessEqual => (ScalarOp::Le, COMPARE),
            TokenKind::Greater => (ScalarOp::Gt, COMPARE),
            TokenKind::GreaterEqual => (ScalarOp::Ge, COMPARE),
            TokenKind::Identifier("and") => (ScalarOp::And, AND),
            TokenKind::Identifier("or") => (ScalarOp::Or, OR),
            _ => return None,
        };
        Some((Operator::Plain(op), level))
    }

    /// The operation on a dtype.
    pub(super) fn on(self, dtype: DType) -> ScalarOp {
        match self {
            Operator::Plain(op) => op,
            Operator::Divide if dtype.is_float() => ScalarOp::Div,
            Operator::Divide => ScalarOp::FloorDiv,
            Operator::Modulo => ScalarOp::FloorMod,
        }
    }
}
