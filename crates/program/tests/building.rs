//! The programs of graphs, as text: steps, buffers, layouts.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use insta::assert_snapshot;
use kiln_backend::PreferredLayout;
use kiln_fusion::FusionOptions;
use kiln_ir::BlobMap;
use kiln_kernel::VerifiedKernel;
use kiln_program::{Action, BuildOptions, LayoutPreferences, Place, Program, RowMajor, build};

fn program(text: &str, fuse: bool, layouts: &dyn LayoutPreferences) -> Program {
    let graph = kiln_shape_inference::read_graph(text, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{errors}"));
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new().with_fusion(fuse)).unwrap();
    build(graph, &plan, layouts, &BuildOptions::default()).unwrap()
}

fn unfused(text: &str) -> String {
    program(text, false, &RowMajor).to_string()
}

#[test]
fn a_chain_of_kernels_uses_two_slots() {
    assert_snapshot!(unfused("graph @chain(%x: f32[A, B]) -> f32[A, B] {
      %a = exp %x
      %b = neg %a
      %c = exp %b
      %d = neg %c
      %e = exp %d
      return %e
    }"), @"
    program @chain: 2 kernels, 0 constants, steps: 5 kernel
    body(%x: f32[A, B]) -> (%e@own: f32[A, B])
      %e may take the memory of %x
      segment 0: 0 slots
        kernel exp [kernel0 map] %x -> %a(%e+0): f32[A, B]
        kernel neg [kernel1 map] %a(%e+0) -> %b(%e+0): f32[A, B]
        kernel exp [kernel0 map] %b(%e+0) -> %c(%e+0): f32[A, B]
        kernel neg [kernel1 map] %c(%e+0) -> %d(%e+0): f32[A, B]
        kernel exp [kernel0 map] %d(%e+0) -> %e@own: f32[A, B]
    ");
}

#[test]
fn buffers_share_memory_where_sizes_are_provably_ordered() {
    let text = "graph @sizes(%x: f32[A, B], %y: f32[C]) -> (f32[2*A, B], f32[C]) {
      %a = exp %x
      %b = neg %a
      %c = concat %b, %b {axis = 0}
      %d = exp %c
      %e = neg %d
      %u = exp %y
      %v = neg %u
      return %e, %v
    }";
    let program = program(text, false, &RowMajor);
    let slots = &program.block(program.body()).segments[0].slots;
    // `b` reuses `a`, and `d` reuses `c`, which becomes `e`; nothing is known about `C`, so `u`, which becomes `v`, is
    // alone.
    let counts: Vec<usize> = slots.iter().map(|slot| slot.buffers.len()).collect();
    assert_eq!(counts, [1], "{program}");
}

#[test]
fn concat_operands_are_computed_in_place() {
    assert_snapshot!(unfused("graph @joined(%x: f32[A, B], %y: f32[A, C]) -> (f32[A, B + C], f32[A, B]) {
      %a = exp %x
      %b = neg %y
      %c = concat %a, %b {axis = 1}
      %n = neg %a
      return %c, %n
    }"), @r"
    program @joined: 3 kernels, 0 constants, steps: 3 kernel
    body(%x: f32[A, B], %y: f32[A, C]) -> (%c@own: f32[A, B + C], %n@own: f32[A, B])
      segment 0: 0 slots
        asks value of [B + C] (concat (%4))
        kernel exp [kernel0 map] %x -> %a(%c+0): f32[A, B] strides [B + C, 1]
        kernel neg [kernel1 map] %y -> %b(%c+B): f32[A, C] strides [B + C, 1]
        kernel neg [kernel2 map] %a(%c+0) -> %n@own: f32[A, B]
    ");
}

#[test]
fn graph_inputs_are_copied_into_a_concat() {
    let text = "graph @joined(%x: f32[A], %y: f32[C]) -> f32[A + C] {
      %a = exp %x
      %c = concat %a, %y {axis = 0}
      return %c
    }";
    let program = program(text, false, &RowMajor);
    assert_eq!(program.counts()["kernel"], 2, "{program}");
}

/// Prefers reversed axes for the first written buffer.
struct Turned;

