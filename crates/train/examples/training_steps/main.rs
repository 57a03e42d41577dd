//! Times of training steps: forward, backward and update of four networks, one line each. `cargo xtask bench --train` runs this
//! next to other frameworks.
//!
//! Arguments: the number of threads; optionally a word that a case's name contains; `--profile` prints the steps that take the
//! most time instead, `--inspect=STAGE` the step at a stage of `kiln inspect`, and `--half` what half of the memory costs.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its result, and may panic"
)]

mod cases;
mod halved;

use cases::{CASES, Case};
use kiln::internals::lazy_runtime::StepProfile;
use kiln::{Cache, Device, Options, Tensor, diagnose};
use kiln_train::Trainer;
use std::time::Instant;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let threads = words
        .first()
        .and_then(|word| word.parse().ok())
        .unwrap_or(1);
    let is_profile = words.iter().any(|word| word == "--profile");
    let mut wanted = words.iter().skip(1).filter(|word| !word.starts_with("--"));
    let wanted = wanted.next().map_or("", String::as_str);
    let options = Options::new()
        .cache(Cache::off())
        .device(Device::cpu())
        .threads(threads);
    if words.iter().any(|word| word == "--half") {
        return halved::measure(&options, wanted);
    }
    let stage = words
        .iter()
        .find_map(|word| word.strip_prefix("--inspect="));
    for case in CASES.iter().filter(|case| case.name.contains(wanted)) {
        if let Some(stage) = stage {
            let trainer = (case.trainer)(options.clone());
            let text = diagnose::inspect(trainer.session().model(), stage.parse().unwrap());
            println!("{}", text.unwrap());
            continue;
        }
        let mut trainer = (case.trainer)(options.clone());
        let batch = (case.batch)(case.size);
        match is_profile {
            true => profile(case, &mut trainer, &batch),
            false => measure(case, &mut trainer, &batch),
        }
    }
}

type Batch = Vec<(&'static str, Tensor)>;

fn step(trainer: &mut Trainer, batch: &Batch) -> f64 {
    let given = batch.iter().map(|(name, tensor)| (*name, tensor));
    trainer.step(given).unwrap()
}

/// Prints a case: its name, the median and the least time of a step, and the first step with another batch size, in
/// milliseconds.
fn measure(case: &Case, trainer: &mut Trainer, batch: &Batch) {
    let begin = Instant::now();
    let first = step(trainer, batch);
    let compile = begin.elapsed().as_secs_f64() * 1e3;
    // Variants are measured on the first calls.
    let warm = Instant::now();
    while warm.elapsed().as_secs_f64() < 1.5 {
        step(trainer, batch);
    }
    let mut times = Vec::new();
    let mut last = first;
    let begin = Instant::now();
    while times.len() < 20 || begin.elapsed().as_secs_f64() < 2.0 {
        let one = Instant::now();
        last = step(trainer, batch);
        times.push(one.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let other = (case.batch)(case.size + 1);
    let begin = Instant::now();
    step(trainer, &other);
    let another = begin.elapsed().as_secs_f64() * 1e3;
    println!(
        "{} median {:.3} least {:.3} first {compile:.1} another {another:.3} loss {first:.4} {last:.4}",
        case.name,
        times[times.len() / 2],
        times[0],
    );
}

/// Prints the kernels of a step that take the most time.
fn profile(case: &Case, trainer: &mut Trainer, batch: &Batch) {
    for _ in 0..50 {
        step(trainer, batch);
    }
    let mut steps: Vec<StepProfile> = Vec::new();
    for _ in 0..20 {
        let mut again = Vec::new();
        let given = batch.iter().map(|(name, tensor)| (*name, tensor));
        trainer.profile(&mut again, given).unwrap();
        match steps.len() == again.len() {
            // The least time of each: others may use the machine.
            true => steps.iter_mut().zip(again).for_each(|(least, found)| {
                least.time = least.time.min(found.time);
            }),
            false => steps = again,
        }
    }
    let total: f64 = steps.iter().map(|step| step.time.as_secs_f64() * 1e3).sum();
    println!("{}: {} steps, {total:.3} ms", case.name, steps.len());
    let steps = together(steps);
    for (count, step) in steps.iter().take(14) {
        println!(
            "  {:9.3} ms  {count} times {} {} ({:.1} MB, {:.1} Mop)",
            step.time.as_secs_f64() * 1e3,
            step.step,
            step.variant.as_deref().unwrap_or(step.kind),
            step.bytes as f64 / 1e6,
            step.operations.unwrap_or(0.0) / 1e6,
        );
    }
}

/// Steps of the same kernel together, with their number; those that take the most time first.
fn together(steps: Vec<StepProfile>) -> Vec<(usize, StepProfile)> {
    let mut groups: Vec<(usize, StepProfile)> = Vec::new();
    for step in steps {
        let same = |group: &&mut (usize, StepProfile)| {
            (&group.1.step, group.1.bytes) == (&step.step, step.bytes)
        };
        match groups.iter_mut().find(same) {
            Some((count, group)) => {
                *count += 1;
                group.time += step.time;
            }
            None => groups.push((1, step)),
        }
    }
    groups.sort_by_key(|(_, step)| std::cmp::Reverse(step.time));
    groups
}
