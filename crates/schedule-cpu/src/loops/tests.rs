//! The text form of loops, and loops that are rejected.

use kiln_backend::IsaLevel;
use kiln_kernel::VerifiedKernel;

use super::{Loops, read, verify};
use crate::testing::{kernel, loops, product};

fn printed(kernel: &VerifiedKernel) -> String {
    loops(kernel, IsaLevel::Avx2Fma).print(kernel)
}

/// Rows, a convolution, a transpose, concatenations, an upsampled image, attention and a scan.
const KERNELS: [&str; 8] = [
    "kernel @norm(%x: in f32[M, 384], %o: out f32[M, 384]) {
       outer m < M
       s = reduce add[n < 384] %x[m, n]
       store %o[m, n < 384] = %x[m, n] - s
     }",
    "kernel @conv(%x: in f32[H, W, 16], %w: const f32[3, 3, 16, 32], %o: out f32[H, W, 32]) {
       outer h < H, w < W, f < 32
       s = reduce add[p < 3, q < 3, c < 16] (%x[h + p - 1, w + q - 1, c] if inside else 0.0) * %w[p, q, c, f]
       store %o[h, w, f] = s
     }",
    "kernel @turn(%x: in f32[N, M], %o: out f32[M, N]) {
       outer m < M, n < N
       store %o[m, n] = %x[n, m]
     }",
    "kernel @joined(%x: in f32[N], %y: in f32[N], %o: out f32[2 * N]) {
       outer n < 2 * N
       store %o[n] = select(n < N, %x[min(n, N - 1)], %y[max(n - N, 0)])
     }",
    "kernel @below(%x: in f32[M, N], %y: in f32[M, N], %o: out f32[2 * M, N]) {
       outer m < 2 * M, n < N
       store %o[m, n] = select(m < M, %x[m, n] if inside else 0.0, %y[m - M, n] if inside else 0.0)
     }",
    "kernel @enlarged(%x: in f32[M, N], %o: out f32[2 * M, 2 * N]) {
       outer m < 2 * M, n < 2 * N
       store %o[m, n] = %x[m / 2, n / 2]
     }",
    "kernel @attention(%q: in f32[M, 32], %k: in f32[N, 32], %v: in f32[N, 32], %o: out f32[M, 32]) {
       outer m < M
       s[j < N] = reduce add[d < 32] %q[m, d] * %k[j, d]
       w[j < N] = s[j] * 0.25
       t = reduce max[j < N] w[j]
       e[j < N] = exp(w[j] - t)
       z = reduce add[j < N] e[j]
       a[f < 32] = reduce add[j < N] e[j] * %v[j, f]
       store %o[m, d < 32] = a[d] / z
     }",
    "kernel @sums(%x: in f32[T, N], %o: out f32[T, N]) {
       outer n < N
       carry t < T {
         s init 0.0 = %x[t, n] + prev(s)
         store %o[t, n] = s
       }
     }",
];

#[test]
fn printed_loops_read_back_equal_and_verify() {
    let mut kernels = vec![
        product("M", "in", "K, N", "N"),
        product("M", "const", "K, 512", "512"),
    ];
    kernels.extend(KERNELS.map(kernel));
    for kernel in kernels {
        for level in IsaLevel::ALL {
            let loops = loops(&kernel, level);
            let text = loops.print(&kernel);
            let again =
                read(&kernel, &text).unwrap_or_else(|error| panic!("{}", error.render(&text)));
            assert_eq!(again, loops, "{text}");
            verify(&kernel, &again).unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}

#[test]
fn loops_of_a_product() {
    insta::assert_snapshot!(printed(&product("M", "in", "K, N", "N")));
}

#[test]
fn loops_of_a_convolution() {
    insta::assert_snapshot!(printed(&kernel(KERNELS[1])));
}

#[test]
fn errors_in_loop_texts_have_positions() {
    let kernel = product("M", "in", "K, N", "N");
    let text = printed(&kernel);
    for (from, to, expected) in [
        ("loops {", "loops", "error[E0101]: expected `{`"),
        (
            "rows m",
            "rows q",
            "error[E0519]: expected an axis of the kernel, found `q`",
        ),
        (
            "    s: ",
            "    z: ",
            "error[E0519]: expected the item `s`, found `z`",
        ),
        (
            "unroll 20",
            "unroll 4294967296",
            "error[E0103]: expected a number below 2^32",
        ),
        (
            "when",
            "whenever",
            "error[E0101]: expected `{`, found `whenever`",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        let error = read(&kernel, &changed).unwrap_err().render(&changed);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn loops_that_would_compute_something_else_are_refused() {
    let kernel = product("M", "in", "K, N", "N");
    let usual = loops(&kernel, IsaLevel::Avx2Fma);
    let refused = |change: &dyn Fn(&mut Loops)| {
        let mut loops = usual.clone();
        change(&mut loops);
        verify(&kernel, &loops).unwrap_err()
    };
    let last = |loops: &mut Loops| loops.nests.len() - 1;
    let found = [
        refused(&|loops| drop(loops.nests.pop())),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].tile.lanes = 3;
        }),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].remainder.rows.clear();
            loops.nests[last].remainder.least = 0;
        }),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].chunk += 1;
        }),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].vectors.clear();
        }),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].winograd = Some(Default::default());
        }),
        refused(&|loops| {
            let last = last(loops);
            loops.nests[last].items[1].register_transpose = true;
        }),
    ];
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn only_values_along_the_vectors_are_tabulated() {
    let enlarged = kernel(KERNELS[5]);
    let mut loops = loops(&enlarged, IsaLevel::Avx2Fma);
    let last = loops.nests.len() - 1;
    assert_eq!((loops.nests[0].tables, loops.nests[last].tables), (1, 0));
    loops.nests[0].tables = 2;
    assert!(verify(&enlarged, &loops).is_err());
    loops.nests[0].tables = 0;
    assert!(verify(&enlarged, &loops).is_err(), "windows need a table");
}
