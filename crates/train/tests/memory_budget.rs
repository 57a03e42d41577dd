//! A step within a memory budget: bit-identical parameters, and a lower peak.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/eager_baseline/counting.rs"]
#[expect(dead_code, reason = "the test counts bytes alone")]
mod counting;

use counting::counted;
use kiln::{Cache, DType, Device, MemoryBudget, Options, Tensor, Var, diagnose};
use kiln_train::{Adam, AttentionSizes, Network, Sgd, Trainer, losses};
use std::time::Duration;

fn options() -> Options {
    let options = Options::new().cache(Cache::off()).device(Device::cpu());
    options.threads(1).shared_kernels(false)
}

fn values(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |at: usize| ((at * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    Tensor::from_vec(shape, (0..count).map(value).collect()).unwrap()
}

/// Layers of a multilayer perceptron.
const LAYERS: usize = 12;

fn perceptron(network: &Network, x: &Var) -> Var {
    let layer = |h: Var, at: usize| network.linear(&format!("fc{at}"), &h, 32, 32).tanh();
    (0..LAYERS).fold(x.clone(), layer)
}

fn transformer(network: &Network, x: &Var) -> Var {
    (0..3).fold(x.clone(), |x, at| {
        let network = network.within(&format!("block{at}"));
        let sizes = AttentionSizes {
            width: 32,
            heads: 2,
            is_causal: true,
        };
        let h = network.layer_norm("norm1", &x, 32);
        let x = &x + network.dropout(&network.attention("attention", &h, sizes), 0.1);
        let h = network.layer_norm("norm2", &x, 32);
        let h = network.linear("up", &h, 32, 64).relu();
        x + network.linear("down", &h, 64, 32)
    })
}

/// The losses and parameters of a few steps with batches of several sizes, the bytes of an arena, and the peak of a
/// step's allocations.
struct Trained {
    losses: Vec<f64>,
    parameters: Vec<Vec<f32>>,
    arena: usize,
    peak: usize,
    n_again: usize,
    program: String,
}

fn train(mut trainer: Trainer, shape: impl Fn(usize) -> Vec<usize>) -> Trained {
    let mut found = Vec::new();
    for size in [64, 1, 3, 64, 65] {
        let (x, y) = (values(&shape(size), 1), values(&shape(size), 2));
        found.push(trainer.step([("x", &x), ("y", &y)]).unwrap());
    }
    let model = trainer.session().model();
    assert!(model.wait_for_compiles(Duration::from_secs(60)));
    let (x, y) = (values(&shape(64), 1), values(&shape(64), 2));
    trainer.step([("x", &x), ("y", &y)]).unwrap();
    let model = trainer.session().model();
    model.trim_memory(0);
    let program = diagnose::inspect(model, diagnose::Stage::Program).unwrap();
    let inputs = model.inputs().iter().map(|input| match input.name() {
        "x" | "y" => shape(64),
        "learning_rate" => Vec::new(),
        "random_key" => vec![2],
        state => trainer.session().state(state).unwrap().shape().to_vec(),
    });
    let inputs: Vec<Vec<usize>> = inputs.collect();
    let memory = diagnose::call_memory(model, &inputs).unwrap().unwrap();
    let (loss, allocated) = counted(|| trainer.step([("x", &x), ("y", &y)]).unwrap());
    found.push(loss);
    let names: Vec<String> = trainer.parameters().map(ToOwned::to_owned).collect();
    let parameter = |name: &String| trainer.parameter(name).unwrap().to_vec::<f32>().unwrap();
    Trained {
        losses: found,
        parameters: names.iter().map(parameter).collect(),
        arena: memory.arena,
        peak: allocated.peak,
        n_again: program.matches("_again [").count(),
        program,
    }
}

fn expect_same_with_less(usual: &Trained, less: &Trained, most: usize) {
    assert_eq!(usual.n_again, 0);
    assert!(less.n_again > 0, "{}", less.program);
    assert_eq!(usual.losses, less.losses);
    assert!(usual.parameters == less.parameters, "other parameters");
    for (what, usual, less) in [
        ("arena", usual.arena, less.arena),
        ("allocations", usual.peak, less.peak),
    ] {
        assert!(
            100 * less <= most * usual,
            "{what}: {less} of {usual} bytes"
        );
    }
}

#[test]
fn a_perceptron_trains_with_half_of_the_memory() {
    let trainer = |memory| {
        Trainer::new("perceptron", Sgd::with_momentum(0.9))
            .learning_rate(0.01)
            .input("x", DType::F32, ["B".into(), 32.into()])
            .input("y", DType::F32, ["B".into(), 32.into()])
            .options(options())
            .memory_budget(memory)
            .build(|network, inputs| {
                losses::mean_squared_error(&perceptron(network, &inputs[0]), &inputs[1])
            })
            .unwrap()
    };
    let shape = |size| vec![8 * size, 32];
    let usual = train(trainer(MemoryBudget::Unlimited), shape);
    let half = train(trainer(MemoryBudget::Fraction(0.5)), shape);
    expect_same_with_less(&usual, &half, 65);
}

#[test]
fn a_transformer_with_dropout_trains_with_less_memory() {
    let trainer = |memory| {
        Trainer::new("transformer", Adam::default())
            .input("x", DType::F32, ["B".into(), "T".into(), 32.into()])
            .input("y", DType::F32, ["B".into(), "T".into(), 32.into()])
            .options(options())
            .memory_budget(memory)
            .clip_norm(1.0)
            .build(|network, inputs| {
                losses::mean_squared_error(&transformer(network, &inputs[0]), &inputs[1])
            })
            .unwrap()
    };
    let shape = |size: usize| vec![size.div_ceil(8), 16, 32];
    let usual = train(trainer(MemoryBudget::Unlimited), shape);
    let less = train(trainer(MemoryBudget::Fraction(0.5)), shape);
    // Parameters, gradients and inputs are not part of the budget.
    expect_same_with_less(&usual, &less, 80);
}

#[test]
fn a_budget_is_a_part_of_the_whole() {
    for part in [50.0, -0.1, f64::NAN] {
        let builder =
            Trainer::new("none", Sgd::default()).input("x", DType::F32, ["B".into(), 2.into()]);
        let error = builder
            .memory_budget(MemoryBudget::Fraction(part))
            .build(|network, inputs| network.linear("fc", &inputs[0], 2, 1).mean(..))
            .unwrap_err();
        assert_eq!(error.code(), "E0970");
    }
}
