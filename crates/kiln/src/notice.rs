//! Notices that a model differs from what it declares, or runs differently than expected: no fallback is silent.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A notice about a model that loads nevertheless.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// This is a debug build, which interprets unless [`Options::device`](crate::Options::device) is set. Reported once per
    /// process.
    InterpretedInDebugBuild,
    /// The graph cannot be compiled.
    NotCompilable {
        /// Why it cannot be compiled.
        reason: String,
    },
    /// The model states types of values that its operators contradict or do not confirm, such as sizes that an exporter
    /// left behind. The types inferred from the operators are used; `kiln check` lists all differences.
    WrongTypes {
        /// The number of values.
        count: usize,
        /// The first such value, with the inferred type.
        first: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InterpretedInDebugBuild => f.write_str(
                "this is a debug build: models are interpreted; set `Options::device(Device::cpu())` to compile them",
            ),
            Self::NotCompilable { reason } => {
                write!(f, "the model is interpreted because it cannot be compiled: {reason}")
            }
            Self::WrongTypes { count, first } => {
                write!(f, "the model states types that its operators do not confirm, {count} in all; {first}")
            }
        }
    }
}

/// The listener, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Notices(Option<Arc<Callback>>);

type Callback = dyn Fn(&Notice) + Send + Sync;

/// Whether the debug-build notice was sent.
static DEBUG_BUILD_NOTIFIED: AtomicBool = AtomicBool::new(false);

impl Notices {
    pub(crate) fn new(listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Reports a notice about one model.
    pub(crate) fn notify(&self, notice: &Notice) {
        tracing::info!(%notice, "kiln.notice");
        if let Some(listener) = &self.0 {
            listener(notice);
        }
    }

    /// Reports, the first time in this process, that a debug build interprets.
    pub(crate) fn notify_debug_build(&self) {
        if cfg!(all(debug_assertions, feature = "llvm"))
            && !DEBUG_BUILD_NOTIFIED.swap(true, Ordering::Relaxed)
        {
            self.notify(&Notice::InterpretedInDebugBuild);
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Notices" } else { "none" })
    }
}
