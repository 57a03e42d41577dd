//! The call on a timeline: a row of steps, and a row per thread, shown as busy where a step had a task for it.

use super::text::{colour, escape};
use crate::diagnose::report::advice::time;
use crate::diagnose::report::steps::is_control;
use crate::diagnose::report::{CallReport, StepRun};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The width of the drawing, in its own units.
const WIDTH: f64 = 1000.0;
/// The height of the row of steps, and of a thread.
const STEPS: f64 = 40.0;
const THREAD: f64 = 14.0;
const GAP: f64 = 4.0;
/// More threads are not drawn.
const MAX_THREADS: usize = 16;

pub(super) fn section(report: &CallReport) -> String {
    let end = report
        .runs
        .iter()
        .map(|run| run.begin_ms + run.ms)
        .fold(0.0, f64::max);
    if end <= 0.0 {
        return "<p class=\"none\">The call has no steps.</p>\n".to_owned();
    }
    let threads = report.threads.clamp(1, MAX_THREADS);
    let height = STEPS + threads as f64 * (THREAD + GAP) + GAP;
    let x = |ms: f64| ms / end * WIDTH;
    let mut out = legend(report);
    let _infallible = write!(
        out,
        "<div class=\"timeline\" tabindex=\"0\" role=\"group\" aria-label=\"Timeline of the call: arrow keys move, plus and minus zoom\" data-end=\"{end}\">\n<div class=\"lanes\" aria-hidden=\"true\"><span class=\"lane-steps\">steps</span>"
    );
    for thread in 1..=threads {
        let _infallible = write!(out, "<span>thread {thread}</span>");
    }
    let _infallible = writeln!(
        out,
        "</div>\n<div class=\"track\"><svg id=\"timeline-svg\" viewBox=\"0 0 {WIDTH} {height}\" preserveAspectRatio=\"none\" style=\"height:{height}px\" role=\"img\" aria-label=\"{} runs of steps in {}\">",
        report.runs.len(),
        escape(&time(end))
    );
    for run in report.runs.iter().filter(|run| !in_control(report, run)) {
        let step = &report.steps[run.step];
        let _infallible = writeln!(
            out,
            "<rect class=\"{}\" data-step=\"{}\" x=\"{:.3}\" y=\"0\" width=\"{:.3}\" height=\"{STEPS}\"><title>{} · {}</title></rect>",
            colour(&step.kind, step.class.as_deref()),
            run.step,
            x(run.begin_ms),
            x(run.ms).max(0.2),
            escape(&step.name),
            time(run.ms)
        );
    }
    out.push_str(&busy(report, threads, x));
    out.push_str("</svg><div class=\"axis\" aria-hidden=\"true\"></div></div>\n</div>\n");
    if report.threads > MAX_THREADS {
        let _infallible = writeln!(
            out,
            "<p class=\"note\">{MAX_THREADS} of {} threads are drawn.</p>",
            report.threads
        );
    }
    out
}

fn in_control(report: &CallReport, run: &StepRun) -> bool {
    is_control(&report.steps[run.step])
}

/// A path for each thread and colour.
fn busy(report: &CallReport, threads: usize, x: impl Fn(f64) -> f64) -> String {
    let mut paths: BTreeMap<(usize, &str), String> = BTreeMap::new();
    for run in report.runs.iter().filter(|run| !in_control(report, run)) {
        let step = &report.steps[run.step];
        let tasks = usize::try_from(step.tasks).unwrap_or(usize::MAX).max(1);
        for thread in 0..threads.min(tasks) {
            let y = STEPS + GAP + thread as f64 * (THREAD + GAP);
            let path = paths
                .entry((thread, colour(&step.kind, step.class.as_deref())))
                .or_default();
            let (left, width) = (x(run.begin_ms), x(run.ms).max(0.1));
            let _infallible = write!(path, "M{left:.2} {y}h{width:.2}v{THREAD}h-{width:.2}z");
        }
    }
    let paths = paths.iter();
    paths
        .map(|((_, colour), path)| format!("<path class=\"{colour} busy\" d=\"{path}\"/>\n"))
        .collect()
}

/// The colours that occur, with the time of each.
fn legend(report: &CallReport) -> String {
    let mut times: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for step in report.steps.iter().filter(|step| !is_control(step)) {
        let name = step.class.as_deref().unwrap_or(&step.kind);
        *times
            .entry((colour(&step.kind, step.class.as_deref()), name))
            .or_default() += step.ms;
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let total: f64 = times.iter().map(|(_, ms)| ms).sum();
    let entries = times.iter().map(|((colour, name), ms)| {
        let share = if total > 0.0 { ms / total * 100.0 } else { 0.0 };
        format!(
            "<li><i class=\"{colour}\"></i>{} <span>{} · {share:.0} %</span></li>",
            escape(name),
            time(*ms)
        )
    });
    format!(
        "<ul class=\"legend\">{}</ul>\n",
        entries.collect::<String>()
    )
}
