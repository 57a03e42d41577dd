//! The operations used in recorded functions: compiled code gives the interpreter's results, in f32 and f64, at several
//! sizes; arguments that share sizes; results written into given tensors; plans that the next process finds.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::timing::Verbosity;
use kiln::{
    Cache, DType, Device, Dim, ErrorKind, Observation, Options, Step, Tensor, Var, WindowOptions,
    jit,
};
use std::path::Path;

/// The arguments: floats `x: [M, N]`, `y: [N, K]`, `v: [N]`, positions `n: i64[N]` of `v`, and a key `u64[2]`.
type Arguments<'a> = [&'a Var; 5];

/// A function, named by the operation it uses.
type Line = (&'static str, fn(Arguments<'_>) -> Vec<Var>);

const LINES: [Line; 20] = [
    ("einsum", |[x, y, v, ..]| {
        vec![
            x.einsum("ij,jk->ki", &[y]),
            x.einsum("ij,j", &[v]),
            x.einsum("ij,ij->j", &[x]),
            x.einsum("...j,jk,j->...k", &[y, v]),
            v.einsum("i,j->ij", &[v]).einsum("ii->i", &[]),
        ]
    }),
    ("indices", |[x, _, v, n, _]| {
        vec![
            x.index(1, -1),
            x.at(n.index(0, 0).clip(0, 0)),
            x.gather(n, 1),
            v.gather_elements(n, 0),
        ]
    }),
    ("slices with steps", |[x, _, v, ..]| {
        vec![
            x.slice_step(1, 0, i64::MAX, 2),
            v.slice_step(0, -1, -i64::MAX, -2),
            x.slice(1, 1, x.size(1)),
            x.flip(1),
        ]
    }),
    ("where", |[x, _, v, ..]| {
        vec![x.greater(v).select(x, v * 2), x.clip(-1, 1)]
    }),
    ("fori_loop", |[x, ..]| {
        x.repeat(3, &[x], &[x], |index, states, captures| Step {
            states: vec![&states[0] * 0.5 + &captures[0]],
            outputs: vec![states[0].sum(1), index],
        })
    }),
    ("while_loop", |[x, _, v, ..]| {
        let count = v.full::<i64>([], 0);
        let largest = x.abs().sum(..) + 1;
        x.repeat_while(
            &[&largest, &count],
            &[],
            |states, _| states[0].greater(0.01),
            |states, _| vec![&states[0] / 2, &states[1] + 1],
        )
    }),
    ("scan", |[x, _, v, ..]| {
        x.scan(&[v], &[v], |row, states, captures| {
            let next = (&states[0] * 0.5 + row).tanh() + &captures[0];
            Step {
                states: vec![next.clone()],
                outputs: vec![next.sum(0)],
            }
        })
    }),
    ("cond", |[x, _, v, ..]| {
        // One of the sums is 0 up to rounding.
        let is_large = v.sum(..).greater(0.25);
        let [y, s] = is_large.choose(
            &[x, v],
            |c| [&c[0] / 10, c[1].max(..)],
            |c| [c[0].clone() + 1, c[1].min(..)],
        );
        vec![y, s]
    }),
    ("comparisons", |[x, _, v, ..]| {
        vec![
            x.less(v) & x.less_equal(0),
            x.equal(x) | x.not_equal(v),
            x.greater_equal(v) ^ !x.greater(1),
            x.is_nan().logical_or(x.is_finite()),
        ]
    }),
    ("integers", |[_, _, _, n, _]| {
        vec![
            (n & 3) | ((n ^ 5) << 1),
            (n - 3).floor_divide(2),
            (n - 3).remainder(2),
            (n - 3) % 2,
            !n >> 1,
            n.maximum(1).pow(2),
        ]
    }),
    ("iota", |[x, ..]| {
        let (rows, columns) = (x.positions(x.size(0)), x.positions(x.size(1)));
        vec![
            rows.unsqueeze(1) * 10 + columns,
            x.eye(x.size(1)),
            x.tril(0) + x.triu(1),
            x.linspace(0.0, 1.0, x.size(1)),
        ]
    }),
    ("random", |[x, _, _, _, key]| {
        let keys = key.split_key(4);
        let sizes = [x.size(0), x.size(1)];
        vec![
            keys.index(0, 0).random_bits(sizes.clone()),
            keys.index(0, 1).random_uniform(sizes.clone()),
            keys.index(0, 2).random_normal(sizes.clone()),
            keys.index(0, 3).random_integers(sizes, -3, 4),
            x.dropout(key, 0.5),
            keys,
        ]
    }),
    ("order", |[x, _, v, ..]| {
        let (values, positions) = x.top_k(1, 1);
        vec![
            x.sort(1),
            x.argsort(1),
            values,
            positions,
            v.median(0),
            x.argmax(1),
            x.argmin(1),
        ]
    }),
    ("running reductions", |[x, ..]| {
        vec![
            x.cumsum(1),
            x.cumprod(1),
            x.cummax(1),
            x.cummin(1),
            x.diff(1),
        ]
    }),
    ("borders and convolutions", |[x, ..]| {
        let kernel = [0.5_f32, -1.0, 2.0, 0.25, 1.0, -0.5, 3.0, 0.0, 1.5];
        let kernel = Tensor::from_slice(&[1, 1, 3, 3], &kernel).unwrap();
        let kernel = x.constant(&kernel).cast(x.dtype().unwrap());
        let picture = x.unsqueeze(0).unsqueeze(0);
        vec![
            x.pad([(1, 0), (0, 2)], 7),
            x.pad_edge([(0, 0), (1, 1)]),
            x.roll(1, 1),
            picture.conv(kernel, WindowOptions::default().padding(1)),
            picture.max_pool(2, WindowOptions::default().padding(1)),
        ]
    }),
    ("updates", |[x, _, v, n, _]| {
        let zeros = v.full_like(0);
        let column = v.unsqueeze(1);
        vec![
            zeros.set_at(n, v),
            v.add_at(n, v),
            v.multiply_at(n, v),
            v.min_at(n, v * 2),
            v.max_at(n, v * 2),
            v.set_elements(n, v, 0),
            v.add_elements(n, v, 0),
            x.set_slice(1, 0, i64::MAX, 2, -1),
            column.update_slice(n.slice(0, 0, 1), column.slice(0, 0, 1), 0),
        ]
    }),
    ("constants", |[x, _, v, ..]| {
        let two = Tensor::scalar(2.0_f32);
        vec![
            x * x.constant(&two).cast(x.dtype().unwrap()),
            v.cast(DType::F32) + &two,
        ]
    }),
    ("scalars", |[x, _, v, ..]| {
        let first = v.index(0, 0);
        vec![x * &first + 1 - x.sum(..) * 2, first * v.size(0)]
    }),
    ("named functions", |[x, ..]| {
        vec![
            x.map("mish"),
            x.map_with("leaky_relu", &[0.2]),
            x.gelu(),
            x.softplus().ln_1p(),
        ]
    }),
    ("statistics", |[x, ..]| {
        vec![
            x.variance(1),
            x.std(1),
            x.norm(1),
            x.log_sum_exp(1),
            x.softmax(1),
            x.greater(0).count_nonzero(1),
        ]
    }),
];

