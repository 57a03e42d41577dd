//! Which inputs and outputs of a model are tokens, positions, masks, caches and logits, by their names.
//!
//! | role | names |
//! |---|---|
//! | tokens | `input_ids`, `tokens`: `int[T]` or `int[B, T]` |
//! | position of the first | `at`: `i64[1]` |
//! | positions | `position_ids`: `int[B, T]` |
//! | mask | `attention_mask`: `int[B, total]` or `int[total]` |
//! | caches | `past_key_values.X` and `present.X`, `past_X` and `present_X`, `cache.X` and `next.cache.X`: `[.., length, size]` |
//! | logits | `logits`: `f32[.., V]`, of every token or the last |

use crate::description::ValueDescription;
use crate::error::{Error, Failure};
use crate::model::Model;
use kiln_tensor::DType;

/// The maximum number of mask sizes from one power of two to the next.
const STEPS_PER_DOUBLING: usize = 4;

/// The minimum difference between two mask sizes.
const LEAST_STEP: usize = 64;

/// The roles of a model's inputs and outputs, by name.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    pub(super) tokens: Integers,
    pub(super) at: Option<Integers>,
    pub(super) positions: Option<Integers>,
    pub(super) mask: Option<Mask>,
    pub(super) caches: Vec<Cache>,
}

/// An input of integers.
#[derive(Clone, Debug)]
pub(super) struct Integers {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) rank: usize,
}

/// A mask of the positions of caches.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    pub(super) input: Integers,
    /// The number of its positions; `None` if it is a symbol.
    size: Option<usize>,
    /// The model's name for the size.
    name: String,
}

impl Mask {
    fn of(value: &ValueDescription) -> Option<Self> {
        let size = value.shape()?.dimensions().last()?;
        Some(Self {
            input: integers(value)?,
            size: size.value().and_then(|size| usize::try_from(size).ok()),
            name: size.name().to_owned(),
        })
    }

    /// The number of its positions, for caches of `entries` entries of which `longest` are filled. If its size is
    /// independent of the caches', it is `longest` plus at most a quarter, or 64: attention then reads few unfilled
    /// entries, and calls have few different sizes.
    pub(super) fn positions(&self, cache: &Length, entries: usize, longest: usize) -> usize {
        let is_own = match cache {
            Length::Fixed(_) => true,
            Length::Open(name) => *name != self.name,
            Length::Grows => false,
        };
        match self.size {
            Some(size) => size,
            None if is_own => {
                let step = longest.next_power_of_two() / STEPS_PER_DOUBLING / 2;
                longest.next_multiple_of(step.max(LEAST_STEP)).min(entries)
            }
            None => entries,
        }
    }
}

/// A cache.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) input: String,
    pub(super) output: String,
    pub(super) dtype: DType,
    /// Its sizes; `None` for a symbol.
    pub(super) sizes: Vec<Option<usize>>,
    pub(super) length: Length,
}

/// The length of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Fixed by the model.
    Fixed(usize),
    /// Decided by its creator; the model's name for the size.
    Open(String),
    /// One entry for each token so far.
    Grows,
}

impl Roles {
    pub(super) fn of(model: &Model) -> Result<Self, Error> {
        let integers = |names: &[&str]| {
            let found = names.iter().find_map(|name| find(model.inputs(), name));
            found.and_then(integers)
        };
        let tokens =
            integers(&["input_ids", "tokens"]).filter(|tokens| [1, 2].contains(&tokens.rank));
        let Some(tokens) = tokens else {
            let expected = "tokens (`input_ids` or `tokens`, integers of rank 1 or 2)";
            return Err(not_a_decoder(expected, listed(model.inputs())));
        };
        if find(model.outputs(), "logits").is_none() {
            return Err(not_a_decoder("logits (`logits`)", listed(model.outputs())));
        }
        let caches = model
            .inputs()
            .iter()
            .filter_map(|input| cache(model, input));
        let caches: Vec<Cache> = caches.collect();
        if caches.is_empty() {
            let expected = "caches (such as `past_key_values.0.key` and `present.0.key`)";
            return Err(not_a_decoder(expected, listed(model.inputs())));
        }
        Ok(Self {
            tokens,
            at: integers(&["at"]),
            positions: integers(&["position_ids"]),
            mask: find(model.inputs(), "attention_mask").and_then(Mask::of),
            caches,
        })
    }
}

fn find<'a>(values: &'a [ValueDescription], name: &str) -> Option<&'a ValueDescription> {
    values.iter().find(|value| value.name() == name)
}

fn integers(value: &ValueDescription) -> Option<Integers> {
    let dtype = value
        .dtype()
        .filter(|dtype| [DType::I64, DType::I32].contains(dtype))?;
    Some(Integers {
        name: value.name().to_owned(),
        dtype,
        rank: value.shape()?.rank(),
    })
}

/// The input as a cache, if an output is its next value.
fn cache(model: &Model, input: &ValueDescription) -> Option<Cache> {
    let name = input.name();
    let renamed = |from: &str, to: &str| Some(format!("{to}{}", name.strip_prefix(from)?));
    let output = renamed("past_key_values.", "present.")
        .or_else(|| renamed("past_", "present_"))
        .or_else(|| renamed("cache.", "next.cache."))?;
    let next = find(model.outputs(), &output)?;
    let (shape, after) = (input.shape()?.dimensions(), next.shape()?.dimensions());
    let axis = shape.len().checked_sub(2)?;
    let own = &shape[axis];
    let length = match own.value() {
        Some(length) => Length::Fixed(usize::try_from(length).ok()?),
        None if after.get(axis)?.name() == own.name() => Length::Open(own.name().to_owned()),
        None => Length::Grows,
    };
    let sizes = shape.iter().map(|size| usize::try_from(size.value()?).ok());
    Some(Cache {
        input: name.to_owned(),
        output,
        dtype: input.dtype()?,
        sizes: sizes.collect(),
        length,
    })
}

fn listed(values: &[ValueDescription]) -> String {
    let values: Vec<String> = values.iter().map(ToString::to_string).collect();
    values.join(", ")
}

pub(super) fn not_a_decoder(expected: &'static str, found: String) -> Error {
    Failure::NotADecoder { expected, found }.into()
}
