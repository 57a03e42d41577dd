//! Reordering axes: what it changes, what it preserves, and that results stay the same.

use insta::assert_snapshot;
use kiln_scalar::Mode;
use kiln_tensor::{Element, Tensor};

use crate::evaluate::evaluate;
use crate::form::{BufferId, Kernel};
use crate::text::{print, read};
use crate::verify::verify;

const CONV: &str = "kernel @conv(%x: in f32[N, C, H, W], %w: const f32[O, C, 3, 3], %y: out f32[N, O, H, W]) {
  outer n < N, o < O, h < H, w < W
  acc = reduce add[c < C, p < 3, q < 3] (%x[n, c, h + p - 1, w + q - 1] if inside else 0.0) * %w[o, c, p, q]
  store %y[n, o, h, w] = max(acc, 0.0)
}
";

fn kernel(text: &str) -> Kernel {
    read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)))
}

fn named(kernel: &Kernel, name: &str) -> BufferId {
    let mut buffers = kernel.buffers().iter();
    let found = buffers.find(|(_, buffer)| buffer.name == name);
    found.unwrap().0
}

fn ordered(kernel: Kernel, orders: &[(&str, &[usize])]) -> Kernel {
    orders.iter().fold(kernel, |kernel, (name, order)| {
        let buffer = named(&kernel, name);
        kernel.with_axis_order(buffer, order)
    })
}

/// The names of the outer axes, and of those that each stage reduces.
fn loops(kernel: &Kernel) -> Vec<String> {
    use crate::form::StageOperation;
    let names = |axes: &[_]| -> String {
        let names: Vec<&str> = axes
            .iter()
            .map(|&axis| kernel.axis(axis).name.as_str())
            .collect();
        names.join(" ")
    };
    let reduced = kernel
        .stages()
        .values()
        .filter_map(|stage| match &stage.operation {
            StageOperation::Reduce { axes, .. } => Some(names(axes)),
            StageOperation::Map => None,
        });
    std::iter::once(names(kernel.outer()))
        .chain(reduced)
        .collect()
}

/// The outer and the reduced axes of a kernel given as text, in memory order.
fn in_memory_order(text: &str) -> Vec<String> {
    let kernel = kernel(text).in_memory_order();
    verify(kernel.clone()).unwrap_or_else(|errors| panic!("{errors}\n{}", print(&kernel)));
    loops(&kernel)
}

fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse: Vec<usize> = (0..order.len()).collect();
    inverse.sort_by_key(|&axis| order[axis]);
    inverse
}

/// Every order of this many axes.
fn permutations(rank: usize) -> Vec<Vec<usize>> {
    (0..rank).fold(vec![Vec::new()], |orders, axis| {
        let longer = |order: Vec<usize>| {
            (0..=order.len()).map(move |place| {
                let mut order = order.clone();
                order.insert(place, axis);
                order
            })
        };
        orders.into_iter().flat_map(longer).collect()
    })
}

/// Small numbers, all different.
fn numbers<T: Element>(shape: &[usize], make: impl Fn(i16) -> T) -> Tensor {
    let length = shape.iter().product::<usize>() as i16;
    let elements = (0..length)
        .map(|place| make(place * 37 % 101 - 50))
        .collect();
    Tensor::from_vec(shape, elements).unwrap()
}

fn floats(shape: &[usize]) -> Tensor {
    numbers(shape, f32::from)
}

/// Runs a kernel unchanged, and with reordered axes on data in the same layout; compares the results after restoring
/// the axis order.
fn check_same(text: &str, symbols: &[i64], buffers: &[Tensor], orders: &[(&str, &[usize])]) {
    let before = kernel(text);
    let after = ordered(before.clone(), orders).in_memory_order();
    verify(after.clone()).unwrap_or_else(|errors| panic!("{errors}\n{}", print(&after)));
    let order_of = |name: &str| orders.iter().find(|(other, _)| *other == name);
    let names: Vec<&str> = before.buffers().values().map(|b| b.name.as_str()).collect();
    let turned =
        |tensor: &Tensor, order: &[usize]| tensor.transpose(order).unwrap().contiguous().unwrap();
    let mut expected = buffers.to_vec();
    evaluate(&before, symbols, &mut expected, Mode::Declared).unwrap();
    let mut found: Vec<Tensor> = names
        .iter()
        .zip(buffers)
        .map(|(name, tensor)| match order_of(name) {
            Some((_, order)) => turned(tensor, order),
            None => tensor.clone(),
        })
        .collect();
    evaluate(&after, symbols, &mut found, Mode::Declared)
        .unwrap_or_else(|error| panic!("{error}\n{}", print(&after)));
    for ((name, expected), found) in names.iter().zip(&expected).zip(&found) {
        let found = match order_of(name) {
            Some((_, order)) => turned(found, &inverse(order)),
            None => found.clone(),
        };
        assert_eq!(found.shape(), expected.shape(), "{name}\n{}", print(&after));
        let bytes = |tensor: &Tensor| tensor.contiguous().unwrap().as_bytes().unwrap().to_vec();
        assert_eq!(bytes(&found), bytes(expected), "{name}\n{}", print(&after));
    }
}

