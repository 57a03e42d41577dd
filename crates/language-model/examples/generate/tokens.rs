//! Text as tokens: a byte-level BPE tokeniser, trained on the book.

use std::error::Error;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{DecoderWrapper, ModelWrapper, Tokenizer};

/// Chapters to train on.
const TEXTS: [&str; 4] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../ARCHITECTURE.md"),
    include_str!("../../../../docs/book/src/guide/sessions.md"),
    include_str!("../../../../docs/book/src/internals/how-a-kernel-becomes-machine-code.md"),
];

/// The tokens of its vocabulary, at most.
const VOCABULARY: usize = 4096;

type AnyError = Box<dyn Error>;

/// A tokeniser of the book's language.
pub(crate) fn trained() -> Result<Tokenizer, AnyError> {
    let mut tokenizer = Tokenizer::new(ModelWrapper::BPE(BPE::default()));
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    tokenizer.with_decoder(Some(DecoderWrapper::ByteLevel(ByteLevel::default())));
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(VOCABULARY)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect());
    let mut trainer = TrainerWrapper::BpeTrainer(trainer.build());
    let lines = TEXTS.iter().flat_map(|text| text.lines());
    tokenizer.train(&mut trainer, lines).map_err(plain)?;
    Ok(tokenizer)
}

/// The tokens of a text.
pub(crate) fn encoded(tokenizer: &Tokenizer, text: &str) -> Result<Vec<i64>, AnyError> {
    let encoding = tokenizer.encode(text, false).map_err(plain)?;
    Ok(encoding.get_ids().iter().map(|&id| i64::from(id)).collect())
}

/// The tokeniser's errors are shared between threads, ours are not.
fn plain(error: Box<dyn Error + Send + Sync>) -> AnyError {
    error.to_string().into()
}
