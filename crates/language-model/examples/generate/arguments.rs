//! What the example is asked for.

use kiln::Format;

/// How it is called.
pub(crate) const USAGE: &str =
    "usage: generate llama|gpt2 [PROMPT] [--tokens N] [--seed N] [--precision FORMAT]";

/// Which shape the model has.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Llama,
    Gpt2,
}

/// What is asked for.
pub(crate) struct Arguments {
    pub(crate) kind: Kind,
    pub(crate) prompt: String,
    pub(crate) tokens: usize,
    pub(crate) seed: u64,
    pub(crate) precision: Option<Format>,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let kind = match words.next().as_deref() {
            Some("llama") => Kind::Llama,
            Some("gpt2") => Kind::Gpt2,
            _ => return Err("expected the shape of a model, llama or gpt2".to_owned()),
        };
        let mut arguments = Self {
            kind,
            prompt: "A kernel is".to_owned(),
            tokens: 100,
            seed: 0,
            precision: None,
        };
        while let Some(word) = words.next() {
            if !word.starts_with("--") {
                arguments.prompt = word;
                continue;
            }
            let value = words
                .next()
                .ok_or_else(|| format!("expected a value after {word}"))?;
            let wrong = |_| format!("unknown value {value} of {word}");
            match word.as_str() {
                "--tokens" => arguments.tokens = value.parse().map_err(wrong)?,
                "--seed" => arguments.seed = value.parse().map_err(wrong)?,
                "--precision" => {
                    let format = value.parse::<Format>();
                    arguments.precision = Some(format.map_err(|error| error.to_string())?);
                }
                _ => return Err(format!("unknown option {word}")),
            }
        }
        Ok(arguments)
    }
}
