//! Trains a small transformer to predict the next character of eight of Shakespeare's sonnets, for batches and lengths that change
//! from step to step, and lets it write.
//!
//! `cargo run --release -p kiln-train --example char_transformer [STEPS]`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use indicatif::{ProgressBar, ProgressStyle};
use kiln::{DType, Device, Options, Tensor, Var};
use kiln_train::data::{Batch, Dataset, Loader, Samples};
use kiln_train::{AdamW, AttentionSizes, Initial, Network, Predictor, Trainer, losses, schedules};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::time::Instant;

/// A text in the public domain.
const TEXT: &str = include_str!("sonnets.txt");
const WIDTH: usize = 96;
const LAYERS: usize = 2;
/// The longest text that the network sees at once.
const LONGEST: usize = 64;
/// The sizes of batches, in turn.
const BATCHES: [usize; 3] = [12, 16, 24];
/// The characters of a batch: the more texts it has, the shorter they are.
const CHARACTERS: usize = 768;

/// `ids: i64[B, T] -> [B, T, characters]`: the logits of each next character.
fn network(network: &Network, ids: &Var, characters: usize) -> Var {
    let positions = network.parameter("positions", &[LONGEST, WIDTH], Initial::Normal(0.1));
    let here = ids.positions(ids.size(1));
    let mut x =
        network.embedding("characters", ids, characters, WIDTH) * 0.5 + positions.gather(here, 0);
    for index in 0..LAYERS {
        let layer = network.within(&format!("layers.{index}"));
        let sizes = AttentionSizes {
            width: WIDTH,
            heads: 4,
            is_causal: true,
        };
        let normal = layer.layer_norm("norm1", &x, WIDTH);
        x = &x + layer.attention("self_attn", &normal, sizes);
        let normal = layer.layer_norm("norm2", &x, WIDTH);
        let wide = layer.linear("linear1", &normal, WIDTH, 4 * WIDTH).gelu();
        let wide = layer.dropout(&wide, 0.1);
        x = &x + layer.linear("linear2", &wide, 4 * WIDTH, WIDTH);
    }
    let x = network.layer_norm("norm", &x, WIDTH);
    network.linear("out", &x, WIDTH, characters)
}

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let n_steps: u64 = match std::env::args().nth(1) {
        Some(steps) => steps.parse()?,
        None => 600,
    };
    let alphabet = Alphabet::of(TEXT);
    let text = alphabet.encode(TEXT);
    let characters = alphabet.0.len();
    let options = Options::new().device(Device::cpu());
    let build = || {
        Trainer::new("char_transformer", AdamW::default())
            .seed(3)
            .clip_norm(1.0)
            .input("ids", DType::I64, ["B".into(), "T".into()])
            .input("next", DType::I64, ["N".into()])
            .options(options.clone())
            .build(|n, inputs| {
                let logits = network(n, &inputs[0], characters);
                let flat = logits.reshape([inputs[1].size(0), characters.into()]);
                losses::cross_entropy(&flat, &inputs[1])
            })
    };
    let mut trainer = build()?;
    let bar = ProgressBar::new(n_steps);
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, {elapsed}, {msg}",
    )?);
    let loader = Loader::of_sizes(texts(text), &BATCHES)?
        .shuffled(1)
        .ahead(2);
    let (mut first, mut mean) = (0.0, 0.0);
    let batches = (0..).flat_map(|epoch| loader.epoch(epoch));
    for (step, batch) in (0..n_steps).zip(batches) {
        let rate = schedules::cosine(3e-3, step, 40, n_steps);
        let loss = trainer.step_at(rate, &batch?)?;
        if step == 0 {
            (first, mean) = (loss, loss);
        }
        mean = 0.95 * mean + 0.05 * loss;
        bar.set_message(format!("loss {mean:.3}"));
        bar.inc(1);
    }
    bar.finish();

    let path =
        std::env::temp_dir().join(format!("kiln-sonnets-{}.safetensors", std::process::id()));
    trainer.save(&path)?;
    let mut reloaded = build()?;
    reloaded.load(&path)?;
    std::fs::remove_file(&path)?;
    let predictor = Predictor::new("write", &reloaded)
        .input("ids", DType::I64, ["B".into(), "T".into()])
        .options(options.clone())
        .build(|n, inputs| vec![("logits", network(n, &inputs[0], characters))])?;
    println!("loss: {first:.3} at first, {mean:.3} at last");
    println!(
        "{}",
        write_text(&predictor, &reloaded, &alphabet, "When ", 280)?
    );
    println!("{:.1} s in all", begin.elapsed().as_secs_f64());
    match mean < 0.6 * first {
        true => Ok(()),
        false => Err("expected a network that has learned".into()),
    }
}

/// Parts of a text, from every character on, in batches of one length: `ids: i64[batch, length]`, and the characters that follow
/// each, `next: i64[batch * length]`.
fn texts(text: Vec<i64>) -> impl Dataset<Batch = Batch> {
    Samples::new(text.len() - LONGEST, Ok, move |starts: Vec<usize>| {
        let length = LONGEST.min(CHARACTERS / starts.len());
        let parts = |after: usize| -> Vec<i64> {
            let part = |&start: &usize| text[start + after..][..length].iter().copied();
            starts.iter().flat_map(part).collect()
        };
        let shape = [starts.len(), length];
        let ids = Tensor::from_slice(&shape, &parts(0))?;
        let next = Tensor::from_slice(&[starts.len() * length], &parts(1))?;
        Ok(Batch::new([("ids", ids), ("next", next)]))
    })
}

/// Continues a text by `count` characters, each drawn with its probability at a low temperature. The text that the network sees
/// grows with each call, and nothing is compiled again.
fn write_text(
    predictor: &Predictor,
    trainer: &Trainer,
    alphabet: &Alphabet,
    begin: &str,
    count: usize,
) -> Result<String, Box<dyn Error>> {
    const TEMPERATURE: f32 = 0.5;
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let mut ids = alphabet.encode(begin);
    for _ in 0..count {
        let seen = &ids[ids.len().saturating_sub(LONGEST)..];
        let given = Tensor::from_slice(&[1, seen.len()], seen)?;
        let outputs = predictor.run(trainer, [("ids", &given)])?;
        let logits = outputs.get("logits")?.to_vec::<f32>()?;
        let last = &logits[logits.len() - alphabet.0.len()..];
        let most = last.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = last
            .iter()
            .map(|logit| ((logit - most) / TEMPERATURE).exp());
        let weights: Vec<f32> = weights.collect();
        let mut left = random.random::<f32>() * weights.iter().sum::<f32>();
        let drawn = weights.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        ids.push(drawn.unwrap_or(0) as i64);
    }
    Ok(alphabet.decode(&ids))
}

/// The characters of a text, in order.
struct Alphabet(Vec<char>);

impl Alphabet {
    fn of(text: &str) -> Self {
        let mut characters: Vec<char> = text.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        Self(characters)
    }

    /// The indices of characters; those that are not in the alphabet are left out.
    fn encode(&self, text: &str) -> Vec<i64> {
        let index = |character: char| self.0.binary_search(&character).ok();
        text.chars().filter_map(index).map(|id| id as i64).collect()
    }

    fn decode(&self, ids: &[i64]) -> String {
        let character = |&id: &i64| self.0.get(usize::try_from(id).ok()?).copied();
        ids.iter().filter_map(character).collect()
    }
}
