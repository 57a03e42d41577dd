//! The errors of building, relating and evaluating dimensions.
//!
//! Names from outside are escaped where they are stored, so messages are safe to print.

use thiserror::Error;

/// An error about symbols, dimension expressions, shapes or facts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DimError {
    /// E0301: a size or a coefficient does not fit into a signed 64-bit integer.
    #[error("size overflows a signed 64-bit integer in {expression}")]
    Overflow {
        /// The operation that overflowed, in the text form.
        expression: String,
    },
    /// E0302: two sizes that can be neither equal nor broadcast to each other.
    #[error("expected sizes that are equal or 1 to broadcast, found {left} and {right}")]
    Broadcast {
        /// The first size, in the text form.
        left: String,
        /// The second size, in the text form.
        right: String,
    },
    /// E0303: a divisor that can never be positive.
    #[error("expected a positive divisor, found {divisor}")]
    DivisorNotPositive {
        /// The divisor, in the text form.
        divisor: String,
    },
    /// E0304: a fact that contradicts what is already known.
    #[error("{fact} contradicts what is known: {known}")]
    Contradiction {
        /// The rejected fact, in the text form.
        fact: String,
        /// What is known about the sizes in it.
        known: String,
    },
    /// E0305: a symbol name that is not an identifier.
    #[error(
        "expected a symbol name of letters, digits, `_` and `.` that starts with a letter or `_`, found \"{name}\""
    )]
    InvalidName {
        /// The name, with control characters escaped.
        name: String,
    },
    /// E0306: a symbol of this name exists already.
    #[error("symbol {name} is already declared; use another name or constrain the existing symbol")]
    DuplicateSymbol {
        /// The name.
        name: String,
    },
    /// E0307: bounds or a multiple that allow no size.
    #[error("expected bounds that allow a size for {name}, found {found}")]
    EmptyRange {
        /// The symbol's name.
        name: String,
        /// The bounds as given.
        found: String,
    },
    /// E0308: a limit of [`DimLimits`](crate::DimLimits) was reached.
    #[error(
        "expected at most {limit} {what}, found {given}; raise the limit or simplify the shapes"
    )]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The number there would have been.
        given: u64,
        /// The allowed number.
        limit: u64,
    },
    /// E0309: two shapes that can never be the same.
    #[error("expected compatible shapes, found {left} and {right}: {reason}")]
    ShapeMismatch {
        /// The first shape.
        left: String,
        /// The second shape.
        right: String,
        /// Which axis differs and how.
        reason: String,
    },
    /// E0310: a concrete shape was requested from one with unknown dimensions.
    #[error("expected a fully known shape, found {shape}; give {name} a value")]
    NotConcrete {
        /// The shape.
        shape: String,
        /// The first unknown dimension.
        name: String,
    },
    /// E0311: an axis outside the shape.
    #[error("expected an axis below {rank}, found {axis}")]
    AxisOutOfRange {
        /// The requested axis.
        axis: usize,
        /// The rank of the shape.
        rank: usize,
    },
    /// E0312: a symbol was given two values.
    #[error("expected {expected} for symbol {symbol}, found {given}")]
    BindingConflict {
        /// The symbol, by id or name.
        symbol: String,
        /// The value it has.
        expected: i64,
        /// The new value.
        given: i64,
    },
}

impl DimError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            DimError::Overflow { .. } => "E0301",
            DimError::Broadcast { .. } => "E0302",
            DimError::DivisorNotPositive { .. } => "E0303",
            DimError::Contradiction { .. } => "E0304",
            DimError::InvalidName { .. } => "E0305",
            DimError::DuplicateSymbol { .. } => "E0306",
            DimError::EmptyRange { .. } => "E0307",
            DimError::Limit { .. } => "E0308",
            DimError::ShapeMismatch { .. } => "E0309",
            DimError::NotConcrete { .. } => "E0310",
            DimError::AxisOutOfRange { .. } => "E0311",
            DimError::BindingConflict { .. } => "E0312",
        }
    }
}

