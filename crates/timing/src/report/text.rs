//! Reports for people: one unit for all times, so that they can be compared by eye.

use std::fmt::{self, Write};

use super::{CategoryReport, EventReport, Report};
use crate::verbosity::Verbosity;

/// How many spans are listed.
const LISTED: usize = 1000;

/// The length of the bar of the total.
const BAR: f64 = 20.0;

/// The maximum name length to which columns are aligned.
const NAME: usize = 40;

impl Report {
    /// The report as a table of categories; from [`Verbosity::Verbose`] on with a table of events, at
    /// [`Verbosity::Debug`] with every span.
    pub fn to_text(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wall_ns == 0 {
            let why = match self.verbosity {
                Verbosity::Off => "timing is off",
                _ => "nothing was timed",
            };
            return writeln!(f, "{why}; counted: {}", self.counters);
        }
        let times = Times::of(self.wall_ns);
        self.write_categories(f, times)?;
        for category in &self.categories {
            let events: Vec<_> = self
                .events
                .iter()
                .filter(|event| event.category == category.category)
                .collect();
            if !events.is_empty() {
                self.write_events(f, times, category, &events)?;
            }
        }
        self.write_records(f, times)
    }
}

impl Report {
    fn write_categories(&self, f: &mut fmt::Formatter<'_>, times: Times) -> fmt::Result {
        write!(f, "time: {} {}", times.number(self.wall_ns), times.unit)?;
        if self.most_threads > 1 {
            write!(f, ", up to {} threads at once", self.most_threads)?;
        }
        if !self.filter.is_empty() {
            write!(f, ", showing {}", self.filter)?;
        }
        writeln!(
            f,
            "\n\n{:<13}{:>10}{:>7}  {:20}{:>10}",
            "", times.unit, "%", "", "work"
        )?;
        let is_shown = |category: &&CategoryReport| self.filter.is_empty() || category.events > 0;
        for category in self.categories.iter().filter(is_shown) {
            let parts = category.parts.iter();
            let mut note = category.category.description().to_owned();
            for (number, part) in parts.enumerate() {
                let before = if number == 0 { ": " } else { ", " };
                write!(note, "{before}{} {}", part.name, times.number(part.time_ns))?;
            }
            if category.waited_ns > 0 {
                write!(note, "; waited {}", times.number(category.waited_ns))?;
            }
            if category.device_ns > 0 {
                write!(note, "; device {}", times.number(category.device_ns))?;
            }
            if category.untimed > 0 {
                write!(note, "; {} short ones not timed", category.untimed)?;
            }
            let work = times.number(category.work_ns);
            self.write_row(
                f,
                times,
                category.category.name(),
                category.wall_ns,
                &work,
                &note,
            )?;
        }
        if self.hidden_ns > 0 {
            self.write_row(
                f,
                times,
                "not shown",
                self.hidden_ns,
                "",
                "events that the filter leaves out",
            )?;
        }
        if self.open_ns > 0 {
            self.write_row(
                f,
                times,
                "still open",
                self.open_ns,
                "",
                "spans that have not ended",
            )?;
        }
        self.write_row(
            f,
            times,
            "unattributed",
            self.unattributed_ns,
            "",
            "in no event",
        )?;
        writeln!(f, "\ncounted: {}", self.counters)
    }

    fn write_row(
        &self,
        f: &mut fmt::Formatter<'_>,
        times: Times,
        name: &str,
        wall_ns: u64,
        work: &str,
        note: &str,
    ) -> fmt::Result {
        let wall = times.number(wall_ns);
        let share = self.share(wall_ns);
        writeln!(
            f,
            "{name:<13}{wall:>10}{:>7.1}  {:20}{work:>10}  {note}",
            share * 100.0,
            bar(share)
        )
    }

    fn write_events(
        &self,
        f: &mut fmt::Formatter<'_>,
        times: Times,
        category: &CategoryReport,
        events: &[&EventReport],
    ) -> fmt::Result {
        let widths = events.iter().map(|event| event.name.chars().count());
        let width = widths.max().unwrap_or_default().min(NAME);
        let name = category.category.name();
        writeln!(
            f,
            "\n{name:<13}{:>10}{:>7}{:>10}{:>8}",
            times.unit, "%", "total", "times"
        )?;
        for event in events {
            let EventReport {
                name,
                description,
                count,
                ..
            } = event;
            let wall = times.number(event.wall_ns);
            let share = self.share(event.wall_ns) * 100.0;
            let total = times.number(event.total_ns);
            write!(
                f,
                "{:13}{wall:>10}{share:>7.1}{total:>10}{count:>8}  {name:<width$}  {description}",
                ""
            )?;
            if event.waited_ns > 0 {
                write!(f, "; waited {}", times.number(event.waited_ns))?;
            }
            if event.device_ns > 0 {
                write!(f, "; device {}", times.number(event.device_ns))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_records(&self, f: &mut fmt::Formatter<'_>, times: Times) -> fmt::Result {
        if self.records.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{:>10}{:>10}  spans, as they began", "at", times.unit)?;
        for record in self.records.iter().take(LISTED) {
            let begin = times.number(record.begin_ns);
            let time = times.number(record.time_ns);
            let thread = &record.thread;
            write!(f, "{begin:>10}{time:>10}  {thread}: ")?;
            match &record.part {
                Some(part) => write!(f, "{part} of {}", record.event)?,
                None => f.write_str(&record.event)?,
            }
            if record.kind == "wait" || record.kind == "device" {
                write!(f, " ({})", record.kind)?;
            }
            match &record.detail {
                Some(detail) => writeln!(f, ", {detail}")?,
                None => writeln!(f)?,
            }
        }
        let unlisted = self.records.len().saturating_sub(LISTED) as u64 + self.dropped_records;
        if unlisted > 0 {
            writeln!(f, "and {unlisted} more")?;
        }
        Ok(())
    }

    fn share(&self, nanoseconds: u64) -> f64 {
        nanoseconds as f64 / self.wall_ns.max(1) as f64
    }
}

/// The format of times.
#[derive(Clone, Copy)]
struct Times {
    unit: &'static str,
    nanoseconds: f64,
    decimals: usize,
}

impl Times {
    /// The unit that suits the total.
    fn of(whole_ns: u64) -> Self {
        let (unit, nanoseconds, decimals) = match whole_ns {
            10_000_000_000.. => ("s", 1e9, 3),
            10_000_000.. => ("ms", 1e6, 2),
            10_000.. => ("us", 1e3, 2),
            _ => ("ns", 1.0, 0),
        };
        Self {
            unit,
            nanoseconds,
            decimals,
        }
    }

    fn number(self, nanoseconds: u64) -> String {
        format!(
            "{:.*}",
            self.decimals,
            nanoseconds as f64 / self.nanoseconds
        )
    }
}

/// A bar in eighths of a character.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * BAR * 8.0).round() as usize;
    let part = EIGHTHS.get(eighths % 8).copied().unwrap_or_default();
    format!("{}{part}", "█".repeat(eighths / 8))
}
