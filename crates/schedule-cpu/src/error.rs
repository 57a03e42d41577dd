//! Errors for schedules and targets requested by name.

use kiln_backend::IsaLevel;

/// An error of this crate. Each variant names its code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// E0506: a schedule that is not valid for the kernel.
    #[error("expected loops that are right for the kernel in schedule {schedule}: {reason}")]
    Schedule {
        /// The requested schedule.
        schedule: String,
        /// What is wrong with it.
        reason: String,
    },

    /// E0507: a target of another backend, or a level that does not exist.
    #[error(
        "expected a target of this backend, found `{target}`: levels are {}",
        IsaLevel::ALL.map(IsaLevel::name).join(", ")
    )]
    UnknownTarget {
        /// The requested target.
        target: String,
    },

    /// E0517: code that is in no store, in a build without a compiler.
    #[error("no store has its code, and this build of Kiln has no compiler")]
    NoCompiler,
}

impl ScheduleError {
    /// All error codes.
    pub const CODES: &[&str] = &["E0506", "E0507", "E0517"];

    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            ScheduleError::Schedule { .. } => "E0506",
            ScheduleError::UnknownTarget { .. } => "E0507",
            ScheduleError::NoCompiler => "E0517",
        }
    }
}
