//! Data-dependent control flow: branches of an `If` with different ranks, loops that carry sequences, sizes that
//! determine the number of operations. Also endless loops and loops without iterations.
#![cfg(feature = "onnx")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod onnx_writer;

use kiln::diagnose::{self, Stage};
use kiln::{Cache, Device, ErrorKind, Model, Options, Source, Tensor};
use onnx_writer::{
    BOOL, F32, I64, constant, graph, graph_attribute, int_attribute, model, node, untyped, value,
};

/// The model on each device.
fn models(bytes: &[u8]) -> Vec<Model> {
    let load = |device: &Device| {
        let options = Options::new().device(device.clone()).cache(Cache::off());
        options.load(Source::onnx(bytes, None)).unwrap()
    };
    Device::all().iter().map(load).collect()
}

fn branch(nodes: &[Vec<u8>], output: &str) -> Vec<u8> {
    graph(nodes, &[], &[], &[untyped(output)])
}

fn branches(then: &[u8], otherwise: &[u8]) -> [Vec<u8>; 2] {
    [
        graph_attribute("then_branch", then),
        graph_attribute("else_branch", otherwise),
    ]
}

/// `to = squeeze(from, axis)` as torch writes it: an `If` on the size. The constants `zero` and `one` must exist.
fn squeeze(to: &str, from: &str, axis: &str) -> Vec<Vec<u8>> {
    let then = branch(
        &[
            node(&format!("{to}_axes = Unsqueeze({axis}, zeros)"), &[]),
            node(&format!("{to}_then = Squeeze({from}, {to}_axes)"), &[]),
        ],
        &format!("{to}_then"),
    );
    let same = format!("{to}_else");
    let otherwise = branch(&[node(&format!("{same} = Identity({from})"), &[])], &same);
    vec![
        node(&format!("{to}_shape = Shape({from})"), &[]),
        node(&format!("{to}_size = Gather({to}_shape, {axis})"), &[]),
        node(&format!("{to}_is_one = Equal({to}_size, one)"), &[]),
        node(
            &format!("{to} = If({to}_is_one)"),
            &branches(&then, &otherwise),
        ),
    ]
}

fn constants() -> Vec<Vec<u8>> {
    vec![
        constant("zero", &[], &[0]),
        constant("one", &[], &[1]),
        constant("zeros", &[1], &[0]),
        constant("three", &[], &[3]),
    ]
}

fn ramp(shape: &[usize]) -> Tensor {
    let elements: Vec<f32> = (0..shape.iter().product::<usize>())
        .map(|i| i as f32)
        .collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

#[test]
fn branches_of_different_ranks_are_chosen_per_call() {
    let mut nodes = squeeze("s", "x", "one");
    nodes.push(node("y = Neg(s)", &[]));
    let x = value("x", F32, Some(&["N", "D"]));
    let bytes = model(&graph(&nodes, &constants(), &[x], &[value("y", F32, None)]));
    for model in models(&bytes) {
        assert_eq!(format!("{model:?}"), "Model(x: f32[N, D] -> y: f32[..])");
        for shape in [[3, 1], [3, 2], [0, 1], [4, 1], [1, 5]] {
            let x = ramp(&shape);
            let y = &model.run([("x", &x)]).unwrap()[0];
            let expected: &[usize] = if shape[1] == 1 { &shape[..1] } else { &shape };
            assert_eq!(y.shape(), expected);
            let negated: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|x| -x).collect();
            assert_eq!(y.to_vec::<f32>().unwrap(), negated);
        }
        assert_eq!(
            diagnose::graph(&model, Stage::Optimized)
                .unwrap_err()
                .code(),
            "E0995"
        );
        assert_eq!(
            diagnose::graph(&model, Stage::Optimized)
                .unwrap_err()
                .kind(),
            ErrorKind::Unsupported
        );
    }
}

