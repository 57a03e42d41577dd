//! The keys visible to a row if scores are masked by position: a block visits the tiles between the first and the last
//! key visible to any of its rows.
//!
//! *Invariant.* Results are the same as if every tile were visited. The weight of a masked key is exactly zero, so only
//! infinite or NaN values could affect a result: a function that runs first flags the keys with such values, and
//! flagged keys are visited.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, MaskBound, expression_nodes, may_fault};
use kiln_kernel::{AxisId, Extent, Node, NodeId, VerifiedKernel};

use super::{Sides, Writer};
use crate::generate::function::{Function, FunctionParts};
use crate::generate::lowering::Lowering;
use crate::generate::scope::Scope;
use crate::generate::{points, split_points};

/// Keys that share a flag.
const FLAG_KEYS: i64 = 64;
/// The number of keys from which tiles are skipped: fewer keys are at most a few tiles.
const SKIP_FROM: i64 = 128;
/// Threads of a block that computes flags.
const THREADS: u32 = 256;

/// The keys that rows see.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    bounds: Vec<MaskBound>,
    /// The batch axes along which values or the number of keys vary.
    batch: Vec<AxisId>,
    key: AxisId,
}

impl Mask {
    /// The mask of a score. `values` are computed at every key, `mixed` is the value of a key; none of them may fault,
    /// since a fault at a hidden key would have to be reported. `None` if positions do not mask anything.
    pub(super) fn of(
        (kernel, dependence): (&VerifiedKernel, &Dependence),
        (score, axis): (NodeId, AxisId),
        values: &[NodeId],
        (mixed, key): (NodeId, AxisId),
        batch: &[AxisId],
    ) -> Option<Self> {
        let bounds = MaskBound::all(kernel, dependence, score, axis);
        let roots: Vec<NodeId> = values.iter().copied().chain([score, mixed]).collect();
        let faults = expression_nodes(kernel, &roots).into_iter().any(|node| {
            let is_local = matches!(kernel.node(node), Node::Local { .. });
            !is_local && may_fault(kernel, node)
        });
        let count = match kernel.axis(key).extent {
            Extent::Clamped { value, .. } => Some(value),
            Extent::Size(_) => None,
        };
        let varies = |axis: &AxisId| {
            let mut nodes = count.iter().chain([&mixed]);
            nodes.any(|&node| dependence.depends(node, *axis))
        };
        let is_mask = !bounds.is_empty() && !faults;
        is_mask.then(|| Self {
            bounds,
            batch: batch.iter().copied().filter(varies).collect(),
            key,
        })
    }

    /// 1 if tiles are skipped, otherwise 0.
    fn skips(&self, kernel: &VerifiedKernel) -> Quantity {
        let keys = points(kernel, &[self.key]);
        let from = Quantity::constant(SKIP_FROM);
        keys.floor_div(from).min(Quantity::constant(1))
    }

    /// The flags of a point of the batch.
    fn flags(&self, kernel: &VerifiedKernel) -> Quantity {
        points(kernel, &[self.key]).ceil_div(Quantity::constant(FLAG_KEYS))
    }

    /// The total number of flags.
    fn all_flags(&self, kernel: &VerifiedKernel) -> Quantity {
        points(kernel, &self.batch) * self.flags(kernel)
    }

    /// Bytes of scratch, from its start.
    pub(super) fn scratch(&self, kernel: &VerifiedKernel) -> Quantity {
        self.all_flags(kernel).round_up(Quantity::constant(16))
    }
}

