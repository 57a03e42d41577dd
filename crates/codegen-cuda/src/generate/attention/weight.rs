//! Recognising the weights of an attention, and their score, through maps over keys.

use kiln_kernel::{Node, NodeId};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::find::Finder;
use super::parts::{Keyed, Weight};

/// The maximum number of node comparisons for one pair of expressions.
const FUEL: u32 = 1000;

impl Finder<'_> {
    /// If a value is a read of a map over keys at the key, the value of that map; otherwise the value itself.
    fn seen_through(&self, (mut node, mut key): Keyed) -> Keyed {
        while let Node::Local { stage, indices } = self.kernel.node(node) {
            let mut arrays = self.arrays.iter().chain(&self.later);
            match arrays.find(|(array, _)| array == stage) {
                Some(&(_, own)) if self.is_at(indices, key) => {
                    (node, key) = (self.kernel.stage(*stage).value, own);
                }
                _ => break,
            }
        }
        (node, key)
    }

    /// The shift of `exp(score - shift)`, if a value has this form.
    pub(super) fn exponential(&self, value: Keyed) -> Option<NodeId> {
        let (_, score) = self.maximum?;
        let (node, key) = self.seen_through(value);
        let [exponent] = self.operands(node, ScalarOp::Exp)?;
        let (node, key) = self.seen_through((exponent, key));
        let [minuend, shift] = self.operands(node, ScalarOp::Sub)?;
        let is_fit =
            self.is_of_row(shift) && self.is_same((minuend, key), score, &mut FUEL.clone());
        is_fit.then_some(shift)
    }

    fn operands<const N: usize>(&self, node: NodeId, wanted: ScalarOp) -> Option<[NodeId; N]> {
        match self.kernel.node(node) {
            Node::Apply { op, operands } if *op == wanted => operands.as_slice().try_into().ok(),
            _ => None,
        }
    }

    /// Whether two values are the same at the same key.
    fn is_same(&self, a: Keyed, b: Keyed, fuel: &mut u32) -> bool {
        if a == b {
            return true;
        }
        let Some(left) = fuel.checked_sub(1) else {
            return false;
        };
        *fuel = left;
        let ((a, key_a), (b, key_b)) = (self.seen_through(a), self.seen_through(b));
        let (of_a, of_b) = (self.kernel.node(a), self.kernel.node(b));
        if let (Node::Axis(a), Node::Axis(b)) = (of_a, of_b) {
            return match (*a == key_a, *b == key_b) {
                (true, true) => true,
                (false, false) => a == b,
                _ => false,
            };
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        of_a.for_each_operand(&mut |operand| left.push(operand));
        of_b.for_each_operand(&mut |operand| right.push(operand));
        let mut pairs = left.iter().zip(&right);
        let is_same = left.len() == right.len()
            && pairs.all(|(&a, &b)| self.is_same((a, key_a), (b, key_b), fuel));
        let mut operands = left.iter();
        let mut with_same = of_b.clone();
        with_same.map_operands(&mut |own| operands.next().copied().unwrap_or(own));
        is_same && *of_a == with_same
    }

    /// The weight, if a value has the form of one.
    pub(super) fn weight(&self, mut value: Keyed) -> Option<Weight> {
        let (mut divisor, mut is_rounded) = (None, false);
        loop {
            value = self.seen_through(value);
            if let Some(shift) = self.exponential(value) {
                return Some(Weight {
                    shift,
                    divisor,
                    is_rounded,
                });
            }
            let Node::Apply { op, operands } = self.kernel.node(value.0) else {
                return None;
            };
            value.0 = match (op, operands.as_slice()) {
                (ScalarOp::Cast(DType::F32), &[inner]) => inner,
                (ScalarOp::Cast(DType::BF16 | DType::F16), &[inner]) => {
                    is_rounded = true;
                    inner
                }
                (ScalarOp::Div, &[inner, by]) if divisor.is_none() && self.is_of_row(by) => {
                    divisor = Some(by);
                    inner
                }
                _ => return None,
            };
        }
    }
}
