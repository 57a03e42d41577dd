//! The points of some axes, as the prover sees them: each axis is a symbol below its extent, and integer nodes are
//! expressions over symbols.
//!
//! Sound with respect to wrapping: sums, differences and products are correct if the result fits, whatever wraps in
//! between. Divisions, extrema and comparisons need operands that fit: operands of sizes and axes alone are assumed to
//! fit (a launch whose sizes overflow is rejected), and operands that contain data must be proved to fit. Data read
//! from memory can be any value of its dtype, and is the same at every use of a node unless the kernel writes to that
//! memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::{
    ContractFact, DimError, DimFactor, DimId, DimTable, FactOrigin, Fuel, Predicate, SymbolId,
    SymbolicDimension,
};
use kiln_tensor::DType;

use super::budget::Budget;
use super::factors::{broadcast_sizes, factors};
use crate::form::{AxisId, Extent, Kernel, Node, NodeId, Reduction, Role, StageId, StageOperation};

/// How many steps one proof may take.
const PROOF_FUEL: u64 = 4096;

/// An integer as an expression.
#[derive(Clone, Copy, Debug)]
pub(super) struct Term {
    pub(super) dim: DimId,
    /// Whether it depends on the contents of memory.
    pub(super) is_data: bool,
}

/// A bound on an index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    NotNegative,
    Below(DimId),
}

/// The maximum depth to which nested extrema are examined.
const MAX_NESTED: u32 = 6;

/// The points of some axes.
#[derive(Clone, Debug)]
pub(super) struct Points<'k> {
    kernel: &'k Kernel,
    pub(super) table: DimTable,
    axes: BTreeMap<AxisId, DimId>,
    terms: HashMap<NodeId, Option<Term>>,
    /// Symbols that represent data.
    data: BTreeSet<SymbolId>,
    /// The operand that a selection takes, by its condition.
    choices: BTreeMap<NodeId, bool>,
    /// Whether there is no such point: the facts contradict each other.
    pub(super) is_empty: bool,
}

impl<'k> Points<'k> {
    /// The single point of no axes.
    pub(super) fn new(kernel: &'k Kernel) -> Self {
        Self {
            kernel,
            table: kernel.dims().clone(),
            axes: BTreeMap::new(),
            terms: HashMap::new(),
            data: BTreeSet::new(),
            choices: BTreeMap::new(),
            is_empty: false,
        }
    }

    /// The points of these axes, and of those that their extents refer to.
    pub(super) fn of(kernel: &'k Kernel, axes: &BTreeSet<AxisId>, budget: &mut Budget) -> Self {
        let mut points = Self::new(kernel);
        // An extent refers to axes created before its own; others contribute no facts.
        for &axis in axes {
            points.enter(axis, budget);
        }
        points
    }

    /// The same points, with no facts about operations yet, so that selections can be decided.
    pub(super) fn undecided(&self) -> Self {
        let mut points = self.clone();
        let kernel = self.kernel;
        points
            .terms
            .retain(|&node, _| !matches!(kernel.node(node), Node::Apply { .. }));
        points
    }

    /// The symbol of an axis among these.
    pub(super) fn axis(&self, axis: AxisId) -> Option<DimId> {
        self.axes.get(&axis).copied()
    }

    fn enter(&mut self, id: AxisId, budget: &mut Budget) {
        let axis = self.kernel.axis(id);
        let symbol = self.table.fresh(&axis.name);
        let index = self.table.dim(symbol);
        self.axes.insert(id, index);
        self.learn(Predicate::Less(index, axis.extent.bound()), budget);
        let one = self.table.constant(1);
        let mut positive = factors(&mut self.table, axis.extent.bound());
        positive.push(axis.extent.bound());
        for factor in positive {
            self.learn(Predicate::LessEqual(one, factor), budget);
        }
        if let Extent::Clamped { value, .. } = axis.extent
            && let Some(term) = self.fitting(value, budget)
        {
            self.learn(Predicate::Less(index, term.dim), budget);
        }
    }

    fn learn(&mut self, predicate: Predicate, budget: &mut Budget) {
        budget.spend(64);
        let fact = ContractFact {
            predicate,
            origin: FactOrigin::Declared,
        };
        // A fact that cannot be recorded proves nothing; a contradiction means that there is no point.
        if let Err(DimError::Contradiction { .. } | DimError::EmptyRange { .. }) =
            self.table.assume(fact)
        {
            self.is_empty = true;
        }
    }

