//! A model with its caches, and the number of tokens in them.

use super::roles::{Integers, Length, Roles, not_a_decoder};
use crate::error::{Error, Failure};
use crate::model::Model;
use crate::session::Session;
use kiln_tensor::{DType, Tensor};

/// The initial number of entries of a cache that may grow.
const FIRST_ENTRIES: usize = 64;

/// A decoder: a session whose states are the caches of one conversation, or of several of the same model at once.
///
/// Inputs and outputs are recognised by their names, those of optimum and onnxruntime's model builder among them; the
/// book's chapter on decoding lists them. Caches that the model updates in place are small at first, and grow
/// geometrically up to the capacity.
#[derive(Debug)]
pub struct Decoder {
    session: Session,
    roles: Roles,
    /// The number of tokens of each conversation in the caches.
    lengths: Vec<usize>,
    capacity: usize,
    /// The last generated token, which has not been fed to the model yet.
    owed: Option<i64>,
}

impl Decoder {
    /// A decoder of one conversation of at most `capacity` tokens; fewer if the model's caches are smaller.
    ///
    /// # Errors
    /// `E0878` when inputs and outputs are not recognised, or caches do not fit together. When memory cannot be
    /// allocated.
    pub fn new(model: &Model, capacity: usize) -> Result<Self, Error> {
        Self::of_several(model, 1, capacity)
    }

    /// A decoder for several conversations at once, each with its own length, of at most `capacity` tokens.
    ///
    /// # Errors
    /// As [`new`](Self::new); `E0878` when the model takes one conversation.
    pub fn of_several(model: &Model, conversations: usize, capacity: usize) -> Result<Self, Error> {
        let roles = Roles::of(model)?;
        if conversations != 1 && (roles.tokens.rank != 2 || roles.at.is_some()) {
            let found = format!("`{}` of rank {}", roles.tokens.name, roles.tokens.rank);
            return Err(not_a_decoder(
                "tokens of rank 2, and no position common to all",
                found,
            ));
        }
        let mut builder = model.session();
        let mut capacity = capacity;
        let mut open: Option<&str> = None;
        for cache in &roles.caches {
            let mut sizes: Vec<usize> = cache
                .sizes
                .iter()
                .map(|size| size.unwrap_or(conversations))
                .collect();
            let axis = sizes.len() - 2;
            match &cache.length {
                Length::Fixed(length) => capacity = capacity.min(*length),
                Length::Grows => sizes[axis] = 0,
                Length::Open(name) => {
                    if open.is_some_and(|other| other != name) {
                        let found = format!("`{}` of another length", cache.input);
                        return Err(not_a_decoder("caches of one length", found));
                    }
                    open = Some(name);
                    sizes[axis] = FIRST_ENTRIES.min(capacity);
                }
            }
            let empty = Tensor::zeros(cache.dtype, &sizes)?;
            builder = builder.state(&cache.input, &cache.output, empty);
        }
        if let Some(name) = open {
            builder = builder.grows(name, capacity);
        }
        Ok(Self {
            session: builder.build()?,
            lengths: vec![0; conversations],
            roles,
            capacity,
            owed: None,
        })
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The number of tokens of each conversation in the caches.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The maximum number of tokens of a conversation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Another decoder that continues from here, as [`Session::fork`].
    ///
    /// # Errors
    /// `E0876` if a failed call left the caches undefined.
    pub fn fork(&self) -> Result<Self, Error> {
        Ok(Self {
            session: self.session.fork()?,
            roles: self.roles.clone(),
            lengths: self.lengths.clone(),
            capacity: self.capacity,
            owed: self.owed,
        })
    }

    /// Truncates each conversation to its first `length` tokens. The entries of later tokens stay in the caches until
    /// they are overwritten, and are masked.
    ///
    /// # Errors
    /// `E0878` when the caches grow with each token, so that they cannot be truncated.
    pub fn rewind(&mut self, length: usize) -> Result<(), Error> {
        let grows = self
            .roles
            .caches
            .iter()
            .find(|cache| cache.length == Length::Grows);
        if let Some(cache) = grows {
            let found = format!("`{}`, which grows with every call", cache.input);
            return Err(not_a_decoder("caches of a capacity", found));
        }
        if self.lengths.iter().any(|&own| own > length) {
            self.owed = None;
        }
        self.lengths
            .iter_mut()
            .for_each(|own| *own = length.min(*own));
        Ok(())
    }

    /// Adds tokens to the only conversation, and returns the logits of the next token, `f32[1, V]`.
    ///
    /// # Errors
    /// `E0879` for more tokens than the capacity; `E0878` for several conversations, or if there are no tokens. As
    /// [`Session::run`].
    pub fn feed(&mut self, tokens: &[i64]) -> Result<Tensor, Error> {
        let mut all: Vec<i64> = self.owed.into_iter().collect();
        all.extend(tokens);
        let logits = self.feed_all(&[&all])?;
        self.owed = None;
        Ok(logits)
    }

    /// Adds tokens to every conversation, and returns the logits of each one's next token, `f32[B, V]`. The numbers of
    /// tokens may differ only if no conversation has tokens yet.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_all(&mut self, tokens: &[&[i64]]) -> Result<Tensor, Error> {
        let new = tokens.iter().map(|row| row.len()).max().unwrap_or(0);
        self.check(tokens, new)?;
        let after: Vec<usize> = self
            .lengths
            .iter()
            .zip(tokens)
            .map(|(own, row)| own + row.len())
            .collect();
        let longest = self.lengths.iter().max().map_or(0, |own| own + new);
        if longest > self.capacity {
            return Err(Failure::Capacity {
                axis: "tokens".to_owned(),
                given: longest,
                limit: self.capacity,
            }
            .into());
        }
        let total = self.room(longest)?;
        let inputs = self.inputs(tokens, new, total, &after)?;
        let inputs: Vec<(&str, &Tensor)> = inputs
            .iter()
            .map(|(name, tensor)| (name.as_str(), tensor))
            .collect();
        let outputs = self.session.run(inputs)?;
        let logits = outputs.get("logits")?.clone();
        self.lengths = after;
        last_rows(&logits, tokens, new)
    }

