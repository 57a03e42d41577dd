//! The boundary that no panic crosses: every public entry point that can fail runs inside [`guarded`], which a test
//! checks against the list of public items.
//!
//! A panic of an importer, a pass, fusion, planning or a user's callback is a defect there; here it becomes E0991. It
//! leaves consistent state behind: a model is published only once it is built, locks ignore poison, and what a call took
//! from a pool is dropped.

use crate::error::{Error, Failure};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The maximum length of a panic message; longer ones are truncated.
const MAX_CHARACTERS: usize = 400;

/// Runs an entry point; a panic in it is an internal error that states the operation.
pub(crate) fn guarded<T>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let work = || {
        #[cfg(all(test, feature = "llvm", feature = "onnx"))]
        tests::panic_if_armed();
        work()
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(payload) => {
            let message = message_of(&*payload);
            // Dropping a payload runs foreign code too, and may panic again.
            std::mem::forget(payload);
            tracing::error!(doing, message, "caught a panic");
            Err(Failure::Panicked { doing, message }.into())
        }
    }
}

/// The panic's message, on one line.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let line: String = text.chars().take(MAX_CHARACTERS).collect();
    line.escape_debug().to_string()
}

#[cfg(all(test, feature = "llvm", feature = "onnx"))]
mod tests;