fn on(device: Device) -> Options {
    let options = Options::new().device(device).cache(Cache::off());
    options.shared_kernels(false)
}

/// Floats between -3 and 3, in a dtype.
fn drawn(dtype: DType, shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let number = |at: usize| ((at * 37 + seed * 11) % 59) as f64 / 59.0 * 6.0 - 3.0;
    match dtype {
        DType::F64 => Tensor::from_vec(shape, (0..count).map(number).collect()).unwrap(),
        _ => {
            let numbers = (0..count).map(|at| number(at) as f32);
            Tensor::from_vec(shape, numbers.collect()).unwrap()
        }
    }
}

fn inputs(dtype: DType, [m, n, k]: [usize; 3]) -> [Tensor; 5] {
    let positions = (0..n).map(|at| ((at * 3 + 1) % n) as i64).collect();
    [
        drawn(dtype, &[m, n], 1),
        drawn(dtype, &[n, k], 2),
        drawn(dtype, &[n], 3),
        Tensor::from_vec(&[n], positions).unwrap(),
        Tensor::from_slice(&[2], &[3_u64, 5]).unwrap(),
    ]
}

fn floats(tensor: &Tensor) -> Option<Vec<f64>> {
    match tensor.dtype() {
        DType::F64 => tensor.to_vec::<f64>().ok(),
        DType::F32 => {
            let numbers = tensor.to_vec::<f32>().ok()?.into_iter();
            Some(numbers.map(f64::from).collect())
        }
        _ => None,
    }
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &Tensor, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    assert_eq!(found.dtype(), expected.dtype(), "{what}");
    let tolerance = match expected.dtype() {
        DType::F64 => 1e-12,
        _ => 2e-5,
    };
    match (floats(found), floats(expected)) {
        (Some(found), Some(expected)) => {
            for (found, expected) in found.iter().zip(&expected) {
                let is_close = (found - expected).abs() <= tolerance * (1.0 + expected.abs());
                let is_same = found.to_bits() == expected.to_bits();
                assert!(is_close || is_same, "{what}: {found} {expected}");
            }
        }
        _ => assert!(found.bit_equal(expected), "{what}: {found} {expected}"),
    }
}

