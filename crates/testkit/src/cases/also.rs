//! `also`: the same program with words replaced.

/// Words of a program, and their replacements, one list per alternative.
#[derive(Clone, Debug)]
pub(super) struct Also {
    words: Vec<String>,
    alternatives: Vec<Vec<String>>,
}

impl Also {
    /// Reads `a & b -> c & d | e & f`.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let list = |text: &str| -> Vec<String> {
            text.split(" & ")
                .map(|word| word.trim().to_owned())
                .collect()
        };
        let Some((words, alternatives)) = text.split_once(" -> ") else {
            return Err(format!("expected `words -> words | words`, found `{text}`"));
        };
        let words = list(words);
        let alternatives: Vec<_> = alternatives.split(" | ").map(list).collect();
        for alternative in &alternatives {
            if alternative.len() != words.len() {
                let (expected, found) = (words.len(), alternative.len());
                return Err(format!(
                    "expected {expected} words in each alternative, found {found}"
                ));
            }
        }
        Ok(Self {
            words,
            alternatives,
        })
    }

    /// A program with each alternative; `None` if it does not have all of the words.
    pub(super) fn texts(&self, program: &str) -> Vec<String> {
        let is_there = |word: &String| {
            replaced(program, std::slice::from_ref(word), &[String::new()]) != *program
        };
        if !self.words.iter().all(is_there) {
            return Vec::new();
        }
        let with = |alternative: &Vec<String>| replaced(program, &self.words, alternative);
        self.alternatives.iter().map(with).collect()
    }
}

/// A text whose words are replaced by others, all at once.
fn replaced(text: &str, words: &[String], others: &[String]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let before = replaced.chars().next_back();
        let found = words
            .iter()
            .zip(others)
            .find(|(word, _)| stands_at(rest, before, word));
        match found {
            Some((word, other)) => {
                replaced.push_str(other);
                rest = &rest[word.len()..];
            }
            None => {
                replaced.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    replaced
}

/// Whether a text begins with a whole word, rather than with part of a longer one.
fn stands_at(text: &str, before: Option<char>, word: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let Some(after) = text.strip_prefix(word) else {
        return false;
    };
    let joins = |left: Option<char>, right: Option<char>| {
        left.is_some_and(is_letter) && right.is_some_and(is_letter)
    };
    !word.is_empty()
        && !joins(before, word.chars().next())
        && !joins(word.chars().next_back(), after.chars().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_whole_and_at_once() {
        let also = Also::read("f32 & add -> f64 & max | i8 & f32").unwrap();
        let texts = also.texts("add f32 f321 _f32 %f32 add");
        let expected = ["max f64 f321 _f32 %f64 max", "f32 i8 f321 _f32 %i8 f32"];
        assert_eq!(texts, expected);
        let phrase = Also::read("%a[i] + 1 -> %a[i] - 1").unwrap();
        assert_eq!(phrase.texts("= %a[i] + 1"), ["= %a[i] - 1"]);
    }

    #[test]
    fn words_that_are_not_there_give_nothing_and_lists_of_other_lengths_are_errors() {
        assert!(Also::read("f32 -> f64").unwrap().texts("i32").is_empty());
        assert!(Also::read("f32 & add -> f64").is_err());
        assert!(Also::read("f32, f64").is_err());
    }
}