    /// A token that was generated but not yet fed.
    pub(super) fn owe(&mut self, token: i64) {
        self.owed = Some(token);
    }

    fn check(&self, tokens: &[&[i64]], new: usize) -> Result<(), Error> {
        let is_fresh = self.lengths.iter().all(|&own| own == 0);
        let is_even = tokens.iter().all(|row| row.len() == new);
        let has_all = tokens.iter().all(|row| !row.is_empty());
        if tokens.len() == self.lengths.len() && has_all && (is_even || is_fresh) {
            return Ok(());
        }
        let numbers: Vec<usize> = tokens.iter().map(|row| row.len()).collect();
        let expected = "tokens for each conversation, as many for each once there are some";
        Err(not_a_decoder(
            expected,
            format!(
                "{numbers:?} tokens for {} conversations",
                self.lengths.len()
            ),
        ))
    }

    /// Makes room for this many tokens, and returns the size of a mask of the caches.
    fn room(&mut self, longest: usize) -> Result<usize, Error> {
        let Some(cache) = self.roles.caches.first() else {
            return Ok(longest);
        };
        let entries = match &cache.length {
            Length::Fixed(length) => *length,
            Length::Grows => longest,
            Length::Open(_) => self.session.reserve(longest)?,
        };
        let mask = self.roles.mask.as_ref();
        Ok(mask.map_or(entries, |mask| {
            mask.positions(&cache.length, entries, longest)
        }))
    }

    fn inputs(
        &self,
        tokens: &[&[i64]],
        new: usize,
        total: usize,
        after: &[usize],
    ) -> Result<Vec<(String, Tensor)>, Error> {
        let rows = tokens.len();
        let roles = &self.roles;
        let padded = tokens.iter().flat_map(|row| {
            let padding = std::iter::repeat_n(0, new - row.len());
            row.iter().copied().chain(padding)
        });
        let mut inputs = vec![(
            roles.tokens.name.clone(),
            integers(&roles.tokens, &[rows, new], padded.collect())?,
        )];
        if let Some(at) = &roles.at {
            let first: Vec<i64> = self.lengths.iter().map(|&own| own as i64).collect();
            inputs.push((at.name.clone(), integers(at, &[rows], first)?));
        }
        if let Some(positions) = &roles.positions {
            let positions_of = |own: &usize| (*own..own + new).map(|position| position as i64);
            let numbers = self.lengths.iter().flat_map(positions_of).collect();
            inputs.push((
                positions.name.clone(),
                integers(positions, &[rows, new], numbers)?,
            ));
        }
        if let Some(mask) = &roles.mask {
            let row = |own: &usize| {
                let own = *own;
                (0..total).map(move |position| i64::from(position < own))
            };
            inputs.push((
                mask.input.name.clone(),
                integers(
                    &mask.input,
                    &[rows, total],
                    after.iter().flat_map(row).collect(),
                )?,
            ));
        }
        Ok(inputs)
    }
}

/// Integers in the form that an input takes; of rank 1 if it has no axis of conversations.
fn integers(input: &Integers, shape: &[usize], numbers: Vec<i64>) -> Result<Tensor, Error> {
    let shape: Vec<usize> = match input.rank {
        1 => vec![numbers.len()],
        _ => shape.to_vec(),
    };
    if input.dtype == DType::I32 {
        let narrow: Vec<i32> = numbers.iter().map(|&number| number as i32).collect();
        return Ok(Tensor::from_vec(&shape, narrow)?);
    }
    Ok(Tensor::from_vec(&shape, numbers)?)
}

/// The logits of the last token of each conversation, `f32[B, V]`, selected from those of every token, or of only the
/// last ones.
fn last_rows(logits: &Tensor, tokens: &[&[i64]], new: usize) -> Result<Tensor, Error> {
    let rows = tokens.len();
    let size = logits.shape().last().copied().unwrap_or(1);
    let has_all = logits.len() == rows * new * size;
    let flat = logits.reshape(&[logits.len() / size.max(1), size])?;
    if !has_all || new == 1 {
        return to_f32(&flat);
    }
    let mut last = Vec::with_capacity(rows);
    for (row, tokens) in tokens.iter().enumerate() {
        last.push(flat.narrow(0, row * new + tokens.len() - 1, 1)?);
    }
    let last: Vec<&Tensor> = last.iter().collect();
    to_f32(&Tensor::concat(&last, 0)?)
}

fn to_f32(logits: &Tensor) -> Result<Tensor, Error> {
    if logits.dtype() == DType::F32 {
        return Ok(logits.clone());
    }
    let numbers = logits.to_f64_vec()?.into_iter().map(|number| number as f32);
    Ok(Tensor::from_vec(logits.shape(), numbers.collect())?)
}
