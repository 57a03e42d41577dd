//! Group norms as exporters write them: the size of a group is inferred from the number of elements, so it is a
//! polynomial of which little can be proved. Each becomes one kernel, and is planned without failed attempts.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln_fusion::{FusionOptions, plan};
use kiln_ir::BlobMap;
use kiln_kernel::Class;
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::read_graph;

const NORM: &str = "
graph @norm(%h: f32[H, W], %x: f32[B, 32, (H + 1) / 2, (W + 1) / 2]) -> (f32[B, 32, (H + 1) / 2, (W + 1) / 2]) {
  %e: f32[] = constant [0.001]
  %g = reshape %x {dims = [B, 8, ((H + 1) % 2)*((W + 1) % 2) - ((H + 1) % 2)*W - ((W + 1) % 2)*H + H*W - (H + 1) % 2
    - (W + 1) % 2 + H + W + 1]}
  %m = reduce %g {function = mean, axes = [2], keep_dims}
  %d = sub %g, %m
  %q = square %d
  %v = reduce %q {function = mean, axes = [2], keep_dims}
  %a = add %v, %e
  %r = rsqrt %a
  %n = mul %d, %r
  %y = reshape %n {dims = [B, 32, (H + 1) / 2, (W + 1) / 2]}
  return %y
}";

#[test]
fn a_group_norm_of_an_inferred_size_is_one_kernel() {
    let graph = read_graph(NORM, &BlobMap::new()).unwrap();
    let (graph, _) = optimize(graph, &mut PassOptions::default()).unwrap();
    let plan = plan(&graph, &FusionOptions::new()).unwrap();
    assert_eq!(plan.rejected(), [], "{plan}");
    assert_eq!(plan.count("interpret"), 0, "{plan}");
    let kernels: Vec<_> = plan
        .nodes()
        .filter_map(|node| node.kernel.as_ref().and(node.class))
        .collect();
    assert_eq!(kernels, [Class::Row], "{plan}");
}
