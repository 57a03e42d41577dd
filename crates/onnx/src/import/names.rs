//! The values of names, region by region.
//!
//! A region has entries for its captures, because the graph's regions are isolated.

use std::collections::HashMap;

use super::item::Item;
use kiln_ir::ValueId;

/// The meaning of a name.
#[derive(Clone, Debug)]
pub(crate) enum Binding {
    /// A value.
    Value(Item),
    /// A result that its operator's importer does not produce; the node's path.
    Missing(String),
}

/// The names of one region.
#[derive(Debug, Default)]
pub(crate) struct Names(HashMap<String, Binding>);

impl Names {
    pub(crate) fn get(&self, name: &str) -> Option<&Binding> {
        self.0.get(name)
    }

    /// The tensor of a name, if it has one.
    pub(crate) fn value(&self, name: &str) -> Option<ValueId> {
        match self.get(name) {
            Some(Binding::Value(item)) => item.value(),
            _ => None,
        }
    }

    /// Binds a name; false when it was bound already.
    pub(crate) fn bind(&mut self, name: &str, binding: Binding) -> bool {
        self.0.insert(name.to_owned(), binding).is_none()
    }
}
