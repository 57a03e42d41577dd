//! A trial of a variant against the generic kernel on real calls: the order of rounds, and the verdict.
//!
//! Rounds run generic, variant, variant, generic, so that drift affects both equally. Both medians and lower quartiles
//! are compared, since a single slow round is not significant. The variant must also be faster in three of four pairs
//! of adjacent rounds: on a busy machine, less may be chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kiln_backend::Schedule;
use kiln_fork_lock::ForkLock;

use crate::compile::CompiledKernel;

/// The number of compared times of each side.
const SAMPLES: usize = 16;

/// The number of initial runs of each side that are not counted, because code and data are then cold.
const COLD: usize = 2;

/// The side of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The generic kernel.
    Generic,
    /// The variant.
    Variant,
}

/// The result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) is_kept: bool,
    /// The median time of a launch of the generic kernel.
    pub(crate) generic: Duration,
    /// The median time of a launch of the variant.
    pub(crate) variant: Duration,
}

/// A trial in progress.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) code: Arc<CompiledKernel>,
    pub(crate) schedule: Schedule,
    turns: AtomicU32,
    samples: ForkLock<Samples>,
    margin: u32,
}

#[derive(Debug, Default)]
struct Samples {
    generic: Vec<u64>,
    variant: Vec<u64>,
    is_over: bool,
}

impl Trial {
    /// A trial of this code, which must win by this many percent.
    pub(crate) fn new(code: Arc<CompiledKernel>, schedule: Schedule, margin: u32) -> Self {
        Self {
            code,
            schedule,
            turns: AtomicU32::new(0),
            samples: ForkLock::default(),
            margin,
        }
    }

    /// The side of this round.
    pub(crate) fn turn(&self) -> Turn {
        match self.turns.fetch_add(1, Ordering::Relaxed) % 4 {
            0 | 3 => Turn::Generic,
            _ => Turn::Variant,
        }
    }

    /// Records the time of a round; returns the verdict, once, when enough is known.
    pub(crate) fn note(&self, turn: Turn, time: Duration) -> Option<Verdict> {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut samples = self.samples.lock();
        if samples.is_over {
            return None;
        }
        let side = match turn {
            Turn::Generic => &mut samples.generic,
            Turn::Variant => &mut samples.variant,
        };
        // More space is not needed: times beyond the number are ignored.
        if side.len() < COLD + SAMPLES {
            side.push(nanoseconds);
        }
        let enough = |side: &[u64]| side.len() == COLD + SAMPLES;
        if !enough(&samples.generic) || !enough(&samples.variant) {
            return None;
        }
        samples.is_over = true;
        let of = |side: &[u64]| side.get(COLD..).unwrap_or_default().to_vec();
        Some(verdict(
            of(&samples.generic),
            of(&samples.variant),
            self.margin,
        ))
    }
}

/// Decides, from times in the order of rounds.
fn verdict(mut generic: Vec<u64>, mut variant: Vec<u64>, margin: u32) -> Verdict {
    let pairs = generic.iter().zip(&variant);
    let quicker = pairs.filter(|(generic, variant)| variant < generic).count();
    let is_mostly_quicker = quicker * 4 >= generic.len() * 3;
    generic.sort_unstable();
    variant.sort_unstable();
    let at = |side: &[u64], share: usize| side.get(side.len() * share / 4).copied().unwrap_or(0);
    let wins = |share: usize| {
        let (generic, variant) = (at(&generic, share), at(&variant, share));
        let bound = u128::from(generic) * u128::from(100_u32.saturating_sub(margin));
        u128::from(variant) * 100 <= bound && variant < generic
    };
    Verdict {
        is_kept: is_mostly_quicker && wins(1) && wins(2),
        generic: Duration::from_nanos(at(&generic, 2)),
        variant: Duration::from_nanos(at(&variant, 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sides(generic: u64, variant: u64) -> Verdict {
        verdict(vec![generic; SAMPLES], vec![variant; SAMPLES], 5)
    }

    #[test]
    fn a_variant_is_kept_only_if_it_wins_by_the_margin() {
        assert!(sides(1000, 900).is_kept);
        assert!(sides(1000, 950).is_kept);
        assert!(!sides(1000, 951).is_kept);
        assert!(!sides(1000, 1000).is_kept);
        assert!(!sides(0, 0).is_kept);
    }

    #[test]
    fn single_slow_samples_do_not_decide_a_trial() {
        let mut generic = vec![1000; SAMPLES];
        generic[..4].fill(50_000);
        assert!(!verdict(generic.clone(), vec![990; SAMPLES], 5).is_kept);
        let mut variant = vec![800; SAMPLES];
        variant[..4].fill(90_000);
        assert!(verdict(generic, variant, 5).is_kept);
    }

    #[test]
    fn a_variant_must_also_win_at_the_lower_quartile() {
        // The median wins, the lower quartile does not.
        let generic: Vec<u64> = [vec![700; 6], vec![1000; 10]].concat();
        let variant = vec![800; SAMPLES];
        assert!(!verdict(generic, variant, 5).is_kept);
    }

    /// The percentage of this many trials on a busy machine that keep a variant whose cost is this percentage of the
    /// generic kernel's.
    fn kept_in_noise(cost: u64) -> u64 {
        const TRIALS: u64 = 1000;
        let mut state = 5_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        let mut kept = 0;
        for _ in 0..TRIALS {
            let (mut is_busy, mut sides) = (false, [Vec::new(), Vec::new()]);
            for turn in [0, 1, 1, 0].into_iter().cycle().take(2 * SAMPLES) {
                // Other processes come and go, a round is up to a tenth longer for no reason, and one in five is preempted.
                if random(10) == 0 {
                    is_busy = random(2) == 0;
                }
                let own = 1000 * if turn == 0 { 100 } else { cost };
                let share = if is_busy { 2 + random(5) } else { 2 };
                let cut = if random(5) == 0 { 2 + random(18) } else { 1 };
                let time = own * (100 + random(10)) / 100 * share / 2 * cut;
                sides[turn].push(time);
            }
            let [generic, variant] = sides;
            kept += u64::from(verdict(generic, variant, 5).is_kept);
        }
        kept * 100 / TRIALS
    }

    #[test]
    fn in_noise_a_variant_that_is_not_faster_is_dropped() {
        assert_eq!(kept_in_noise(110), 0);
        assert!(kept_in_noise(100) <= 1, "{}", kept_in_noise(100));
        assert!(kept_in_noise(70) >= 40, "{}", kept_in_noise(70));
    }
}
