//! Every example of the form: read, printed back, and compared with an equivalent graph or plain loop.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use kiln_testkit::cases::topic;
use support::{NamedSizes, as_f64, compare, compare_with_graph, example_text, kernel};

#[test]
fn every_example_prints_as_it_is_written() {
    for case in topic("examples").unwrap() {
        let text = case.text();
        let kernel = kernel(&text);
        assert_eq!(kernel.name(), case.name());
        let code = text.lines().filter(|line| !line.starts_with("//"));
        let written: String = code.map(|line| format!("{line}\n")).collect();
        assert_eq!(kernel.to_string(), written);
    }
}

#[test]
fn the_book_lists_every_example_verbatim() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/book/src/reference/kernel-form.md");
    let page = std::fs::read_to_string(page).unwrap();
    for case in topic("examples").unwrap() {
        let shown = format!("```kernel\n{}```\n", case.text());
        assert!(page.contains(&shown), "{}", case.name());
    }
}

/// Compares an example with a graph for several sizes.
fn check(name: &str, graph: &str, sizes: &[NamedSizes<'_>]) {
    for sizes in sizes {
        compare_with_graph(&example_text(name), graph, sizes, (0, 1));
    }
}

#[test]
fn example_norm_matches_the_interpreter() {
    let graph = "graph @g(%x: f32[B, S, 384], %g: f32[384], %b: f32[384]) -> f32[B, S, 384] {
        %m = reduce %x {function = mean, axes = [2], keep_dims}
        %c = sub %x, %m
        %q = square %c
        %v = reduce %q {function = mean, axes = [2], keep_dims}
        %e: f32[] = constant [1e-12]
        %s = add %v, %e
        %r = rsqrt %s
        %n = mul %c, %r
        %h = mul %n, %g
        %y = add %h, %b
        return %y
    }";
    check(
        "norm",
        graph,
        &[
            &[("B", 2), ("S", 3)],
            &[("B", 0), ("S", 3)],
            &[("B", 1), ("S", 1)],
        ],
    );
}

#[test]
fn example_linear_gelu_matches_the_interpreter() {
    let graph = "graph @g(%x: f32[M, K], %w: f32[K, F], %b: f32[F]) -> f32[M, F] {
        %p = matmul %x, %w
        %s = add %p, %b
        %y = gelu %s
        return %y
    }";
    let text = example_text("linear_gelu");
    compare_with_graph(
        &text,
        &graph.replace('K', "384").replace('F', "1536"),
        &[("M", 0)],
        (0, 1),
    );
    // The same with symbolic sizes.
    let text = text.replace("1536", "F").replace("384", "K");
    for (m, k, f) in [(5, 7, 3), (1, 1, 1), (2, 0, 3), (0, 2, 3)] {
        compare_with_graph(&text, graph, &[("M", m), ("K", k), ("F", f)], (0, 1));
    }
}

#[test]
fn example_conv_matches_the_interpreter() {
    let conv = "graph @g(%x: f32[N, C, H, W], %w: f32[O, C, 3, 3]) -> f32[N, O, H, W] {
        %c = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
        %y = hard_swish %c
        return %y
    }";
    for (n, c, h, w, o) in [(1, 2, 5, 7, 3), (2, 1, 1, 1, 1), (0, 2, 3, 3, 2)] {
        check(
            "conv",
            conv,
            &[&[("N", n), ("C", c), ("H", h), ("W", w), ("O", o)]],
        );
    }
    let depthwise = "graph @g(%x: f32[N, 3, H, W], %w: f32[3, 1, 3, 3]) -> f32[N, 3, H, W] {
        %c = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 3}
        %y = relu %c
        return %y
    }";
    for (n, h, w) in [(1, 5, 7), (2, 1, 2), (0, 3, 3)] {
        check(
            "depthwise_conv",
            depthwise,
            &[&[("N", n), ("C", 3), ("H", h), ("W", w)]],
        );
    }
    let grouped = "graph @g(%x: f32[N, 2, C, H], %w: f32[2, O, C, 3]) -> f32[N, 2, O, (H + 1) / 2] where H >= 1 {
        %a = reshape %x {dims = [N, 2*C, H]}
        %b = reshape %w {dims = [2*O, C, 3]}
        %c = conv %a, %b {strides = [2], dilations = [1], low = [1], high = [1], groups = 2}
        %y = reshape %c {dims = [N, 2, O, (H + 1) / 2]}
        return %y
    }";
    for (n, c, h, o) in [(2, 2, 7, 3), (1, 1, 1, 1), (1, 3, 8, 2)] {
        check(
            "grouped_conv",
            grouped,
            &[&[("N", n), ("G", 2), ("C", c), ("H", h), ("O", o)]],
        );
    }
    let transposed = "graph @g(%x: f32[N, C, H], %w: f32[C, O, 3]) -> f32[N, O, 2*H + 1] where H >= 1 {
        %y = conv_transpose %x, %w {strides = [2], dilations = [1], low = [0], high = [0], output_padding = [0], groups = 1}
        return %y
    }";
    for (n, c, h, o) in [(2, 3, 5, 2), (1, 1, 1, 1), (0, 1, 2, 1)] {
        check(
            "conv_transpose",
            transposed,
            &[&[("N", n), ("C", c), ("H", h), ("O", o)]],
        );
    }
}

