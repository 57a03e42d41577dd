//! Many quantities evaluated together: common subexpressions are computed once.
//!
//! The numbers of a kernel's launch are built from the same few sizes, and a launch plan evaluates those of a hundred
//! kernels, so sharing pays.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::{LaunchContext, Quantity, Step};

/// A list of quantities, evaluated together.
#[derive(Clone, Debug)]
pub struct Quantities {
    nodes: Vec<QuantityNode>,
    /// The node of each quantity.
    results: Vec<u32>,
}

/// A value, or an operation on nodes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum QuantityNode {
    Leaf(Step),
    Apply(Step, u32, u32),
}

impl Quantities {
    /// Combines these quantities; `None` if one is damaged.
    pub fn new<'a>(quantities: impl IntoIterator<Item = &'a Quantity>) -> Option<Self> {
        let mut known: HashMap<QuantityNode, u32> = HashMap::new();
        let mut nodes = Vec::new();
        let mut place = |node: QuantityNode| -> Option<u32> {
            let next = u32::try_from(nodes.len()).ok()?;
            let place = *known.entry(node).or_insert(next);
            if place == next {
                nodes.push(node);
            }
            Some(place)
        };
        let mut results = Vec::new();
        for quantity in quantities {
            let mut stack: Vec<u32> = Vec::new();
            let mut kept: Vec<u32> = Vec::new();
            for &step in &quantity.0 {
                let node = match step {
                    Step::Constant(_) | Step::Symbol(_) | Step::Threads | Step::Cache(_) => {
                        place(QuantityNode::Leaf(step))?
                    }
                    Step::Keep => {
                        kept.push(stack.pop()?);
                        continue;
                    }
                    Step::Kept(number) => *kept.get(number as usize)?,
                    operation => {
                        let (right, left) = (stack.pop()?, stack.pop()?);
                        place(QuantityNode::Apply(operation, left, right))?
                    }
                };
                stack.push(node);
            }
            match stack.as_slice() {
                &[result] => results.push(result),
                _ => return None,
            }
        }
        Some(Self { nodes, results })
    }

    /// The values for a launch, in order. `None` if one has no value, or an intermediate result needs more than 64
    /// bits: [`Quantity::evaluate`] of each reports which, and why.
    pub fn evaluate(&self, context: &LaunchContext<'_>) -> Option<Vec<i64>> {
        let mut values: SmallVec<[i64; 256]> = SmallVec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let value = match node {
                QuantityNode::Leaf(step) => step.leaf(context)?,
                QuantityNode::Apply(step, left, right) => {
                    let value = |place: u32| values.get(place as usize).copied();
                    step.apply_narrow(value(left)?, value(right)?)?
                }
            };
            values.push(value);
        }
        let value = |&place: &u32| values.get(place as usize).copied();
        self.results.iter().map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(symbols: &[i64]) -> LaunchContext<'_> {
        LaunchContext {
            symbols,
            threads: 2,
            caches: [1 << 15, 1 << 20, 1 << 24],
        }
    }

    #[test]
    fn shared_subexpressions_are_stored_once() {
        let rows = Quantity::symbol(0).ceil_div(Quantity::constant(8));
        let tasks = rows.clone() * Quantity::threads();
        let bytes = rows.clone() * Quantity::cache(1);
        let together = Quantities::new([&rows, &tasks, &bytes, &tasks]).unwrap();
        // A symbol, 8 - 1, the sum, 8, the quotient, threads, a product, a cache, a product.
        assert_eq!(together.nodes.len(), 9);
        assert_eq!(
            together.evaluate(&context(&[17])),
            Some(vec![3, 6, 3 << 15, 6])
        );
    }

    #[test]
    fn quantities_without_a_value_are_not_evaluated_together() {
        let size = Quantity::symbol(0);
        let quotient = Quantity::constant(6).floor_div(size.clone());
        let square = size.clone() * size.clone();
        let together = Quantities::new([&quotient, &square]).unwrap();
        assert_eq!(together.evaluate(&context(&[3])), Some(vec![2, 9]));
        for symbols in [&[0][..], &[i64::MAX], &[]] {
            assert_eq!(together.evaluate(&context(symbols)), None);
        }
        let damaged: Quantity = serde_json::from_str("[\"add\"]").unwrap();
        assert!(Quantities::new([&damaged]).is_none());
    }
}
