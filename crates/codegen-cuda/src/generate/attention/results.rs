//! The code after the loop: values of the rows, and the items of the kernel at each result.

use kiln_kernel::{AxisId, Item, StageId, StageOperation, Store};

use super::{Sides, Writer};
use crate::generate::scope::{Place, Scope, When};
use crate::generate::tile::{Results, leave, steps_by_one};

/// The number of consecutive results of a thread, if they are consecutive in memory.
const LANES: u32 = 4;

impl Writer<'_, '_> {
    /// Computes and stores the items after the sums.
    pub(super) fn leave(&self, scope: &Scope, sides: &Sides<'_>) {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let stores = self
            .items_of_results()
            .iter()
            .filter_map(|item| match item {
                Item::Store(store) => Some(store),
                _ => None,
            });
        let mut columns = sides.values.own.clone();
        // One store along the columns may write several results at once.
        let along: Vec<&Store> = stores.filter(|store| !store.axes.is_empty()).collect();
        let mut lanes = 1;
        if let &[store] = along.as_slice()
            && let &[axis] = store.axes.as_slice()
            && steps_by_one(
                kernel,
                lowering.dependence,
                store.buffer,
                &store.indices,
                axis,
            )
        {
            (columns.axes, lanes) = (store.axes.as_slice(), LANES);
        }
        let results = Results {
            rows: sides.queries.own.clone(),
            columns,
            tile: [self.tile.rows, self.tile.columns],
            rows_fastest: false,
            sum: "float",
            lanes,
            threads: self.filler.threads,
        };
        leave(lowering, scope, &results, &|mut inner, sums| {
            let row = ["row_maxima[other - m0]", "row_sums[other - m0]"];
            self.finish_row(&mut inner, row, sums);
            self.rest(&mut inner, results.columns.axes);
        });
    }

    /// The items after the sums.
    fn items_of_results(&self) -> &[Item] {
        let items = self.lowering.kernel.items();
        items.get(self.attention.n_items..).unwrap_or_default()
    }

    /// Derives the kernel's maximum, sum, other values of the row, and mix from the computed ones. The computed sums
    /// use the maximum in place of the shift.
    pub(super) fn finish_row(
        &self,
        scope: &mut Scope,
        [maximum, total]: [&str; 2],
        sums: Vec<String>,
    ) {
        let (lowering, attention) = (self.lowering, self.attention);
        let place = |scope: &mut Scope, stage, values: Vec<String>| {
            scope.place(stage, When::Current, Place::Values(values));
        };
        let maximum = lowering.declare("float", maximum);
        place(scope, attention.maximum, vec![maximum.clone()]);
        let before = lowering.kernel.items().iter().take(attention.n_items);
        let mut stages = before.filter_map(|item| match item {
            Item::Stage(id) => Some(*id),
            _ => None,
        });
        let of_row = |id: &StageId| {
            let stage = lowering.kernel.stage(*id);
            stage.axes.is_empty() && stage.operation == StageOperation::Map
        };
        let place_rows = |scope: &mut Scope, stages: &mut dyn Iterator<Item = StageId>| {
            for id in stages.filter(of_row) {
                let value = lowering.value(scope, lowering.kernel.stage(id).value, 0);
                place(scope, id, vec![value]);
            }
        };
        let is_before_sum = |id: &StageId| *id != attention.sum;
        place_rows(scope, &mut stages.by_ref().take_while(is_before_sum));
        let shift = lowering.value(scope, attention.shift, 0);
        let factor = lowering.declare(
            "float",
            format_args!("keys > 0 ? k_rescale({maximum}, {shift}) : 1.0f"),
        );
        let sum = lowering.declare("float", format_args!("{total} * {factor}"));
        place(scope, attention.sum, vec![sum]);
        place_rows(scope, &mut stages);
        let divisor = attention.divisor.map(|by| lowering.value(scope, by, 0));
        let mixed = sums.iter().map(|sum| {
            let rescaled = format!("{sum} * {factor}");
            match &divisor {
                Some(by) => {
                    lowering.declare("float", format_args!("keys > 0 ? {rescaled} / {by} : 0.0f"))
                }
                None => lowering.declare("float", rescaled),
            }
        });
        let mixed = mixed.collect();
        place(scope, attention.mixed, mixed);
    }

    /// The items after the sums, at a result.
    pub(super) fn rest(&self, scope: &mut Scope, columns: &[AxisId]) {
        let lowering = self.lowering;
        let mut n_stores = 0;
        for item in self.items_of_results() {
            match item {
                Item::Stage(id) => {
                    let value = lowering.value(scope, lowering.kernel.stage(*id).value, 0);
                    scope.place(*id, When::Current, Place::Values(vec![value]));
                }
                Item::Store(store) => {
                    for (&axis, &column) in store.axes.iter().zip(columns) {
                        let index = scope.axis(column).to_owned();
                        scope.set_axis(axis, index);
                    }
                    let is_per_row = store.axes.is_empty();
                    if is_per_row {
                        lowering.open("if (fast == 0)");
                    }
                    lowering.store(&mut scope.clone(), store, n_stores);
                    if is_per_row {
                        lowering.close();
                    }
                    n_stores += 1;
                }
                Item::Carry(_) => unreachable!("an attention has no steps"),
            }
        }
    }
}
