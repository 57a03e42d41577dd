//! Indices as sums of digits: the parts of axes that a store's index consists of.
//!
//! A digit of an axis is `(axis / divisor) % modulus`. An index that is a constant plus digits times coefficients, each
//! coefficient the product of the moduli below it, covers an interval and hits each element once: it is a mixed-radix
//! number.

use std::collections::HashMap;

use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::budget::Budget;
use super::points::integer;
use super::sizes::SizeProver;
use crate::form::reachable;
use crate::form::{AxisId, Kernel, Node, NodeId};

/// The maximum number of digits of one index.
const MAX_DIGITS: usize = 16;

/// A part of an axis: `(axis / divisor) % modulus`, or `axis / divisor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digit {
    pub(super) axis: AxisId,
    pub(super) divisor: DimId,
    pub(super) modulus: Option<DimId>,
    /// The number of its values, if the axis is divided evenly.
    pub(super) extent: DimId,
}

/// An index: a constant and digits times coefficients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) constant: DimId,
    pub(super) terms: Vec<(Digit, DimId)>,
}

/// A run of elements: `count` of them from `start`, `step` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) start: DimId,
    pub(super) count: DimId,
    pub(super) step: DimId,
}

/// The form of an index, if it has one.
pub(super) fn form(
    kernel: &Kernel,
    sizes: &mut SizeProver,
    index: NodeId,
    budget: &mut Budget,
) -> Option<Form> {
    let mut forms: HashMap<NodeId, Option<Form>> = HashMap::new();
    for node in reachable(kernel, &[index]) {
        budget.spend(1);
        let form = translate(kernel, sizes, node, &forms, budget);
        forms.insert(node, form.filter(|form| form.terms.len() <= MAX_DIGITS));
    }
    forms.remove(&index).flatten()
}

