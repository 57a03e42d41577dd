//! WordPiece, as far as plain English needs it: lower case, split at spaces and punctuation, the longest pieces first.

use serde_json::Value;
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

/// The pieces of a vocabulary and their numbers.
pub(crate) struct Vocabulary(HashMap<String, i64>);

impl Vocabulary {
    /// Reads a `tokenizer.json`.
    pub(crate) fn load(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = std::fs::read_to_string(path)?;
        let file: Value = serde_json::from_str(&text)?;
        let vocabulary = file["model"]["vocab"].as_object();
        let vocabulary = vocabulary.ok_or("expected a vocabulary in the tokenizer, found none")?;
        let number = |(piece, number): (&String, &Value)| Some((piece.clone(), number.as_i64()?));
        Ok(Self(vocabulary.iter().filter_map(number).collect()))
    }

    /// The numbers of a sentence's pieces, between the marks of its begin and end.
    pub(crate) fn encode(&self, sentence: &str) -> Vec<i64> {
        let special = |name: &str| self.0.get(name).copied().unwrap_or(0);
        let mut ids = vec![special("[CLS]")];
        let lower = sentence.to_lowercase();
        for part in lower.split_inclusive(|c: char| !c.is_alphanumeric()) {
            let (word, mark) = match part.char_indices().next_back() {
                Some((at, mark)) if !mark.is_alphanumeric() => (&part[..at], &part[at..]),
                _ => (part, ""),
            };
            for word in [word, mark.trim()] {
                ids.extend(self.pieces(word).unwrap_or_else(|| vec![special("[UNK]")]));
            }
        }
        ids.push(special("[SEP]"));
        ids
    }

    /// The longest pieces of a word from its begin on; `None` where there is none.
    fn pieces(&self, word: &str) -> Option<Vec<i64>> {
        let (mut ids, mut start) = (Vec::new(), 0);
        while start < word.len() {
            let ends = (start + 1..=word.len()).rev();
            let mut ends = ends.filter(|&end| word.is_char_boundary(end));
            let (end, id) = ends.find_map(|end| {
                let piece = match start {
                    0 => word[..end].to_owned(),
                    _ => format!("##{}", &word[start..end]),
                };
                Some((end, *self.0.get(&piece)?))
            })?;
            ids.push(id);
            start = end;
        }
        Some(ids)
    }
}
