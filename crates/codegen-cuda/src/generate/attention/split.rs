//! Keys split over blocks ("flash-decoding"), for cases with few blocks and many keys each, such as text generation:
//! each block stores the maxima, sums and weighted values for its keys in scratch, and a second function merges them in
//! a fixed order.
//!
//! The number of splits depends on sizes alone.

use kiln_backend::Quantity;
use kiln_kernel::VerifiedKernel;

use super::{Attention, AttentionTile, Sides, Writer, rows_and_columns};
use crate::generate::function::{Function, FunctionParts};
use crate::generate::scope::Scope;
use crate::generate::tile::{self, ENOUGH_TILES, Results};
use crate::generate::{points, split_points};

/// The minimum number of keys of a split.
pub(super) const SPLIT_KEYS: i64 = 256;
/// The maximum number of splits.
const MOST_SPLITS: i64 = 64;
/// Threads of a block of the merging function, one per result.
const THREADS: u32 = 256;

/// How keys are split.
#[derive(Clone, Debug)]
pub(super) struct Splits {
    /// The number of splits.
    pub(super) number: Quantity,
    /// Bytes of scratch before the partial results of the splits.
    offset: Quantity,
}

impl Splits {
    /// Chooses the number of splits that fills a device twice with tasks of a tile.
    pub(super) fn of(kernel: &VerifiedKernel, attention: &Attention, tile: &AttentionTile) -> Self {
        let constant = Quantity::constant;
        let [rows, columns] = rows_and_columns(kernel, attention, tile);
        let tasks = points(kernel, &attention.batch) * rows * columns;
        let wanted = constant(2 * ENOUGH_TILES).floor_div(tasks.max(constant(1)));
        let number = points(kernel, &[attention.key])
            .floor_div(constant(SPLIT_KEYS))
            .min(wanted)
            .min(constant(MOST_SPLITS))
            .max(constant(1));
        let flags = attention.mask.as_ref().map(|mask| mask.scratch(kernel));
        Self {
            number,
            offset: flags.unwrap_or_else(|| constant(0)),
        }
    }

    /// The number of slots: one for each row and split.
    fn slots(&self, kernel: &VerifiedKernel, attention: &Attention) -> Quantity {
        points(kernel, &attention.batch)
            * points(kernel, &attention.queries.axes)
            * self.number.clone()
    }

    /// Bytes of scratch: a maximum and a sum per slot, and the mix of each column.
    pub(super) fn scratch(&self, kernel: &VerifiedKernel, attention: &Attention) -> Quantity {
        let columns = points(kernel, &attention.values.axes);
        let floats = columns + Quantity::constant(2);
        let bytes = self.slots(kernel, attention) * floats * Quantity::constant(4);
        self.offset.clone() + bytes
    }
}

impl Writer<'_, '_> {
    /// Declares the partial results of the splits of rows.
    fn declare_partials(&self, splits: &Splits) {
        let lowering = self.lowering;
        let slots = splits.slots(lowering.kernel, self.attention);
        let [offset, slots] = [&splits.offset, &slots].map(|number| lowering.quantity(number));
        lowering.line(format_args!(
            "float* const partial_rows = (float*)(K_SCRATCH + {offset}), * const partial_mixes = partial_rows + 2 * {slots};"
        ));
    }

    /// Stores the maxima, sums and mixes of this split.
    pub(super) fn leave_partials(&self, scope: &Scope, sides: &Sides<'_>, splits: &Splits) {
        let lowering = self.lowering;
        self.declare_partials(splits);
        let (rows, columns) = (sides.queries.own.clone(), sides.values.own.clone());
        let (m, e) = (rows.size.clone(), columns.size.clone());
        let number = lowering.quantity(&splits.number);
        let results = Results {
            rows,
            columns,
            tile: [self.tile.rows, self.tile.columns],
            rows_fastest: false,
            sum: "float",
            lanes: 1,
            threads: self.filler.threads,
        };
        tile::leave(lowering, scope, &results, &|_, sums| {
            lowering.line(format_args!(
                "const k_i64 slot = (z * {m} + other) * {number} + split;"
            ));
            for sum in sums {
                lowering.line(format_args!("partial_mixes[slot * {e} + fast] = {sum};"));
            }
            lowering.open("if (fast == 0)");
            lowering.line("partial_rows[2 * slot] = row_maxima[other - m0];");
            lowering.line("partial_rows[2 * slot + 1] = row_sums[other - m0];");
            lowering.close();
        });
    }

    /// The function that merges the splits of each result, and computes the remaining items.
    pub(super) fn merge(&self, splits: &Splits) -> Function {
        let (lowering, attention) = (self.lowering, self.attention);
        let kernel = lowering.kernel;
        let line = |text: String| lowering.line(text);
        let (rows, columns) = (&attention.queries.axes, &attention.values.axes);
        let [m, e] = [rows, columns].map(|axes| points(kernel, axes));
        let results = points(kernel, &attention.batch) * m.clone() * e.clone();
        let tasks = results
            .clone()
            .ceil_div(Quantity::constant(i64::from(THREADS)));
        let function = FunctionParts::new(THREADS, tasks)
            .with_shared_scratch(splits.scratch(kernel, attention));
        let [m, e, results, number] =
            [&m, &e, &results, &splits.number].map(|number| lowering.quantity(number));
        line(format!("const k_i64 q = t * {THREADS} + k_thread();"));
        lowering.open(format_args!("if (q < {results})"));
        line("k_i64 fast, other;".to_owned());
        line(format!("const k_i64 row = k_split(q, {e}, fast);"));
        line(format!("const k_i64 z = k_split(row, {m}, other);"));
        let mut scope = Scope::default();
        split_points(lowering, &mut scope, "z", &attention.batch);
        let keys = lowering.extent(&mut scope, attention.key);
        line(format!("const k_i64 keys = {keys};"));
        split_points(lowering, &mut scope, "other", rows);
        split_points(lowering, &mut scope, "fast", columns);
        self.declare_partials(splits);
        line("k_partial merged = k_no_keys();".to_owned());
        lowering.open(format_args!(
            "for (k_i64 slot = row * {number}; slot < (row + 1) * {number}; ++slot)"
        ));
        line(format!(
            "merged = k_merge(merged, k_partial{{partial_rows[2 * slot], partial_rows[2 * slot + 1], partial_mixes[slot * {e} + fast]}});"
        ));
        lowering.close();
        let mix = vec!["merged.mix".to_owned()];
        self.finish_row(&mut scope, ["merged.maximum", "merged.total"], mix);
        self.rest(&mut scope, columns);
        lowering.close();
        function.finish(lowering)
    }
}
