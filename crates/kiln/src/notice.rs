//! News that a model is not what it says, or runs otherwise than one may think: nothing that falls back does so silently.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is worth knowing about a model that loads all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// This is a debug build, which interprets unless [`Options::device`](crate::Options::device)
    /// says otherwise. Told once per process.
    InterpretedInDebugBuild,
    /// The graph cannot be compiled.
    NotCompilable {
        /// Why not.
        reason: String,
    },
    /// The model states types of values that its operators contradict or do not confirm, such as sizes that an exporter left
    /// behind. What follows from the operators counts; `kiln check` lists them all.
    WrongTypes {
        /// How many.
        count: usize,
        /// The first, with what follows from the operators.
        first: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InterpretedInDebugBuild => f.write_str(
                "this is a debug build: models are interpreted; say `Options::device(Device::cpu())` to compile them",
            ),
            Self::NotCompilable { reason } => {
                write!(f, "the model is interpreted, for it cannot be compiled: {reason}")
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

/// Whether a debug build said that it interprets.
static DEBUG_BUILD_TOLD: AtomicBool = AtomicBool::new(false);

impl Notices {
    pub(crate) fn new(listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(listener)))
    }

    /// Tells what concerns one model.
    pub(crate) fn tell(&self, notice: &Notice) {
        tracing::info!(%notice, "kiln.notice");
        if let Some(listener) = &self.0 {
            listener(notice);
        }
    }

    /// Says, the first time in this process, that a debug build interprets.
    pub(crate) fn tell_debug_build(&self) {
        if cfg!(all(debug_assertions, feature = "llvm"))
            && !DEBUG_BUILD_TOLD.swap(true, Ordering::Relaxed)
        {
            self.tell(&Notice::InterpretedInDebugBuild);
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Notices" } else { "none" })
    }
}