impl LayoutPreferences for Turned {
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<PreferredLayout> {
        let buffers = kernel.kernel().buffers().values().enumerate();
        let written = buffers.filter(|(_, buffer)| buffer.role.is_written());
        let turned = |(position, buffer): (usize, &kiln_kernel::Buffer)| PreferredLayout {
            buffer: position,
            order: (0..buffer.rank()).rev().collect(),
            is_worth_copying: false,
        };
        written.map(turned).collect()
    }
}

#[test]
fn layouts_follow_schedule_preferences() {
    let text = "graph @turned(%x: f32[A, B]) -> f32[A, B] {
      %a = exp %x
      %b = neg %a
      return %b
    }";
    let program = program(text, false, &Turned);
    let body = program.block(program.body());
    let strided: Vec<&str> = body
        .buffers
        .values()
        .filter(|buffer| buffer.strides.is_some())
        .map(|buffer| buffer.name.as_str())
        .collect();
    assert_eq!(strided, ["a"], "a result stays row-major: {program}");
    assert!(program.to_string().contains("strides [1, A]"), "{program}");
}

#[test]
fn a_segment_ends_at_data_dependent_sizes() {
    assert_snapshot!(unfused("graph @found(%x: f32[A]) -> f32[n] {
      %at: i64[1, A], %count: i64[] = non_zero %x
      bind %count -> (n)
      %places = slice %at {starts = [0, 0], sizes = [1, n], steps = [1, 1]}
      %flat = reshape %places {dims = [n]}
      %values = gather %x, %flat {axis = 0}
      return %values
    }"), @r"
    program @found: 2 kernels, 0 constants, steps: 1 bind, 1 builtin, 2 kernel
    body(%x: f32[A]) -> (%values@own: f32[n])
      segment 0: 2 slots
        builtin non_zero %x -> %at@0.0: i64[1, A], %count@0.1: i64[]
        bind bind [n] %count@0.1
      segment 1: 1 slots
        asks slice of [0, n] with [A] (slice (%3))
        requires min(0, min(1, n)*n - min(1, n)) >= 0: a slice within its operand
        requires max(0, min(1, n)*n - min(1, n)) + min(1, n) <= A: a slice within its operand
        kernel slice [kernel0 map] %at@0.0 -> %places@1.0: i64[1, n]
        kernel gather [kernel1 map] %flat(%places+0), %x -> %values@own: f32[n]
    ");
}

#[test]
fn equal_kernels_are_stored_once() {
    let text =
        "graph @twice(%x: f32[A, B], %y: f32[C, D], %z: f32[E]) -> (f32[A, B], f32[C, D], f32[E]) {
      %a = exp %x
      %b = exp %y
      %c = exp %z
      return %a, %b, %c
    }";
    let program = program(text, false, &RowMajor);
    assert_eq!(
        (program.kernels().len(), program.counts()["kernel"]),
        (1, 3),
        "{program}"
    );
    let uses: Vec<usize> = program
        .kernels()
        .values()
        .map(|kernel| kernel.uses)
        .collect();
    assert_eq!(uses, [3]);
}

#[test]
fn operands_of_control_steps_outlive_the_arena() {
    let text = "graph @choose(%c: bool[], %x: f32[N]) -> f32[N] {
      %d = exp %x
      %y: f32[N] = if %c, %d
        region(%a: f32[N]) {
          yield %a
        }
        region(%b: f32[N]) {
          %n: f32[N] = neg %b
          yield %n
        }
      return %y
    }";
    let program = program(text, false, &RowMajor);
    let body = program.block(program.body());
    let steps = &body.segments[0].steps;
    let Some(Action::If { captures, .. }) = steps.last().map(|step| &step.action) else {
        panic!("{program}");
    };
    assert_eq!(body.buffers[captures[0]].place, Place::Own);
    assert_eq!(program.blocks().len(), 3);
}

