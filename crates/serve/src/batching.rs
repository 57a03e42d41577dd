//! Request batching along a symbol: whether a model allows it ([`BatchPlan`]), and how it is done ([`join`],
//! [`split`]).
//!
//! Requests are joined by concatenating their inputs along the axis with that symbol; nothing is padded, so all other
//! sizes of the joined requests are equal.

mod axes;
mod independence;
mod join;
mod parts;
mod rules;

pub(crate) use axes::BatchPlan;
pub(crate) use join::{Group, join, split};
pub(crate) use parts::Refusal;

#[cfg(test)]
mod tests;
