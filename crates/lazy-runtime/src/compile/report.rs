//! A report on a runtime: compiles and cache hits, waits of calls, and every deviation from the plan, reported even where
//! the count is zero.

use std::fmt::{self, Write};
use std::time::Duration;

use super::stats::CompilationStats;

/// A line: a number, what it counts, and details.
type Line = (String, &'static str, String);

impl CompilationStats {
    /// A table for human readers.
    pub fn to_report(&self) -> String {
        let mut report = String::new();
        // Writing to a string does not fail.
        let _written = self.write_report(&mut report);
        report
    }

    fn write_report(&self, report: &mut String) -> fmt::Result {
        section(report, "kernels", &self.kernels())?;
        section(report, "calls", &self.calls())?;
        let otherwise = self.otherwise();
        if otherwise.is_empty() {
            return writeln!(report, "everything went as planned");
        }
        section(report, "not as planned", &otherwise)
    }

    fn kernels(&self) -> Vec<Line> {
        let cache = &self.cache;
        let each = u32::try_from(self.compilations)
            .ok()
            .and_then(|compilations| self.compile_time.checked_div(compilations));
        let compiled = each.map_or_else(String::new, |each| {
            format!("{} in all, {} each", time(self.compile_time), time(each))
        });
        let saved = Duration::from_nanos(cache.saved_nanoseconds);
        let loaded = match cache.tier_hits {
            0 => String::new(),
            _ => format!("{} of compiling saved", time(saved)),
        };
        let rate = format!("hit rate {:.1} %", self.hit_rate() * 100.0);
        let variants = format!(
            "{} kept, {} dropped",
            self.variants_kept, self.variants_dropped
        );
        let mut lines = vec![
            count(self.compilations, "compilations", compiled),
            count(cache.tier_hits, "loaded from stores", loaded),
            count(cache.stored, "stored", String::new()),
            count(self.unique_kernels, "unique kernels", String::new()),
            count(self.hits + self.misses, "lookups", rate),
        ];
        if let Some(limit) = self.compile_budget {
            let of = format!("of {} that may go into compiling", time(limit));
            lines.push((time(self.compile_budget_spent), "compile budget spent", of));
        }
        if self.variants > 0 {
            lines.push(count(self.variants, "variants for sizes", variants));
        }
        lines
    }

    fn calls(&self) -> Vec<Line> {
        let packed = match self.constants_loaded {
            0 => String::new(),
            loaded => format!("{loaded} more loaded from stores"),
        };
        vec![
            count(self.constants_packed, "constants packed", packed),
            count(self.launch_plans, "launch plans", String::new()),
            (time(self.blocked), "waited for code", String::new()),
        ]
    }

    /// The counters that should be zero but are not.
    fn otherwise(&self) -> Vec<Line> {
        let cache = &self.cache;
        let counts = [
            (self.failures, "failed compilations", ""),
            (
                self.fallback_contractions,
                "contractions in plain loops",
                "slow: no schedule supports them",
            ),
            (
                self.interpreted_steps,
                "interpreted steps",
                "slow: they have no code",
            ),
            (
                self.fallbacks,
                "steps without code in time",
                "among the interpreted ones",
            ),
            (
                self.over_budget,
                "kernels over the budget",
                "not compiled: the compile budget is spent",
            ),
            (
                self.other_plans,
                "other plans",
                "for sizes that the main plan does not serve",
            ),
            (
                self.variants_refused,
                "variants refused",
                "the maximum is reached; see `VariantOptions`",
            ),
            (self.timeouts, "timeouts", "calls that failed waiting"),
            (self.cancelled, "calls cancelled", ""),
            (
                cache.corrupt,
                "damaged entries",
                "`kiln cache verify --remove` deletes them",
            ),
            (cache.skewed, "entries of other versions", "recompiled"),
            (
                cache.rejected,
                "entries refused",
                "of another user, or writable by one",
            ),
            (cache.io_error, "failures of stores", "the log says which"),
            (
                cache.not_stored + self.constants_not_stored,
                "entries not stored",
                "the log says why",
            ),
        ];
        let happened = counts.into_iter().filter(|&(n, ..)| n > 0);
        happened
            .map(|(n, what, note)| count(n, what, note.to_owned()))
            .collect()
    }
}

fn section(report: &mut String, name: &str, lines: &[Line]) -> fmt::Result {
    writeln!(report, "{name}")?;
    for (number, what, note) in lines {
        let line = format!("{number:>12}  {what:<28}{note}");
        writeln!(report, "{}", line.trim_end())?;
    }
    Ok(())
}

fn count(number: u64, what: &'static str, note: String) -> Line {
    (number.to_string(), what, note)
}

fn time(time: Duration) -> String {
    format!("{time:.1?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_kernel_cache::CacheStats;

    #[test]
    fn an_unused_runtime_has_a_short_report() {
        let report = CompilationStats::default().to_report();
        let expected = "kernels
           0  compilations
           0  loaded from stores
           0  stored
           0  unique kernels
           0  lookups                     hit rate 0.0 %
calls
           0  constants packed
           0  launch plans
       0.0ns  waited for code
everything went as planned
";
        assert_eq!(report, expected);
    }

    #[test]
    fn the_report_shows_a_spent_compile_budget() {
        let stats = CompilationStats {
            compile_budget: Some(Duration::from_secs(2)),
            compile_budget_spent: Duration::from_millis(2100),
            over_budget: 3,
            ..CompilationStats::default()
        };
        let report = stats.to_report();
        for line in [
            "        2.1s  compile budget spent        of 2.0s that may go into compiling\n",
            "           3  kernels over the budget     not compiled: the compile budget is spent\n",
        ] {
            assert!(report.contains(line), "{report}");
        }
    }

    #[test]
    fn the_report_shows_fallbacks_and_cache_misses() {
        let mut cache = CacheStats::default();
        (cache.tier_hits, cache.stored, cache.corrupt) = (12, 30, 1);
        cache.saved_nanoseconds = 1_200_000_000;
        let stats = CompilationStats {
            compilations: 30,
            hits: 60,
            misses: 30,
            compile_time: Duration::from_millis(4110),
            unique_kernels: 30,
            fallbacks: 2,
            interpreted_steps: 3,
            launch_plans: 4,
            blocked: Duration::from_micros(2_176_400),
            cache,
            ..CompilationStats::default()
        };
        let expected = "kernels
          30  compilations                4.1s in all, 137.0ms each
          12  loaded from stores          1.2s of compiling saved
          30  stored
          30  unique kernels
          90  lookups                     hit rate 66.7 %
calls
           0  constants packed
           4  launch plans
        2.2s  waited for code
not as planned
           3  interpreted steps           slow: they have no code
           2  steps without code in time  among the interpreted ones
           1  damaged entries             `kiln cache verify --remove` deletes them
";
        assert_eq!(stats.to_report(), expected);
    }
}
