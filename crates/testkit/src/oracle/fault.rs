//! The code with which a failing call must fail.
//!
//! The requirements of an optimised graph's regions on sizes are checked in the same order by the interpreter and by
//! compiled code, as soon as the sizes are known. Everything else is in program order in the interpreter, and in the order
//! of fused kernels in compiled code.

use kiln_ir::{Graph, Op};
use kiln_scalar::ScalarFault;

/// Codes of data faults of ops: an index out of range, a division by zero.
const OF_DATA: [&str; 2] = [
    kiln_interpreter::OpFault::INDEX_OUT_OF_RANGE,
    ScalarFault::DIVISION_BY_ZERO,
];

/// Whether a fault of this code is caused by data while an op computes, rather than by sizes before. Such a fault is
/// removed with its op if no output needs it.
pub fn is_of_data(code: &str) -> bool {
    OF_DATA.contains(&code)
}

/// Whether compiled code may fail with `found` where the interpreter fails with `expected`, both given this optimised graph.
///
/// The codes must be the same; but of two data faults, either may come first, and if some sizes are known only after a
/// part of the graph ran, so may either of a data fault and a fault of sizes.
pub fn may_fail_with(graph: &Graph, expected: &str, found: &str) -> bool {
    let n_of_data = [expected, found]
        .iter()
        .filter(|code| is_of_data(code))
        .count();
    let learns_sizes = |graph: &Graph| {
        let mut ops = graph.ops();
        ops.any(|(_, op)| !op.symbols.is_empty() || !op.regions.is_empty())
    };
    match n_of_data {
        0 => expected == found,
        1 => learns_sizes(graph),
        _ => true,
    }
}

/// Whether compiled code may return outputs where the interpreter fails with `expected`, both given this optimised
/// graph: a fused kernel computes only the elements that are read, so it does not encounter data faults in others.
pub fn may_leave_out(graph: &Graph, expected: &str) -> bool {
    let reads_a_part = |op: &Op| {
        matches!(
            op,
            Op::Slice { .. }
                | Op::Broadcast { .. }
                | Op::Gather { .. }
                | Op::GatherElements { .. }
                | Op::GatherNd { .. }
                | Op::ScatterElements { .. }
                | Op::ScatterNd { .. }
                | Op::UpdateSlice { .. }
                | Op::Resize(_)
                | Op::Pool { .. }
                | Op::ArgPool { .. }
                | Op::Conv { .. }
        )
    };
    is_of_data(expected) && graph.ops().any(|(_, data)| reads_a_part(&data.op))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use kiln_ir::BlobMap;
    use kiln_shape_inference::read_graph;

    fn graph(text: &str) -> Graph {
        read_graph(text, &BlobMap::new()).unwrap()
    }

    #[test]
    fn codes_differ_only_where_the_order_of_faults_is_open() {
        let (index, division, sizes) = ("E0822", "E0882", "E0820");
        let plain = graph("graph @g(%x: f32[N]) -> f32[N] { return %x }");
        assert!(may_fail_with(&plain, sizes, sizes));
        assert!(!may_fail_with(&plain, sizes, "E0821"));
        assert!(may_fail_with(&plain, index, division));
        assert!(!may_fail_with(&plain, index, sizes));
        let late = graph(
            "graph @g(%n: i64[]) -> i64[n] {
               %sizes = reshape %n {dims = [1]}
               bind %sizes -> (n)
               %y: i64[n] = iota {dims = [n], axis = 0, dtype = i64}
               return %y
             }",
        );
        assert!(may_fail_with(&late, index, sizes));
        assert!(!may_fail_with(&late, "E0821", sizes));
    }
}
