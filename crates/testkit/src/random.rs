//! The source of random choices: bytes, so that a fuzzer and a seed drive the same generators.
//!
//! A fuzzer's bytes are its own; a test makes its from a seed with [`seeded_bytes`]. Elements of
//! tensors come from a [`SplitMix64`] that is seeded with a few of those bytes, so that a short
//! input still fills a large tensor.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A small, fast generator of 64-bit numbers (Steele, Lea and Flood, 2014), the same everywhere.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64().checked_rem(n).unwrap_or(0)
    }

    /// A number from `low` to `high`, inclusive; `low` if `high` is less.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.saturating_sub(low).max(0) as u64;
        low.saturating_add_unsigned(self.below(span.saturating_add(1)))
    }
}

/// `length` bytes derived from `seed`.
pub fn seeded_bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let words = length.div_ceil(8);
    let mut bytes: Vec<u8> = (0..words)
        .flat_map(|_| random.next_u64().to_le_bytes())
        .collect();
    bytes.truncate(length);
    bytes
}

/// Seeds in addition to the fixed ones: different ones every day, as long as there is time.
#[derive(Clone, Copy, Debug)]
pub struct SeedsOfTheDay {
    /// The first.
    pub first: u64,
    /// The time after which no further seed is started.
    pub until: Instant,
}

/// The variable that fixes the first seed of the day.
const FIRST_SEED: &str = "KILN_TEST_BASE";

/// The variable with the number of seconds for which a test continues with seeds of the day.
const SECONDS: &str = "KILN_TEST_SECONDS";

/// The default number of seconds.
const USUAL_SECONDS: u64 = 15;

impl SeedsOfTheDay {
    /// The seeds of today, or those of the environment; prints them, so that a failure can be reproduced.
    ///
    /// # Panics
    /// When a variable is not a number.
    #[allow(clippy::print_stdout, reason = "tests show it when they fail")]
    pub fn begin() -> Self {
        let days = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs() / 86_400);
        let first = number_of(FIRST_SEED).unwrap_or_else(|| first_of(days));
        let seconds = number_of(SECONDS).unwrap_or(USUAL_SECONDS);
        println!("seeds of the day: {FIRST_SEED}={first} repeats them, {SECONDS}={seconds}");
        Self {
            first,
            until: Instant::now() + Duration::from_secs(seconds),
        }
    }

    /// Whether there is time for another seed.
    pub fn go_on(&self) -> bool {
        Instant::now() < self.until
    }
}

/// Far from the fixed seeds, and from those of the neighbouring days.
fn first_of(days: u64) -> u64 {
    (days + 1) << 24
}

#[allow(clippy::panic, reason = "a test that is set up wrongly ends")]
fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("expected a number in {variable}, found {text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_matches_the_published_sequence() {
        // The reference implementation's first outputs for seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let first = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn seeds_of_a_day_are_not_those_of_another() {
        assert!(first_of(0) > 1 << 20);
        assert!(first_of(20_001) - first_of(20_000) > 1 << 20);
        // A kernel's operands are seeded with a hundred times its seed.
        assert!(first_of(400_000).checked_mul(100).is_some());
    }

    #[test]
    fn random_numbers_stay_in_range() {
        let mut random = SplitMix64::new(7);
        assert!((0..100).all(|_| (-3..=4).contains(&random.between(-3, 4))));
        assert_eq!((random.below(0), random.between(5, 2)), (0, 5));
        assert_eq!(seeded_bytes(3, 13).len(), 13);
        assert_eq!(seeded_bytes(3, 13), seeded_bytes(3, 16)[..13]);
    }
}