#[test]
fn example_attention_matches_the_interpreter() {
    let graph = "graph @g(%q: f32[B, H, S, 32], %k: f32[B, H, S, 32], %v: f32[B, H, S, 32], %m: f32[B, S]) -> f32[B, H, S, 32] where S >= 1 {
        %t = transpose %k {permutation = [0, 1, 3, 2]}
        %p = matmul %q, %t
        %f: f32[] = constant [0.17677669]
        %c = mul %p, %f
        %a = reshape %m {dims = [B, 1, 1, S]}
        %s = add %c, %a
        %x = reduce %s {function = max, axes = [3], keep_dims}
        %d = sub %s, %x
        %e = exp %d
        %l = reduce %e {function = sum, axes = [3], keep_dims}
        %w = div %e, %l
        %y = matmul %w, %v
        return %y
    }";
    for (b, h, s) in [(2, 3, 5), (1, 1, 1), (0, 2, 3)] {
        check("attention", graph, &[&[("B", b), ("H", h), ("S", s)]]);
    }
}

#[test]
fn example_causal_attention_matches_the_interpreter() {
    let graph = "graph @g(%q: f32[B, S, D], %k: f32[B, S, D], %v: f32[B, S, D]) -> f32[B, S, D] where S >= 1 {
        %t = transpose %k {permutation = [0, 2, 1]}
        %p = matmul %q, %t
        %n = dims {sizes = [D]}
        %g = cast %n {to = f32}
        %f = rsqrt %g
        %c = mul %p, %f
        %i = iota {dims = [S, S], axis = 0, dtype = i64}
        %j = iota {dims = [S, S], axis = 1, dtype = i64}
        %o = le %j, %i
        %none: f32[] = constant [-inf]
        %s = select %o, %c, %none
        %x = reduce %s {function = max, axes = [2], keep_dims}
        %d = sub %s, %x
        %e = exp %d
        %l = reduce %e {function = sum, axes = [2], keep_dims}
        %w = div %e, %l
        %y = matmul %w, %v
        return %y
    }";
    for (b, s, d) in [(2, 5, 3), (1, 1, 1), (0, 3, 2)] {
        check(
            "causal_attention",
            graph,
            &[&[("B", b), ("S", s), ("D", d)]],
        );
    }
}

/// Each sequence attends to as many keys as its length says, at most all of them.
#[test]
fn example_ragged_attention_matches_the_interpreter() {
    for (b, s, d) in [(5, 4, 3), (1, 1, 1), (3, 0, 2)] {
        compare(
            &example_text("ragged_attention"),
            &[("B", b), ("S", s), ("D", d)],
            (-1, 7),
            &|buffers| {
                let [b, s, d] = [b as usize, s as usize, d as usize];
                let (q, k, v, n) = (
                    as_f64(&buffers[0]),
                    as_f64(&buffers[1]),
                    as_f64(&buffers[2]),
                    as_f64(&buffers[3]),
                );
                let mut y = vec![0.0; b * s * d];
                for (batch, length) in n.iter().enumerate() {
                    let length = (length.max(0.0) as usize).min(s);
                    for i in 0..s {
                        let at = |row: usize| (batch * s + row) * d;
                        let score = |j: usize| {
                            (0..d)
                                .map(|e| q[at(i) + e] * k[at(j) + e] * 0.25)
                                .sum::<f64>()
                        };
                        let weights: Vec<f64> = (0..length).map(|j| score(j).exp()).collect();
                        let total: f64 = weights.iter().sum();
                        for e in 0..d {
                            let sum: f64 = (0..length).map(|j| weights[j] * v[at(j) + e]).sum();
                            y[at(i) + e] = if length > 0 { sum / total } else { 0.0 };
                        }
                    }
                }
                vec![y]
            },
        );
    }
}

