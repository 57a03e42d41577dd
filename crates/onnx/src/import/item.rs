//! The meaning of a name of the model during import.
//!
//! The graph has tensors alone. A sequence is here the list of its entries, and an optional is its content or nothing:
//! both are resolved when the model is imported, so how many entries there are must be known then. The one exception is what a
//! loop appended, as often as data say: entries of one size, which are a tensor together.

use std::sync::Arc;

use kiln_ir::ValueId;
use smallvec::SmallVec;

use super::questions::Place;
use crate::NarrowType;

/// A tensor, or a value that is none.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A tensor.
    Tensor(ValueId),
    /// A tensor whose elements have the values of a narrow type, kept as a wider one.
    Narrow(ValueId, NarrowType),
    /// The entries of a sequence: each a tensor, narrow or not.
    Sequence(Arc<[Item]>),
    /// A sequence as long as data say: a tensor whose outermost axis counts the entries.
    Stacked(Stacked),
    /// An optional without content.
    Nothing,
}

/// A sequence as long as data say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacked {
    pub(crate) value: ValueId,
    /// Where its length may be asked for, by what needs the entries one by one.
    pub(super) place: Place,
}

impl Item {
    /// The tensor, whatever type its elements stand for.
    pub(crate) fn value(&self) -> Option<ValueId> {
        match self {
            Self::Tensor(value) | Self::Narrow(value, _) => Some(*value),
            Self::Sequence(_) | Self::Stacked(_) | Self::Nothing => None,
        }
    }

    /// What it is, for messages.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Tensor(_) => "a tensor".to_owned(),
            Self::Narrow(_, narrow) => format!("a tensor of {narrow}"),
            Self::Sequence(entries) => format!("a sequence of {} entries", entries.len()),
            Self::Stacked(_) => "a sequence as long as data say".to_owned(),
            Self::Nothing => "an optional without content".to_owned(),
        }
    }

    /// The tensors in it, in order.
    pub(crate) fn values(&self) -> SmallVec<[ValueId; 1]> {
        match self {
            Self::Sequence(entries) => entries.iter().filter_map(Item::value).collect(),
            Self::Stacked(stacked) => std::iter::once(stacked.value).collect(),
            other => other.value().into_iter().collect(),
        }
    }

    /// The same with other tensors, taken in order from `values`, in their places.
    pub(crate) fn with_values(&self, values: &mut impl Iterator<Item = ValueId>) -> Self {
        match self {
            Self::Tensor(old) => Self::Tensor(values.next().unwrap_or(*old)),
            Self::Narrow(old, narrow) => Self::Narrow(values.next().unwrap_or(*old), *narrow),
            Self::Sequence(entries) => {
                // Entries are tensors, so this goes no deeper.
                let entries = entries.iter().map(|entry| match entry {
                    Self::Narrow(old, narrow) => {
                        Self::Narrow(values.next().unwrap_or(*old), *narrow)
                    }
                    Self::Tensor(old) => Self::Tensor(values.next().unwrap_or(*old)),
                    other => other.clone(),
                });
                Self::Sequence(entries.collect())
            }
            Self::Stacked(old) => Self::Stacked(Stacked {
                value: values.next().unwrap_or(old.value),
                ..*old
            }),
            Self::Nothing => Self::Nothing,
        }
    }

    /// Whether both have the same form: the same kind, and as many entries.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tensor(_), Self::Tensor(_))
            | (Self::Stacked(_), Self::Stacked(_))
            | (Self::Nothing, Self::Nothing) => true,
            (Self::Narrow(_, one), Self::Narrow(_, other)) => one == other,
            (Self::Sequence(one), Self::Sequence(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other.iter()).all(|pair| match pair {
                        (Self::Narrow(_, one), Self::Narrow(_, other)) => one == other,
                        (Self::Tensor(_), Self::Tensor(_)) => true,
                        _ => false,
                    })
            }
            _ => false,
        }
    }
}

impl From<ValueId> for Item {
    fn from(value: ValueId) -> Self {
        Self::Tensor(value)
    }
}