fn translate(
    kernel: &Kernel,
    sizes: &mut SizeProver,
    node: NodeId,
    forms: &HashMap<NodeId, Option<Form>>,
    budget: &mut Budget,
) -> Option<Form> {
    if kernel.dtype(node) != DType::I64 {
        return None;
    }
    let of = |node: &NodeId| forms.get(node).cloned().flatten();
    match kernel.node(node) {
        Node::Literal(value) => Some(Form::constant(sizes.table.constant(integer(*value)?))),
        Node::Size(dim) => Some(Form::constant(*dim)),
        Node::Axis(axis) => {
            let one = sizes.table.constant(1);
            let zero = sizes.table.constant(0);
            let extent = match kernel.axis(*axis).extent {
                crate::form::Extent::Size(size) => size,
                crate::form::Extent::Clamped { .. } => return None,
            };
            let digit = Digit {
                axis: *axis,
                divisor: one,
                modulus: None,
                extent,
            };
            Some(Form {
                constant: zero,
                terms: vec![(digit, one)],
            })
        }
        Node::Apply { op, operands } => match (op, operands.as_slice()) {
            (ScalarOp::Neg, [a]) => {
                let minus = sizes.table.constant(-1);
                of(a)?.times(minus, sizes)
            }
            (op, [a, b]) => {
                let (a, b) = (of(a)?, of(b)?);
                match op {
                    ScalarOp::Add => a.plus(b, sizes),
                    ScalarOp::Sub => {
                        let minus = sizes.table.constant(-1);
                        a.plus(b.times(minus, sizes)?, sizes)
                    }
                    ScalarOp::Mul if b.terms.is_empty() => a.times(b.constant, sizes),
                    ScalarOp::Mul if a.terms.is_empty() => b.times(a.constant, sizes),
                    ScalarOp::FloorDiv | ScalarOp::FloorMod if b.terms.is_empty() => {
                        let (quotient, rest) = a.divided(b.constant, sizes, budget)?;
                        Some(if *op == ScalarOp::FloorDiv {
                            quotient
                        } else {
                            rest
                        })
                    }
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

impl Form {
    fn constant(constant: DimId) -> Self {
        Self {
            constant,
            terms: Vec::new(),
        }
    }

    fn plus(mut self, other: Self, sizes: &mut SizeProver) -> Option<Self> {
        self.constant = sizes.table.add(self.constant, other.constant).ok()?;
        for (digit, coefficient) in other.terms {
            match self.terms.iter_mut().find(|(known, _)| *known == digit) {
                Some((_, known)) => *known = sizes.table.add(*known, coefficient).ok()?,
                None => self.terms.push((digit, coefficient)),
            }
        }
        let zero = sizes.table.constant(0);
        self.terms.retain(|&(_, coefficient)| coefficient != zero);
        Some(self)
    }

    fn times(mut self, factor: DimId, sizes: &mut SizeProver) -> Option<Self> {
        self.constant = sizes.table.mul(self.constant, factor).ok()?;
        for (_, coefficient) in &mut self.terms {
            *coefficient = sizes.table.mul(*coefficient, factor).ok()?;
        }
        Some(self)
    }

    /// Quotient and remainder of a division by a positive size.
    fn divided(
        &self,
        divisor: DimId,
        sizes: &mut SizeProver,
        budget: &mut Budget,
    ) -> Option<(Self, Self)> {
        let zero = sizes.table.constant(0);
        if !sizes.less(zero, divisor, budget) {
            return None;
        }
        let mut quotient = Self::constant(zero);
        let mut rest = Self::constant(zero);
        match sizes.table.exact_quotient(self.constant, divisor) {
            Some(exact) => quotient.constant = exact,
            None => {
                quotient.constant = sizes.table.floor_div(self.constant, divisor).ok()?;
                rest.constant = sizes.table.modulo(self.constant, divisor).ok()?;
            }
        }
        for &(digit, coefficient) in &self.terms {
            match sizes.table.exact_quotient(coefficient, divisor) {
                Some(exact) => quotient.terms.push((digit, exact)),
                None => rest.terms.push((digit, coefficient)),
            }
        }
        if rest.stays_below(divisor, sizes, budget) {
            return Some((quotient, rest));
        }
        // A single digit is split in two.
        let one = sizes.table.constant(1);
        match rest.terms.as_slice() {
            [(digit, coefficient)] if *coefficient == one && rest.constant == zero => {
                let (upper, lower) = digit.cut(divisor, sizes)?;
                let upper = Self {
                    constant: zero,
                    terms: vec![(upper, one)],
                };
                let lower = Self {
                    constant: zero,
                    terms: vec![(lower, one)],
                };
                Some((quotient.plus(upper, sizes)?, lower))
            }
            _ => None,
        }
    }

    /// Whether the values are in `0..limit`.
    fn stays_below(&self, limit: DimId, sizes: &mut SizeProver, budget: &mut Budget) -> bool {
        let zero = sizes.table.constant(0);
        let mut most = self.constant;
        let mut parts = vec![self.constant];
        parts.extend(self.terms.iter().map(|&(_, coefficient)| coefficient));
        for part in parts {
            if !sizes.at_most(zero, part, budget) {
                return false;
            }
        }
        for (digit, coefficient) in &self.terms {
            let Some(sum) = sizes.last(digit.extent).and_then(|last| {
                let product = sizes.table.mul(last, *coefficient).ok()?;
                sizes.table.add(most, product).ok()
            }) else {
                return false;
            };
            most = sum;
        }
        sizes.less(most, limit, budget)
    }

    /// The interval that the index covers, each element hit once; `None` if it is not a mixed-radix number.
    pub(super) fn interval(&self, sizes: &mut SizeProver, budget: &mut Budget) -> Option<Interval> {
        let one = sizes.table.constant(1);
        let (start, terms) = self.ascending(sizes, budget)?;
        let step = lowest(&terms, sizes)?;
        let chain = chain(
            step,
            &terms,
            sizes,
            budget,
            |sizes, expected, found, budget| sizes.equal(expected, found, budget),
        )?;
        // A digit with at most one value contributes nothing, but if it has no value, there is no element.
        let single = self.terms.iter().map(|(digit, _)| digit).filter(|digit| {
            let range = sizes.table.range(digit.extent);
            range.at_most(1) && range.as_point() != Some(1)
        });
        let digits: Vec<Digit> = chain.iter().chain(single).copied().collect();
        let count = digits.iter().try_fold(one, |count, digit| {
            sizes.table.mul(count, digit.extent).ok()
        })?;
        Some(Interval { start, count, step })
    }

    /// Whether the index is injective: different values of its digits give different indices.
    pub(super) fn is_injective(&self, sizes: &mut SizeProver, budget: &mut Budget) -> bool {
        let Some((_, terms)) = self.ascending(sizes, budget) else {
            return false;
        };
        let Some(step) = lowest(&terms, sizes) else {
            return false;
        };
        let one = sizes.table.constant(1);
        if !sizes.at_most(one, step, budget) {
            return false;
        }
        let at_least = |sizes: &mut SizeProver, expected, found, budget: &mut Budget| {
            sizes.at_most(expected, found, budget)
        };
        chain(step, &terms, sizes, budget, at_least).is_some()
    }

    /// The same index with descending digits reversed, and without digits of a single value.
    fn ascending(
        &self,
        sizes: &mut SizeProver,
        budget: &mut Budget,
    ) -> Option<(DimId, Vec<(Digit, DimId)>)> {
        let zero = sizes.table.constant(0);
        let mut start = self.constant;
        let mut terms = Vec::new();
        for &(digit, coefficient) in &self.terms {
            if sizes.table.range(digit.extent).at_most(1) {
                continue;
            }
            if !sizes.less(coefficient, zero, budget) {
                terms.push((digit, coefficient));
                continue;
            }
            let last = sizes.last(digit.extent)?;
            let product = sizes.table.mul(last, coefficient).ok()?;
            start = sizes.table.add(start, product).ok()?;
            terms.push((digit, sizes.table.neg(coefficient).ok()?));
        }
        Some((start, terms))
    }
}

/// The coefficient of the lowest digit.
fn lowest(terms: &[(Digit, DimId)], sizes: &mut SizeProver) -> Option<DimId> {
    let one = sizes.table.constant(1);
    let coefficients = || terms.iter().map(|&(_, coefficient)| coefficient);
    if terms.is_empty() || coefficients().any(|coefficient| coefficient == one) {
        return Some(one);
    }
    if let &[(_, only)] = terms {
        return Some(only);
    }
    let constants = coefficients().filter_map(|dim| sizes.table.as_constant(dim));
    let least = constants.min()?;
    Some(sizes.table.constant(least))
}

/// The digits from the lowest up, where each coefficient equals the product of the moduli below it.
fn chain(
    step: DimId,
    terms: &[(Digit, DimId)],
    sizes: &mut SizeProver,
    budget: &mut Budget,
    fits: impl Fn(&mut SizeProver, DimId, DimId, &mut Budget) -> bool,
) -> Option<Vec<Digit>> {
    let mut left = terms.to_vec();
    let mut expected = step;
    let mut found = Vec::new();
    while !left.is_empty() {
        let exact = left
            .iter()
            .position(|&(_, coefficient)| coefficient == expected);
        let place = exact.or_else(|| {
            (0..left.len()).find(|&place| fits(sizes, expected, left[place].1, budget))
        })?;
        let (digit, coefficient) = left.remove(place);
        expected = sizes.table.mul(coefficient, digit.extent).ok()?;
        found.push(digit);
    }
    Some(found)
}

impl Digit {
    /// The digits of `self / by` and `self % by`.
    fn cut(&self, by: DimId, sizes: &mut SizeProver) -> Option<(Digit, Digit)> {
        let extent = sizes.table.exact_quotient(self.extent, by).or_else(|| {
            let dim = sizes.table.floor_div(self.extent, by).ok()?;
            Some(dim)
        })?;
        let modulus = match self.modulus {
            Some(modulus) => Some(sizes.table.exact_quotient(modulus, by)?),
            None => None,
        };
        let upper = Digit {
            axis: self.axis,
            divisor: sizes.table.mul(self.divisor, by).ok()?,
            modulus,
            extent,
        };
        let lower = Digit {
            axis: self.axis,
            divisor: self.divisor,
            modulus: Some(by),
            extent: by,
        };
        Some((upper, lower))
    }
}