#[test]
fn a_contiguous_slice_is_a_view() {
    assert_snapshot!(unfused("graph @parts(%x: f32[A, 8, B]) -> (f32[1, 2, B], f32[A, 2, B], f32[2, B], f32[1, 1, B]) where A >= 4, B >= 1 {
      %e = exp %x
      %row = slice %e {starts = [A - 1, 6, 0], sizes = [1, 2, B], steps = [1, 1, 1]}
      %a = neg %row
      %columns = slice %e {starts = [0, 6, 0], sizes = [A, 2, B], steps = [1, 1, 1]}
      %b = neg %columns
      %flat = reshape %row {dims = [2, B]}
      %c = neg %flat
      %again = slice %row {starts = [0, 1, 0], sizes = [1, 1, B], steps = [1, 1, 1]}
      %wide = broadcast %again {dims = [1, 1, B]}
      %d = neg %wide
      return %a, %b, %c, %d
    }"), @"
    program @parts: 5 kernels, 0 constants, steps: 6 kernel
    body(%x: f32[A, 8, B]) -> (%a@own: f32[1, 2, B], %b@own: f32[A, 2, B], %c@own: f32[2, B], %d@own: f32[1, 1, B])
      segment 0: 1 slots
        asks slice of [A - 1, 1] with [A] (slice (%2))
        kernel exp [kernel0 map] %x -> %e@0.0: f32[A, 8, B]
        kernel neg [kernel1 map] %row(%e+8*A*B - 2*B) -> %a@own: f32[1, 2, B]
        kernel slice [kernel2 map] %e@0.0 -> %columns(%b+0): f32[A, 2, B]
        kernel neg [kernel3 map] %columns(%b+0) -> %b@own: f32[A, 2, B]
        kernel neg [kernel3 map] %flat(%e+8*A*B - 2*B) -> %c@own: f32[2, B]
        kernel neg [kernel4 map] %wide(%e+8*A*B - B) -> %d@own: f32[1, 1, B]
    ");
}

#[test]
fn a_slice_that_may_be_out_of_bounds_or_is_an_output_is_copied() {
    let text =
        "graph @parts(%x: f32[A], %y: f32[B, C]) -> (f32[4], f32[1, C], f32[B, C]) where B >= 2 {
      %e = exp %x
      %p = slice %e {starts = [2], sizes = [4], steps = [1]}
      %a = neg %p
      %f = exp %y
      %r = slice %f {starts = [1, 0], sizes = [1, C], steps = [1, 1]}
      %t = slice %f {starts = [B - 1, 0], sizes = [B, C], steps = [-1, 1]}
      %g = neg %t
      return %a, %r, %g
    }";
    let program = program(text, false, &RowMajor);
    assert_eq!(program.counts()["kernel"], 7, "{program}");
}

#[test]
fn a_plan_of_another_graph_is_refused() {
    let read = |text: &str| {
        kiln_shape_inference::read_graph(text, &BlobMap::new())
            .unwrap_or_else(|errors| panic!("{errors}"))
    };
    let long = read(
        "graph @long(%x: f32[A]) -> f32[A] {
      %a = exp %x
      %b = transpose %a {permutation = [0]}
      %c = tanh %b
      return %c
    }",
    );
    let short = read(
        "graph @short(%x: f32[A]) -> f32[A] {
      %a = exp %x
      return %a
    }",
    );
    for fuse in [true, false] {
        let plan = kiln_fusion::plan(&long, &FusionOptions::new().with_fusion(fuse)).unwrap();
        let built = build(short.clone(), &plan, &RowMajor, &BuildOptions::default());
        assert_eq!(built.unwrap_err().code(), "E0838");
    }
    let plan = kiln_fusion::plan(&short, &FusionOptions::new()).unwrap();
    let built = build(long, &plan, &RowMajor, &BuildOptions::default());
    let error = built.unwrap_err();
    assert_eq!(error.code(), "E0838", "{error}");
}

#[test]
fn steps_valid_for_no_sizes_are_interpreted() {
    let text = "graph @never(%x: f32[0, B]) -> i64[B] where B >= 1 {
      %a = arg_reduce %x {axis = 0, extremum = max}
      return %a
    }";
    let program = program(text, true, &RowMajor);
    let step = program.steps().next().unwrap();
    let Action::Interpret { reason, .. } = &step.action else {
        panic!("{program}")
    };
    assert!(reason.contains("which never holds"), "{reason}");
}

#[test]
fn non_tensor_values_are_refused() {
    let text = "graph @list(%x: seq<f32[A]>) -> seq<f32[A]> {
      return %x
    }";
    let graph = kiln_ir::text::read(text, &BlobMap::new()).unwrap();
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new()).unwrap();
    let error = build(graph, &plan, &RowMajor, &BuildOptions::default()).unwrap_err();
    assert_eq!(error.code(), "E0836", "{error}");
    assert!(
        error.to_string().contains("found x: seq<f32[A]>"),
        "{error}"
    );
}
