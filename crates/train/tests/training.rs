//! Networks that learn, with every optimiser, for changing batch sizes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Cache, DType, Device, Options, Tensor, Var};
use kiln_train::{
    Adam, AdamW, Initial, Network, Optimizer, Sgd, TrainError, Trainer, losses, schedules,
};

fn options() -> Options {
    Options::new().cache(Cache::off()).device(Device::cpu())
}

/// Points of a spiral of two classes: `x: [count, 2]`, `labels: [count]`.
fn spiral(count: usize, first: usize) -> (Tensor, Tensor) {
    let (mut points, mut labels) = (Vec::new(), Vec::new());
    for index in first..first + count {
        let class = index % 2;
        let t = ((index * 37) % 101) as f32 / 101.0;
        let angle = 4.0 * t + class as f32 * std::f32::consts::PI;
        points.extend([(0.2 + t) * angle.cos(), (0.2 + t) * angle.sin()]);
        labels.push(class as i64);
    }
    (
        Tensor::from_slice(&[count, 2], &points).unwrap(),
        Tensor::from_slice(&[count], &labels).unwrap(),
    )
}

fn perceptron(network: &Network, inputs: &[Var]) -> Var {
    let h = network.linear("hidden", &inputs[0], 2, 32).tanh();
    let h = network.layer_norm("norm", &h, 32);
    let logits = network.within("head").linear("out", &h, 32, 2);
    losses::cross_entropy(&logits, &inputs[1])
}

fn learns(optimizer: impl Optimizer, rate: f64) {
    let mut trainer = Trainer::new("spiral", optimizer)
        .input("x", DType::F32, ["B".into(), 2.into()])
        .input("labels", DType::I64, ["B".into()])
        .clip_norm(5.0)
        .seed(3)
        .options(options())
        .build(perceptron)
        .unwrap();
    let names: Vec<String> = trainer.parameters().map(str::to_owned).collect();
    let expected = [
        "hidden.weight",
        "hidden.bias",
        "norm.weight",
        "norm.bias",
        "head.out.weight",
        "head.out.bias",
    ];
    assert_eq!(names, expected);
    let mut losses = Vec::new();
    for round in 0..300_u64 {
        let batch = [48, 64, 33][round as usize % 3];
        let (x, labels) = spiral(batch, round as usize * 7);
        let rate = schedules::cosine(rate, round, 10, 300);
        losses.push(
            trainer
                .step_at(rate, [("x", &x), ("labels", &labels)])
                .unwrap(),
        );
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let (first, last) = (mean(&losses[..5]), mean(&losses[290..]));
    assert!(last < 0.3 * first, "from {first} to {last}");
}

#[test]
fn gradient_descent_learns() {
    learns(Sgd::default(), 0.5);
}

#[test]
fn momentum_learns() {
    learns(Sgd::with_momentum(0.9), 0.1);
}

#[test]
fn adam_learns() {
    learns(Adam::default(), 0.02);
}

#[test]
fn adam_with_decoupled_decay_learns() {
    learns(AdamW::default(), 0.02);
}

#[test]
fn an_update_of_adam_is_the_papers() {
    let mut trainer = Trainer::new("adam", Adam::default())
        .dtype(DType::F64)
        .learning_rate(0.1)
        .input("x", DType::F64, [])
        .options(options())
        .build(|network, inputs| {
            let w = network.parameter("w", &[], Initial::Constant(1.0));
            w * &inputs[0]
        })
        .unwrap();
    let (mut w, mut mean, mut variance) = (1.0, 0.0, 0.0);
    for (step, gradient) in (1..).zip([2.0, -1.0, 0.5_f64]) {
        trainer.step([("x", &Tensor::scalar(gradient))]).unwrap();
        mean = 0.9 * mean + 0.1 * gradient;
        variance = 0.999 * variance + 0.001 * gradient * gradient;
        let (mean, variance) = (
            mean / (1.0 - 0.9_f64.powi(step)),
            variance / (1.0 - 0.999_f64.powi(step)),
        );
        w -= 0.1 * mean / (variance.sqrt() + 1e-8);
        let found = trainer.parameter("w").unwrap().to_vec::<f64>().unwrap()[0];
        assert!(
            (found - w).abs() < 1e-12,
            "step {step}: {found}, expected {w}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_parameters() {
    let weights = |seed: u64| {
        let trainer = Trainer::new("seeded", Sgd::default())
            .input("x", DType::F32, ["B".into(), 2.into()])
            .input("labels", DType::I64, ["B".into()])
            .seed(seed)
            .options(options())
            .build(perceptron)
            .unwrap();
        trainer
            .parameter("hidden.weight")
            .unwrap()
            .to_vec::<f32>()
            .unwrap()
    };
    assert_eq!(weights(1), weights(1));
    assert_ne!(weights(1), weights(2));
}

#[test]
fn mistakes_are_typed() {
    let builder = || {
        Trainer::new("wrong", Sgd::default())
            .input("x", DType::F32, [2.into()])
            .options(options())
    };
    let twice = builder().build(|network, inputs| {
        let a = network.parameter("w", &[2], Initial::Constant(0.0));
        let b = network.parameter("w", &[2], Initial::Constant(0.0));
        (a * b * &inputs[0]).sum(..)
    });
    assert_eq!(twice.unwrap_err().code(), "E0621");
    let none = builder().build(|_, inputs| inputs[0].sum(..));
    assert_eq!(none.unwrap_err().code(), "E0624");
    let negative = builder().build(|network, inputs| {
        let w = network.parameter("w", &[2], Initial::Normal(-1.0));
        (w * &inputs[0]).sum(..)
    });
    assert_eq!(negative.unwrap_err().code(), "E0625");
    let vector = builder()
        .build(|network, inputs| network.parameter("w", &[2], Initial::Constant(0.0)) * &inputs[0]);
    assert_eq!(vector.unwrap_err().code(), "E0603");
    let mut trainer = builder()
        .build(|network, inputs| {
            (network.parameter("w", &[2], Initial::Constant(0.0)) * &inputs[0]).sum(..)
        })
        .unwrap();
    assert_eq!(trainer.parameter("v").unwrap_err().code(), "E0622");
    let wrong = trainer.set_parameter("w", Tensor::full(&[3], 1.0_f32).unwrap());
    assert!(matches!(wrong, Err(TrainError::ParameterType { .. })));
}
