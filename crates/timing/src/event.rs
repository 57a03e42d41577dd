//! Names of events, and the handles that spans are opened with.

use std::sync::Arc;

use crate::category::Category;

/// A registered event of one recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventId {
    /// The number of the recorder.
    pub(crate) recorder: u32,
    /// Its position in the recorder's list.
    pub(crate) index: u32,
}

/// The events of one compiled function, which [`specialize_and_compile`](crate::Timing::specialize_and_compile) times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionEvents {
    /// `codegen_<function>`, of category codegen.
    pub codegen: EventId,
    /// `compile_<function>`, of category compile: its total is everything until the function can be launched.
    pub compile: EventId,
}

/// The registration of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventInfo {
    pub(crate) category: Category,
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
}
