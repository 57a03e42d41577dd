//! Moves sums out of registers, strip by strip through shared memory, to the epilogue.

use kiln_kernel::AxisId;

use super::{Points, STRIP_ROWS, strip_pitch};
use crate::generate::lowering::Lowering;
use crate::generate::scope::{Lanes, Scope};
use crate::generate::split_points;

/// The results of a tile.
pub(in crate::generate) struct Results<'a> {
    /// Its rows and its columns.
    pub(in crate::generate) rows: Points<'a>,
    pub(in crate::generate) columns: Points<'a>,
    /// The number of rows and of columns of the tile.
    pub(in crate::generate) tile: [u32; 2],
    /// The C type of the sums.
    pub(in crate::generate) sum: &'static str,
    /// Whether results are consecutive in memory along rows, rather than columns.
    pub(in crate::generate) rows_fastest: bool,
    /// Consecutive results that a thread computes at once.
    pub(in crate::generate) lanes: u32,
    /// The threads of the block.
    pub(in crate::generate) threads: u32,
}

/// Moves the sums of `tile` through the strip, and calls `finish` when their points are known, with the scope and the
/// variables of the sums, one per lane.
pub(in crate::generate) fn leave(
    lowering: &Lowering<'_>,
    scope: &Scope,
    results: &Results<'_>,
    finish: &dyn Fn(Scope, Vec<String>),
) {
    let ([bm, bn], lanes) = (results.tile, results.lanes);
    let pitch = strip_pitch(bn);
    let ty = results.sum;
    lowering.line(format_args!("{ty}* const strip = ({ty}*)k_shared;"));
    lowering.open(format_args!(
        "for (int first = 0; first < {bm}; first += {STRIP_ROWS})"
    ));
    lowering.line(format_args!(
        "k_leave<{STRIP_ROWS}, {pitch}>(tile, strip, first);"
    ));
    lowering.line("k_sync();");
    let (rows, columns) = (&results.rows, &results.columns);
    let (fast, other, per_line) = match results.rows_fastest {
        true => (rows, columns, STRIP_ROWS / lanes),
        false => (columns, rows, bn / lanes),
    };
    let total = STRIP_ROWS * bn / lanes;
    lowering.open(format_args!(
        "for (int chunk = (int)k_thread(); chunk < {total}; chunk += {})",
        results.threads
    ));
    lowering.line(format_args!(
        "const int at = chunk % {per_line} * {lanes}, line = chunk / {per_line};"
    ));
    let sum = |lane: &str| match results.rows_fastest {
        true => format!("strip[(at + {lane}) * {pitch} + line]"),
        false => format!("strip[line * {pitch} + at + {lane}]"),
    };
    let (of_fast, of_other) = match results.rows_fastest {
        true => ("first + at", "line"),
        false => ("at", "first + line"),
    };
    lowering.line(format_args!(
        "const k_i64 fast = {} + {of_fast}, other = {} + {of_other};",
        fast.first, other.first
    ));
    lowering.open(format_args!("if (other < {})", other.size));
    let mut at_other = scope.clone();
    split_points(lowering, &mut at_other, "other", other.axes);
    match fast.axes {
        &[axis] if lanes > 1 => {
            let sums = (ty, &sum as &dyn Fn(&str) -> String);
            in_lanes(lowering, &at_other, (axis, lanes, &fast.size), sums, finish);
        }
        axes => {
            lowering.open(format_args!("if (fast < {})", fast.size));
            let value = lowering.declare(ty, sum("0"));
            split_points(lowering, &mut at_other, "fast", axes);
            finish(at_other, vec![value]);
            lowering.close();
        }
    }
    lowering.close();
    lowering.close();
    lowering.line("k_sync();");
    lowering.close();
}

/// All lanes at once if they are inside, otherwise one after the other.
fn in_lanes(
    lowering: &Lowering<'_>,
    scope: &Scope,
    (axis, lanes, size): (AxisId, u32, &str),
    (ty, sum): (&str, &dyn Fn(&str) -> String),
    finish: &dyn Fn(Scope, Vec<String>),
) {
    lowering.open(format_args!("if (fast + {lanes} <= {size})"));
    let sums = (0..lanes).map(|lane| lowering.declare(ty, sum(&lane.to_string())));
    let sums = sums.collect();
    let along = Lanes {
        axis,
        count: lanes,
        is_aligned: false,
    };
    finish(scope.with_lanes(along, "fast".to_owned()), sums);
    lowering.close();
    lowering.open(format_args!(
        "else for (int lane = 0; lane < {lanes} && fast + lane < {size}; ++lane)"
    ));
    let value = lowering.declare(ty, sum("lane"));
    let index = lowering.declare("k_i64", "fast + lane");
    finish(scope.with_axis(axis, index), vec![value]);
    lowering.close();
}
