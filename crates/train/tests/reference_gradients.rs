//! Gradients of operators and networks equal PyTorch's, which `reference/make.py` stores in `reference/gradients.json`:
//! interpreted and compiled, to within 1e-5 of the largest element.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod reference_networks;

use kiln::{Cache, DType, Device, Options, Recording, Source, Tensor, Var, WindowOptions};
use kiln_train::losses;
use reference_networks::NETWORKS;
use serde_json::Value;

/// As in `make.py`.
pub(crate) fn values(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 37 + seed * 101) % 97) as f64 / 48.5 - 0.99;
    Tensor::from_slice(shape, &(0..count).map(value).collect::<Vec<_>>()).unwrap()
}

fn positive(x: &Var) -> Var {
    x.abs() + 0.3
}

fn window() -> WindowOptions {
    WindowOptions::default()
}

fn indices(x: &Var, shape: &[usize], values: &[i64]) -> Var {
    x.constant(&Tensor::from_slice(shape, values).unwrap())
}

fn running(x: &Var, y: &Var) -> Var {
    let first = y.slice(0, 0, 1).squeeze(&[0]);
    let results = x.scan(&[&first], &[], |row, states, _| {
        let state = (&states[0] * &row).tanh() + row;
        kiln::Step {
            states: vec![state.clone()],
            outputs: vec![state],
        }
    });
    results[1].clone()
}

type Op = fn(&Var, &Var) -> Var;

/// Functions of `x, y: f64[3, 4]`, named as in `make.py`.
const OPS: &[(&str, Op)] = &[
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("div", |x, y| x / positive(y)),
    ("pow", |x, y| positive(x).pow(y)),
    ("maximum", |x, y| x.maximum(y)),
    ("minimum", |x, y| x.minimum(y)),
    ("neg", |x, _| -x),
    ("abs", |x, _| x.abs()),
    ("square", |x, _| x.square()),
    ("exp", |x, _| x.exp()),
    ("log", |x, _| positive(x).log()),
    ("sqrt", |x, _| positive(x).sqrt()),
    ("rsqrt", |x, _| positive(x).rsqrt()),
    ("sin", |x, _| x.sin()),
    ("cos", |x, _| x.cos()),
    ("tan", |x, _| x.map("tan")),
    ("asin", |x, _| (x * 0.9).map("asin")),
    ("acos", |x, _| (x * 0.9).map("acos")),
    ("atan", |x, _| x.map("atan")),
    ("sinh", |x, _| x.map("sinh")),
    ("cosh", |x, _| x.map("cosh")),
    ("asinh", |x, _| x.map("asinh")),
    ("acosh", |x, _| (positive(x) + 1.0).map("acosh")),
    ("atanh", |x, _| (x * 0.9).map("atanh")),
    ("tanh", |x, _| x.tanh()),
    ("sigmoid", |x, _| x.sigmoid()),
    ("relu", |x, _| x.relu()),
    ("gelu", |x, _| x.gelu()),
    ("silu", |x, _| x.silu()),
    ("softplus", |x, _| x.map("softplus")),
    ("softsign", |x, _| x.map("softsign")),
    ("mish", |x, _| x.map("mish")),
    ("elu", |x, _| x.map("elu")),
    ("selu", |x, _| x.map("selu")),
    ("erf", |x, _| x.erf()),
    ("log1p", |x, _| positive(x).map("log1p")),
    ("expm1", |x, _| x.map("expm1")),
    ("reciprocal", |x, _| positive(x).map("reciprocal")),
    ("select", |x, y| x.greater(y).select(x * 2.0, y * 3.0)),
    ("sum", |x, _| x.sum(0)),
    ("mean", |x, _| x.mean(1)),
    ("max", |x, _| x.max(1)),
    ("min", |x, _| x.min(0)),
    ("product", |x, _| x.product(1)),
    ("softmax", |x, _| x.softmax(1)),
    ("log_softmax", |x, _| x.log_softmax(0)),
    ("matmul", |x, y| x.matmul(y.transpose())),
    ("transpose", |x, _| x.transpose() * 2.0),
    ("permute", |x, _| x.reshape([3, 2, 2]).permute(&[2, 0, 1])),
    ("reshape", |x, _| x.reshape([2, 6]) * 3.0),
    ("broadcast", |x, y| x.sum_keep(1).broadcast_to([3, 4]) * y),
    ("slice", |x, _| x.slice(0, 1, 3)),
    ("squeeze", |x, _| x.reshape([3, 1, 4]).squeeze(&[1])),
    ("unsqueeze", |x, y| x.unsqueeze(1) * y),
    ("concat", |x, y| x.concat(&[&(y * 2.0)], 1)),
    ("gather", |x, _| x.gather(indices(x, &[3], &[2, 0, 2]), 0)),
    ("gather_elements", |x, _| {
        x.gather_elements(indices(x, &[3, 1], &[0, 3, 3]), 1)
    }),
    ("conv", |x, y| {
        let weight = y.reshape([2, 1, 2, 3]);
        x.reshape([1, 1, 3, 4]).conv(weight, window().padding(1))
    }),
    ("conv_strided", |x, y| {
        let options = window().padding(1).stride(2);
        x.reshape([1, 2, 6]).conv(y.reshape([2, 2, 3]), options)
    }),
    ("conv_transpose", |x, y| {
        let weight = y.reshape([2, 2, 3]);
        x.reshape([1, 2, 6])
            .conv_transpose(weight, window().stride(2), 0)
    }),
    ("conv_groups", |x, y| {
        x.reshape([1, 2, 6])
            .conv(y.reshape([4, 1, 3]), window().groups(2))
    }),
    ("max_pool", |x, _| {
        x.reshape([1, 2, 6]).max_pool(2, window().stride(2))
    }),
    ("mean_pool", |x, _| {
        x.reshape([1, 2, 6]).mean_pool(3, window().padding(1))
    }),
    ("cross_entropy", |x, _| {
        losses::cross_entropy(x, &indices(x, &[3], &[1, 0, 3]))
    }),
    ("mean_squared_error", losses::mean_squared_error),
    ("binary_cross_entropy", |x, y| {
        losses::binary_cross_entropy(x, &y.sigmoid().stop_gradient())
    }),
    ("scan", running),
];

