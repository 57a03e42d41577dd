//! Winograd convolutions: at the ends of tiles and strips, with and without borders, and with stages before and after
//! the sums.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use kiln_backend::{KernelCompiler, LaunchContext, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::VerifiedKernel;
use kiln_testkit::kernels::Variant;
use support::{
    check_variants, compiled_as, compiled_with_fewer_products, has_winograd, kernel, loops_of,
    symbols,
};

/// Rows and columns of images, for F(2x2, 3x3) and F(4x4, 3x3): one tile, tile boundaries, more than a strip, and
/// images smaller than a tile.
const IMAGES: [(u32, &[[i64; 2]]); 2] = [
    (
        2,
        &[
            [2, 2],
            [2, 3],
            [3, 2],
            [5, 4],
            [2, 33],
            [3, 50],
            [1, 5],
            [4, 1],
            [0, 5],
        ],
    ),
    (4, &[[4, 4], [4, 7], [7, 5], [6, 10], [4, 98], [3, 5]]),
];

/// Compares with the evaluator for all these image sizes, each with other numbers of images, channels and features.
fn check(text: &str) {
    let kernel = kernel(text);
    let dims = kernel.dims();
    let names: Vec<&str> = dims
        .symbols()
        .map(|symbol| dims.symbol_name(symbol))
        .collect();
    for (sums, images) in IMAGES {
        let variants = compiled_with_fewer_products(&kernel, sums);
        check_compiled(&kernel, &names, &variants, images);
    }
}

fn check_compiled(
    kernel: &VerifiedKernel,
    names: &[&str],
    variants: &[Variant],
    images: &[[i64; 2]],
) {
    for (seed, &[lines, columns]) in (0..).zip(images) {
        let all = [
            ("N", 1 + i64::from(lines * columns < 9)),
            ("H", lines),
            ("W", columns),
            ("C", 16 * (1 + seed % 2)),
            ("K", 16 * (1 + seed % 3)),
        ];
        let sizes: Vec<i64> = names
            .iter()
            .map(|name| all.iter().find(|(known, _)| known == name).unwrap().1)
            .collect();
        match (names, sizes.as_slice()) {
            (&[a, b, c, d], &[e, f, g, h]) => {
                check_variants(kernel, variants, [a, b, c, d], &[[e, f, g, h]]);
            }
            (&[a, b, c, d, e], &[f, g, h, i, j]) => {
                check_variants(kernel, variants, [a, b, c, d, e], &[[f, g, h, i, j]]);
            }
            _ => panic!("a kernel of four symbols, or of five"),
        }
    }
}

const WITH_A_BORDER: &str = "kernel @conv(%x: in f32[N, H, W, C], %w: const f32[24, C, 3, 3], %b: const f32[24],
      %r: in f32[N, H, W, 24], %o: out f32[N, H, W, 24]) where C % 16 == 0 {
      outer n < N, i < H, j < W, k < 24
      s = reduce add[p < 3, q < 3, c < C] (%x[n, i + p - 1, j + q - 1, c] if inside else 0.0) * %w[k, c, p, q]
      store %o[n, i, j, k] = relu(s + %b[k]) + %r[n, i, j, k]
    }";

#[test]
fn windows_with_a_border_and_an_epilogue() {
    check(WITH_A_BORDER);
}

#[test]
fn windows_without_a_border_and_a_partial_set_of_features() {
    check(
        "kernel @conv(%x: in f32[N, H + 2, W + 2, C], %w: const f32[K, C, 3, 3], %o: out f32[N, H, W, K])
           where C % 16 == 0, K % 16 == 0 {
           outer n < N, i < H, j < W, k < K
           s = reduce add[c < C, p < 3, q < 3] %x[n, i + p, j + q, c] * %w[k, c, p, q]
           store %o[n, i, j, k] = s
         }",
    );
}

/// The window's first axis is along the columns, and its operand is computed.
#[test]
fn windows_over_a_computed_operand() {
    check(
        "kernel @conv(%x: in f32[N, H, W, C], %g: in f32[N, C], %w: const f32[3, 3, C, 16], %o: out f32[N, H, W, 16])
           where C % 16 == 0 {
           outer n < N, i < H, j < W, k < 16
           s = reduce add[q < 3, p < 3, c < C] %w[p, q, c, k]
             * (relu(%x[n, i + p - 1, j + q - 1, c] if inside else 0.0) * %g[n, c])
           store %o[n, i, j, k] = s
         }",
    );
}

