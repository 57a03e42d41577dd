//! A circuit breaker: a store that keeps failing is not used for a while, then tried again with one request.

use std::time::Duration;

use crate::options::BreakerOptions;

/// A circuit breaker, which decides whether requests are let through. Times are those of one monotonic clock.
#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    /// Failures since the last success.
    failures: u32,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// Requests are rejected until this time.
    Open {
        until: Duration,
        pause: Duration,
    },
    /// One probing request is in progress; if its result is never reported, the next may probe at this time.
    Probing {
        until: Duration,
        pause: Duration,
    },
}

/// The effect of a result on the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// No effect.
    Same,
    /// It opened, for this long.
    Opened(Duration),
    /// It closed.
    Closed,
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Self {
            options,
            failures: 0,
            state: State::Closed,
        }
    }

    /// Whether a request may be made now. After a pause, one request is let through.
    pub(crate) fn admits(&mut self, now: Duration) -> bool {
        match self.state {
            State::Closed => true,
            State::Open { until, pause } | State::Probing { until, pause } if now >= until => {
                let until = now.saturating_add(pause);
                self.state = State::Probing { until, pause };
                true
            }
            State::Open { .. } | State::Probing { .. } => false,
        }
    }

    /// Records a successful request: the store responded, regardless of the response.
    pub(crate) fn succeeded(&mut self) -> Turn {
        self.failures = 0;
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Closed => Turn::Same,
            State::Open { .. } | State::Probing { .. } => Turn::Closed,
        }
    }

    /// Records a failed request.
    pub(crate) fn failed(&mut self, now: Duration) -> Turn {
        self.failures = self.failures.saturating_add(1);
        let pause = match self.state {
            State::Closed if self.failures < self.options.failures.max(1) => return Turn::Same,
            State::Closed => self.options.first,
            State::Probing { pause, .. } => pause.saturating_mul(2),
            // A request that was let through before the breaker opened.
            State::Open { .. } => return Turn::Same,
        };
        let pause = pause.min(self.options.longest);
        let until = now.saturating_add(pause);
        self.state = State::Open { until, pause };
        Turn::Opened(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn breaker() -> Breaker {
        Breaker::new(BreakerOptions {
            failures: 2,
            first: seconds(1),
            longest: seconds(3),
        })
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_on_a_success() {
        let mut breaker = breaker();
        assert_eq!(breaker.failed(seconds(0)), Turn::Same);
        assert_eq!(breaker.succeeded(), Turn::Same);
        assert_eq!(breaker.failed(seconds(0)), Turn::Same);
        assert!(breaker.admits(seconds(0)));
        assert_eq!(breaker.failed(seconds(0)), Turn::Opened(seconds(1)));
        assert!(!breaker.admits(Duration::from_millis(999)));
        assert!(breaker.admits(seconds(1)));
        assert!(!breaker.admits(seconds(1)), "one request at a time probes");
        assert_eq!(breaker.succeeded(), Turn::Closed);
        assert!(breaker.admits(seconds(1)));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut breaker = breaker();
        breaker.failed(seconds(0));
        breaker.failed(seconds(0));
        let mut now = seconds(1);
        let mut pauses = Vec::new();
        for _ in 0..3 {
            assert!(breaker.admits(now));
            let Turn::Opened(pause) = breaker.failed(now) else {
                panic!("a failed probe opens the breaker again");
            };
            pauses.push(pause);
            now += pause;
        }
        assert_eq!(pauses, [seconds(2), seconds(3), seconds(3)]);
    }

    #[test]
    fn a_probe_that_never_ends_does_not_close_the_store_for_ever() {
        let mut breaker = breaker();
        breaker.failed(seconds(0));
        breaker.failed(seconds(0));
        assert!(breaker.admits(seconds(1)));
        assert!(!breaker.admits(Duration::from_millis(1900)));
        assert!(breaker.admits(seconds(2)));
    }
}
