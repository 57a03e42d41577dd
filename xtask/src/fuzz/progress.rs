//! Progress from libFuzzer's output, and processor time from the system.

use std::time::Duration;

/// Ticks per second in `/proc`: the same on every Linux, independent of the kernel's clock.
const TICKS: u64 = 100;

/// The progress of a fuzzer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Inputs that ran.
    pub(super) executions: u64,
    /// Edges of the code that were reached.
    pub(super) coverage: u64,
    /// Inputs in the corpus.
    pub(super) corpus: u64,
}

impl Progress {
    /// Updates from a line of output, if it is a progress line: `#4096 pulse cov: 120 ft: 300 corp: 12/80b exec/s: 900`.
    pub(super) fn read(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix('#') else {
            return;
        };
        let mut words = rest.split_whitespace();
        let Some(executions) = words.next().and_then(|word| word.parse().ok()) else {
            return;
        };
        self.executions = executions;
        while let Some(word) = words.next() {
            let number = |text: Option<&str>| {
                let digits = text.and_then(|text| text.split('/').next());
                digits.and_then(|digits| digits.parse().ok())
            };
            match word {
                "cov:" => self.coverage = number(words.next()).unwrap_or(self.coverage),
                "corp:" => self.corpus = number(words.next()).unwrap_or(self.corpus),
                _ => {}
            }
        }
    }
}

/// The processor time of a process, from its line in `/proc/PID/stat`.
pub(super) fn processor_time(stat: &str) -> Option<Duration> {
    // The name is in brackets and may contain anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
    Some(Duration::from_millis((user + system) * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzzer_progress_lines_are_parsed_and_others_ignored() {
        let mut progress = Progress::default();
        progress.read("#2\tINITED cov: 36 ft: 37 corp: 1/1b exec/s: 0 rss: 30Mb");
        progress.read("INFO: seed corpus: files: 14");
        progress.read("#4096\tpulse  cov: 120 ft: 300 corp: 12/80b lim: 43 exec/s: 900 rss: 31Mb");
        progress.read("#nonsense cov: 9");
        let expected = Progress {
            executions: 4096,
            coverage: 120,
            corpus: 12,
        };
        assert_eq!(progress, expected);
    }

    #[test]
    fn processor_time_is_user_and_system_time() {
        let stat = "77 (a) b) R 1 77 77 0 -1 4194304 90 0 0 0 250 50 0 0 20 0 1 0 100 1000 20";
        assert_eq!(processor_time(stat), Some(Duration::from_secs(3)));
        assert_eq!(processor_time("77 (short) R 1"), None);
    }
}