/// Outside the border, the value depends on the window's position, so neighbouring windows cannot share it.
#[test]
fn position_dependent_borders_do_not_use_winograd() {
    let text = WITH_A_BORDER.replace("else 0.0", "else %b[min(i, 23)]");
    let kernel = kernel(&text);
    let variants = compiled_as(&kernel, |_| ());
    let mut schedules = variants.iter().map(|variant| &variant.artifact.schedule);
    assert!(!schedules.any(|schedule| has_winograd(&kernel, schedule)));
    let sizes = [[1, 14, 14, 16], [2, 3, 5, 32]];
    check_variants(&kernel, &variants, ["N", "H", "W", "C"], &sizes);
}

/// Winograd is not used for small images, or for images whose strips exceed the cache because of their channels.
#[test]
fn winograd_is_chosen_by_image_and_channels() {
    let kernel = kernel(WITH_A_BORDER);
    let variants = compiled_as(&kernel, |_| ());
    let variant = variants.last().unwrap();
    let tasks = |h, w, c| {
        let sizes = symbols(&kernel, &[("N", 1), ("H", h), ("W", w), ("C", c)]);
        let phases = variant.artifact.phases.iter();
        let context = LaunchContext {
            symbols: &sizes,
            threads: 2,
            caches: [32 << 10, 1 << 20, 32 << 20],
        };
        let tasks = phases.map(|phase| phase.tasks.evaluate(&context).unwrap() > 0);
        tasks.collect::<Vec<bool>>()
    };
    if !has_winograd(&kernel, &variant.artifact.schedule) {
        return;
    }
    assert_eq!(tasks(14, 14, 96), [true, true, false]);
    assert_eq!(tasks(7, 7, 96), [false, false, true]);
    assert_eq!(tasks(200, 1, 96), [false, false, true]);
    assert_eq!(tasks(14, 14, 4096), [false, false, true]);
}

/// With F(4x4, 3x3) enabled, F(2x2, 3x3) is used if the larger tiles exceed the cache, or are too large for the image.
#[test]
fn f4x4_is_used_only_if_enabled() {
    let kernel = kernel(WITH_A_BORDER);
    let compiler = LlvmCompiler::new().with_fewer_products(true);
    let target = compiler.host();
    let schedule = compiler.schedules(&kernel, &target).remove(0).schedule;
    let usual = LlvmCompiler::new().schedules(&kernel, &target).remove(0);
    let sums = |schedule| -> Vec<u32> {
        let nests = loops_of(&kernel, schedule).nests.into_iter();
        let transforms = nests.filter_map(|nest| nest.winograd);
        transforms.map(|transform| transform.sums()).collect()
    };
    if !has_winograd(&kernel, &schedule) {
        return;
    }
    assert_eq!(
        (sums(&usual.schedule), sums(&schedule)),
        (vec![2], vec![4, 2])
    );
    let artifact = compiler.compile(&kernel, &target, &schedule, &mut Unobserved);
    let artifact = artifact.unwrap();
    let phases = &artifact.phases;
    let used = |h, w, c| {
        let sizes = symbols(&kernel, &[("N", 1), ("H", h), ("W", w), ("C", c)]);
        let context = LaunchContext {
            symbols: &sizes,
            threads: 2,
            caches: [32 << 10, 1 << 20, 32 << 20],
        };
        let tasks = phases
            .iter()
            .map(|phase| phase.tasks.evaluate(&context).unwrap());
        tasks.map(|tasks| tasks > 0).collect::<Vec<bool>>()
    };
    assert_eq!(used(28, 28, 96), [true, true, false, false, false]);
    assert_eq!(used(14, 14, 96), [false, false, true, true, false]);
    assert_eq!(used(3, 400, 96), [false, false, true, true, false]);
    assert_eq!(used(14, 14, 4096), [false, false, false, false, true]);
    // How many channels fit depends on the target's tile.
    let mut by_channels: Vec<_> = (3..=128).map(|n| used(28, 28, 32 * n)).collect();
    by_channels.dedup();
    let [larger, smaller, neither] = [
        [true, true, false, false, false],
        [false, false, true, true, false],
        [false, false, false, false, true],
    ];
    assert_eq!(by_channels, [larger, smaller, neither]);
}
