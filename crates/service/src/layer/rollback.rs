//! Decides when a roll-out is rolled back: after too many failures, or if it is too slow, over a window of recent
//! executions.

use crate::error::ServiceError;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// When a roll-out is rolled back automatically.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RollbackOptions {
    /// The number of recent executions considered, of each kind: 200.
    pub window: usize,
    /// The minimum number of executions for a decision: 20.
    pub least: usize,
    /// The largest fraction of compiled executions in the window that may fail: 0.02.
    pub max_error_rate: f64,
    /// The largest ratio of the median time of compiled executions to that of the default transform: 1.5. Compared only
    /// while both run.
    pub max_slowdown: f64,
}

impl Default for RollbackOptions {
    fn default() -> Self {
        Self {
            window: 200,
            least: 20,
            max_error_rate: 0.02,
            max_slowdown: 1.5,
        }
    }
}

impl RollbackOptions {
    pub(super) fn check(&self) -> Result<(), ServiceError> {
        let setting = |name, expected: &str, found: String| {
            Err(ServiceError::Setting {
                name,
                expected: expected.to_owned(),
                found,
            })
        };
        if self.least == 0 || self.window < self.least {
            let found = format!("{} of {}", self.least, self.window);
            return setting("rollback.least", "1 or more, at most the window", found);
        }
        if !(0.0..=1.0).contains(&self.max_error_rate) {
            return setting(
                "rollback.max_error_rate",
                "0 to 1",
                self.max_error_rate.to_string(),
            );
        }
        if self.max_slowdown.is_nan() || self.max_slowdown <= 0.0 {
            return setting(
                "rollback.max_slowdown",
                "a positive number",
                self.max_slowdown.to_string(),
            );
        }
        Ok(())
    }
}

/// Why a roll-out was rolled back.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RollbackReason {
    /// This fraction of executions failed.
    Errors(f64),
    /// They took this many times as long as the default transform.
    Slowdown(f64),
}

impl fmt::Display for RollbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errors(rate) => write!(f, "{:.1} % of executions failed", 100.0 * rate),
            Self::Slowdown(ratio) => write!(f, "{ratio:.2} times the default transform's time"),
        }
    }
}

/// The last executions of a layer.
pub(super) struct Watch {
    options: RollbackOptions,
    compiled: VecDeque<(bool, Duration)>,
    default_transform: VecDeque<Duration>,
    last: Option<RollbackReason>,
}

impl Watch {
    pub(super) fn new(options: RollbackOptions) -> Self {
        Self {
            options,
            compiled: VecDeque::new(),
            default_transform: VecDeque::new(),
            last: None,
        }
    }

    /// The reason for the last roll-back.
    pub(super) fn last(&self) -> Option<RollbackReason> {
        self.last
    }

    /// An execution of the default transform.
    pub(super) fn default_transform(&mut self, time: Duration) {
        self.default_transform.push_back(time);
        if self.default_transform.len() > self.options.window {
            self.default_transform.pop_front();
        }
    }

    /// Records an execution of stored kernels; returns the reason if the roll-out must be rolled back. The window then
    /// starts anew.
    pub(super) fn compiled(&mut self, is_ok: bool, time: Duration) -> Option<RollbackReason> {
        self.compiled.push_back((is_ok, time));
        if self.compiled.len() > self.options.window {
            self.compiled.pop_front();
        }
        let reason = self.judge()?;
        self.compiled.clear();
        self.last = Some(reason);
        Some(reason)
    }

    fn judge(&self) -> Option<RollbackReason> {
        let (count, least) = (self.compiled.len(), self.options.least);
        if count < least {
            return None;
        }
        let failed = self.compiled.iter().filter(|(is_ok, _)| !is_ok).count();
        let rate = failed as f64 / count as f64;
        if rate > self.options.max_error_rate {
            return Some(RollbackReason::Errors(rate));
        }
        let good = self.compiled.iter().filter(|(is_ok, _)| *is_ok);
        let compiled = median(good.map(|&(_, time)| time));
        let default_transform = median(self.default_transform.iter().copied());
        if self.default_transform.len() < least || default_transform.is_zero() {
            return None;
        }
        let ratio = compiled.as_secs_f64() / default_transform.as_secs_f64();
        (ratio > self.options.max_slowdown).then_some(RollbackReason::Slowdown(ratio))
    }
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(10);

    #[test]
    fn errors_roll_back_once_there_are_enough_executions() {
        let mut watch = Watch::new(RollbackOptions::default());
        for _ in 0..19 {
            assert_eq!(watch.compiled(false, FAST), None);
        }
        assert_eq!(
            watch.compiled(false, FAST),
            Some(RollbackReason::Errors(1.0))
        );
        // The window starts anew.
        assert_eq!(watch.compiled(false, FAST), None);
        assert_eq!(watch.last(), Some(RollbackReason::Errors(1.0)));
    }

    #[test]
    fn few_errors_in_a_full_window_are_borne() {
        let mut watch = Watch::new(RollbackOptions::default());
        for n in 0..1000 {
            let is_ok = n % 100 != 99;
            assert_eq!(watch.compiled(is_ok, FAST), None);
        }
    }

    #[test]
    fn a_slowdown_rolls_back_while_both_run() {
        let mut watch = Watch::new(RollbackOptions::default());
        for _ in 0..100 {
            assert_eq!(
                watch.compiled(true, 2 * FAST),
                None,
                "nothing to compare with"
            );
        }
        for _ in 0..20 {
            watch.default_transform(FAST);
        }
        assert_eq!(
            watch.compiled(true, 2 * FAST),
            Some(RollbackReason::Slowdown(2.0))
        );
    }
}
