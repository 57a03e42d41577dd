//! Infix display of quantities: `min((n0 + 15) / 16, threads * 4)`. Symbols are `n0`, `n1` and so on; a value used more
//! than once is defined first as `k0 = ...; `.

use std::fmt;

use super::{Quantity, Step};

/// A text and the precedence of its outermost operator: 0 for `+` and `-`, 1 for `*`, `/` and `%`, 2 for the rest.
type Written = (String, u8);

impl fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stack: Vec<Written> = Vec::new();
        let mut n_kept = 0;
        for &step in &self.0 {
            let written = match step {
                Step::Constant(value) if value < 0 => (value.to_string(), 0),
                Step::Constant(value) => (value.to_string(), 2),
                Step::Symbol(position) => (format!("n{position}"), 2),
                Step::Threads => ("threads".to_string(), 2),
                Step::Cache(level) => (format!("cache{level}"), 2),
                Step::Kept(number) => (format!("k{number}"), 2),
                Step::Keep => {
                    let (text, _) = stack.pop().unwrap_or_else(damaged);
                    write!(formatter, "k{n_kept} = {text}; ")?;
                    n_kept += 1;
                    continue;
                }
                operation => {
                    let right = stack.pop().unwrap_or_else(damaged);
                    let left = stack.pop().unwrap_or_else(damaged);
                    joined(operation, left, right)
                }
            };
            stack.push(written);
        }
        let (text, _) = stack.pop().unwrap_or_else(damaged);
        formatter.write_str(&text)
    }
}

fn damaged() -> Written {
    ("?".to_string(), 2)
}

fn joined(operation: Step, left: Written, right: Written) -> Written {
    let infix = |sign: &str, level: u8| {
        let left = enclosed(left.clone(), level);
        (
            format!("{left} {sign} {}", enclosed(right.clone(), level + 1)),
            level,
        )
    };
    match operation {
        Step::Add => infix("+", 0),
        Step::Sub => infix("-", 0),
        Step::Mul => infix("*", 1),
        Step::FloorDiv => infix("/", 1),
        Step::Mod => infix("%", 1),
        Step::Min => (format!("min({}, {})", left.0, right.0), 2),
        Step::Max => (format!("max({}, {})", left.0, right.0), 2),
        _ => (format!("bcast({}, {})", left.0, right.0), 2),
    }
}

fn enclosed((text, level): Written, least: u8) -> String {
    if level < least {
        format!("({text})")
    } else {
        text
    }
}
