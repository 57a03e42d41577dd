//! The cost model on single ops with an obvious bound.

use std::collections::BTreeSet;

use kiln_ir::{BlobMap, Graph};
use kiln_shape_inference::read_graph;

use super::{Effort, Rates, WorkKind, effort, of_kernel};
use crate::sizes::SizeQueries;
use crate::{FusionCandidateAnalyzer, FusionOptions, plan, subgraph};

/// The effort of the op that produces `%y`, and its time.
fn of(parameters: &str, op: &str) -> (Effort, f64) {
    let source = format!("graph @f({parameters}) -> () {{\n  %y = {op}\n  return\n}}");
    let graph: Graph = read_graph(&source, &BlobMap::new()).unwrap();
    let ops: BTreeSet<_> = graph.ops().map(|(op, _)| op).collect();
    let outputs = subgraph::outputs(&graph, &ops);
    let sizes = SizeQueries::of_options(&graph, &FusionOptions::new());
    let cost = of_kernel(&graph, &sizes, &ops, &outputs);
    (effort(&graph, &sizes, &ops, &outputs), cost.nanoseconds)
}

fn conv(x: &str, w: &str, attributes: &str) -> Effort {
    let (effort, _) = of(
        &format!("%x: f32[{x}], %w: f32[{w}]"),
        &format!("conv %x, %w {{{attributes}}}"),
    );
    effort
}

const STEP_1: &str = "strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0], groups = ";
const STEP_2: &str = "strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0], groups = ";

#[test]
fn each_op_has_its_kind_of_work() {
    let kind = |w: &str, attributes: &str, groups: usize| {
        conv(
            "1, 64, 80, 80",
            w,
            &format!("{attributes}{groups}, out = f32"),
        )
        .kind
    };
    assert_eq!(kind("64, 64, 1, 1", STEP_1, 1), WorkKind::Product);
    assert_eq!(kind("64, 64, 3, 3", STEP_1, 1), WorkKind::Window);
    assert_eq!(kind("64, 64, 3, 3", STEP_2, 1), WorkKind::StridedWindow);
    assert_eq!(kind("64, 1, 3, 3", STEP_1, 64), WorkKind::Depthwise);
    assert_eq!(kind("64, 1, 3, 3", STEP_2, 64), WorkKind::Depthwise);
    let (product, _) = of(
        "%x: f32[96, 512], %w: f32[512, 96]",
        "matmul %x, %w {out = f32}",
    );
    assert_eq!(product.kind, WorkKind::Product);
    assert_eq!(product.amount, 96.0 * 512.0 * 96.0);
    let (sum, _) = of("%x: f32[96, 512], %z: f32[96, 512]", "add %x, %z");
    assert_eq!(sum.kind, WorkKind::Memory);
    // The result has no reader, so it is not written.
    assert_eq!(sum.amount, 2.0 * 96.0 * 512.0 * 4.0);
    let (erf, _) = of("%x: f32[96, 512]", "erf %x");
    assert_eq!(erf.kind, WorkKind::Simple);
}

#[test]
fn windows_over_one_channel_take_longer_per_product() {
    let time = |effort: Effort| effort.nanoseconds / effort.amount;
    let dense = conv(
        "1, 64, 80, 80",
        "64, 64, 3, 3",
        &format!("{STEP_1}1, out = f32"),
    );
    let depthwise = conv(
        "1, 64, 80, 80",
        "64, 1, 3, 3",
        &format!("{STEP_1}64, out = f32"),
    );
    assert!(time(depthwise) > 2.0 * time(dense));
}

#[test]
fn a_transposed_window_multiplies_each_input_once_per_tap() {
    let (effort, _) = of(
        "%x: f32[1, 24, 80, 80], %w: f32[24, 16, 2, 2]",
        "conv_transpose %x, %w {strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0], \
         output_padding = [0, 0], groups = 1}",
    );
    assert_eq!(effort.kind, WorkKind::Transposed);
    assert_eq!(effort.amount, (24 * 80 * 80 * 16 * 2 * 2) as f64);
}

#[test]
fn kernel_time_is_work_plus_launch_overhead() {
    let (effort, nanoseconds) = of("%x: f32[2, 3]", "relu %x");
    assert_eq!(nanoseconds, effort.nanoseconds + effort.overhead);
    assert!(
        effort.overhead > 100.0 * effort.nanoseconds,
        "little to do is a launch"
    );
}

#[test]
fn every_kind_of_work_has_a_rate_and_a_name() {
    for kind in WorkKind::ALL {
        assert!(Rates::CPU.per_nanosecond(kind) > 0.0);
        assert_eq!(format!("{kind}"), kind.as_words());
    }
}

#[test]
fn each_device_uses_its_own_rates_and_limits() {
    let text = "graph @f(%x: f32[64], %y: f32[64], %z: f32[64]) -> f32[64] {
      %a = add %x, %y
      %b = mul %a, %z
      %c = exp %b
      return %c
    }";
    let graph = read_graph(text, &BlobMap::new()).unwrap();
    let all: Vec<_> = graph.ops().map(|(op, _)| op).collect();
    let nanoseconds = |rates| {
        let options = FusionOptions::new().with_rates(rates);
        let benefit = FusionCandidateAnalyzer::new(&graph, options).analyze_benefit(&all);
        benefit.unwrap().nanoseconds_apart
    };
    let (cpu, slow) = (Rates::CPU, Rates::CPU.with_launch(10_600.0));
    let difference = nanoseconds(slow) - nanoseconds(cpu);
    assert!((difference - 30_000.0).abs() < 1.0, "{difference}");
    let without = cpu
        .with_rate(WorkKind::Memory, f64::INFINITY)
        .with_launch(0.0);
    assert!(nanoseconds(without.with_sums(0.0, 0.0)) < nanoseconds(cpu) / 10.0);

    let kernels = |options: FusionOptions| plan(&graph, &options).unwrap().n_nodes();
    assert_eq!(kernels(FusionOptions::new()), 1);
    // The single kernel has four buffers, and a device may allow fewer.
    assert_eq!(kernels(FusionOptions::new().with_max_buffers(3)), 2);
    assert_eq!(kernels(FusionOptions::new().with_max_ops(1)), 3);
}