impl Writer<'_, '_> {
    /// The function that flags groups of keys with infinite or NaN values: a block per flag.
    pub(super) fn flag_values(&self, mask: &Mask) -> Function {
        let (lowering, values) = (self.lowering, &self.attention.values);
        let kernel = lowering.kernel;
        let line = |text: String| lowering.line(text);
        let function = FunctionParts::new(THREADS, mask.all_flags(kernel))
            .with_shared(Quantity::constant(512))
            .with_shared_scratch(mask.scratch(kernel));
        let flags = lowering.quantity(&mask.flags(kernel));
        line("k_i64 block;".to_owned());
        line(format!("const k_i64 z = k_split(t, {flags}, block);"));
        let mut scope = Scope::default();
        split_points(lowering, &mut scope, "z", &mask.batch);
        let keys = lowering.extent(&mut scope, mask.key);
        line(format!(
            "const k_i64 n0 = block * {FLAG_KEYS}, keys = k_min((k_i64){keys} - n0, {FLAG_KEYS}ll);"
        ));
        let columns = lowering.quantity(&points(kernel, &values.axes));
        line("int found = 0;".to_owned());
        lowering.open(format_args!(
            "for (k_i64 at = k_thread(); at < {columns} * {FLAG_KEYS}; at += {THREADS})"
        ));
        // Neighbouring threads read neighbouring elements.
        line("k_i64 fast;".to_owned());
        let (fastest, [line_of, column]) = match values.along_depth {
            true => (format!("{FLAG_KEYS}ll"), ["fast", "slow"]),
            false => (columns, ["slow", "fast"]),
        };
        line(format!("const k_i64 slow = k_split(at, {fastest}, fast);"));
        lowering.open(format_args!("if ({line_of} < keys)"));
        line(format!("const k_i64 key = n0 + {line_of};"));
        scope.set_axis(mask.key, "key".to_owned());
        split_points(lowering, &mut scope, column, &values.axes);
        let value = lowering.value(&mut scope, values.node, 0);
        line(format!("found |= !k_is_finite({value});"));
        lowering.close();
        lowering.close();
        line(format!(
            "found = k_reduce<k_op_max, {THREADS}>(found, k_shared);"
        ));
        line("if (k_thread() == 0) K_SCRATCH[t] = (unsigned char)found;".to_owned());
        function.finish(lowering).only_when(&mask.skips(kernel))
    }

    /// Narrows `first_key` and `end_key` to the keys that some row of the block sees, or whose values are flagged.
    pub(super) fn narrow_keys(&self, scope: &Scope, sides: &Sides<'_>, mask: &Mask) {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let threads = self.filler.threads;
        let line = |text: String| lowering.line(text);
        let skips = lowering.quantity(&mask.skips(kernel));
        let flags = lowering.quantity(&mask.flags(kernel));
        lowering.open(format_args!("if ({skips} != 0)"));
        line("first_key = keys; end_key = 0;".to_owned());
        self.narrow_by_rows(scope, sides, mask);
        let z = point_of(lowering, scope, &mask.batch);
        line(format!(
            "const unsigned char* const flags = K_SCRATCH + {z} * {flags};"
        ));
        lowering.open(format_args!(
            "for (k_i64 at = k_thread(); at * {FLAG_KEYS} < keys; at += {threads})"
        ));
        lowering.open("if (flags[at])");
        line(format!("first_key = k_min(first_key, at * {FLAG_KEYS});"));
        line(format!(
            "end_key = k_max(end_key, k_min((at + 1) * {FLAG_KEYS}, keys));"
        ));
        lowering.close();
        lowering.close();
        for (bound, operation) in [("first_key", "k_op_min"), ("end_key", "k_op_max")] {
            line(format!(
                "{bound} = k_reduce<{operation}, {threads}>({bound}, k_shared);"
            ));
        }
        line("k_sync();".to_owned());
        lowering.close();
    }

    /// Each thread computes the union of the keys that its rows see.
    fn narrow_by_rows(&self, scope: &Scope, sides: &Sides<'_>, mask: &Mask) {
        let lowering = self.lowering;
        let rows = &sides.queries.own;
        lowering.open(format_args!(
            "for (k_i64 row = m0 + k_thread(); row < k_min(m0 + {}, (k_i64){}); row += {})",
            self.tile.rows, rows.size, self.filler.threads
        ));
        let mut scope = scope.clone();
        split_points(lowering, &mut scope, "row", rows.axes);
        lowering.line("k_i64 low = 0, high = keys;");
        for bound in &mask.bounds {
            // Both sides at key 0.
            scope.set_axis(bound.axis, "0ll".to_owned());
            let [left, right] =
                [bound.left, bound.right].map(|side| lowering.value(&mut scope, side, 0));
            lowering.line(format_args!(
                "k_narrow_keys<{}, {}>({left}, {right}, low, high);",
                bound.is_strict,
                bound.step > 0
            ));
        }
        lowering.open("if (low < high)");
        lowering.line("first_key = k_min(first_key, low);");
        lowering.line("end_key = k_max(end_key, high);");
        lowering.close();
        lowering.close();
    }
}

/// The number of the point of axes at their indices, the last axis fastest.
fn point_of(lowering: &Lowering<'_>, scope: &Scope, axes: &[AxisId]) -> String {
    let mut point = "0ll".to_owned();
    for &axis in axes {
        let extent = lowering.quantity(&points(lowering.kernel, &[axis]));
        point = format!("({point} * {extent} + {})", scope.axis(axis));
    }
    point
}