#[test]
fn several_branches_of_different_ranks_are_chosen_per_call() {
    let mut nodes = squeeze("a", "x", "one");
    nodes.extend(squeeze("b", "z", "zero"));
    nodes.extend(squeeze("c", "a", "zero"));
    nodes.push(node("y = Add(b, c)", &[]));
    let inputs = [
        value("x", F32, Some(&["N", "D"])),
        value("z", F32, Some(&["M"])),
    ];
    let bytes = model(&graph(&nodes, &constants(), &inputs, &[untyped("y")]));
    for model in models(&bytes) {
        for (x, z, expected) in [
            ([1, 1], 1, vec![]),
            ([1, 4], 4, vec![4]),
            ([3, 1], 1, vec![3]),
            ([3, 1], 3, vec![3]),
            ([2, 3], 3, vec![2, 3]),
            ([2, 3], 1, vec![2, 3]),
        ] {
            let outputs = model.run([("x", &ramp(&x)), ("z", &ramp(&[z]))]).unwrap();
            assert_eq!(outputs[0].shape(), expected, "{x:?} {z}");
        }
        let error = model.run([("x", &ramp(&[2, 3])), ("z", &ramp(&[2]))]);
        assert_eq!(error.unwrap_err().code(), "E0820");
    }
}

/// An `If` on data whose first branch contains another `If` with different branches.
fn nested() -> Vec<u8> {
    let flat = branch(&[node("flat = Squeeze(x, zeros)", &[])], "flat");
    let as_is = branch(&[node("as_is = Identity(x)", &[])], "as_is");
    let inner = branch(&[node("p = If(d)", &branches(&flat, &as_is))], "p");
    let negated = branch(&[node("q = Neg(x)", &[])], "q");
    let nodes = [
        node("s = ReduceSum(x)", &[int_attribute("keepdims", 0)]),
        node("sums = Cast(s)", &[int_attribute("to", I64 as i64)]),
        node("c = Greater(sums, zero)", &[]),
        node("y = If(c)", &branches(&inner, &negated)),
    ];
    let inputs = [
        value("x", F32, Some(&["N", "D"])),
        value("d", BOOL, Some(&[])),
    ];
    model(&graph(&nodes, &constants(), &inputs, &[untyped("y")]))
}

