//! The outcome of each variant, for reports: [`VariantRecord`].

use std::fmt;
use std::time::Duration;

use kiln_backend::Schedule;

/// Why a variant was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariantReason {
    /// The kernel took this long at these sizes, estimated from samples.
    Hot(Duration),
    /// The sizes are likely: by the user's hint, or by the profile of another process.
    Likely,
}

/// The state of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariantFate {
    /// It waits for a compiler.
    Queued,
    /// On trial: calls alternate between it and the generic kernel.
    OnTrial,
    /// It won: the median times of a launch.
    Kept {
        /// Of the generic kernel.
        generic: Duration,
        /// Of the variant.
        variant: Duration,
    },
    /// It did not win by the margin: the median times of a launch.
    Lost {
        /// Of the generic kernel.
        generic: Duration,
        /// Of the variant.
        variant: Duration,
    },
    /// There is no such code, for this reason.
    Impossible(String),
    /// The kernel, or the process, has reached its limit.
    Refused {
        /// The limit.
        limit: usize,
        /// Whether it is that of the process.
        in_process: bool,
    },
}

/// A variant of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariantRecord {
    /// The kernel's name.
    pub kernel: String,
    /// Its assumptions: `s0 == 128, s1 == 384`.
    pub facts: String,
    /// Its schedule.
    pub schedule: Schedule,
    /// Why it was requested.
    pub reason: VariantReason,
    /// Its state.
    pub fate: VariantFate,
}

impl VariantRecord {
    /// How much faster its launches are than those of the generic kernel, as a fraction of the latter's time; if it is
    /// kept.
    pub fn gain(&self) -> Option<f64> {
        match &self.fate {
            VariantFate::Kept { generic, variant } => Some(gain(*generic, *variant)),
            _ => None,
        }
    }
}

fn gain(generic: Duration, variant: Duration) -> f64 {
    let generic = generic.as_secs_f64();
    if generic > 0.0 {
        1.0 - variant.as_secs_f64() / generic
    } else {
        0.0
    }
}

impl fmt::Display for VariantReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hot(time) => write!(f, "took {time:.1?}"),
            Self::Likely => f.write_str("likely"),
        }
    }
}

impl fmt::Display for VariantFate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queued => f.write_str("queued"),
            Self::OnTrial => f.write_str("on trial"),
            Self::Kept { generic, variant } => write!(
                f,
                "kept: {variant:.1?} instead of {generic:.1?}, {:.0} % less",
                100.0 * gain(*generic, *variant)
            ),
            Self::Lost { generic, variant } => {
                write!(f, "dropped: {variant:.1?} instead of {generic:.1?}")
            }
            Self::Impossible(reason) => write!(f, "none: {reason}"),
            Self::Refused { limit, in_process } => {
                let of = if *in_process { "process" } else { "kernel" };
                write!(f, "refused: the {of} has {limit}, which is its limit")
            }
        }
    }
}

impl fmt::Display for VariantRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            facts,
            schedule,
            reason,
            fate,
        } = self;
        write!(f, "@{kernel} at {facts} ({reason}), {schedule}: {fate}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_record_reports_its_gain() {
        let us = Duration::from_micros;
        let kept = VariantFate::Kept {
            generic: us(200),
            variant: us(150),
        };
        let record = |fate| VariantRecord {
            kernel: "matmul".to_owned(),
            facts: "s0 == 8".to_owned(),
            schedule: Schedule::new("contraction"),
            reason: VariantReason::Hot(Duration::from_secs(2)),
            fate,
        };
        assert_eq!(
            record(kept.clone()).to_string(),
            "@matmul at s0 == 8 (took 2.0s), contraction: kept: 150.0µs instead of 200.0µs, 25 % less"
        );
        let gained = record(kept).gain();
        assert!(gained.is_some_and(|gained| (gained - 0.25).abs() < 1e-9));
        let refused = VariantFate::Refused {
            limit: 4,
            in_process: false,
        };
        assert!(
            record(refused.clone())
                .to_string()
                .ends_with("refused: the kernel has 4, which is its limit")
        );
        assert_eq!(record(refused).gain(), None);
        assert_eq!(gain(Duration::ZERO, us(1)), 0.0);
    }
}
