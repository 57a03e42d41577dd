//! Finds the sentences of this project's book that are closest in meaning to a question: a sentence encoder (all-MiniLM-L6-v2)
//! gives each sentence a vector, and a function compiled by `jit` finds the nearest.
//!
//! ```sh
//! cargo xtask models
//! cargo run --release -p kiln-language-model --example sentence_search -- "why is the first call slow"
//! ```
//!
//! Sentences are encoded in batches of one length each, or nearly: every size is another, and one compiled program serves all.

#![allow(clippy::print_stdout, reason = "an example prints what it finds")]

mod corpus;
mod encoder;

use corpus::Sentence;
use encoder::Encoder;
use kiln::{Device, Options, Tensor, Var, jit};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// How many sentences are shown for a question.
const SHOWN: usize = 3;

/// Questions, where none is given.
const QUESTIONS: [&str; 3] = [
    "why is the first call slow?",
    "run a model on a machine without LLVM",
    "share compiled code between servers",
];

fn main() -> ExitCode {
    let question = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let questions = match question.is_empty() {
        true => QUESTIONS.map(str::to_owned).to_vec(),
        false => vec![question],
    };
    match search(&questions) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}; `cargo xtask models` fetches the model");
            ExitCode::FAILURE
        }
    }
}

fn search(questions: &[String]) -> Result<(), Box<dyn Error>> {
    // Debug builds would interpret.
    let options = Options::new().device(Device::cpu());
    let encoder = Encoder::load(&models().join("minilm"), &options)?;
    let sentences = corpus::sentences();
    let begin = Instant::now();
    let texts: Vec<&str> = sentences.iter().map(|sentence| &*sentence.text).collect();
    let vectors = encoder.vectors(&texts)?;
    println!(
        "{} sentences in {:.1} s, compiling included; {} kernels for every batch and length\n",
        sentences.len(),
        begin.elapsed().as_secs_f64(),
        encoder.n_kernels(),
    );
    // Of unit vectors the product is the cosine of the angle between them.
    let nearest = jit(|vectors: Var, question: Var| {
        let scores = question.matmul(vectors.transpose());
        scores.top_k(SHOWN, 1)
    })
    .with_options(options);
    for question in questions {
        let asked = encoder.vectors(&[question])?;
        let (scores, positions) = nearest.call([&vectors, &asked])?;
        show(question, &sentences, &scores, &positions)?;
    }
    Ok(())
}

fn show(
    question: &str,
    sentences: &[Sentence],
    scores: &Tensor,
    positions: &Tensor,
) -> Result<(), Box<dyn Error>> {
    println!("{question}");
    let found = scores
        .to_vec::<f32>()?
        .into_iter()
        .zip(positions.to_vec::<i64>()?);
    for (score, position) in found {
        let Sentence { text, page } = &sentences[usize::try_from(position)?];
        println!("  {score:.2}  {text}  ({page})");
    }
    println!();
    Ok(())
}

/// The folder that `cargo xtask models` fills.
fn models() -> PathBuf {
    std::env::var_os("KILN_MODELS").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../models")),
        PathBuf::from,
    )
}
