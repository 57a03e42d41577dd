//! Loops in plans: one kernel if iterations are element-wise, otherwise a control step.

use kiln_symbolic_shape::Binding;

use crate::{FusionOptions, plan};

/// A loop that sums the slices of `%x`.
const SUMMING: &str = "graph @main(%x: f32[T, N], %h: f32[N]) {
  %0 = dims {sizes = [T]}
  %1 = reshape %0 {dims = []}
  %2: bool[] = constant [true]
  %3 = exp %h
  %4, %5 = loop %1, %2, %3, %x {carried = 1}
    region(%i: i64[], %s: f32[N], %xs: f32[T, N]) {
      %6: bool[] = constant [true]
      %7 = gather %xs, %i {axis = 0}
      %9 = add %s, %7
      yield %6, %9, %7
    }
  %8 = neg %4
  return %8, %5
}";

#[test]
fn without_fusion_and_beyond_limits_a_loop_stays_a_control_step() {
    let graph = super::read(SUMMING);
    let mut few = FusionOptions::new();
    few.max_ops = 2;
    for options in [FusionOptions::new().with_fusion(false), few] {
        let plan = plan(&graph, &options).unwrap();
        assert_eq!(plan.count("control"), 1, "{plan}");
    }
}

#[test]
fn a_trip_count_with_other_readers_is_also_computed_for_them() {
    let text = SUMMING.replace("return %8, %5", "return %8, %5, %1");
    let (_, plan) = super::planned(&text);
    assert_eq!((plan.count("dims"), plan.count("kernel")), (1, 3), "{plan}");
}

#[test]
fn the_kernel_of_a_loop_is_specialised_for_its_trips() {
    let (graph, plan) = super::planned(SUMMING);
    let node = plan.nodes().find(|node| node.name == "loop").unwrap();
    let lowered = node.kernel.as_ref().unwrap();
    let mut sizes = Binding::new();
    for (name, size) in [("T", 4), ("N", 8)] {
        let symbol = graph.dims().symbol_named(name).unwrap();
        sizes.set(symbol, size).unwrap();
    }
    let symbols = lowered.kernel.dims().symbols().zip(&lowered.symbols);
    let values =
        symbols.map(|(symbol, &dim)| (symbol, graph.dims().evaluate(dim, &sizes).unwrap()));
    let values: Binding = values.collect();
    let kernel = kiln_kernel::verify(lowered.kernel.clone()).unwrap();
    let kernel = kiln_kernel::specialize(&kernel, &values).unwrap();
    let text = kiln_kernel::text::print(kernel.kernel());
    assert!(text.contains("carry t"), "{text}");
    assert!(text.contains("< 4 {"), "{text}");
}