#[test]
fn reorder_moves_channels_innermost() {
    let orders: [(&str, &[usize]); 2] = [("x", &[0, 2, 3, 1]), ("y", &[0, 2, 3, 1])];
    let turned = ordered(kernel(CONV), &orders);
    assert_snapshot!(print(&turned), @r"
    kernel @conv<N, C, H, W, O>(%x: in f32[N, H, W, C], %w: const f32[O, C, 3, 3], %y: out f32[N, H, W, O]) {
      outer n < N, o < O, h < H, w < W
      acc = reduce add[c < C, p < 3, q < 3] (%x[n, h + p - 1, w + q - 1, c] if inside else 0.0) * %w[o, c, p, q]
      store %y[n, h, w, o] = max(acc, 0.0)
    }
    ");
    assert_snapshot!(print(&turned.in_memory_order()), @r"
    kernel @conv<N, C, H, W, O>(%x: in f32[N, H, W, C], %w: const f32[O, C, 3, 3], %y: out f32[N, H, W, O]) {
      outer n < N, h < H, w < W, o < O
      acc = reduce add[p < 3, q < 3, c < C] (%x[n, h + p - 1, w + q - 1, c] if inside else 0.0) * %w[o, c, p, q]
      store %y[n, h, w, o] = max(acc, 0.0)
    }
    ");
}

#[test]
fn reorder_permutes_strides_with_sizes() {
    let text = "kernel @padded(%x: in f32[A, B] strides [S, 1], %y: out f32[A, B]) {
      outer i < A, j < B
      store %y[i, j] = %x[i, j]
    }";
    assert_snapshot!(print(&ordered(kernel(text), &[("x", &[1, 0])])), @r"
    kernel @padded<A, B, S>(%x: in f32[B, A] strides [1, S], %y: out f32[A, B]) {
      outer i < A, j < B
      store %y[i, j] = %x[j, i]
    }
    ");
}

#[test]
fn reorder_permutes_every_load_and_store() {
    let text = "kernel @twice(%x: in f32[A, B], %y: out f32[2*A, B], %z: inout f32[A, B]) {
      outer i < A, j < B
      store %y[i, j] = %x[i, j] - %x[A - 1 - i, B - 1 - j]
      store %y[A + i, j] = %x[i, j]
      carry t < 2 {
        s init 0.0 = prev(s) + %x[i, j]
        store add %z[i, j] = s
      }
    }";
    let orders: [(&str, &[usize]); 3] = [("x", &[1, 0]), ("y", &[1, 0]), ("z", &[1, 0])];
    assert_snapshot!(print(&ordered(kernel(text), &orders)), @r"
    kernel @twice<A, B>(%x: in f32[B, A], %y: out f32[B, 2*A], %z: inout f32[B, A]) {
      outer i < A, j < B
      store %y[j, i] = %x[j, i] - %x[B - 1 - j, A - 1 - i]
      store %y[j, A + i] = %x[j, i]
      carry t < 2 {
        s init 0.0 = prev(s) + %x[j, i]
        store add %z[j, i] = s
      }
    }
    ");
}

#[test]
fn an_invalid_axis_order_changes_nothing() {
    let wrong: [&[usize]; 7] = [
        &[],
        &[0, 1, 2],
        &[0, 1, 2, 2],
        &[0, 1, 2, 4],
        &[0, 1, 2, 3, 4],
        &[1, 2, 3, 4],
        &[0, 0, 0, 0],
    ];
    for order in wrong {
        for name in ["x", "w", "y"] {
            let found = ordered(kernel(CONV), &[(name, order)]);
            assert_eq!(print(&found), CONV, "{name} {order:?}");
        }
    }
    let found = ordered(kernel(CONV), &[("x", &[0, 1, 2, 3])]);
    assert_eq!(print(&found), CONV);
    let none = BufferId::from_u32(3);
    assert_eq!(print(&kernel(CONV).with_axis_order(none, &[0])), CONV);
}

#[test]
fn an_order_and_its_inverse_restore_the_text() {
    for order in permutations(4) {
        for name in ["x", "w", "y"] {
            let there = ordered(kernel(CONV), &[(name, &order)]);
            let is_same = order.is_sorted();
            assert_eq!(print(&there) == CONV, is_same, "{name} {order:?}");
            let back = ordered(there, &[(name, &inverse(&order))]);
            assert_eq!(print(&back), CONV, "{name} {order:?}");
        }
    }
}

#[test]
fn outer_axes_take_the_order_of_the_store() {
    assert_eq!(
        in_memory_order(
            "kernel @turned(%x: in f32[A, B, C], %y: out f32[C, A, B]) {
              outer i < A, j < B, k < C
              store %y[k, i, j] = %x[i, j, k]
            }"
        ),
        ["k i j"]
    );
    // An index that is not a plain axis is skipped, provided that each axis is named.
    assert_eq!(
        in_memory_order(
            "kernel @spread(%x: in f32[A, B], %y: out f32[B, 4, A]) {
              outer i < A, j < B
              store %y[j, r < 4, i] = %x[i, j]
            }"
        ),
        ["j i"]
    );
    // The first store determines the order.
    assert_eq!(
        in_memory_order(
            "kernel @both(%x: in f32[A, B], %y: out f32[B, A], %z: out f32[A, B]) {
              outer i < A, j < B
              store %y[j, i] = %x[i, j]
              store %z[i, j] = %x[i, j]
            }"
        ),
        ["j i"]
    );
}