#[test]
fn nested_branches_of_different_ranks_are_chosen_by_data() {
    for model in models(&nested()) {
        for (x, d, expected) in [
            (ramp(&[1, 3]), true, vec![3]),
            (ramp(&[1, 3]), false, vec![1, 3]),
            (ramp(&[2, 3]), false, vec![2, 3]),
            (Tensor::full(&[1, 3], -1.0f32).unwrap(), true, vec![1, 3]),
        ] {
            let d = Tensor::scalar(d);
            let y = model.run([("x", &x), ("d", &d)]).unwrap();
            assert_eq!(y[0].shape(), expected);
        }
        // The branch taken squeezes a size of 2.
        let (x, d) = (ramp(&[2, 3]), Tensor::scalar(true));
        let error = model.run([("x", &x), ("d", &d)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

/// `y` from a list `list` to which a loop appends `entry`, once in each of `n` iterations `i`.
fn appending(appended: &[Vec<u8>], tail: Vec<u8>) -> Vec<u8> {
    let mut body = appended.to_vec();
    body.push(node("list_out = SequenceInsert(list_in, entry)", &[]));
    body.push(node("on = Identity(go)", &[]));
    let body = graph(
        &body,
        &[],
        &[untyped("i"), untyped("go"), untyped("list_in")],
        &[untyped("on"), untyped("list_out")],
    );
    let nodes = [
        node("empty = SequenceEmpty()", &[]),
        node(
            "list = Loop(n, _, empty)",
            &[graph_attribute("body", &body)],
        ),
        tail,
    ];
    let inputs = [
        value("n", I64, Some(&[])),
        value("x", F32, Some(&["N", "2"])),
    ];
    model(&graph(&nodes, &constants(), &inputs, &[untyped("y")]))
}

/// `entry = x * i`.
fn multiples() -> [Vec<u8>; 2] {
    [
        node("j = Cast(i)", &[int_attribute("to", F32 as i64)]),
        node("entry = Mul(x, j)", &[]),
    ]
}

fn run_n(model: &Model, n: i64, x: &Tensor) -> Result<Tensor, kiln::Error> {
    Ok(model.run([("n", &Tensor::scalar(n)), ("x", x)])?[0].clone())
}

#[test]
fn lists_built_by_loops_are_concatenated_at_any_length() {
    let join = |axis, new_axis| {
        let attributes = [
            int_attribute("axis", axis),
            int_attribute("new_axis", new_axis),
        ];
        appending(
            &multiples(),
            node("y = ConcatFromSequence(list)", &attributes),
        )
    };
    let x = ramp(&[3, 2]);
    for (axis, new_axis) in [(0, 1), (1, 1), (-1, 1), (0, 0), (1, 0), (-2, 0)] {
        for model in models(&join(axis, new_axis)) {
            for n in [1, 3, 2, 40, 0] {
                let y = run_n(&model, n, &x).unwrap();
                let entries = (0..n).map(|i| {
                    let entry = x.to_vec::<f32>().unwrap();
                    let entry: Vec<f32> = entry.iter().map(|x| x * i as f32).collect();
                    Tensor::from_slice(&[3, 2], &entry).unwrap()
                });
                let place = if axis < 0 { axis + 2 + new_axis } else { axis } as usize;
                let entries: Vec<Tensor> = entries
                    .map(|entry| {
                        if new_axis == 1 {
                            entry.unsqueeze(place).unwrap()
                        } else {
                            entry
                        }
                    })
                    .collect();
                if n == 0 {
                    assert_eq!(y.shape()[place], 0);
                    continue;
                }
                let expected = Tensor::concat(&entries.iter().collect::<Vec<_>>(), place).unwrap();
                assert_eq!(y.shape(), expected.shape(), "axis {axis} {new_axis}");
                assert_eq!(
                    y.to_vec::<f32>().unwrap(),
                    expected.to_vec::<f32>().unwrap()
                );
            }
            // One graph serves all lengths.
            assert!(diagnose::graph(&model, Stage::Optimized).is_ok());
            let error = run_n(&model, i64::MAX, &x).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit);
        }
    }
}

#[test]
fn lists_read_entry_by_entry_have_the_length_that_data_decide() {
    let x = ramp(&[2, 2]);
    let second = appending(&multiples(), node("y = SequenceAt(list, one)", &[]));
    let length = appending(&multiples(), node("y = SequenceLength(list)", &[]));
    for (second, length) in models(&second).iter().zip(models(&length)) {
        for n in [2, 5, 3] {
            let y = run_n(second, n, &x).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
            assert_eq!(run_n(&length, n, &x).unwrap().to_vec::<i64>().unwrap(), [n]);
        }
        assert_eq!(
            run_n(second, 1, &x).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            run_n(second, i64::MAX, &x).unwrap_err().kind(),
            ErrorKind::Limit
        );
    }
}

#[test]
fn entries_of_a_list_may_differ_in_size() {
    // Entry `i` is `x`, repeated `i + 1` times.
    let repeated = [
        node("times = Add(i, one)", &[]),
        node("times_1 = Unsqueeze(times, zeros)", &[]),
        node("ones = Unsqueeze(one, zeros)", &[]),
        node(
            "repeats = Concat(times_1, ones)",
            &[int_attribute("axis", 0)],
        ),
        node("entry = Tile(x, repeats)", &[]),
    ];
    let attributes = [int_attribute("axis", 0), int_attribute("new_axis", 0)];
    let tail = node("y = ConcatFromSequence(list)", &attributes);
    let x = ramp(&[1, 2]);
    for model in models(&appending(&repeated, tail)) {
        for n in [1, 3, 4] {
            let y = run_n(&model, n, &x).unwrap();
            assert_eq!(y.shape(), [(n * (n + 1) / 2) as usize, 2]);
        }
    }
}

/// `all = start, start + delta, …`, written as the function that defines `Range` in ONNX: a loop of `ceil((limit -
/// start) / delta)` iterations.
fn expanded_range() -> Vec<u8> {
    let body = graph(
        &[
            node("on = Identity(go)", &[]),
            node("next = Add(now, delta)", &[]),
            node("layer = Identity(now)", &[]),
        ],
        &[],
        &[untyped("i"), untyped("go"), untyped("now")],
        &[untyped("on"), untyped("next"), untyped("layer")],
    );
    let nodes = [
        node("distance = Sub(limit, start)", &[]),
        node("steps = Div(distance, delta)", &[]),
        node("whole = Ceil(steps)", &[]),
        node("positive = Relu(whole)", &[]),
        node("trips = Cast(positive)", &[int_attribute("to", I64 as i64)]),
        node(
            "last, all = Loop(trips, _, start)",
            &[graph_attribute("body", &body)],
        ),
    ];
    model(&graph(&nodes, &[], &scalars(), &[untyped("all")]))
}

fn scalars() -> [Vec<u8>; 3] {
    ["start", "limit", "delta"].map(|name| value(name, F32, Some(&[])))
}

fn range(model: &Model, [start, limit, delta]: [f32; 3]) -> Result<Vec<f32>, kiln::Error> {
    let [start, limit, delta] = [start, limit, delta].map(Tensor::scalar);
    let outputs = model.run([("start", &start), ("limit", &limit), ("delta", &delta)])?;
    Ok(outputs[0].to_vec().unwrap())
}

#[test]
fn loops_beyond_the_iteration_limit_are_refused_before_the_first_iteration() {
    let begin = std::time::Instant::now();
    for model in models(&expanded_range()) {
        assert_eq!(range(&model, [1.0, 5.0, 2.0]).unwrap(), [1.0, 3.0]);
        let error = range(&model, [1.0, 5.0, 0.0]).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("E0833", ErrorKind::Limit));
        assert_eq!(range(&model, [1.0, 4.0, 1.0]).unwrap(), [1.0, 2.0, 3.0]);
    }
    // The maximum number of iterations would take hours.
    assert!(begin.elapsed().as_secs() < 100, "{:?}", begin.elapsed());
}

#[test]
fn ranges_of_step_zero_are_refused_when_loaded_or_when_called() {
    let nodes = [node("all = Range(start, limit, delta)", &[])];
    for model in models(&model(&graph(&nodes, &[], &scalars(), &[untyped("all")]))) {
        assert_eq!(range(&model, [1.0, 5.0, 2.0]).unwrap(), [1.0, 3.0]);
        let error = range(&model, [1.0, 5.0, 0.0]).unwrap_err();
        assert_eq!(
            (error.code(), error.kind()),
            ("E0815", ErrorKind::InvalidInput)
        );
    }
    let nodes = [node("all = Range(n, m, zero)", &[])];
    let inputs = ["n", "m"].map(|name| value(name, I64, Some(&[])));
    let known = model(&graph(&nodes, &constants(), &inputs, &[untyped("all")]));
    let error = Model::load(Source::onnx(&known, None)).unwrap_err();
    assert_eq!(error.code(), "E0920", "{error}");
}

#[test]
fn a_loop_without_iterations_stacks_empty_tensors_of_the_known_sizes() {
    let body = graph(
        &[
            node("on = Identity(go)", &[]),
            node("next = Concat(now, now)", &[int_attribute("axis", 0)]),
            node("growing = Identity(next)", &[]),
            node("fixed = Neg(x)", &[]),
        ],
        &[],
        &[untyped("i"), untyped("go"), untyped("now")],
        &[
            untyped("on"),
            untyped("next"),
            untyped("growing"),
            untyped("fixed"),
        ],
    );
    let attribute = graph_attribute("body", &body);
    let nodes = [
        node("trips = Sub(n, one)", &[]),
        node("last, a, b = Loop(trips, _, x)", &[attribute]),
    ];
    let inputs = [
        value("n", I64, Some(&[])),
        value("x", F32, Some(&["N", "3"])),
    ];
    let outputs = [untyped("last"), untyped("a"), untyped("b")];
    for model in models(&model(&graph(&nodes, &constants(), &inputs, &outputs))) {
        let shapes = |n: i64| {
            let outputs = model
                .run([("n", &Tensor::scalar(n)), ("x", &ramp(&[2, 3]))])
                .unwrap();
            [0, 1, 2].map(|index| outputs[index].shape().to_vec())
        };
        assert_eq!(shapes(1), [vec![2, 3], vec![0, 0, 3], vec![0, 2, 3]]);
        assert_eq!(shapes(2), [vec![4, 3], vec![1, 4, 3], vec![1, 2, 3]]);
    }
}

#[test]
fn a_size_that_the_model_leaves_open_comes_from_the_call() {
    let nodes = [node("y = GatherND(x, indices)", &[])];
    let inputs = [
        value("x", F32, Some(&["2", "3"])),
        value("indices", I64, Some(&["K", "D"])),
    ];
    for model in models(&model(&graph(&nodes, &[], &inputs, &[untyped("y")]))) {
        let rows = Tensor::from_slice(&[3, 1], &[1_i64, 0, 1]).unwrap();
        let elements = Tensor::from_slice(&[2, 2], &[1_i64, 2, 0, 1]).unwrap();
        let run = |indices: &Tensor| model.run([("x", &ramp(&[2, 3])), ("indices", indices)]);
        for _ in 0..2 {
            assert_eq!(run(&rows).unwrap()[0].shape(), [3, 3]);
            let x = ramp(&[2, 3]).to_vec::<f32>().unwrap();
            let picked = run(&elements).unwrap()[0].to_vec::<f32>().unwrap();
            assert_eq!(picked, [x[5], x[1]]);
        }
        let many = Tensor::from_slice(&[1, 3], &[0_i64; 3]).unwrap();
        assert_eq!(run(&many).unwrap_err().code(), "E0332");
    }
}

#[test]
fn coordinates_of_a_grid_and_the_length_of_a_shape_come_from_the_call() {
    let nodes = [
        node("sampled = GridSample(x, grid)", &[]),
        node("y = Reshape(sampled, shape)", &[]),
    ];
    let inputs = [
        value("x", F32, Some(&["N", "C", "H", "W"])),
        value("grid", F32, Some(&["N", "A", "B", "D"])),
        value("shape", I64, Some(&["R"])),
    ];
    for model in models(&model(&graph(&nodes, &[], &inputs, &[untyped("y")]))) {
        let grid = Tensor::from_slice(&[1, 2, 2, 2], &[0.0_f32; 8]).unwrap();
        let shape = |sizes: &[i64]| Tensor::from_slice(&[sizes.len()], sizes).unwrap();
        let run = |grid: &Tensor, shape: &Tensor| {
            model.run([
                ("x", &ramp(&[1, 3, 4, 4])),
                ("grid", grid),
                ("shape", shape),
            ])
        };
        assert_eq!(run(&grid, &shape(&[3, -1])).unwrap()[0].shape(), [3, 4]);
        assert_eq!(run(&grid, &shape(&[-1])).unwrap()[0].shape(), [12]);
        let flat = Tensor::from_slice(&[1, 2, 2, 1], &[0.0_f32; 4]).unwrap();
        assert_eq!(run(&flat, &shape(&[-1])).unwrap_err().code(), "E0920");
    }
}

/// A list to which a loop appends `x` while its counter is below `n`: each iteration needs a decision.
fn appending_while() -> Vec<u8> {
    let body = graph(
        &[
            node("next = Add(count, one)", &[]),
            node("on = Less(next, n)", &[]),
            node("list_out = SequenceInsert(list_in, x)", &[]),
        ],
        &[],
        &[
            untyped("i"),
            untyped("go"),
            untyped("count"),
            untyped("list_in"),
        ],
        &[untyped("on"), untyped("next"), untyped("list_out")],
    );
    let nodes = [
        node("empty = SequenceEmpty()", &[]),
        node("first = Less(zero, n)", &[]),
        node(
            "last, list = Loop(_, first, zero, empty)",
            &[graph_attribute("body", &body)],
        ),
        node("y = ConcatFromSequence(list)", &[int_attribute("axis", 0)]),
    ];
    let inputs = [
        value("n", I64, Some(&[])),
        value("x", F32, Some(&["N", "2"])),
    ];
    model(&graph(&nodes, &constants(), &inputs, &[untyped("y")]))
}

#[test]
fn the_questions_of_a_call_are_limited() {
    for model in models(&appending_while()) {
        for n in [3, 1] {
            assert_eq!(
                run_n(&model, n, &ramp(&[2, 2])).unwrap().shape(),
                [2 * n as usize, 2]
            );
        }
        let error = run_n(&model, 1000, &ramp(&[2, 2])).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("E0996", ErrorKind::Limit));
    }
}

#[test]
fn the_time_limit_of_a_call_covers_its_questions() {
    for model in models(&appending_while()) {
        let (n, x) = (Tensor::scalar(3_i64), ramp(&[2, 2]));
        let call = model.call([("n", &n), ("x", &x)]);
        let error = call
            .time_limit(std::time::Duration::ZERO)
            .run()
            .unwrap_err();
        assert_eq!((error.code(), error.kind()), ("E0894", ErrorKind::Limit));
    }
}
