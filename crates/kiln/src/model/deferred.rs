//! A graph that is interpreted at first and compiles itself after a number of calls.
//!
//! Each graph counts its own calls, so where the graph depends on the ranks of inputs, a new rank is interpreted until
//! it has been called as often. A graph that cannot be compiled stays interpreted, with a notice.

use super::executable::Compiled;
use crate::error::Error;
use crate::notice::Notice;
use crate::options::Options;
use kiln_fork_lock::ForkCell;
use kiln_ir::Graph;
use std::sync::atomic::{AtomicU64, Ordering};

/// The state of such a graph.
pub(crate) struct Deferred {
    /// The number of calls that are interpreted.
    after: u64,
    calls: AtomicU64,
    /// `None` if it cannot be compiled.
    compiled: ForkCell<Option<Box<Compiled>>>,
}

impl Deferred {
    /// Not called yet.
    pub(super) fn new(after: u64) -> Self {
        Self {
            after,
            calls: AtomicU64::new(0),
            compiled: ForkCell::new(),
        }
    }

    /// The program, once it is compiled.
    pub(super) fn compiled(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_deref()
    }

    /// Counts a call; returns the program if there were enough calls.
    pub(super) fn call(
        &self,
        graph: &Graph,
        options: &Options,
    ) -> Result<Option<&Compiled>, Error> {
        if self.calls.fetch_add(1, Ordering::Relaxed) < self.after {
            return Ok(None);
        }
        let compiled =
            self.compiled
                .get_or_try_init(|| match Compiled::build(graph, 0, None, options) {
                    Ok(compiled) => Ok(Some(Box::new(compiled))),
                    Err(error) if error.kind() == crate::error::ErrorKind::Unsupported => {
                        let reason = error.to_string();
                        let notice = Notice::NotCompilable { reason };
                        options.observation.on_notice.notify(&notice);
                        Ok(None)
                    }
                    Err(error) => Err(error),
                });
        Ok(compiled?.as_deref())
    }
}
