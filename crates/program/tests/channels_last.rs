//! Axis orders in memory: which buffers adopt another buffer's axis order, which do not, and what is joined in place.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use insta::assert_snapshot;
use kiln_backend::PreferredLayout;
use kiln_fusion::FusionOptions;
use kiln_ir::BlobMap;
use kiln_kernel::VerifiedKernel;
use kiln_program::{BuildOptions, LayoutPreferences, Program, build};

/// The second of four axes is innermost.
const INNERMOST: &[usize] = &[0, 2, 3, 1];
/// Rows and columns are swapped.
const TURNED: &[usize] = &[0, 1, 3, 2];
/// Unchanged.
const ROW_MAJOR: &[usize] = &[0, 1, 2, 3];

/// The preferences of kernels with certain names, for the buffers they write or read.
struct Wishes {
    written: &'static [(&'static str, &'static [usize])],
    read: &'static [(&'static str, &'static [usize])],
    copies: bool,
}

impl Wishes {
    /// Preferences for the buffers that are written.
    fn written(written: &'static [(&'static str, &'static [usize])]) -> Self {
        Self {
            written,
            read: &[],
            copies: false,
        }
    }
}

impl LayoutPreferences for Wishes {
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<PreferredLayout> {
        let mut wishes = Vec::new();
        for (position, buffer) in kernel.kernel().buffers().values().enumerate() {
            let list = if buffer.role.is_written() {
                self.written
            } else {
                self.read
            };
            let of_kernel = list.iter().filter(|(name, _)| *name == kernel.name());
            wishes.extend(of_kernel.map(|(_, order)| PreferredLayout {
                buffer: position,
                order: order.to_vec(),
                is_worth_copying: self.copies,
            }));
        }
        wishes
    }
}

fn program(text: &str, layouts: &dyn LayoutPreferences) -> Program {
    let graph = kiln_shape_inference::read_graph(text, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new().with_fusion(false)).unwrap();
    build(graph, &plan, layouts, &BuildOptions::default()).unwrap()
}

/// A program in which the kernels that write an exponential prefer channels innermost.
fn innermost(text: &str) -> String {
    program(text, &Wishes::written(&[("exp", INNERMOST)])).to_string()
}

/// The names of the buffers that are not row-major, with their strides.
fn strided(program: &Program) -> Vec<String> {
    let body = program.block(program.body());
    let dims = program.graph().dims();
    let strided = body.buffers.values().filter_map(|buffer| {
        let strides = buffer.strides.as_ref()?.iter();
        let strides: Vec<_> = strides.map(|&size| program.sizes().dim(size)).collect();
        Some(format!("{} {}", buffer.name, dims.display_shape(&strides)))
    });
    strided.collect()
}