/// The sum of a value times fixed numbers. Its sizes must be known.
fn loss_of(y: &Var, shape: &[usize]) -> Var {
    (y * y.constant(&values(shape, 9))).sum(..)
}

/// The sizes of a variable with known sizes, from its type's text.
fn shape_of(y: &Var) -> Vec<usize> {
    let text = format!("{y:?}");
    let sizes = text.split_once('[').unwrap().1.trim_end_matches(']');
    let sizes = sizes.split(", ").filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().unwrap()).collect()
}

/// Records gradients with respect to inputs of these names and sizes, runs them, and compares them with the stored ones.
fn check(
    name: &str,
    stored: &Value,
    inputs: &[(String, Vec<usize>, usize)],
    function: &dyn Fn(&Recording, &[Var]) -> Var,
) {
    let recording = Recording::new("reference");
    let variables: Vec<Var> = inputs
        .iter()
        .map(|(name, shape, _)| {
            let sizes = shape.iter().map(|&size| size.into());
            recording.input(name, DType::F64, sizes)
        })
        .collect();
    let y = function(&recording, &variables);
    let loss = loss_of(&y, &shape_of(&y));
    let slopes = loss.gradients_of_all(&variables.iter().collect::<Vec<_>>());
    let outputs: Vec<(&str, &Var)> = inputs
        .iter()
        .map(|(name, ..)| name.as_str())
        .zip(&slopes)
        .collect();
    let graph = recording
        .finish(&outputs)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let tensors: Vec<Tensor> = inputs
        .iter()
        .map(|(_, shape, seed)| values(shape, *seed))
        .collect();
    for device in [Device::interpreter(), Device::cpu()] {
        let options = Options::new().cache(Cache::off()).device(device.clone());
        let model = options.load(Source::graph(graph.clone())).unwrap();
        let found = model.run(&tensors).unwrap();
        for (input, tensor) in found.iter() {
            let expected = stored[input].as_array();
            let expected =
                expected.unwrap_or_else(|| panic!("{name}: no gradient of {input} is stored"));
            let expected: Vec<f64> = expected
                .iter()
                .map(|number| number.as_f64().unwrap())
                .collect();
            let found = tensor.to_vec::<f64>().unwrap();
            assert_eq!(found.len(), expected.len(), "{name}: {input}");
            let scale = expected
                .iter()
                .fold(1e-3_f64, |most, value| most.max(value.abs()));
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!(
                    (found - expected).abs() <= 1e-5 * scale,
                    "{name} on {device}: {input}[{index}] is {found}, expected {expected}"
                );
            }
        }
    }
}

fn stored() -> Value {
    serde_json::from_str(include_str!("reference/gradients.json")).unwrap()
}

#[test]
fn gradients_of_operators_are_the_stored_ones() {
    let stored = stored();
    let names = stored.as_object().unwrap().keys();
    let n_ops = names.filter(|name| name.starts_with("op ")).count();
    assert_eq!(n_ops, OPS.len(), "each stored operator is tested");
    let inputs = [("x", 1), ("y", 2)].map(|(name, seed)| (name.to_owned(), vec![3, 4], seed));
    for (name, op) in OPS {
        let name = format!("op {name}");
        check(&name, &stored[&name], &inputs, &|_, variables| {
            op(&variables[0], &variables[1])
        });
    }
}

#[test]
fn gradients_of_networks_are_the_stored_ones() {
    let stored = stored();
    let names = stored.as_object().unwrap().keys();
    let n_networks = names.filter(|name| name.starts_with("network ")).count();
    assert_eq!(n_networks, NETWORKS.len(), "each stored network is tested");
    for network in NETWORKS {
        let name = format!("network {}", network.name);
        let parameters = network.parameters.iter().enumerate();
        let inputs: Vec<(String, Vec<usize>, usize)> = parameters
            .map(|(index, (name, shape))| ((*name).to_owned(), shape.to_vec(), index + 3))
            .collect();
        let x = values(network.input, 1);
        check(&name, &stored[&name], &inputs, &|recording, variables| {
            let x = recording.constant(&x);
            (network.function)(&reference_networks::Parameters::new(network, variables), &x)
        });
    }
}