/// Compares the compiled results of a line with the interpreter's.
fn check(dtype: DType, (name, line): Line) {
    let function = |x: Var, y: Var, v: Var, n: Var, key: Var| line([&x, &y, &v, &n, &key]);
    let compiled = jit(function).with_options(on(Device::cpu()));
    let interpreted = jit(function).with_options(on(Device::interpreter()));
    for sizes in [[3, 5, 2], [1, 1, 1], [7, 16, 9], [0, 4, 3]] {
        let inputs = inputs(dtype, sizes);
        let inputs = inputs.each_ref();
        let expected = interpreted.call(inputs);
        // Without rows there is no first one.
        if sizes[0] == 0 && expected.is_err() {
            assert!(compiled.call(inputs).is_err(), "{name}");
            continue;
        }
        let (expected, found) = (expected.unwrap(), compiled.call(inputs).unwrap());
        assert!(!found.is_empty() && found.len() == expected.len(), "{name}");
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let what = format!("{name}, result {index} in {dtype} at {sizes:?}");
            assert_close(found, expected, &what);
        }
    }
    assert_eq!(compiled.n_recordings(), 1, "{name}");
}

#[test]
fn lines_in_f32_give_what_the_interpreter_gives() {
    for line in LINES {
        check(DType::F32, line);
    }
}

#[test]
fn lines_in_f64_give_what_the_interpreter_gives() {
    for line in LINES {
        check(DType::F64, line);
    }
}

fn layer(x: Var, w: Var) -> Var {
    x.einsum("...i,io->...o", &[&w]).relu()
}

#[test]
fn functions_by_name_and_closures_over_tensors_are_recorded() {
    let x = drawn(DType::F64, &[4, 3], 1);
    let w = drawn(DType::F64, &[3, 2], 2);
    let by_name = jit(layer).with_options(on(Device::cpu()));
    let expected = by_name.call([&x, &w]).unwrap();
    let captured = w.clone();
    let closed = jit(move |x: Var| layer(x.clone(), x.constant(&captured)));
    let closed = closed.with_options(on(Device::cpu()));
    assert_close(&closed.call([&x]).unwrap(), &expected, "a closure");
}