#[test]
fn elementwise_chains_take_the_channels_last_layout() {
    assert_snapshot!(innermost("graph @chain(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
      %a = neg %x
      %b = exp %a
      %c = tanh %b
      %d = add %c, %a
      %e = abs %d
      return %e
    }"), @"
    program @chain: 5 kernels, 0 constants, steps: 5 kernel
    body(%x: f32[N, 8, A, B]) -> (%e@own: f32[N, 8, A, B])
      segment 0: 2 slots
        kernel neg [kernel0 map] %x -> %a@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel exp [kernel1 map] %a@0.0 -> %b@0.1: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel tanh [kernel2 map] %b@0.1 -> %c(%b+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel add [kernel3 map] %c(%b+0), %a@0.0 -> %d(%b+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel abs [kernel4 map] %d(%b+0) -> %e@own: f32[N, 8, A, B]
    ");
}

#[test]
fn kernels_use_the_actual_strides_of_their_buffers() {
    let text = "graph @seen(%x: f32[N, 8, A, B], %s: f32[8, 1, 1]) -> f32[N, 8, A, B] {
      %a = exp %x
      %b = mul %a, %s
      %c = neg %b
      return %c
    }";
    let program = program(text, &Wishes::written(&[("exp", INNERMOST)]));
    let kernels: Vec<String> = program
        .kernels()
        .keys()
        .map(|id| kiln_kernel::text::print(program.kernel(id)))
        .collect();
    assert_snapshot!(kernels.join(""), @"
    kernel @kernel(%b0: in f32[s0, s1, s2], %b1: out f32[s0, s2, s1]) where s1 % 8 == 0 {
      outer a0 < s0, a1 < s2, a2 < s1
      store %b1[a0, a1, a2] = exp(%b0[a0, a2, a1])
    }
    kernel @kernel(%b0: in f32[s0, s1], %b1: in f32[s1, 1, 1], %b2: out f32[s0, s1]) where s1 % 8 == 0 {
      outer a0 < s0, a1 < s1
      store %b2[a0, a1] = %b0[a0, a1] * %b1[a1, 0, 0]
    }
    kernel @kernel(%b0: in f32[s0, s1, s2], %b1: out f32[s0, s2, s1]) where s2 % 8 == 0 {
      outer a0 < s0, a1 < s2, a2 < s1
      store %b1[a0, a1, a2] = neg(%b0[a0, a2, a1])
    }
    ");
}

#[test]
fn operands_broadcast_over_the_image_take_the_layout_if_they_have_channels() {
    assert_snapshot!(innermost("graph @spread(%x: f32[N, 8, A, B], %s: f32[8, 1, 1], %t: f32[N, 8, 1, 1], %u: f32[N, 1, A, B]) -> f32[N, 8, A, B] {
      %a = exp %x
      %s1 = neg %s
      %t1 = neg %t
      %u1 = neg %u
      %b = add %a, %s1
      %c = add %b, %t1
      %d = add %c, %u1
      %e = neg %d
      return %e
    }"), @"
    program @spread: 8 kernels, 0 constants, steps: 8 kernel
    body(%x: f32[N, 8, A, B], %s: f32[8, 1, 1], %t: f32[N, 8, 1, 1], %u: f32[N, 1, A, B]) -> (%e@own: f32[N, 8, A, B])
      segment 0: 4 slots
        kernel exp [kernel0 map] %x -> %a@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel neg [kernel1 map] %s -> %s1@0.1: f32[8, 1, 1]
        kernel neg [kernel2 map] %t -> %t1@0.2: f32[N, 8, 1, 1] strides [8, 1, 8, 8]
        kernel neg [kernel3 map] %u -> %u1@0.3: f32[N, 1, A, B]
        kernel add [kernel4 map] %a@0.0, %s1@0.1 -> %b(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel add [kernel5 map] %b(%a+0), %t1@0.2 -> %c(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel add [kernel6 map] %c(%a+0), %u1@0.3 -> %d(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel neg [kernel7 map] %d(%a+0) -> %e@own: f32[N, 8, A, B]
    ");
}

#[test]
fn reductions_over_the_image_take_the_layout_if_they_keep_axes() {
    assert_snapshot!(innermost("graph @reduced(%x: f32[N, 8, A, B]) -> (f32[N, 8, 1, 1], f32[N, 8], f32[N, 1, A, B]) {
      %a = exp %x
      %kept = reduce %a {function = sum, axes = [2, 3], keep_dims}
      %flat = reduce %a {function = sum, axes = [2, 3]}
      %plane = reduce %a {function = sum, axes = [1], keep_dims}
      %p = neg %kept
      %q = neg %flat
      %r = neg %plane
      return %p, %q, %r
    }"), @"
    program @reduced: 7 kernels, 0 constants, steps: 7 kernel
    body(%x: f32[N, 8, A, B]) -> (%p@own: f32[N, 8, 1, 1], %q@own: f32[N, 8], %r@own: f32[N, 1, A, B])
      segment 0: 2 slots
        kernel exp [kernel0 map] %x -> %a@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel reduce [kernel1 row] %a@0.0 -> %kept@0.1: f32[N, 8, 1, 1] strides [8, 1, 8, 8]
        kernel reduce [kernel2 row] %a@0.0 -> %flat(%q+0): f32[N, 8]
        kernel reduce [kernel3 row] %a@0.0 -> %plane(%r+0): f32[N, 1, A, B]
        kernel neg [kernel4 map] %kept@0.1 -> %p@own: f32[N, 8, 1, 1]
        kernel neg [kernel5 map] %flat(%q+0) -> %q@own: f32[N, 8]
        kernel neg [kernel6 map] %plane(%r+0) -> %r@own: f32[N, 1, A, B]
    ");
}

#[test]
fn row_major_operands_and_results_are_copied_where_a_kernel_gains_more() {
    let text =
        "graph @edges(%x: f32[N, 8, A, B]) -> (f32[N, 8, A, B], f32[N, 8, A, B], f32[N, 8, A, B]) {
      %a = exp %x
      %b = neg %a
      %c = abs %x
      %y = exp %x
      %z = exp %b
      return %c, %y, %z
    }";
    let wishes = Wishes {
        written: &[("exp", INNERMOST)],
        read: &[("exp", INNERMOST)],
        copies: true,
    };
    assert_snapshot!(program(text, &wishes).to_string(), @"
    program @edges: 5 kernels, 0 constants, steps: 8 kernel
    body(%x: f32[N, 8, A, B]) -> (%c@own: f32[N, 8, A, B], %y@own: f32[N, 8, A, B], %z@own: f32[N, 8, A, B])
      %c may take the memory of %x
      segment 0: 2 slots
        kernel x_relayout [kernel0 map] %x -> %x@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel exp [kernel1 map] %x@0.0 -> %a@0.1: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel neg [kernel2 map] %a@0.1 -> %b(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel abs [kernel3 map] %x -> %c@own: f32[N, 8, A, B]
        kernel exp [kernel1 map] %x@0.0 -> %y(%x+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel y_relayout [kernel4 map] %y(%x+0) -> %y@own: f32[N, 8, A, B]
        kernel exp [kernel1 map] %b(%a+0) -> %z(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel z_relayout [kernel4 map] %z(%a+0) -> %z@own: f32[N, 8, A, B]
    ");
}

#[test]
fn results_that_would_be_scattered_are_copied() {
    // Read at rounded indices, and under conditions; a slice with constant steps is transposed by its kernel.
    let resized = "resize %a {axes = [2, 3], sizes = [A, 6], scales = [1.0, 2.0], mode = linear, coordinates = half_pixel, \
                   rounding = floor, cubic_coefficient = -0.75}";
    let padded = "pad %a, %zero {low = [0, 0, 0, 3], high = [0, 0, 0, 0], mode = edge}";
    let sliced = "slice %c {starts = [0, 0, 0, 1], sizes = [N, 8, A, 6], steps = [1, 1, 1, 1]}";
    for (op, copies) in [(resized, 1), (padded, 1), (sliced, 0)] {
        let text = format!(
            "graph @moved(%x: f32[N, 8, A, 3], %y: f32[N, 8, A, 9]) -> f32[N, 8, A, 6] {{
          %zero: f32[] = constant [0]
          %a = exp %x
          %c = exp %y
          %b = {op}
          return %b
        }}"
        );
        let printed = innermost(&text);
        assert_eq!(printed.matches("_relayout").count(), copies, "{printed}");
    }
}

#[test]
fn inputs_outputs_views_and_builtins_stay_row_major() {
    let text = "graph @bound(%x: f32[N, 8, A, B]) -> (f32[N, 8, A, B], f32[N, 8, A*B], f32[N, 8, A, 1], f32[N, 8, A, B]) where B >= 1 {
      %result = exp %x
      %viewed = exp %result
      %flat = reshape %viewed {dims = [N, 8, A*B]}
      %y = neg %flat
      %listed = exp %viewed
      %largest, %at = top_k %listed {k = 1, axis = 3, extremum = max}
      %free = exp %listed
      %z = neg %free
      %w = abs %largest
      return %result, %y, %w, %z
    }";
    let program = program(text, &Wishes::written(&[("exp", INNERMOST)]));
    assert_eq!(strided(&program), ["free [8*A*B, 1, 8*B, 8]"], "{program}");
}

#[test]
fn outputs_of_axis_moving_kernels_stay_row_major() {
    let text =
        "graph @moved(%x: f32[N, 8, A, B]) -> (f32[N, A, B, 8], f32[N, 8, B, A], f32[N, 8, A, B]) {
      %a = exp %x
      %b = transpose %a {permutation = [0, 2, 3, 1]}
      %c = neg %b
      %d = transpose %a {permutation = [0, 1, 3, 2]}
      %e = neg %d
      %f = slice %a {starts = [0, 7, 0, 0], sizes = [N, 8, A, B], steps = [1, -1, 1, 1]}
      %g = neg %f
      return %c, %e, %g
    }";
    let program = program(text, &Wishes::written(&[("exp", INNERMOST)]));
    // Channels are the same axis in the transposed image; `b` has the same layout in either case.
    assert_eq!(
        strided(&program),
        ["a [8*A*B, 1, 8*B, 8]", "d [8*A*B, 1, 8*A, 8]"],
        "{program}"
    );
}

#[test]
fn conflicting_layout_preferences_leave_a_buffer_row_major() {
    let text = "graph @differ(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
      %a = exp %x
      %b = neg %a
      %c = abs %b
      return %c
    }";
    for other in [TURNED, ROW_MAJOR] {
        let read: &'static [_] = if other == TURNED {
            &[("neg", TURNED)]
        } else {
            &[("neg", ROW_MAJOR)]
        };
        let written = &[("exp", INNERMOST)];
        let program = program(
            text,
            &Wishes {
                written,
                read,
                copies: false,
            },
        );
        assert_eq!(strided(&program), [""; 0], "{program}");
    }
    // One preference that agrees, and one for an order that the buffer already has.
    let agreed = Wishes {
        written: &[("exp", INNERMOST)],
        read: &[("neg", INNERMOST)],
        copies: false,
    };
    let both = ["a [8*A*B, 1, 8*B, 8]", "b [8*A*B, 1, 8*B, 8]"];
    assert_eq!(strided(&program(text, &agreed)), both);
    let row_major = Wishes::written(&[("exp", INNERMOST), ("neg", ROW_MAJOR)]);
    assert_eq!(strided(&program(text, &row_major)), both[..1]);
}

/// If two orders meet in one kernel, each buffer keeps its own.
#[test]
fn buffers_of_different_orders_may_meet_in_one_kernel() {
    let text = "graph @meet(%x: f32[N, 8, A, B], %y: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
      %a = exp %x
      %b = sqrt %y
      %c = add %a, %b
      %d = neg %c
      return %d
    }";
    let wishes = Wishes::written(&[("exp", INNERMOST), ("sqrt", TURNED)]);
    assert_snapshot!(program(text, &wishes), @"
    program @meet: 4 kernels, 0 constants, steps: 4 kernel
    body(%x: f32[N, 8, A, B], %y: f32[N, 8, A, B]) -> (%d@own: f32[N, 8, A, B])
      segment 0: 2 slots
        kernel exp [kernel0 map] %x -> %a@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel sqrt [kernel1 map] %y -> %b@0.1: f32[N, 8, A, B] strides [8*A*B, A*B, 1, A]
        kernel add [kernel2 map] %a@0.0, %b@0.1 -> %c(%a+0): f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel neg [kernel3 map] %c(%a+0) -> %d@own: f32[N, 8, A, B]
    ");
}

#[test]
fn invalid_axis_orders_are_ignored() {
    let text = "graph @none(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
      %a = exp %x
      %b = neg %a
      return %b
    }";
    const NONE: [&[(&str, &[usize])]; 5] = [
        &[("exp", &[])],
        &[("exp", &[1, 0])],
        &[("exp", &[0, 2, 3, 3])],
        &[("exp", &[0, 2, 3, 4])],
        &[("exp", &[0, 2, 3, 1, 4])],
    ];
    for written in NONE {
        let program = program(text, &Wishes::written(written));
        assert_eq!(strided(&program), [""; 0], "{program}");
    }
    /// A preference for a buffer that does not exist.
    struct Beyond;
    impl LayoutPreferences for Beyond {
        fn layouts(&self, _: &VerifiedKernel) -> Vec<PreferredLayout> {
            vec![PreferredLayout {
                buffer: 9,
                order: INNERMOST.to_vec(),
                is_worth_copying: true,
            }]
        }
    }
    assert_eq!(strided(&program(text, &Beyond)), [""; 0]);
}

#[test]
fn concat_operands_of_equal_order_are_joined_in_place() {
    let wishes = Wishes {
        written: &[("exp", INNERMOST), ("tanh", INNERMOST)],
        read: &[("neg", INNERMOST)],
        copies: false,
    };
    let text = "graph @joined(%x: f32[N, 8, A, B], %y: f32[N, 16, A, B]) -> f32[N, 24, A, B] {
      %a = exp %x
      %b = tanh %y
      %c = concat %a, %b {axis = 1}
      %d = neg %c
      return %d
    }";
    assert_snapshot!(program(text, &wishes), @"
    program @joined: 3 kernels, 0 constants, steps: 3 kernel
    body(%x: f32[N, 8, A, B], %y: f32[N, 16, A, B]) -> (%d@own: f32[N, 24, A, B])
      segment 0: 1 slots
        kernel exp [kernel0 map] %x -> %a(%c+0): f32[N, 8, A, B] strides [24*A*B, 1, 24*B, 24]
        kernel tanh [kernel1 map] %y -> %b(%c+8): f32[N, 16, A, B] strides [24*A*B, 1, 24*B, 24]
        kernel neg [kernel2 map] %c@0.0 -> %d@own: f32[N, 24, A, B]
    ");
    let text = "graph @rows(%x: f32[N, 8, A, B], %y: f32[N, 8, C, B]) -> f32[N, 8, A + C, B] {
      %a = exp %x
      %b = tanh %y
      %c = concat %a, %b {axis = 2}
      %d = neg %c
      return %d
    }";
    assert_snapshot!(program(text, &wishes), @"
    program @rows: 3 kernels, 0 constants, steps: 3 kernel
    body(%x: f32[N, 8, A, B], %y: f32[N, 8, C, B]) -> (%d@own: f32[N, 8, A + C, B])
      segment 0: 1 slots
        asks value of [A + C] (concat (%4))
        kernel exp [kernel0 map] %x -> %a(%c+0): f32[N, 8, A, B] strides [8*A*B + 8*B*C, 1, 8*B, 8]
        kernel tanh [kernel1 map] %y -> %b(%c+8*A*B): f32[N, 8, C, B] strides [8*A*B + 8*B*C, 1, 8*B, 8]
        kernel neg [kernel2 map] %c@0.0 -> %d@own: f32[N, 8, A + C, B]
    ");
}

/// Concatenated operands along the axis that is outermost in memory are contiguous, in order.
#[test]
fn concat_along_the_outermost_axis_keeps_the_order() {
    let wishes = Wishes {
        written: &[("exp", &[1, 0]), ("tanh", &[1, 0])],
        read: &[("neg", &[1, 0])],
        copies: false,
    };
    let text = "graph @joined(%x: f32[A, B], %y: f32[A, C]) -> f32[A, B + C] {
      %a = exp %x
      %b = tanh %y
      %c = concat %a, %b {axis = 1}
      %d = neg %c
      return %d
    }";
    let program = program(text, &wishes);
    let expected = ["a [1, A]", "b [1, A]", "c [1, A]"];
    assert_eq!(strided(&program), expected, "{program}");
}

#[test]
fn concat_operands_of_other_orders_are_copied() {
    let text = "graph @joined(%x: f32[N, 8, A, B], %y: f32[N, 16, A, B]) -> f32[N, 24, A, B] {
      %a = exp %x
      %b = tanh %y
      %c = concat %a, %b {axis = 1}
      %d = neg %c
      return %d
    }";
    // Not the whole; not each operand; each with a different order.
    let whole = Wishes::written(&[
        ("exp", INNERMOST),
        ("tanh", INNERMOST),
        ("concat", ROW_MAJOR),
    ]);
    let part = Wishes {
        written: &[("exp", INNERMOST), ("tanh", ROW_MAJOR)],
        read: &[("neg", INNERMOST)],
        copies: false,
    };
    let others = Wishes {
        written: &[("exp", INNERMOST), ("tanh", TURNED)],
        read: &[("neg", INNERMOST)],
        copies: false,
    };
    for wishes in [whole, part, others] {
        let program = program(text, &wishes);
        assert_eq!(program.counts()["kernel"], 4, "{program}");
    }
    assert_snapshot!(innermost(text), @"
    program @joined: 4 kernels, 0 constants, steps: 4 kernel
    body(%x: f32[N, 8, A, B], %y: f32[N, 16, A, B]) -> (%d@own: f32[N, 24, A, B])
      segment 0: 3 slots
        kernel exp [kernel0 map] %x -> %a@0.0: f32[N, 8, A, B] strides [8*A*B, 1, 8*B, 8]
        kernel tanh [kernel1 map] %y -> %b@0.1: f32[N, 16, A, B]
        kernel concat [kernel2 map] %b@0.1, %a@0.0 -> %c@0.2: f32[N, 24, A, B] strides [24*A*B, 1, 24*B, 24]
        kernel neg [kernel3 map] %c@0.2 -> %d@own: f32[N, 24, A, B]
    ");
}

/// Programs are stored, so the same graph must always give the same text, with the same numbering of its sizes.
#[test]
fn building_a_program_is_deterministic() {
    let text = "graph @chains(%x: f32[N, 8, A, B], %y: f32[N, 16, C, D], %z: f32[N, 24, E, F]) -> (f32[N, 8, A, B], f32[N, 16, C, D], f32[N, 24, E, F]) {
      %a = exp %x
      %b = neg %a
      %c = abs %b
      %d = exp %y
      %e = neg %d
      %f = abs %e
      %g = exp %z
      %h = neg %g
      %i = abs %h
      return %c, %f, %i
    }";
    let wishes = Wishes::written(&[("exp", INNERMOST)]);
    let sizes = |program: &Program| -> Vec<String> {
        let dims = program.graph().dims();
        let sizes = program.sizes().iter();
        sizes
            .map(|(_, dim)| dims.display(dim).to_string())
            .collect()
    };
    let first = program(text, &wishes);
    for _ in 0..10 {
        let again = program(text, &wishes);
        assert_eq!(again.to_string(), first.to_string());
        assert_eq!(sizes(&again), sizes(&first));
    }
}