#[test]
fn example_rows_match_the_interpreter() {
    let softmax = "graph @g(%x: f32[B, N]) -> f32[B, N] where N >= 1 {
        %m = reduce %x {function = max, axes = [1], keep_dims}
        %d = sub %x, %m
        %e = exp %d
        %s = reduce %e {function = sum, axes = [1], keep_dims}
        %y = div %e, %s
        return %y
    }";
    check(
        "softmax",
        softmax,
        &[
            &[("B", 3), ("N", 7)],
            &[("B", 1), ("N", 1)],
            &[("B", 0), ("N", 2)],
        ],
    );
    let argmax = "graph @g(%x: f32[B, N]) -> i64[B] where N >= 1 {
        %y = arg_reduce %x {extremum = max, axis = 1}
        return %y
    }";
    check(
        "argmax",
        argmax,
        &[
            &[("B", 5), ("N", 7)],
            &[("B", 1), ("N", 1)],
            &[("B", 0), ("N", 2)],
        ],
    );
    let forward = "graph @g(%x: f32[B, T]) -> f32[B, T] { %y = cumulate %x {function = sum, axis = 1} return %y }";
    let reverse = "graph @g(%x: f32[B, T]) -> f32[B, T] { %y = cumulate %x {function = sum, axis = 1, exclusive, reverse} return %y }";
    for (b, t) in [(3, 7), (1, 1), (2, 0), (0, 2)] {
        check("cumsum", forward, &[&[("B", b), ("T", t)]]);
        check("reverse_cumsum", reverse, &[&[("B", b), ("T", t)]]);
    }
}

#[test]
fn example_random_bits_match_the_interpreter() {
    let graph = "graph @g(%x: f32[B, N], %key: u64[2]) -> f32[B, N] {
        %bits = random_bits %key {dims = [B, N]}
        %eight: u32[] = constant [8]
        %whole = shr %bits, %eight
        %number = cast %whole {to = f32}
        %step: f32[] = constant [5.9604645e-8]
        %uniform = mul %number, %step
        %share: f32[] = constant [0.25]
        %kept = ge %uniform, %share
        %scale: f32[] = constant [1.3333334]
        %scaled = mul %x, %scale
        %zero: f32[] = constant [0.0]
        %y = select %kept, %scaled, %zero
        return %y
    }";
    for (b, n) in [(3, 7), (1, 1), (2, 0), (0, 2), (5, 4)] {
        check("dropout", graph, &[&[("B", b), ("N", n)]]);
    }
}

#[test]
fn example_data_movement_matches_the_interpreter() {
    let concat = "graph @g(%a: f32[B, M], %b: f32[B, N]) -> f32[B, M + N] { %y = concat %a, %b {axis = 1} return %y }";
    for (b, m, n) in [(2, 3, 5), (1, 0, 1), (2, 1, 0), (0, 1, 1)] {
        check("concat", concat, &[&[("B", b), ("M", m), ("N", n)]]);
    }
    let pad = "graph @g(%x: f32[M, N]) -> f32[M + 3, N + 2] {
        %v: f32[] = constant [1.5]
        %y = pad %x, %v {low = [2, 1], high = [1, 1], mode = constant}
        return %y
    }";
    check(
        "pad",
        pad,
        &[
            &[("M", 3), ("N", 5)],
            &[("M", 0), ("N", 2)],
            &[("M", 1), ("N", 1)],
        ],
    );
    let shuffle = "graph @g(%x: f32[N, 2, 2, C, H, W]) -> f32[N, C, 2*H, 2*W] {
        %t = transpose %x {permutation = [0, 3, 4, 1, 5, 2]}
        %y = reshape %t {dims = [N, C, 2*H, 2*W]}
        return %y
    }";
    for (n, c, h, w) in [(1, 2, 3, 5), (2, 1, 1, 1), (1, 0, 2, 2)] {
        check(
            "pixel_shuffle",
            shuffle,
            &[&[("N", n), ("C", c), ("H", h), ("W", w)]],
        );
    }
    let transpose = "graph @g(%x: f32[A, B, C]) -> f32[C, A, B] { %y = transpose %x {permutation = [2, 0, 1]} return %y }";
    check(
        "transpose",
        transpose,
        &[
            &[("A", 2), ("B", 3), ("C", 5)],
            &[("A", 1), ("B", 0), ("C", 2)],
        ],
    );
    let broadcast = "graph @g(%x: f32[M, N]) -> f32[M, N] { %y = add %x, %x return %y }";
    check(
        "broadcast",
        broadcast,
        &[&[("M", 2), ("N", 3)], &[("M", 0), ("N", 1)]],
    );
}

#[test]
fn example_indexing_matches_the_interpreter() {
    let gather = "graph @g(%i: i64[K], %x: f32[N, D]) -> f32[K, D] { %y = gather %x, %i {axis = 0} return %y }";
    let scatter = "graph @g(%i: i64[K], %x: f32[K, D], %z: f32[N, D]) -> f32[N, D] {
        %r = reshape %i {dims = [K, 1]}
        %y = scatter_nd %z, %r, %x {combine = add}
        return %y
    }";
    for (k, n, d) in [(7, 3, 2), (1, 1, 1), (0, 0, 3), (5, 4, 0)] {
        let sizes: NamedSizes<'_> = &[("K", k), ("N", n), ("D", d)];
        compare_with_graph(&example_text("gather"), gather, sizes, (-n, n));
        compare_with_graph(&example_text("scatter_add"), scatter, sizes, (0, n));
    }
}

