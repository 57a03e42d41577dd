//! A network that is trained on shares of batches, and its data.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Cache, DType, Device, Options, Tensor};
use kiln_train::parallel::Collective;
use kiln_train::{AdamW, Trainer, TrainerBuilder, losses};

/// The samples of each step, by rank.
pub(crate) const PARTS: [[usize; 2]; 6] = [[4, 4], [3, 5], [1, 7], [6, 6], [5, 2], [8, 1]];

fn builder(seed: u64) -> TrainerBuilder<AdamW> {
    let options = Options::new()
        .cache(Cache::off())
        .device(Device::cpu())
        .threads(1);
    Trainer::new("shared", AdamW::default())
        .learning_rate(0.01)
        .seed(seed)
        .clip_norm(0.5)
        .input("x", DType::F32, ["B".into(), 5.into()])
        .input("y", DType::F32, ["B".into(), 2.into()])
        .options(options)
}

fn network(network: &kiln_train::Network, inputs: &[kiln::Var]) -> kiln::Var {
    let h = network.linear("hidden", &inputs[0], 5, 9).tanh();
    let h = network.layer_norm("norm", &h, 9);
    losses::mean_squared_error(&network.linear("out", &h, 9, 2), &inputs[1])
}

/// A trainer of one process.
pub(crate) fn alone() -> Trainer {
    builder(3).build(network).unwrap()
}

/// A trainer for one rank; only rank 0 starts with the same parameters as [`alone`].
pub(crate) fn shared(collective: impl Collective + 'static) -> Trainer {
    let seed = 3 + collective.rank() as u64;
    builder(seed).build_across(collective, network).unwrap()
}

/// Samples of a step: `x: f32[count, 5]`, `y: f32[count, 2]`, starting at `first`.
fn samples(step: usize, first: usize, count: usize) -> [Tensor; 2] {
    [5_usize, 2].map(|width| {
        let value = |at: usize| {
            let (row, column) = (first + at / width, at % width);
            (((step * 31 + row) * 7 + column * 13 + width) % 23) as f32 / 11.5 - 1.0
        };
        let values = (0..count * width).map(value).collect();
        Tensor::from_vec(&[count, width], values).unwrap()
    })
}

/// The losses of all steps, on whole batches or on a rank's shares.
pub(crate) fn train(trainer: &mut Trainer, rank: Option<usize>) -> Vec<f64> {
    let steps = PARTS.iter().enumerate();
    let losses = steps.map(|(step, &[left, right])| {
        let [x, y] = match rank {
            None => samples(step, 0, left + right),
            Some(0) => samples(step, 0, left),
            Some(_) => samples(step, left, right),
        };
        trainer.step([("x", &x), ("y", &y)]).unwrap()
    });
    losses.collect()
}

/// The parameters, one after the other.
pub(crate) fn parameters(trainer: &Trainer) -> Vec<f64> {
    let names = trainer.parameters();
    let values = names.flat_map(|name| trainer.parameter(name).unwrap().to_f64_vec().unwrap());
    values.collect()
}

/// Fails if numbers differ by more than rounding errors.
pub(crate) fn expect_close(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= 2e-5 * expected.abs().max(1.0),
            "{found}, expected {expected}"
        );
    }
}