/// An error of evaluating an expression or a guard on concrete sizes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// E0320: a symbol has no value.
    #[error("symbol {symbol} has no value; bind it before evaluating")]
    Unbound {
        /// The symbol's name.
        symbol: String,
    },
    /// E0321: two sizes to be broadcast differ, and neither is 1.
    #[error("cannot broadcast {left} = {left_value} with {right} = {right_value}")]
    Broadcast {
        /// The first size, in the text form.
        left: String,
        /// Its value.
        left_value: i64,
        /// The second size, in the text form.
        right: String,
        /// Its value.
        right_value: i64,
    },
    /// E0322: a divisor is zero or negative.
    #[error("expected a positive divisor, found {divisor} = {value}")]
    DivisorNotPositive {
        /// The divisor, in the text form.
        divisor: String,
        /// Its value.
        value: i64,
    },
    /// E0323: a value does not fit into a signed 64-bit integer.
    #[error("size overflows a signed 64-bit integer in {expression}")]
    Overflow {
        /// The expression, in the text form.
        expression: String,
    },
    /// E0324: concrete sizes violate a guard or a contract fact.
    #[error("expected {expected} for {symbol}, found {given} ({origin})")]
    GuardFailed {
        /// The symbol or expression that was checked.
        symbol: String,
        /// The requirement.
        expected: String,
        /// The sizes that were given.
        given: String,
        /// The origin of the requirement.
        origin: String,
    },
}

impl EvaluateError {
    /// The stable code of this error.
    pub fn code(&self) -> &'static str {
        match self {
            EvaluateError::Unbound { .. } => "E0320",
            EvaluateError::Broadcast { .. } => "E0321",
            EvaluateError::DivisorNotPositive { .. } => "E0322",
            EvaluateError::Overflow { .. } => "E0323",
            EvaluateError::GuardFailed { .. } => "E0324",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_own_code() {
        let text = String::new;
        let dim = [
            DimError::Overflow { expression: text() },
            DimError::Broadcast {
                left: text(),
                right: text(),
            },
            DimError::DivisorNotPositive { divisor: text() },
            DimError::Contradiction {
                fact: text(),
                known: text(),
            },
            DimError::InvalidName { name: text() },
            DimError::DuplicateSymbol { name: text() },
            DimError::EmptyRange {
                name: text(),
                found: text(),
            },
            DimError::Limit {
                what: "terms",
                given: 2,
                limit: 1,
            },
            DimError::ShapeMismatch {
                left: text(),
                right: text(),
                reason: text(),
            },
            DimError::NotConcrete {
                shape: text(),
                name: text(),
            },
            DimError::AxisOutOfRange { axis: 1, rank: 1 },
            DimError::BindingConflict {
                symbol: text(),
                expected: 1,
                given: 2,
            },
        ];
        let evaluate = [
            EvaluateError::Unbound { symbol: text() },
            EvaluateError::Broadcast {
                left: text(),
                left_value: 2,
                right: text(),
                right_value: 3,
            },
            EvaluateError::DivisorNotPositive {
                divisor: text(),
                value: 0,
            },
            EvaluateError::Overflow { expression: text() },
            EvaluateError::GuardFailed {
                symbol: text(),
                expected: text(),
                given: text(),
                origin: text(),
            },
        ];
        let codes: std::collections::BTreeSet<&str> = dim
            .iter()
            .map(DimError::code)
            .chain(evaluate.iter().map(EvaluateError::code))
            .collect();
        assert_eq!(codes.len(), dim.len() + evaluate.len());
        assert!(codes.iter().all(|code| code.starts_with("E03")));
        let messages = dim
            .iter()
            .map(ToString::to_string)
            .chain(evaluate.iter().map(ToString::to_string));
        for message in messages {
            assert!(
                message.starts_with(|c: char| c.is_lowercase() || c == ' ')
                    && !message.ends_with('.'),
                "{message}"
            );
        }
    }
}
