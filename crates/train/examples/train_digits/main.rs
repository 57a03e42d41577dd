//! Trains a convolutional network to read handwritten digits, for batches of changing sizes, and reloads its parameters.
//!
//! `cargo xtask models` fetches the data, 1,797 pictures of 8 by 8 pixels from the UCI repository as scikit-learn distributes
//! them; `cargo run --release -p kiln-train --example train_digits` trains, in less than a minute on two cores.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod data;

use data::Digits;
use indicatif::{ProgressBar, ProgressStyle};
use kiln::{DType, Device, Options, Var, WindowOptions};
use kiln_train::data::Loader;
use kiln_train::{Adam, ConvSizes, Network, Predictor, Trainer, losses, schedules};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// How often every picture is seen.
const EPOCHS: u64 = 25;
/// Steps have batches of these sizes in turn.
const BATCHES: [usize; 3] = [64, 48, 80];

/// `x: [B, 1, 8, 8] -> [B, 10]`.
fn network(network: &Network, x: &Var) -> Var {
    let padded = WindowOptions::default().padding(1);
    let h = network.conv("conv1", x, ConvSizes::new(1, 16, 3), padded);
    let h = network.batch_norm("norm1", &h, 16).relu();
    let h = network.conv("conv2", &h, ConvSizes::new(16, 32, 3), padded);
    let h = network.batch_norm("norm2", &h, 32).relu();
    let h = h.max_pool(2, WindowOptions::default().stride(2));
    let h = network.conv("conv3", &h, ConvSizes::new(32, 32, 3), padded);
    let h = network.batch_norm("norm3", &h, 32).relu();
    let h = h.reshape([h.size(0), (32_usize * 4 * 4).into()]);
    let h = network.dropout(&h, 0.3);
    network.linear("out", &h, 32 * 4 * 4, 10)
}

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let digits = Digits::load(&models())?;
    let (training, test) = digits.split(1437);
    let options = Options::new().device(Device::cpu());
    let mut trainer = trainer(&options)?;
    let predictor = Predictor::new("read", &trainer)
        .input("x", DType::F32, ["B".into(), 1.into(), 8.into(), 8.into()])
        .options(options.clone())
        .build(|n, inputs| vec![("logits", network(n, &inputs[0]))])?;

    let loader = Loader::of_sizes(training.dataset()?, &BATCHES)?
        .shuffled(1)
        .ahead(2);
    let n_steps = EPOCHS * loader.n_batches() as u64;
    let bar = ProgressBar::new(n_steps);
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, {elapsed}, {msg}",
    )?);
    let mut mean = 0.0;
    let batches = (0..EPOCHS).flat_map(|epoch| loader.epoch(epoch));
    for (step, batch) in (0..).zip(batches) {
        let rate = schedules::cosine(3e-3, step, 20, n_steps);
        let loss = trainer.step_at(rate, &batch?)?;
        mean = if step == 0 {
            loss
        } else {
            0.95 * mean + 0.05 * loss
        };
        bar.set_message(format!("loss {mean:.4}"));
        bar.inc(1);
    }
    bar.finish();

    let accuracy = test.accuracy(&predictor, &trainer)?;
    let folder = std::env::temp_dir();
    let path = folder.join(format!("kiln-digits-{}.safetensors", std::process::id()));
    trainer.save(&path)?;
    let mut reloaded = self::trainer(&options)?;
    reloaded.load(&path)?;
    std::fs::remove_file(&path)?;
    let again = test.accuracy(&predictor, &reloaded)?;
    println!("loss of the last steps: {mean:.4}");
    println!(
        "test accuracy: {:.2} % of {} pictures, reloaded {:.2} %",
        100.0 * accuracy,
        test.len(),
        100.0 * again
    );
    println!("{:.1} s in all", begin.elapsed().as_secs_f64());
    if accuracy < 0.98 || (again - accuracy).abs() > 0.0 {
        return Err("expected an accuracy of 98 % or more, the same after reloading".into());
    }
    Ok(())
}

fn trainer(options: &Options) -> Result<Trainer, Box<dyn Error>> {
    let trainer = Trainer::new("digits", Adam::default())
        .seed(1)
        .input("x", DType::F32, ["B".into(), 1.into(), 8.into(), 8.into()])
        .input("labels", DType::I64, ["B".into()])
        .options(options.clone())
        .build(|n, inputs| losses::cross_entropy(&network(n, &inputs[0]), &inputs[1]))?;
    Ok(trainer)
}

/// The folder that `cargo xtask models` fills.
fn models() -> PathBuf {
    std::env::var_os("KILN_MODELS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models")),
        PathBuf::from,
    )
}
