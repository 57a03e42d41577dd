//! Which axes a node depends on, and how an index varies along an axis.
//!
//! Dependence looks through locals: a local depends on the axes its stage depends on, except the stage's own. The
//! values of a carry block depend on every outer axis and on the step.

use cranelift_entity::SecondaryMap;
use kiln_scalar::{ScalarOp, ScalarValue};

use crate::form::{AxisId, Extent, Item, Kernel, Node, NodeId, StageId, StageOperation};

/// A set of axes; kernels have few.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AxisSet(Vec<u64>);

impl AxisSet {
    fn insert(&mut self, axis: AxisId) {
        let (word, bit) = position(axis);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        if let Some(bits) = self.0.get_mut(word) {
            *bits |= bit;
        }
    }

    fn remove(&mut self, axis: AxisId) {
        let (word, bit) = position(axis);
        if let Some(bits) = self.0.get_mut(word) {
            *bits &= !bit;
        }
    }

    fn extend(&mut self, other: &AxisSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (bits, more) in self.0.iter_mut().zip(&other.0) {
            *bits |= more;
        }
    }

    fn contains(&self, axis: AxisId) -> bool {
        let (word, bit) = position(axis);
        self.0.get(word).is_some_and(|bits| bits & bit != 0)
    }
}

fn position(axis: AxisId) -> (usize, u64) {
    let index = axis.as_u32() as usize;
    (index / 64, 1 << (index % 64))
}

/// The axes on which each node and stage of a kernel depends.
#[derive(Debug)]
pub struct Dependence {
    nodes: SecondaryMap<NodeId, AxisSet>,
    stages: SecondaryMap<StageId, AxisSet>,
    /// Whether a stage is in a carry block.
    carried: SecondaryMap<StageId, bool>,
}

