//! The choice among candidates that were measured in interleaved rounds: a pure function of their times.

use std::time::Duration;

/// Times by candidate and round. The first candidate is the defaults.
pub(super) type Rounds = Vec<Vec<Duration>>;

/// The maximum ratio of a candidate's median time to that of the defaults.
const CLEARLY: f64 = 0.97;

/// The fraction of rounds in which a candidate has to be faster: three of four.
const ROUNDS_WON: (usize, usize) = (3, 4);

/// The candidate with the lowest median, if it is clearly faster than the defaults; otherwise the defaults.
pub(super) fn chosen(rounds: &[Vec<Duration>]) -> usize {
    let Some(defaults) = rounds.first() else {
        return 0;
    };
    let others = rounds.iter().enumerate().skip(1);
    let Some((best, times)) = others.min_by_key(|(_, times)| median(times)) else {
        return 0;
    };
    let is_clear = median(times).as_secs_f64() < CLEARLY * median(defaults).as_secs_f64();
    let pairs = times.iter().zip(defaults);
    let won = pairs.filter(|(time, defaults)| time < defaults).count();
    let (part, of) = ROUNDS_WON;
    match is_clear && won * of >= times.len() * part {
        true => best,
        false => 0,
    }
}

/// The median; of an even number the lower one.
pub(super) fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len().saturating_sub(1) / 2;
    sorted.get(middle).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(times: &[u64]) -> Vec<Duration> {
        times
            .iter()
            .map(|&time| Duration::from_micros(time))
            .collect()
    }

    #[test]
    fn the_fastest_candidate_wins_if_it_is_clearly_faster() {
        let defaults = micros(&[100, 101, 99, 100]);
        assert_eq!(chosen(&[defaults.clone(), micros(&[90, 91, 89, 90])]), 1);
        let both = [defaults.clone(), micros(&[90; 4]), micros(&[50; 4])];
        assert_eq!(chosen(&both), 2);
    }

    #[test]
    fn within_noise_the_defaults_stay() {
        let defaults = micros(&[100, 101, 99, 100]);
        // A gain of 2 % does not suffice.
        assert_eq!(chosen(&[defaults.clone(), micros(&[98; 4])]), 0);
        // Neither does a lower median if the times are lower in only half of the rounds.
        let unsteady = micros(&[50, 180, 50, 180]);
        assert_eq!(chosen(&[micros(&[100; 4]), unsteady]), 0);
        assert_eq!(chosen(&[defaults]), 0);
        assert_eq!(chosen(&[]), 0);
    }

    #[test]
    fn one_slow_round_does_not_decide() {
        let defaults = micros(&[100, 100, 100, 100, 100]);
        let disturbed = micros(&[60, 60, 5000, 60, 60]);
        assert_eq!(chosen(&[defaults, disturbed]), 1);
    }

    #[test]
    fn medians_are_of_the_rounds() {
        assert_eq!(median(&micros(&[5, 1, 3])), Duration::from_micros(3));
        assert_eq!(median(&micros(&[4, 1, 3, 2])), Duration::from_micros(2));
        assert_eq!(median(&[]), Duration::ZERO);
    }
}