#[test]
fn outer_axes_without_a_plain_store_index_stay() {
    for text in [
        // An index that is not a plain axis.
        "kernel @flat(%x: in f32[A, B], %y: out f32[B, A*4]) {
          outer j < A, i < 4, k < B
          store %y[k, j * 4 + i] = %x[j, k]
        }",
        "kernel @reversed(%x: in f32[A, B], %y: out f32[B, A]) {
          outer i < A, j < B
          store %y[j, A - 1 - i] = %x[i, j]
        }",
    ] {
        assert_eq!(loops(&kernel(text).in_memory_order()), loops(&kernel(text)));
    }
}

#[test]
fn combining_stores_keep_the_axis_order() {
    let text = "kernel @add(%idx: in i64[K], %x: in f32[K, D], %z: inout f32[D, K]) {
      outer k < K, d < D
      store add %z[d, k] = %x[k, d]
    }";
    assert_eq!(in_memory_order(text), ["k d"]);
    let text =
        "kernel @both(%idx: in i64[K], %x: in f32[K, D], %y: out f32[D, K], %z: inout f32[2]) {
      outer k < K, d < D
      store %y[d, k] = %x[k, d]
      store set %z[%idx[k]] = %x[k, d]
    }";
    assert_eq!(in_memory_order(text), ["k d"]);
}

#[test]
fn combining_stores_in_a_carry_block_keep_the_axis_order() {
    let text =
        "kernel @within(%idx: in i64[K], %x: in f32[K, D], %y: out f32[D, K], %z: inout f32[2]) {
      outer k < K, d < D
      carry t < 2 {
        store set %z[%idx[k]] = %x[k, d]
      }
      store %y[d, k] = %x[k, d]
    }";
    assert_eq!(in_memory_order(text), ["k d"]);
}

#[test]
fn reduced_axes_take_the_order_of_the_load() {
    assert_eq!(
        in_memory_order(
            "kernel @pool(%x: in f32[N, H, W, C], %y: out f32[N, C]) {
              outer n < N, c < C
              s = reduce max[q < W, p < H] %x[n, p, q, c]
              store %y[n, c] = s
            }"
        ),
        ["n c", "p q"]
    );
    // For each load, the last index that an axis moves counts; axes in the same index keep their order.
    assert_eq!(
        in_memory_order(
            "kernel @windows(%x: in f32[H, W], %y: out f32[H]) {
              outer h < H
              s = reduce add[r < 2, q < 3, p < 3] %x[h + p - 1, r * 2 + q] if inside else 0.0
              store %y[h] = s
            }"
        ),
        ["h", "p r q"]
    );
    // Weights do not count, and neither does a load that not every axis moves.
    assert_eq!(
        in_memory_order(
            "kernel @weighted(%w: const f32[C, P, O], %b: in f32[C], %x: in f32[N, P, C], %y: out f32[N, O]) {
              outer n < N, o < O
              s = reduce add[c < C, p < P] %w[c, p, o] * %b[c] * %x[n, p, c]
              store %y[n, o] = s
            }"
        ),
        ["n o", "p c"]
    );
}

