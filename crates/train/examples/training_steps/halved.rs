//! Steps within half of the memory, beside usual ones: the time of a step, and the bytes of its arena, where values between kernels are.

use crate::cases::{CASES, Case, block, pair};
use kiln::{DType, MemoryBudget, Options, diagnose};
use kiln_train::{Adam, Sgd, Trainer, losses};
use std::time::Instant;

/// Networks with more layers, whose activations are most of their memory.
const DEEP: &[Case] = &[
    Case {
        name: "16 layers",
        size: 256,
        trainer: layers,
        batch: |size| pair(&[size, 256], &[size, 256]),
    },
    Case {
        name: "4 blocks",
        size: 4,
        trainer: blocks,
        batch: |size| pair(&[size, 128, 256], &[size, 128, 256]),
    },
];

fn layers(options: Options) -> Trainer {
    Trainer::new("layers", Sgd::default())
        .input("x", DType::F32, ["B".into(), 256.into()])
        .input("y", DType::F32, ["B".into(), 256.into()])
        .options(options)
        .build(|network, inputs| {
            let layer = |h, at| network.linear(&format!("fc{at}"), &h, 256, 256).tanh();
            losses::mean_squared_error(&(0..16).fold(inputs[0].clone(), layer), &inputs[1])
        })
        .unwrap()
}

fn blocks(options: Options) -> Trainer {
    Trainer::new("blocks", Adam::default())
        .input("x", DType::F32, ["B".into(), "T".into(), 256.into()])
        .input("y", DType::F32, ["B".into(), "T".into(), 256.into()])
        .options(options)
        .build(|network, inputs| {
            let one = |h, at| block(&network.within(&format!("block{at}")), &h);
            losses::mean_squared_error(&(0..4).fold(inputs[0].clone(), one), &inputs[1])
        })
        .unwrap()
}

/// Prints a line for each case that `wanted` is in.
pub(crate) fn measure(options: &Options, wanted: &str) {
    let cases = DEEP.iter().chain(CASES);
    for case in cases.filter(|case| case.name.contains(wanted)) {
        let batch = (case.batch)(case.size);
        let budgets = [MemoryBudget::Unlimited, MemoryBudget::Fraction(0.5)];
        let mut trainers =
            budgets.map(|memory| (case.trainer)(options.clone().memory_budget(memory)));
        for trainer in &mut trainers {
            // Variants are measured on the first calls.
            let warm = Instant::now();
            while warm.elapsed().as_secs_f64() < 1.5 {
                crate::step(trainer, &batch);
            }
        }
        let mut times = [Vec::new(), Vec::new()];
        let begin = Instant::now();
        while times[0].len() < 20 || begin.elapsed().as_secs_f64() < 4.0 {
            for (trainer, times) in trainers.iter_mut().zip(&mut times) {
                let one = Instant::now();
                crate::step(trainer, &batch);
                times.push(one.elapsed().as_secs_f64() * 1e3);
            }
        }
        let [usual, half] = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        let [all, some] = trainers.map(|trainer| arena(&trainer, &batch));
        println!(
            "{:12} usual {usual:.3} ms, {:.2} MB; half {half:.3} ms, {:.2} MB: {:.2} of the time, {:.2} of the memory",
            case.name,
            all / 1e6,
            some / 1e6,
            half / usual,
            some / all,
        );
    }
}

/// The bytes of the arena of a step.
fn arena(trainer: &Trainer, batch: &crate::Batch) -> f64 {
    let model = trainer.session().model();
    let shape = |name: &str| -> Vec<usize> {
        let given = batch.iter().find(|(known, _)| *known == name);
        match (given, trainer.session().state(name)) {
            (Some((_, tensor)), _) => tensor.shape().to_vec(),
            (None, Ok(state)) => state.shape().to_vec(),
            (None, Err(_)) if name == "random_key" => vec![2],
            (None, Err(_)) => Vec::new(),
        }
    };
    let shapes: Vec<Vec<usize>> = model
        .inputs()
        .iter()
        .map(|input| shape(input.name()))
        .collect();
    let memory = diagnose::call_memory(model, &shapes).unwrap();
    memory.map_or(0.0, |memory| memory.arena as f64)
}
