//! Chains of `* c`, `/ c`, `+ c`, `- c` with one `c` per output channel, after a convolution or matmul
//! with constant weights.
//!
//! Such a chain is `y * scale + shift`; it becomes the op with weights times `scale`, plus `shift`. Chains are found on the
//! original graph, where readers are known: each value of the chain but the last is read once. Only chains that get shorter
//! are rewritten, so the rewrite does not repeat.

use super::PASS;
use super::weights::{Linear, channel_values, scaled, shift_tensor};
use crate::context::PassContext;
use crate::peephole::{constant_of, constant_type};
use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_ir::{Definition, Graph, NewOp, Op, OpData, OpId, Rebuild, RegionId, Type, ValueId};
use kiln_scalar::Function;
use kiln_symbolic_shape::Proof;
use std::rc::Rc;

/// The computation at the end of a chain.
#[derive(Clone)]
struct Affine {
    linear: OpId,
    what: Rc<Linear>,
    scale: Vec<f64>,
    shift: Vec<f64>,
    n_steps: usize,
}

impl Affine {
    /// The number of ops of the rewritten chain.
    fn n_ops(&self) -> usize {
        usize::from(self.shifts())
    }

    fn shifts(&self) -> bool {
        self.shift.iter().any(|&shift| shift != 0.0)
    }

    fn is_finite(&self) -> bool {
        self.scale
            .iter()
            .chain(&self.shift)
            .all(|value| value.is_finite())
    }
}

/// The chains of a graph, by the last op of each.
pub(super) struct Plan {
    ends: SecondaryMap<OpId, Option<Box<Affine>>>,
}

impl Plan {
    /// Finds the chains.
    pub(super) fn of(graph: &Graph) -> Self {
        let uses = graph.use_counts();
        let mut chains: SecondaryMap<ValueId, Option<Box<Affine>>> = SecondaryMap::new();
        let mut ends = SecondaryMap::new();
        // Ops follow their operands in the order of ids only inside a region; a chain is in one.
        for region in (0..graph.n_regions()).map(RegionId::new) {
            for &id in &graph.region(region).ops {
                let data = graph.op(id);
                let &[result] = data.results.as_slice() else {
                    continue;
                };
                if let Some(what) = Linear::of(graph, data) {
                    let (scale, shift) = (vec![1.0; what.n_channels], vec![0.0; what.n_channels]);
                    let start = Affine {
                        linear: id,
                        what: Rc::new(what),
                        scale,
                        shift,
                        n_steps: 0,
                    };
                    chains[result] = Some(Box::new(start));
                } else if let Some((from, affine)) = extend(graph, data, &uses, &chains) {
                    // The chain continues, so it does not end at the previous op.
                    if let Definition::Result { op, .. } = graph.value(from).definition {
                        ends[op] = None;
                    }
                    chains[from] = None;
                    if affine.n_ops() < affine.n_steps && affine.is_finite() {
                        ends[id] = Some(affine.clone());
                    }
                    chains[result] = Some(affine);
                }
            }
        }
        Self { ends }
    }
}

/// The chain that an op continues, with the value from which it continues.
fn extend(
    graph: &Graph,
    data: &OpData,
    uses: &SecondaryMap<ValueId, u32>,
    chains: &SecondaryMap<ValueId, Option<Box<Affine>>>,
) -> Option<(ValueId, Box<Affine>)> {
    let Op::Map { function, .. } = &data.op else {
        return None;
    };
    let name = function.name();
    let &[left, right] = data.operands.as_slice() else {
        return None;
    };
    let commutes = matches!(name, "add" | "mul");
    if !commutes && !matches!(name, "sub" | "div") {
        return None;
    }
    let (from, constant) = match (constant_of(graph, left), constant_of(graph, right)) {
        (_, Some(constant)) => (left, constant),
        (Some(constant), None) if commutes => (right, constant),
        _ => return None,
    };
    let chain = chains[from].as_ref().filter(|_| uses[from] == 1)?;
    let result = graph.tensor_ty(*data.results.first()?)?;
    let source = graph.tensor_ty(from)?;
    let same = source.rank() == result.rank()
        && source
            .dims
            .iter()
            .zip(&result.dims)
            .all(|(&a, &b)| a == b || graph.dims().equal(a, b) == Proof::Proved);
    if !same {
        return None;
    }
    let values = channel_values(graph, constant, &chain.what)?;
    let mut affine = chain.clone();
    affine.n_steps += 1;
    for ((scale, shift), value) in affine.scale.iter_mut().zip(&mut affine.shift).zip(values) {
        match name {
            "add" => *shift += value,
            "sub" => *shift -= value,
            "mul" => (*scale, *shift) = (*scale * value, *shift * value),
            _ => (*scale, *shift) = (*scale / value, *shift / value),
        }
    }
    Some((from, affine))
}

/// Rewrites the chain that ends in an op.
pub(super) fn freeze(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    plan: &Plan,
    budget: usize,
    ctx: &mut PassContext,
) -> bool {
    let Some(affine) = plan.ends[id].as_deref() else {
        return false;
    };
    let old = rebuild.old();
    let (linear, end) = (old.op(affine.linear), old.op(id));
    let (&[_, weights], &[from], &[result]) = (
        linear.operands.as_slice(),
        linear.results.as_slice(),
        end.results.as_slice(),
    ) else {
        return false;
    };
    let Some(constant) = constant_of(old, weights) else {
        return false;
    };
    if !ctx.spend_on_freezing(constant.tensor().byte_len(), || budget) {
        return false;
    }
    let Some(frozen) = scaled(old, constant, &affine.what, &affine.scale) else {
        return false;
    };
    let shift = match affine.shifts() {
        true => match shift_tensor(old, &affine.what, &affine.shift) {
            Some(shift) => Some(shift),
            None => return false,
        },
        false => None,
    };
    let weights_ty = old.ty(weights).clone();
    let frozen = append(rebuild, into, end, Op::Constant(frozen), &[], weights_ty);
    let x = rebuild.value(linear.operands[0]);
    let mut value = append(
        rebuild,
        into,
        linear,
        linear.op.clone(),
        &[x, frozen],
        old.ty(from).clone(),
    );
    if let (Some(shift), Some(add)) = (shift, Function::by_name("add")) {
        let ty = Type::Tensor(constant_type(
            rebuild.new_graph_mut().dims_mut(),
            &shift.tensor(),
        ));
        let shift = append(rebuild, into, end, Op::Constant(shift), &[], ty);
        value = append(
            rebuild,
            into,
            end,
            Op::map(add),
            &[value, shift],
            old.ty(result).clone(),
        );
    }
    rebuild.map(result, value);
    ctx.count_rewrite(PASS, "affine");
    true
}

/// Appends an op with the origin of `like`; returns its only result.
fn append(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    like: &OpData,
    op: Op,
    operands: &[ValueId],
    ty: Type,
) -> ValueId {
    let mut new = NewOp::new(op, operands.iter().copied(), [ty]);
    new.origin.clone_from(&like.origin);
    let id = rebuild.append(into, new);
    rebuild.new_graph().op(id).results[0]
}