#[test]
fn example_windows_match_the_interpreter() {
    let pool = |function: &str| {
        format!(
            "graph @g(%x: f32[N, C, H]) -> f32[N, C, (H + 1) / 2] where H >= 1 {{
                %y = pool %x {{function = {function}, size = [3], strides = [2], dilations = [1], low = [1], high = [1]}}
                return %y
            }}"
        )
    };
    let resize = "graph @g(%x: f32[N, H]) -> f32[N, 2*H] {
        %y = resize %x {axes = [1], sizes = [2*H], scales = [2.0], mode = linear, coordinates = half_pixel, rounding = prefer_floor, cubic_coefficient = -0.75}
        return %y
    }";
    for (n, c, h) in [(2, 3, 7), (1, 1, 1), (0, 1, 2), (1, 2, 8)] {
        check("max_pool", &pool("max"), &[&[("N", n), ("C", c), ("H", h)]]);
        check(
            "average_pool",
            &pool("mean"),
            &[&[("N", n), ("C", c), ("H", h)]],
        );
        check("resize", resize, &[&[("N", n), ("H", h)]]);
    }
}

#[test]
fn example_int8_matmul_matches_the_interpreter() {
    let graph = "graph @g(%x: i8[M, K], %w: i8[K, N]) -> i32[M, N] { %y = matmul %x, %w {out = i32} return %y }";
    for (m, k, n) in [(3, 7, 5), (1, 1, 1), (2, 0, 2)] {
        check("int8_matmul", graph, &[&[("M", m), ("K", k), ("N", n)]]);
    }
}

/// One step of an LSTM on rows of doubles: gates i, o, f, c.
fn lstm_step(x: &[f64], h: &[f64], c: &[f64], [w, r, b]: [&[f64]; 3]) -> (Vec<f64>, Vec<f64>) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let gate = |k: usize, e: usize| {
        let row = k * h.len() + e;
        let of_x: f64 = x.iter().zip(&w[row * x.len()..]).map(|(x, w)| x * w).sum();
        let of_h: f64 = h.iter().zip(&r[row * h.len()..]).map(|(h, r)| h * r).sum();
        of_x + of_h + b[row]
    };
    let cell: Vec<f64> = (0..h.len())
        .map(|e| sigmoid(gate(2, e)) * c[e] + sigmoid(gate(0, e)) * gate(3, e).tanh())
        .collect();
    let hidden = (0..h.len())
        .map(|e| sigmoid(gate(1, e)) * cell[e].tanh())
        .collect();
    (hidden, cell)
}

#[test]
fn example_lstm_step_matches_the_reference() {
    for (b, i, h) in [(2, 3, 5), (1, 1, 1), (0, 2, 2), (2, 0, 3)] {
        let sizes: NamedSizes<'_> = &[("B", b), ("I", i), ("H", h)];
        let [b, i, h] = [b as usize, i as usize, h as usize];
        compare(&example_text("lstm_step"), sizes, (0, 1), &|buffers| {
            let all: Vec<Vec<f64>> = buffers.iter().map(as_f64).collect();
            let weights = [&all[3][..], &all[4], &all[5]];
            let (mut hidden, mut cells) = (Vec::new(), Vec::new());
            for n in 0..b {
                let row = n * h..(n + 1) * h;
                let step = lstm_step(
                    &all[0][n * i..(n + 1) * i],
                    &all[1][row.clone()],
                    &all[2][row],
                    weights,
                );
                hidden.extend(step.0);
                cells.extend(step.1);
            }
            vec![hidden, cells]
        });
    }
    for (t, b, i, h) in [(3, 2, 3, 5), (1, 1, 1, 1), (0, 2, 2, 2), (7, 1, 2, 3)] {
        let sizes: NamedSizes<'_> = &[("T", t), ("B", b), ("I", i), ("H", h)];
        let [t, b, i, h] = [t as usize, b as usize, i as usize, h as usize];
        compare(&example_text("lstm"), sizes, (0, 1), &|buffers| {
            let all: Vec<Vec<f64>> = buffers.iter().map(as_f64).collect();
            let weights = [&all[1][..], &all[2], &all[3]];
            let mut y = vec![0.0; t * b * h];
            let mut last = Vec::new();
            for n in 0..b {
                let mut state = (vec![0.0; h], vec![0.0; h]);
                for step in 0..t {
                    let row = step * b + n;
                    state = lstm_step(&all[0][row * i..(row + 1) * i], &state.0, &state.1, weights);
                    y[row * h..(row + 1) * h].copy_from_slice(&state.0);
                }
                last.extend(state.0);
            }
            vec![y, last]
        });
    }
}