    /// Assumes a `bool` to be true, or false.
    pub(super) fn assume(&mut self, condition: NodeId, truth: bool, budget: &mut Budget) {
        self.choices.insert(condition, truth);
        let mut pending = vec![(condition, truth)];
        while let Some((node, truth)) = pending.pop() {
            budget.spend(1);
            let kernel = self.kernel;
            match kernel.node(node) {
                Node::Literal(ScalarValue::Bool(value)) if *value != truth => self.is_empty = true,
                Node::Apply { op, operands } => match (op, operands.as_slice()) {
                    (ScalarOp::Not, &[a]) => pending.push((a, !truth)),
                    (ScalarOp::And, &[a, b]) if truth => pending.extend([(a, true), (b, true)]),
                    (ScalarOp::Or, &[a, b]) if !truth => pending.extend([(a, false), (b, false)]),
                    (op, &[a, b]) => self.compare(*op, a, b, truth, budget),
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn compare(&mut self, op: ScalarOp, a: NodeId, b: NodeId, truth: bool, budget: &mut Budget) {
        if !self.kernel.dtype(a).is_integer() {
            return;
        }
        let (Some(a), Some(b)) = (self.fitting(a, budget), self.fitting(b, budget)) else {
            return;
        };
        let (a, b) = (a.dim, b.dim);
        let predicate = match (op, truth) {
            (ScalarOp::Eq, true) | (ScalarOp::Ne, false) => Predicate::Equal(a, b),
            (ScalarOp::Eq, false) | (ScalarOp::Ne, true) => Predicate::NotEqual(a, b),
            (ScalarOp::Lt, true) | (ScalarOp::Ge, false) => Predicate::Less(a, b),
            (ScalarOp::Lt, false) | (ScalarOp::Ge, true) => Predicate::LessEqual(b, a),
            (ScalarOp::Gt, true) | (ScalarOp::Le, false) => Predicate::Less(b, a),
            (ScalarOp::Gt, false) | (ScalarOp::Le, true) => Predicate::LessEqual(a, b),
            _ => return,
        };
        let is_unequal = matches!(predicate, Predicate::NotEqual(..));
        self.learn(predicate, budget);
        if is_unequal {
            let one = self.table.constant(1);
            for (size, other) in [(a, b), (b, a)] {
                if other == one {
                    self.learn_broadcast(size, budget);
                }
            }
        }
    }

    /// A size that is not 1 equals the size to which it is broadcast.
    fn learn_broadcast(&mut self, size: DimId, budget: &mut Budget) {
        let axes = self.axes.iter();
        let axes: Vec<(DimId, DimId)> = axes
            .map(|(&axis, &index)| (self.kernel.axis(axis).extent.bound(), index))
            .collect();
        for (extent, index) in axes {
            budget.spend(1);
            if broadcast_sizes(&self.table, extent).contains(&size) || self.is_one_or(size, extent)
            {
                self.learn(Predicate::Less(index, size), budget);
            }
        }
    }

    /// Whether the contract states `(size - 1) * (size - whole) == 0`.
    fn is_one_or(&mut self, size: DimId, whole: DimId) -> bool {
        let zero = self.table.constant(0);
        let one = self.table.constant(1);
        let factors = (self.table.sub(size, one), self.table.sub(size, whole));
        let (Ok(from_one), Ok(from_whole)) = factors else {
            return false;
        };
        let Ok(product) = self.table.mul(from_one, from_whole) else {
            return false;
        };
        let stated = Predicate::Equal(product, zero);
        let mut facts = self.table.contract_facts().iter();
        facts.any(|fact| fact.predicate == stated)
    }

    /// Whether a predicate holds at each of these points.
    pub(super) fn proves(&self, predicate: &Predicate, budget: &mut Budget) -> bool {
        if self.is_empty {
            return true;
        }
        let Some(steps) = budget.fuel(PROOF_FUEL) else {
            return false;
        };
        let mut fuel = Fuel::new(steps);
        let proof = self.table.prove_with_fuel(predicate, &mut fuel);
        budget.spend(fuel.spent());
        proof.is_proved()
    }

    /// Whether an integer satisfies a bound: as an expression, or because of its operands.
    pub(super) fn bounded(&mut self, node: NodeId, bound: Bound, budget: &mut Budget) -> bool {
        let Some(term) = self.term(node, budget) else {
            return self.is_empty;
        };
        self.keeps(term, bound, budget) || self.operands_keep(node, bound, MAX_NESTED, budget)
    }

    fn keeps(&mut self, term: Term, bound: Bound, budget: &mut Budget) -> bool {
        let predicate = match bound {
            Bound::NotNegative => Predicate::LessEqual(self.table.constant(0), term.dim),
            Bound::Below(size) => Predicate::Less(term.dim, size),
        };
        self.proves(&predicate, budget)
    }

    /// Extrema satisfy a bound when one of their operands does, or both; quotients when their dividend satisfies the bound
    /// times the divisor. Recurses at most `depth` deep.
    fn operands_keep(
        &mut self,
        node: NodeId,
        bound: Bound,
        depth: u32,
        budget: &mut Budget,
    ) -> bool {
        let node = alias(self.kernel, node).unwrap_or(node);
        let Node::Apply { op, operands } = self.kernel.node(node) else {
            return false;
        };
        let (op, &[a, b]) = (*op, operands.as_slice()) else {
            return false;
        };
        if depth == 0 || budget.is_spent() {
            return false;
        }
        let mut keeps = |node, bound| {
            let term = self.fitting(node, budget);
            term.is_some_and(|term| self.keeps(term, bound, budget))
                || self.operands_keep(node, bound, depth - 1, budget)
        };
        match (op, bound) {
            (ScalarOp::Min, Bound::Below(size)) => {
                keeps(a, bound) || keeps(b, bound) || self.is_mean_below(a, b, size, budget)
            }
            (ScalarOp::Max, Bound::NotNegative) => keeps(a, bound) || keeps(b, bound),
            (ScalarOp::Max, Bound::Below(_)) | (ScalarOp::Min, Bound::NotNegative) => {
                keeps(a, bound) && keeps(b, bound)
            }
            (ScalarOp::FloorDiv, bound) => {
                let Some(by) = self.fitting(b, budget).filter(|by| !by.is_data) else {
                    return false;
                };
                let zero = self.table.constant(0);
                let bound = match bound {
                    Bound::NotNegative => Some(bound),
                    Bound::Below(size) => self.table.mul(size, by.dim).ok().map(Bound::Below),
                };
                let dividend = self.fitting(a, budget);
                self.proves(&Predicate::Less(zero, by.dim), budget)
                    && dividend
                        .zip(bound)
                        .is_some_and(|(a, bound)| self.keeps(a, bound, budget))
            }
            _ => false,
        }
    }

    /// Whether the mean of two integers, which is no less than the minimum, is below a size: a position and its reflection.
    fn is_mean_below(&mut self, a: NodeId, b: NodeId, size: DimId, budget: &mut Budget) -> bool {
        let (Some(a), Some(b)) = (self.fitting(a, budget), self.fitting(b, budget)) else {
            return false;
        };
        let sum = self.table.add(a.dim, b.dim);
        let twice = self.table.add(size, size);
        let bounds = sum
            .ok()
            .zip(twice.ok())
            .filter(|_| !a.is_data && !b.is_data);
        bounds.is_some_and(|(sum, twice)| self.proves(&Predicate::Less(sum, twice), budget))
    }

    /// An integer node as an expression; `None` if it has none.
    pub(super) fn term(&mut self, node: NodeId, budget: &mut Budget) -> Option<Term> {
        if let Some(&known) = self.terms.get(&node) {
            return known;
        }
        let mut pending = vec![(node, false)];
        while let Some((node, is_ready)) = pending.pop() {
            if self.terms.contains_key(&node) {
                continue;
            }
            budget.spend(1);
            if is_ready {
                let term = self.translate(node, budget);
                self.kernel
                    .node(node)
                    .for_each_operand(&mut |operand| self.forget_changing(operand));
                self.terms.insert(node, term);
                continue;
            }
            pending.push((node, true));
            pending.extend(alias(self.kernel, node).map(|value| (value, false)));
            if let Node::Apply { operands, .. } = self.kernel.node(node) {
                let integers = operands
                    .iter()
                    .filter(|&&id| self.kernel.dtype(id).is_integer());
                pending.extend(integers.map(|&id| (id, false)));
            }
        }
        let term = self.terms.get(&node).copied().flatten();
        self.forget_changing(node);
        term
    }

    /// Memory that the kernel writes may differ at the next use.
    fn forget_changing(&mut self, node: NodeId) {
        if let Node::Load(load) = self.kernel.node(node)
            && self.kernel.buffer(load.buffer).role == Role::InOut
        {
            self.terms.remove(&node);
        }
    }

    /// A node as an expression that certainly fits in 64 bits.
    fn fitting(&mut self, node: NodeId, budget: &mut Budget) -> Option<Term> {
        let term = self.term(node, budget)?;
        self.fits(term).then_some(term)
    }

    fn fits(&self, term: Term) -> bool {
        !term.is_data || {
            let range = self.table.range(term.dim);
            (range.min.is_some() && range.max.is_some())
                || self.table.as_symbol(term.dim).is_some()
                || self.bits(term.dim, 0) <= 62
        }
    }

    /// The number of bits that the magnitude of an expression may need. Sizes are assumed to need 48. Recursion is limited
    /// by the table's depth, and here.
    fn bits(&self, dim: DimId, depth: u32) -> u32 {
        const TOO_MANY: u32 = 1 << 16;
        let width = |value: i64| 64 - value.unsigned_abs().leading_zeros();
        let range = self.table.range(dim);
        if let (Some(min), Some(max)) = (range.min, range.max) {
            return width(min).max(width(max));
        }
        if depth > 64 {
            return TOO_MANY;
        }
        let expression = self.table.expression(dim);
        let mut most = width(expression.constant);
        for term in &expression.terms {
            let mut bits = width(term.coefficient);
            for factor in &term.factors {
                bits = bits.saturating_add(match factor {
                    DimFactor::Symbol(symbol) if self.data.contains(symbol) => 64,
                    DimFactor::Symbol(_) => 48,
                    compound => {
                        let operands = compound.operands();
                        let bits = operands.iter().map(|&dim| self.bits(dim, depth + 1));
                        bits.max().unwrap_or(TOO_MANY)
                    }
                });
            }
            most = most.max(bits);
        }
        let n_terms = expression.terms.len() as u32 + 1;
        most.saturating_add(32 - n_terms.leading_zeros())
            .min(TOO_MANY)
    }

    /// A node whose integer operands have terms.
    fn translate(&mut self, node: NodeId, budget: &mut Budget) -> Option<Term> {
        let kernel = self.kernel;
        let dtype = kernel.dtype(node);
        if !dtype.is_integer() {
            return None;
        }
        let known = match kernel.node(node) {
            Node::Literal(value) => integer(*value).map(|value| Term {
                dim: self.table.constant(value),
                is_data: false,
            }),
            Node::Size(dim) => Some(Term {
                dim: *dim,
                is_data: false,
            }),
            Node::Axis(axis) => self.axis(*axis).map(|dim| Term {
                dim,
                is_data: false,
            }),
            Node::Local { stage, .. } => match alias(kernel, node) {
                Some(value) => self.terms.get(&value).copied().flatten(),
                None => self.index_of_best(*stage, budget),
            },
            Node::Apply { op, operands } => {
                let result = self.apply(*op, operands, budget);
                result.filter(|term| dtype == DType::I64 || self.is_in(*term, dtype))
            }
            _ => None,
        };
        Some(known.unwrap_or_else(|| self.opaque(dtype)))
    }

    fn is_in(&self, term: Term, dtype: DType) -> bool {
        let (least, most) = bounds(dtype);
        let range = self.table.range(term.dim);
        // Unsigned 64-bit values beyond the signed ones are not distinguished: an open end is out of bounds.
        (dtype != DType::U64 || range.max.is_some())
            && least.is_none_or(|least| range.at_least(least))
            && most.is_none_or(|most| range.at_most(most))
    }

    /// Any value of a dtype.
    fn opaque(&mut self, dtype: DType) -> Term {
        let (least, most) = bounds(dtype);
        let value = self.value(
            least.unwrap_or(i64::MIN),
            most.filter(|&most| most < i64::MAX),
        );
        Term {
            dim: value,
            is_data: true,
        }
    }

    /// A new symbol between two bounds.
    fn value(&mut self, least: i64, most: Option<i64>) -> DimId {
        let free = (self.data.len()..).map(|number| format!("data.{number}"));
        let name = free
            .into_iter()
            .find(|name| self.table.symbol_named(name).is_none());
        let dimension = SymbolicDimension::integer(name.unwrap_or_default());
        let dimension = dimension.with_constraints(least, most);
        let symbol = match dimension.and_then(|dimension| self.table.declare(dimension)) {
            Ok(symbol) => symbol,
            Err(error) => unreachable!("a free name and bounds in order: {error}"),
        };
        self.data.insert(symbol);
        self.table.dim(symbol)
    }

    /// The result of an arg-reduction: an index along the reduced axis, or 0.
    fn index_of_best(&mut self, stage: StageId, budget: &mut Budget) -> Option<Term> {
        let StageOperation::Reduce {
            reduction: Reduction::ArgMin { .. } | Reduction::ArgMax { .. },
            axes,
            ..
        } = &self.kernel.stage(stage).operation
        else {
            return None;
        };
        let bound = self.kernel.axis(*axes.first()?).extent.bound();
        let found = self.value(0, None);
        let one = self.table.constant(1);
        let most = self.table.max(bound, one).ok()?;
        self.learn(Predicate::Less(found, most), budget);
        Some(Term {
            dim: found,
            is_data: true,
        })
    }

    fn apply(&mut self, op: ScalarOp, operands: &[NodeId], budget: &mut Budget) -> Option<Term> {
        let of = |points: &Self, node: NodeId| points.terms.get(&node).copied().flatten();
        match (op, operands) {
            (ScalarOp::Select, &[condition, a, b]) => match self.choices.get(&condition)? {
                true => of(self, a),
                false => of(self, b),
            },
            (ScalarOp::Cast(_), &[a]) if self.kernel.dtype(a) == DType::Bool => Some(Term {
                dim: self.value(0, Some(1)),
                is_data: true,
            }),
            (ScalarOp::Cast(_), &[a]) => {
                // A value out of the target's bounds changes; the caller checks this, except for signed 64-bit
                // integers.
                let from = self.kernel.dtype(a);
                of(self, a).filter(|&term| from != DType::U64 || self.is_in(term, from))
            }
            (ScalarOp::Neg, &[a]) => {
                let a = of(self, a)?;
                let dim = self.table.neg(a.dim).ok()?;
                Some(Term { dim, ..a })
            }
            (op, &[a, b]) => {
                let (a, b) = (of(self, a)?, of(self, b)?);
                let is_ring = matches!(op, ScalarOp::Add | ScalarOp::Sub | ScalarOp::Mul);
                let are_exact = is_ring || (self.fits(a) && self.fits(b));
                if !are_exact {
                    return None;
                }
                let dim = self.binary(op, a.dim, b.dim, budget)?;
                Some(Term {
                    dim,
                    is_data: a.is_data || b.is_data,
                })
            }
            _ => None,
        }
    }

    fn binary(&mut self, op: ScalarOp, a: DimId, b: DimId, budget: &mut Budget) -> Option<DimId> {
        let divides = matches!(
            op,
            ScalarOp::Div | ScalarOp::Rem | ScalarOp::FloorDiv | ScalarOp::FloorMod
        );
        if divides {
            let zero = self.table.constant(0);
            let is_positive = self.proves(&Predicate::Less(zero, b), budget);
            let rounds_down = matches!(op, ScalarOp::FloorDiv | ScalarOp::FloorMod)
                || self.proves(&Predicate::LessEqual(zero, a), budget);
            if !is_positive || !rounds_down {
                return None;
            }
        }
        let table = &mut self.table;
        match op {
            ScalarOp::Add => table.add(a, b),
            ScalarOp::Sub => table.sub(a, b),
            ScalarOp::Mul => table.mul(a, b),
            ScalarOp::Min => table.min(a, b),
            ScalarOp::Max => table.max(a, b),
            ScalarOp::FloorDiv | ScalarOp::Div => table.floor_div(a, b),
            ScalarOp::FloorMod | ScalarOp::Rem => table.modulo(a, b),
            _ => return None,
        }
        .ok()
    }
}

/// The value of a local's stage, if the local reads it at the same point.
pub(super) fn alias(kernel: &Kernel, node: NodeId) -> Option<NodeId> {
    match kernel.node(node) {
        Node::Local { stage, .. } => {
            let stage = kernel.stage(*stage);
            let is_name = stage.axes.is_empty() && stage.operation == StageOperation::Map;
            is_name.then_some(stage.value)
        }
        _ => None,
    }
}

/// The value of an integer literal.
pub(super) fn integer(value: ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::I64(value) => Some(value),
        ScalarValue::I32(value) => Some(value.into()),
        ScalarValue::I16(value) => Some(value.into()),
        ScalarValue::I8(value) => Some(value.into()),
        ScalarValue::U64(value) => i64::try_from(value).ok(),
        ScalarValue::U32(value) => Some(value.into()),
        ScalarValue::U16(value) => Some(value.into()),
        ScalarValue::U8(value) => Some(value.into()),
        _ => None,
    }
}

/// The minimum and the maximum value of an integer dtype; `None` if they do not fit in 64 signed bits.
fn bounds(dtype: DType) -> (Option<i64>, Option<i64>) {
    match dtype {
        DType::I32 => (Some(i32::MIN.into()), Some(i32::MAX.into())),
        DType::I16 => (Some(i16::MIN.into()), Some(i16::MAX.into())),
        DType::I8 => (Some(i8::MIN.into()), Some(i8::MAX.into())),
        DType::U64 => (Some(0), None),
        DType::U32 => (Some(0), Some(u32::MAX.into())),
        DType::U16 => (Some(0), Some(u16::MAX.into())),
        DType::U8 => (Some(0), Some(u8::MAX.into())),
        _ => (None, None),
    }
}