impl Dependence {
    /// The dependence of every node and stage of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        let mut this = Self {
            nodes: SecondaryMap::new(),
            stages: SecondaryMap::new(),
            carried: SecondaryMap::new(),
        };
        for item in kernel.items() {
            match item {
                Item::Stage(_) | Item::Store(_) => {}
                Item::Carry(carry) => {
                    for inner in &carry.items {
                        if let Item::Stage(stage) = inner {
                            this.carried[*stage] = true;
                            for &axis in kernel.outer() {
                                this.stages[*stage].insert(axis);
                            }
                            this.stages[*stage].insert(carry.axis);
                        }
                    }
                }
            }
        }
        // Nodes come after their operands, and a node that names a stage outside a carry block comes after the stage's
        // value; so one pass suffices if stages are filled in when their values are reached.
        let mut by_value: SecondaryMap<NodeId, Vec<StageId>> = SecondaryMap::new();
        for (stage, data) in kernel.stages() {
            if !this.carried[stage] {
                by_value[data.value].push(stage);
            }
        }
        for (node, data) in kernel.nodes() {
            let mut axes = AxisSet::default();
            data.node
                .for_each_operand(&mut |operand| axes.extend(&this.nodes[operand]));
            match &data.node {
                Node::Axis(axis) => {
                    axes.insert(*axis);
                    if let Extent::Clamped { value, .. } = kernel.axis(*axis).extent {
                        axes.extend(&this.nodes[value]);
                    }
                }
                Node::Local { stage, .. }
                | Node::Previous { stage, .. }
                | Node::Last { stage, .. } => {
                    axes.extend(&this.stages[*stage]);
                }
                _ => {}
            }
            this.nodes[node] = axes;
            for &stage in &by_value[node] {
                this.stages[stage] = this.of_stage(kernel, stage);
            }
        }
        this
    }

    fn of_stage(&self, kernel: &Kernel, stage: StageId) -> AxisSet {
        let data = kernel.stage(stage);
        let mut axes = self.nodes[data.value].clone();
        let bound = data.axes.iter().chain(match &data.operation {
            StageOperation::Map => [].iter(),
            StageOperation::Reduce { axes, .. } => axes.iter(),
        });
        for &axis in bound {
            if let Extent::Clamped { value, .. } = kernel.axis(axis).extent {
                axes.extend(&self.nodes[value]);
            }
            axes.remove(axis);
        }
        axes
    }

    /// Whether a node's value varies along an axis.
    pub fn depends(&self, node: NodeId, axis: AxisId) -> bool {
        self.nodes[node].contains(axis)
    }

    /// Whether a stage's local varies along an axis that is not its own.
    pub fn stage_depends(&self, stage: StageId, axis: AxisId) -> bool {
        self.stages[stage].contains(axis)
    }

    /// The loop depth at which a node varies: outer points first, then the axes of locals and stores, then the reduced
    /// axes, in loop order.
    pub fn depth(&self, kernel: &Kernel, node: NodeId) -> usize {
        let of_axis = |axis: AxisId| {
            let reduced = kernel
                .stages()
                .values()
                .find_map(|stage| match &stage.operation {
                    StageOperation::Reduce { axes, .. } => axes.iter().position(|&own| own == axis),
                    StageOperation::Map => None,
                });
            match reduced {
                Some(place) => 2 + place,
                None => usize::from(!kernel.outer().contains(&axis)),
            }
        };
        let axes = kernel
            .axes()
            .keys()
            .filter(|&axis| self.depends(node, axis));
        axes.map(of_axis).max().unwrap_or(0)
    }

    /// The constant difference of an integer node from one index of an axis to the next, if it is constant.
    pub fn step_along(&self, kernel: &Kernel, node: NodeId, axis: AxisId) -> Option<i64> {
        // Indices are small expressions; the limit keeps extreme ones from overflowing the stack.
        self.step_within(kernel, node, axis, 64)
    }

    fn step_within(&self, kernel: &Kernel, node: NodeId, axis: AxisId, depth: u32) -> Option<i64> {
        if !self.depends(node, axis) {
            return Some(0);
        }
        let depth = depth.checked_sub(1)?;
        let step = |operand: NodeId| self.step_within(kernel, operand, axis, depth);
        match kernel.node(node) {
            Node::Axis(found) => (*found == axis).then_some(1),
            Node::Apply { op, operands } => match (op, operands.as_slice()) {
                (ScalarOp::Add, &[a, b]) => step(a)?.checked_add(step(b)?),
                (ScalarOp::Sub, &[a, b]) => step(a)?.checked_sub(step(b)?),
                (ScalarOp::Neg, &[a]) => step(a)?.checked_neg(),
                (ScalarOp::Mul, &[a, b]) => {
                    match (integer_literal(kernel, a), integer_literal(kernel, b)) {
                        (Some(factor), _) => step(b)?.checked_mul(factor),
                        (_, Some(factor)) => step(a)?.checked_mul(factor),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The value of an `i64` literal.
pub(crate) fn integer_literal(kernel: &Kernel, node: NodeId) -> Option<i64> {
    match kernel.node(node) {
        Node::Literal(ScalarValue::I64(value)) => Some(*value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel, stage_value, stored};
    use super::*;

    #[test]
    fn a_local_depends_on_its_stage_but_not_on_its_axes() {
        let kernel = kernel(
            "kernel @mm(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
               outer m < M, n < N
               a = reduce add[k < K] %x[m, k]
               s = reduce add[j < K] %x[m, j] * %y[j, n] * a
               store %o[m, n] = s
             }",
        );
        let dependence = Dependence::of(&kernel);
        let depends = |node, names: [&str; 4]| {
            names.map(|name| dependence.depends(node, axis(&kernel, name)))
        };
        let names = ["m", "n", "k", "j"];
        let expected = [true, false, true, false];
        assert_eq!(depends(stage_value(&kernel, "a"), names), expected);
        let expected = [true, true, false, true];
        assert_eq!(depends(stage_value(&kernel, "s"), names), expected);
        let expected = [true, true, false, false];
        assert_eq!(depends(stored(&kernel), names), expected);
    }

    #[test]
    fn an_index_step_is_a_constant_or_unknown() {
        let step = |index: &str| {
            let kernel = kernel(&format!(
                "kernel @k(%x: in f32[N], %y: out f32[N]) {{
                   outer i < N
                   store %y[i] = f32({index})
                 }}"
            ));
            let dependence = Dependence::of(&kernel);
            let value = stored(&kernel);
            let Node::Apply { operands, .. } = kernel.node(value) else {
                panic!("a cast");
            };
            dependence.step_along(&kernel, operands[0], axis(&kernel, "i"))
        };
        assert_eq!(step("3 * i - N"), Some(3));
        assert_eq!(step("N - (i + i)"), Some(-2));
        assert_eq!(step("N * 2"), Some(0));
        assert_eq!(step("i * N"), None, "N is no literal");
        assert_eq!(step("i / 2"), None);
    }
}
