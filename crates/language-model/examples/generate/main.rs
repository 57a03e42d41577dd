//! Generates text with a model of drawn weights, token by token: what a decoder does, and how fast it is. The text means
//! nothing, since nothing was trained.
//!
//! ```sh
//! cargo run --release -p kiln-language-model --example generate -- llama "In a hole in the ground"
//! cargo run --release -p kiln-language-model --example generate -- gpt2 "Once" --tokens 200 --precision int8-weights
//! ```
//!
//! The tokeniser is trained on the spot, on this project's book. The caches are states of a session: they begin small, grow
//! as the text does, and are written in place.

#![allow(clippy::print_stdout, reason = "an example prints text")]

mod arguments;
mod tokens;

use arguments::{Arguments, Kind};
use kiln::decode::{Decoder, Generation, Sampling};
use kiln::{Device, Model, Options, Source};
use kiln_language_model::{gpt2, llama};
use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Instant;

/// Tokens of a conversation.
const CAPACITY: usize = 2048;

fn main() -> ExitCode {
    let run = Arguments::read(std::env::args().skip(1)).map_err(Into::into);
    match run.and_then(|arguments| generate(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}\n{}", arguments::USAGE);
            ExitCode::FAILURE
        }
    }
}

fn generate(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let tokenizer = tokens::trained()?;
    let vocabulary = tokenizer.get_vocab_size(true);
    let model = model(arguments, vocabulary)?;
    let prompt = tokens::encoded(&tokenizer, &arguments.prompt)?;
    let mut decoder = Decoder::new(&model, CAPACITY)?;
    let sampling = Sampling::new()
        .temperature(0.8)
        .top_k(40)
        .top_p(0.95)
        .seed(arguments.seed);
    let generation = Generation::new(arguments.tokens).sampling(sampling);
    print!("{}", arguments.prompt);
    let start = Instant::now();
    let mut first = None;
    let mut stream = tokenizer.decode_stream(true);
    let tokens = decoder.generate(&prompt, &generation, |token| {
        first.get_or_insert_with(Instant::now);
        let piece = u32::try_from(token)
            .ok()
            .and_then(|token| stream.step(token).ok().flatten());
        print!("{}", piece.unwrap_or_default());
        // Text that cannot be shown is no reason to go on.
        match std::io::stdout().flush() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    let first = first.unwrap_or(start);
    let (prefill, decoding) = (first - start, first.elapsed());
    println!("\n");
    println!(
        "{} tokens of prompt to the first token: {prefill:.2?}, compiling included",
        prompt.len()
    );
    let rate = tokens.len().saturating_sub(1) as f64 / decoding.as_secs_f64();
    println!(
        "{} tokens after it: {rate:.1} tokens/s",
        tokens.len().saturating_sub(1)
    );
    Ok(())
}

/// The model, compiled as it is needed.
fn model(arguments: &Arguments, vocabulary: usize) -> Result<Model, Box<dyn Error>> {
    let graph = match arguments.kind {
        Kind::Llama => {
            let shape = llama::Shape {
                name: "example",
                width: 512,
                layers: 8,
                heads: 8,
                kv_heads: 2,
                hidden: 1408,
                vocabulary,
            };
            llama::graph(&shape, "C".into())?
        }
        Kind::Gpt2 => {
            let shape = gpt2::Shape {
                width: 512,
                layers: 8,
                heads: 8,
                positions: CAPACITY,
                vocabulary,
            };
            gpt2::graph(&shape, "C".into())?
        }
    };
    // Debug builds would interpret.
    let options = Options::new().device(Device::cpu());
    let options = match arguments.precision {
        Some(format) => options.precision(format),
        None => options,
    };
    Ok(options.load(Source::graph(graph))?)
}
