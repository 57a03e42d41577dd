//! The border that no panic crosses: every public entrance that can fail runs inside [`guarded`], which a test holds to the
//! list of public items.
//!
//! A panic of an importer, a pass, fusion, planning or a user's callback is a defect there; here it becomes E0991. What it
//! leaves behind is whole: a model is published only when it is built, locks ignore poison, and what a call had taken from
//! a pool is dropped.

use crate::error::{Error, Failure};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longer messages of panics are cut.
const MOST_CHARACTERS: usize = 400;

/// Runs part of an entrance; a panic in it is an internal error that says what was being done.
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
            // A payload's drop is foreign code too, and may panic again.
            std::mem::forget(payload);
            tracing::error!(doing, message, "a panic was caught");
            Err(Failure::Panicked { doing, message }.into())
        }
    }
}

/// What the panic said, on one line.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let line: String = text.chars().take(MOST_CHARACTERS).collect();
    line.escape_debug().to_string()
}

#[cfg(all(test, feature = "llvm", feature = "onnx"))]
mod tests;
