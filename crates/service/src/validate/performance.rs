//! Checks that the speed of a kernel is within bounds.

use super::{CheckFailure, Outcome};
use crate::optimize::KernelProfile;
use std::time::Duration;

/// Bounds on a kernel's speed and memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerformanceBounds {
    /// The maximum time of a call at likely sizes; no bound by default.
    pub max_time: Option<Duration>,
    /// The maximum time relative to the plain candidate: 1.1, which allows for noise.
    pub max_relative_to_plain: f64,
    /// The maximum memory in addition to the inputs, in bytes; no bound by default.
    pub max_memory: Option<u64>,
}

impl Default for PerformanceBounds {
    fn default() -> Self {
        Self {
            max_time: None,
            max_relative_to_plain: 1.1,
            max_memory: None,
        }
    }
}

impl PerformanceBounds {
    /// Whether a profile is within the bounds.
    pub fn check(&self, profile: &KernelProfile, plain: &KernelProfile) -> Outcome {
        let failed = |what: &str, amount: String| {
            Outcome::Failed(CheckFailure {
                what: what.to_owned(),
                place: "likely sizes".to_owned(),
                amount,
            })
        };
        if let Some(most) = self.max_time.filter(|&most| profile.time > most) {
            let amount = format!("expected at most {most:?}, found {:?}", profile.time);
            return failed("time of a call", amount);
        }
        let relative = profile.time.as_secs_f64() / plain.time.as_secs_f64().max(1e-9);
        if relative > self.max_relative_to_plain {
            let most = self.max_relative_to_plain;
            let amount =
                format!("expected at most {most:.2} of the plain candidate's, found {relative:.2}");
            return failed("time of a call", amount);
        }
        if let Some(most) = self.max_memory.filter(|&most| profile.memory_bytes > most) {
            let amount = format!(
                "expected at most {most} bytes, found {}",
                profile.memory_bytes
            );
            return failed("memory of a call", amount);
        }
        Outcome::Passed(format!(
            "{profile}; {relative:.2} of the plain candidate's time"
        ))
    }
}
