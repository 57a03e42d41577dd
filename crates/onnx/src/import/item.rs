//! The meaning of a name of the model during import.
//!
//! The graph has only tensors. A sequence is represented by the list of its entries, and an optional by its content or
//! nothing: both are resolved when the model is imported, so the number of entries must be known then. The only
//! exception is entries appended by a loop whose trip count is data: they have the same size, and form one tensor.

use std::sync::Arc;

use kiln_ir::ValueId;
use smallvec::SmallVec;

use super::questions::Place;
use crate::NarrowType;

/// A tensor, or another value.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    /// A tensor.
    Tensor(ValueId),
    /// A tensor whose elements have the values of a narrow type, stored as a wider one.
    Narrow(ValueId, NarrowType),
    /// The entries of a sequence: each a tensor, narrow or not.
    Sequence(Arc<[Item]>),
    /// A sequence whose length comes from data: a tensor whose outermost axis counts the entries.
    Stacked(Stacked),
    /// An optional without content.
    Nothing,
}

/// A sequence whose length comes from data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stacked {
    pub(crate) value: ValueId,
    /// The place where operators that need the entries one by one may ask for its length.
    pub(super) place: Place,
}

impl Item {
    /// The tensor, regardless of its narrow type.
    pub(crate) fn value(&self) -> Option<ValueId> {
        match self {
            Self::Tensor(value) | Self::Narrow(value, _) => Some(*value),
            Self::Sequence(_) | Self::Stacked(_) | Self::Nothing => None,
        }
    }

    /// Its kind, for messages.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Tensor(_) => "a tensor".to_owned(),
            Self::Narrow(_, narrow) => format!("a tensor of {narrow}"),
            Self::Sequence(entries) => format!("a sequence of {} entries", entries.len()),
            Self::Stacked(_) => "a sequence whose length depends on data".to_owned(),
            Self::Nothing => "an empty optional".to_owned(),
        }
    }

    /// Its tensors, in order.
    pub(crate) fn values(&self) -> SmallVec<[ValueId; 1]> {
        match self {
            Self::Sequence(entries) => entries.iter().filter_map(Item::value).collect(),
            Self::Stacked(stacked) => std::iter::once(stacked.value).collect(),
            other => other.value().into_iter().collect(),
        }
    }

    /// The same item with other tensors, taken in order from `values`.
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

    /// Whether both have the same form: the same kind and number of entries.
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
