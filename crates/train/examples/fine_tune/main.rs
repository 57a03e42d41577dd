//! Fine-tunes an imported ONNX model, a sentence encoder, to tell praise from complaint: the constants of its last layers become
//! parameters, and a linear layer is added. Batches have changing sizes and lengths.
//!
//! `cargo xtask models` fetches the model; then `cargo run --release -p kiln-train --example fine_tune`.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod sentences;
mod tokens;

use indicatif::{ProgressBar, ProgressStyle};
use kiln::{DType, Device, Model, Options, Tensor, Var};
use kiln_train::data::{Batch, Dataset, Loader, Samples};
use kiln_train::{AdamW, Network, Predictor, TrainError, Trainer, losses, schedules};
use sentences::{TEST, TRAINING};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokens::Vocabulary;

/// The width of the vectors of sentences.
const WIDTH: usize = 384;
/// Steps have batches of these sizes in turn.
const BATCHES: [usize; 3] = [8, 6, 10];
const STEPS: u64 = 60;

/// Whether a constant of the encoder is trained: those of its last two layers.
fn is_trained(name: &str) -> bool {
    name.contains("encoder.layer.4.") || name.contains("encoder.layer.5.")
}

/// The logit that a sentence praises, `[B]`, from its vector.
fn head(network: &Network, output: &str) -> Var {
    let Some(vectors) = network.model_output(output) else {
        unreachable!("the output's name is the model's")
    };
    network
        .linear("classifier", &vectors, WIDTH, 1)
        .squeeze(&[1])
}

fn main() -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let folder = models().join("minilm");
    let vocabulary = Vocabulary::load(&folder.join("tokenizer.json"))
        .map_err(|error| format!("{error}; run `cargo xtask models`"))?;
    let vocabulary = Arc::new(vocabulary);
    let options = Options::new().device(Device::cpu());
    let encoder = Options::new()
        .device(Device::interpreter())
        .load(folder.join("model.onnx"))?;
    let names: Vec<String> = encoder
        .inputs()
        .iter()
        .map(|input| input.name().to_owned())
        .collect();
    let trainer = || trainer(&encoder, &options);
    let mut trained = trainer()?;
    let n_trained = trained.parameters().count();
    let predictor = Predictor::new("judge", &trained)
        .model(&encoder.graph()?)?
        .options(options.clone())
        .build(|network, _| vec![("logits", head(network, &output_of(&encoder)))])?;

    let before = accuracy(&predictor, &trained, &vocabulary, &names)?;
    let bar = ProgressBar::new(STEPS);
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, {elapsed}, {msg}",
    )?);
    let sentences = training(Arc::clone(&vocabulary), names.clone());
    let loader = Loader::of_sizes(sentences, &BATCHES)?.shuffled(1).ahead(1);
    let mut last = f64::NAN;
    let batches = (0..).flat_map(|epoch| loader.epoch(epoch));
    for (step, batch) in (0..STEPS).zip(batches) {
        let rate = schedules::cosine(2e-4, step, 5, STEPS);
        last = trained.step_at(rate, &batch?)?;
        bar.set_message(format!("loss {last:.3}"));
        bar.inc(1);
    }
    bar.finish();

    let after = accuracy(&predictor, &trained, &vocabulary, &names)?;
    let path = std::env::temp_dir().join(format!("kiln-judge-{}.safetensors", std::process::id()));
    trained.save(&path)?;
    let mut reloaded = trainer()?;
    reloaded.load(&path)?;
    std::fs::remove_file(&path)?;
    let again = accuracy(&predictor, &reloaded, &vocabulary, &names)?;
    println!("{n_trained} parameters trained; loss of the last step: {last:.3}");
    println!(
        "right of {} new sentences: {before} before, {after} after, {again} reloaded",
        TEST.len()
    );
    println!("{:.1} s in all", begin.elapsed().as_secs_f64());
    match after + 1 >= TEST.len() && again == after {
        true => Ok(()),
        false => Err("expected at most one wrong judgement, the same after reloading".into()),
    }
}

fn trainer(encoder: &Model, options: &Options) -> Result<Trainer, Box<dyn Error>> {
    let trainer = Trainer::new("fine_tune", AdamW::default())
        .seed(1)
        .clip_norm(1.0)
        .model(&encoder.graph()?, is_trained)?
        .input("praises", DType::F32, ["B".into()])
        .options(options.clone())
        .build(|network, inputs| {
            let logits = head(network, &output_of(encoder));
            losses::binary_cross_entropy(&logits, &inputs[0])
        })?;
    Ok(trainer)
}

/// The name of the sentences' vectors, the encoder's first output.
fn output_of(encoder: &Model) -> String {
    encoder.outputs()[0].name().to_owned()
}

/// The sentences to learn from, with `praises: f32[batch]`.
fn training(vocabulary: Arc<Vocabulary>, names: Vec<String>) -> impl Dataset<Batch = Batch> {
    let sentence = |index: usize| Ok(TRAINING[index]);
    Samples::new(
        TRAINING.len(),
        sentence,
        move |chosen: Vec<(&str, bool)>| {
            let mut inputs = encoded(&chosen, &vocabulary, &names)?;
            let praises = chosen
                .iter()
                .map(|&(_, praises)| f32::from(u8::from(praises)));
            let praises = Tensor::from_vec(&[chosen.len()], praises.collect())?;
            inputs.push(("praises".to_owned(), praises));
            Ok(Batch::new(inputs))
        },
    )
}

/// The encoder's inputs for sentences, padded to the longest: ids, types and masks by their names.
fn encoded(
    sentences: &[(&str, bool)],
    vocabulary: &Vocabulary,
    names: &[String],
) -> Result<Vec<(String, Tensor)>, TrainError> {
    let ids: Vec<Vec<i64>> = sentences
        .iter()
        .map(|(text, _)| vocabulary.encode(text))
        .collect();
    let (count, longest) = (ids.len(), ids.iter().map(Vec::len).max().unwrap_or(0));
    let padded = |value: &dyn Fn(i64) -> i64| -> Result<Tensor, TrainError> {
        let rows = ids.iter().flat_map(|row| {
            let filled = row.iter().map(|&id| value(id));
            filled.chain(std::iter::repeat_n(0, longest - row.len()))
        });
        Ok(Tensor::from_slice(
            &[count, longest],
            &rows.collect::<Vec<i64>>(),
        )?)
    };
    let mut inputs = Vec::new();
    for name in names {
        let tensor = match name.as_str() {
            name if name.contains("mask") => padded(&|_| 1)?,
            name if name.contains("type") => padded(&|_| 0)?,
            _ => padded(&|id| id)?,
        };
        inputs.push((name.clone(), tensor));
    }
    Ok(inputs)
}

/// How many test sentences are judged right.
fn accuracy(
    predictor: &Predictor,
    trainer: &Trainer,
    vocabulary: &Vocabulary,
    names: &[String],
) -> Result<usize, Box<dyn Error>> {
    let inputs = encoded(TEST, vocabulary, names)?;
    let given = inputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let outputs = predictor.run(trainer, given)?;
    let logits = outputs.get("logits")?.to_vec::<f32>()?;
    let judged = logits.iter().zip(TEST);
    Ok(judged
        .filter(|(logit, (_, praises))| (**logit > 0.0) == *praises)
        .count())
}

/// The folder that `cargo xtask models` fills.
fn models() -> PathBuf {
    std::env::var_os("KILN_MODELS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models")),
        PathBuf::from,
    )
}
