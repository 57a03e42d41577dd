//! How sums leave the registers: strip by strip through shared memory, to what follows them in the kernel.

use super::{STRIP_ROWS, TileWriter};
use crate::generate::items::SerialItems;
use crate::generate::scope::{Lanes, Place, Scope, When};
use crate::generate::split_points;

impl TileWriter<'_, '_> {
    /// Computes and stores the results from the sums, strip by strip.
    pub(super) fn leave(&self, scope: &Scope, m: &str, n: &str) {
        let (lowering, product) = (self.lowering, self.product);
        let [bm, bn, _] = self.plan.tile;
        let pitch = bn + 4;
        lowering.line("float* const strip = (float*)k_shared;");
        lowering.open(format_args!(
            "for (int first = 0; first < {bm}; first += {STRIP_ROWS})"
        ));
        lowering.line(format_args!(
            "tile.template leave<{STRIP_ROWS}, {pitch}>(strip, first);"
        ));
        lowering.line("k_sync();");
        let (fastest, lanes) = match product.rows_fastest {
            true => (STRIP_ROWS, product.lanes),
            false => (bn, product.lanes),
        };
        let total = STRIP_ROWS * bn / lanes;
        lowering.open(format_args!(
            "for (int chunk = (int)k_thread(); chunk < {total}; chunk += {})",
            self.threads
        ));
        let per_line = fastest / lanes;
        lowering.line(format_args!(
            "const int at = chunk % {per_line} * {lanes}, line = chunk / {per_line};"
        ));
        let (fast, other) = match product.rows_fastest {
            true => ("m0 + first + at", "n0 + line"),
            false => ("n0 + at", "m0 + first + line"),
        };
        lowering.line(format_args!("const k_i64 fast = {fast}, other = {other};"));
        let (fast_axes, fast_size, other_axes, other_size) = match product.rows_fastest {
            true => (&product.left.axes, m, &product.right.axes, n),
            false => (&product.right.axes, n, &product.left.axes, m),
        };
        let sum = |lane: &str| match product.rows_fastest {
            true => format!("strip[(at + {lane}) * {pitch} + line]"),
            false => format!("strip[line * {pitch} + at + {lane}]"),
        };
        let finish = |mut inner: Scope, sums: Vec<String>| {
            inner.place(product.stage, When::Current, Place::Values(sums));
            let rest = lowering.kernel.items().get(1..).unwrap_or_default();
            SerialItems::new(lowering, None).items(&mut inner, rest);
        };
        lowering.open(format_args!("if (other < {other_size})"));
        let mut at_other = scope.clone();
        split_points(lowering, &mut at_other, "other", other_axes);
        match fast_axes.as_slice() {
            &[axis] if lanes > 1 => {
                lowering.open(format_args!("if (fast + {lanes} <= {fast_size})"));
                let sums = (0..lanes).map(|lane| lowering.declare("float", sum(&lane.to_string())));
                let sums = sums.collect();
                let along = Lanes {
                    axis,
                    count: lanes,
                    is_aligned: false,
                };
                finish(at_other.with_lanes(along, "fast".to_owned()), sums);
                lowering.close();
                lowering.open(format_args!(
                    "else for (int lane = 0; lane < {lanes} && fast + lane < {fast_size}; ++lane)"
                ));
                let value = lowering.declare("float", sum("lane"));
                let index = lowering.declare("k_i64", "fast + lane");
                finish(at_other.with_axis(axis, index), vec![value]);
                lowering.close();
            }
            _ => {
                lowering.open(format_args!("if (fast < {fast_size})"));
                let value = lowering.declare("float", sum("0"));
                let mut inner = at_other.clone();
                split_points(lowering, &mut inner, "fast", fast_axes);
                finish(inner, vec![value]);
                lowering.close();
            }
        }
        lowering.close();
        lowering.close();
        lowering.line("k_sync();");
        lowering.close();
    }
}