#[test]
fn gradients_pass_sums_over_labels() {
    let loss = |x: Var, w: Var| x.einsum("bi,io->bo", &[&w]).square().sum(..);
    let step = jit(loss)
        .with_options(on(Device::cpu()))
        .value_and_grad()
        .with_respect_to(&[1]);
    let x = Tensor::from_slice(&[2, 1], &[1.0_f64, 2.0]).unwrap();
    let w = Tensor::from_slice(&[1, 1], &[3.0_f64]).unwrap();
    let (loss, slopes) = step.call([&x, &w]).unwrap();
    assert_eq!(loss.to_vec::<f64>().unwrap(), [45.0]);
    assert_eq!(slopes[0].to_vec::<f64>().unwrap(), [30.0]);
}

#[test]
fn arguments_share_named_sizes() {
    for device in Device::all() {
        let f = jit(|x: Var, y: Var| (x + y.unsqueeze(1)).sum(..))
            .with_sizes(0, ["batch".into(), 2.into()])
            .with_sizes(1, ["batch".into()])
            .with_options(on(device).dim("batch", Dim::range(1..=8)));
        let call = |x: &[usize], y: &[usize]| {
            let (x, y) = (Tensor::full(x, 1.0_f32), Tensor::full(y, 2.0_f32));
            f.call([&x.unwrap(), &y.unwrap()])
        };
        let sum = call(&[3, 2], &[3]).unwrap();
        assert_eq!(sum.to_vec::<f32>().unwrap(), [18.0]);
        for (x, y) in [([3, 2], 1), ([3, 3], 3), ([9, 2], 9)] {
            let error = call(&x, &[y]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let error = call(&[3, 2, 1], &[3]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("argument 0") && message.contains("traced_functions.rs"),
            "{message}"
        );
    }
    let unknown = jit(|x: Var| x).with_sizes(1, ["n".into()]);
    let error = unknown.call([&Tensor::scalar(1.0_f32)]).unwrap_err();
    assert_eq!(error.code(), "E0885");
}

#[test]
fn results_are_written_into_given_tensors() {
    let f = jit(|x: Var| (&x + 1, x.sum(..))).with_options(on(Device::cpu()));
    let x = Tensor::full(&[64], 2.0_f32).unwrap();
    let mut outputs = [
        Tensor::zeros(DType::F32, &[64]).unwrap(),
        Tensor::zeros(DType::F32, &[]).unwrap(),
    ];
    let place = outputs[0].as_bytes().unwrap().as_ptr();
    f.call_into([&x], &mut outputs).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [3.0; 64]);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [128.0]);
    assert_eq!(outputs[0].as_bytes().unwrap().as_ptr(), place);
    assert!(f.call_into([&x], &mut outputs[..1]).is_err());
}

/// A function with its own large constant, called in a stand-in for a process.
fn in_a_process(folder: &Path, weight: f32) -> (Tensor, kiln::CompilationStats, u64) {
    let observation = Observation::new().timing(Verbosity::Verbose);
    let options = on(Device::cpu()).observe(observation);
    let options = options.cache(Cache::folder(folder));
    let weights = Tensor::full(&[16, 16], weight).unwrap();
    let f = jit(move |x: Var| x.matmul(x.constant(&weights)).softmax(-1).sum(0));
    let f = f.with_options(options);
    let result = f.call([&drawn(DType::F32, &[3, 16], 1)]).unwrap();
    let report = f.timing().report();
    let planned = report.event("fusion").map_or(0, |event| event.count);
    (result, f.compilation_stats(), planned)
}

#[test]
fn the_next_process_finds_the_plan_of_a_function() {
    let folder = tempfile::tempdir().unwrap();
    let (expected, stats, planned) = in_a_process(folder.path(), 0.5);
    assert!(stats.compilations > 0 && planned > 0, "{stats:?} {planned}");
    let (found, stats, planned) = in_a_process(folder.path(), 0.5);
    assert!(found.bit_equal(&expected));
    assert_eq!((stats.compilations, planned), (0, 0), "{stats:?}");
    // Another constant makes another function.
    let (_, _, planned) = in_a_process(folder.path(), 0.25);
    assert!(planned > 0);
}