#[test]
fn reduced_axes_that_move_no_load_stay() {
    assert_eq!(
        in_memory_order(
            "kernel @outer(%a: in f32[P], %b: in f32[Q], %y: out f32[]) {
              s = reduce add[q < Q, p < P] %a[p] * %b[q]
              store %y[] = s
            }"
        ),
        ["", "q p"]
    );
    assert_eq!(
        in_memory_order(
            "kernel @largest(%x: in f32[P, N], %y: out i64[N]) where P >= 1 {
              outer n < N
              s = reduce argmax[p < P] %x[p, n]
              store %y[n] = s
            }"
        ),
        ["n", "p"]
    );
}

/// The extent of one axis depends on the other, so only one nesting is possible.
#[test]
fn reduced_axes_stay_inside_the_axes_their_extents_depend_on() {
    let text = "kernel @triangle(%x: in f32[N, N], %y: out f32[]) {
      s = reduce add[i < N, j < clamp(i + 1, N)] %x[j, i]
      store %y[] = s
    }";
    assert_eq!(in_memory_order(text), ["", "i j"]);
}

#[test]
fn a_reordered_convolution_gives_the_same_results() {
    let (symbols, buffers) = ([1, 3, 2, 4, 2], conv_buffers(1, 3, 2, 4, 2));
    for order in permutations(4) {
        check_same(CONV, &symbols, &buffers, &[("x", &order)]);
        check_same(CONV, &symbols, &buffers, &[("y", &order)]);
    }
    let innermost: &[usize] = &[0, 2, 3, 1];
    for [n, c, h, w, o] in [
        [2, 3, 3, 2, 4],
        [1, 1, 1, 1, 1],
        [0, 2, 3, 3, 2],
        [2, 0, 2, 2, 3],
        [2, 2, 1, 5, 1],
    ] {
        let symbols = [n, c, h, w, o].map(|size: usize| size as i64);
        let buffers = conv_buffers(n, c, h, w, o);
        let orders = [("x", innermost), ("y", innermost), ("w", &[2, 3, 1, 0][..])];
        check_same(CONV, &symbols, &buffers, &orders);
    }
}

fn conv_buffers(n: usize, c: usize, h: usize, w: usize, o: usize) -> [Tensor; 3] {
    [
        floats(&[n, c, h, w]),
        floats(&[o, c, 3, 3]),
        Tensor::full(&[n, o, h, w], 0.0_f32).unwrap(),
    ]
}

#[test]
fn reordered_kernels_give_the_same_results() {
    // Several stores to one buffer, and loads from one buffer at several places.
    let text = "kernel @twice(%x: in i64[A, B], %y: out i64[2*A, B]) {
      outer i < A, j < B
      store %y[i, j] = %x[i, j] - %x[A - 1 - i, B - 1 - j]
      store %y[A + i, j] = %x[i, j]
    }";
    let buffers = [
        numbers(&[3, 4], i64::from),
        Tensor::full(&[6, 4], 0_i64).unwrap(),
    ];
    let turned: &[usize] = &[1, 0];
    for orders in [
        vec![("x", turned)],
        vec![("y", turned)],
        vec![("x", turned), ("y", turned)],
    ] {
        check_same(text, &[3, 4], &buffers, &orders);
    }
    // Combining stores: the last store to an element wins.
    let text = "kernel @last(%idx: in i64[K], %x: in i64[K, D], %z: inout i64[N, D]) {
      outer k < K, d < D
      store set %z[%idx[k], d] = %x[k, d]
    }";
    let buffers = [
        Tensor::from_slice(&[5], &[1_i64, 0, 1, 1, 0]).unwrap(),
        numbers(&[5, 3], i64::from),
        numbers(&[2, 3], i64::from),
    ];
    for orders in [
        vec![("x", turned)],
        vec![("z", turned)],
        vec![("x", turned), ("z", turned)],
    ] {
        check_same(text, &[5, 3, 2], &buffers, &orders);
    }
    // Steps that contain stores.
    let text = "kernel @steps(%x: in i64[B, T], %y: out i64[B, T], %z: out i64[B]) {
      outer b < B
      carry t < T {
        s init 0 = prev(s) * 2 + %x[b, t]
        store %y[b, t] = s
      }
      store %z[b] = last(s)
    }";
    let buffers = [
        numbers(&[3, 4], i64::from),
        Tensor::full(&[3, 4], 0_i64).unwrap(),
        Tensor::full(&[3], 0_i64).unwrap(),
    ];
    check_same(text, &[3, 4], &buffers, &[("x", turned), ("y", turned)]);
}
