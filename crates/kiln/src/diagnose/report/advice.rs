//! Advice on what to try next: rules over the figures of a report; each piece of advice quotes the figures it is based
//! on.

use super::steps::is_control;
use super::{Advice, CallReport, ReportedStep};
use kiln_lazy_runtime::CompilationStats;

/// A saving below this fraction of a call is not reported.
const WORTH: f64 = 0.02;
/// A kernel that reaches this fraction of the machine's rates is considered optimal.
const GOOD: f64 = 0.6;
/// The maximum number of lines.
const LIMIT: usize = 8;

/// Adds the advice, the largest savings first.
pub(super) fn add(report: &mut CallReport, stats: &CompilationStats) {
    let rules = [
        interpreted(report),
        near_miss(report),
        slow_step(report),
        few_tasks(report),
        narrower(report),
        between_steps(report),
        other_plans(stats),
        first_call(report),
        debug_build(report),
    ];
    let mut advice: Vec<Advice> = rules.into_iter().flatten().collect();
    let rank = |advice: &Advice| advice.gain_ms.unwrap_or(0.0);
    advice.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    advice.truncate(LIMIT);
    report.advice = advice;
}

/// Steps that run other steps contain their time.
fn steps(report: &CallReport) -> impl Iterator<Item = &ReportedStep> {
    report.steps.iter().filter(|step| !is_control(step))
}

fn is_worth(report: &CallReport, ms: f64) -> bool {
    ms > WORTH * report.call_ms
}

fn interpreted(report: &CallReport) -> Option<Advice> {
    let interpreted = || steps(report).filter(|step| step.kind == "interpret");
    let ms: f64 = interpreted().map(|step| step.ms).sum();
    let longest = interpreted().max_by(|a, b| a.ms.total_cmp(&b.ms))?;
    let reason = longest.notes.first().cloned().unwrap_or_default();
    Some(Advice {
        title: "Replace what is interpreted".to_owned(),
        because: format!(
            "{} steps are computed by the interpreter and take {}; the longest is {} ({reason})",
            interpreted().count(),
            time(ms),
            longest.name,
        ),
        command: Some("kiln explain MODEL".to_owned()),
        gain_ms: Some(ms),
    })
}

fn near_miss(report: &CallReport) -> Option<Advice> {
    let near = report.apart.iter().find(|apart| apart.fact.is_some())?;
    let fact = near.fact.as_deref()?;
    is_worth(report, near.gain_ms).then(|| Advice {
        title: format!("State that {fact}, if it always is"),
        because: format!(
            "{} and {} would be one kernel, which would save about {}",
            report.steps[near.from].name,
            report.steps[near.to].name,
            time(near.gain_ms)
        ),
        command: Some("kiln report MODEL --dim NAME=SIZES".to_owned()),
        gain_ms: Some(near.gain_ms),
    })
}

/// The step that loses the most time relative to the machine's best rates.
fn slow_step(report: &CallReport) -> Option<Advice> {
    let lost = |step: &ReportedStep| {
        step.of_roofline
            .map(|share| step.ms * (1.0 - share.min(1.0)))
    };
    let slow = steps(report).filter(|step| step.of_roofline.is_some_and(|share| share < GOOD));
    let step = slow.max_by(|a, b| lost(a).unwrap_or(0.0).total_cmp(&lost(b).unwrap_or(0.0)))?;
    let (share, lost) = (step.of_roofline?, lost(step)?);
    let kernel = step.kernel.as_deref()?;
    is_worth(report, lost).then(|| Advice {
        title: format!("Look at the loops of @{kernel}"),
        because: format!(
            "it takes {} and reaches {:.0} % of what the machine's {} allows; its schedule is {}",
            time(step.ms),
            share * 100.0,
            step.bound.as_deref().unwrap_or("rates"),
            step.schedule.as_deref().unwrap_or("unknown"),
        ),
        command: Some(format!(
            "kiln inspect MODEL --stage loops --kernel {kernel}"
        )),
        gain_ms: Some(lost),
    })
}

/// Steps that leave threads idle.
fn few_tasks(report: &CallReport) -> Option<Advice> {
    let threads = report.threads as u64;
    let few = || steps(report).filter(|step| step.tasks < threads && step.kind == "kernel");
    let ms: f64 = few()
        .map(|step| step.ms * (1.0 - step.tasks as f64 / threads.max(1) as f64))
        .sum();
    let n_steps = few().count();
    is_worth(report, ms).then(|| Advice {
        title: "Make calls larger, or run several at once".to_owned(),
        because: format!(
            "{n_steps} steps have too little work for {threads} threads, which idle for the equivalent of {}",
            time(ms)
        ),
        command: Some("kiln serve MODEL".to_owned()),
        gain_ms: Some(ms),
    })
}

fn narrower(report: &CallReport) -> Option<Advice> {
    let products = || {
        steps(report).filter(|step| {
            matches!(
                step.class.as_deref(),
                Some("contraction" | "window" | "attention")
            )
        })
    };
    let ms: f64 = products().map(|step| step.ms).sum();
    let bound_by_memory: f64 = products()
        .filter(|step| step.bound.as_deref() == Some("memory"))
        .map(|step| step.ms)
        .sum();
    (ms > 0.4 * report.call_ms).then(|| Advice {
        title: "Try narrower operands for products".to_owned(),
        because: format!(
            "products take {} of {} ({} of it waiting for memory); measure what a format costs in accuracy first",
            time(ms),
            time(report.call_ms),
            time(bound_by_memory)
        ),
        command: Some("kiln compare MODEL --cases DIR --precision int8-weights --against f32".to_owned()),
        gain_ms: None,
    })
}

/// Time of the typical call in which no step ran.
fn between_steps(report: &CallReport) -> Option<Advice> {
    let runs = report.runs.iter();
    let runs = runs.filter(|run| !is_control(&report.steps[run.step]));
    let (inside, end) = runs.fold((0.0, 0.0_f64), |(inside, end), run| {
        (inside + run.ms, end.max(run.begin_ms + run.ms))
    });
    let between = end - inside;
    (between > 0.15 * end).then(|| Advice {
        title: "Give steps more to do".to_owned(),
        because: format!(
            "{} of {} passes between steps, which are too short for what it costs to start them",
            time(between),
            time(end)
        ),
        command: None,
        gain_ms: Some(between),
    })
}

fn other_plans(stats: &CompilationStats) -> Option<Advice> {
    (stats.other_plans > 0).then(|| Advice {
        title: "Look at facts that did not hold".to_owned(),
        because: format!(
            "{} further plans were made for sizes for which a fact that the main plan rests on does not hold",
            stats.other_plans
        ),
        command: Some("kiln explain MODEL --cases DIR".to_owned()),
        gain_ms: None,
    })
}

fn first_call(report: &CallReport) -> Option<Advice> {
    let ms: f64 = report.compiles.iter().map(|compile| compile.ms).sum();
    (ms > 0.0 && report.first_ms > 4.0 * report.call_ms).then(|| Advice {
        title: "Compile before the first call".to_owned(),
        because: format!(
            "the first call took {}, as {} kernels were compiled (on all threads together {})",
            time(report.first_ms),
            report.compiles.len(),
            time(ms)
        ),
        command: Some("kiln compile MODEL".to_owned()),
        gain_ms: None,
    })
}

fn debug_build(report: &CallReport) -> Option<Advice> {
    report.debug_build.then(|| Advice {
        title: "Measure a release build".to_owned(),
        because: "this is a debug build of Kiln: kernels are as fast as ever, all else is slow"
            .to_owned(),
        command: None,
        gain_ms: None,
    })
}

/// A time with three digits.
pub(super) fn time(ms: f64) -> String {
    // The sum of no times is -0.
    let ms = ms + 0.0;
    let (value, unit) = match ms {
        ms if ms >= 1000.0 => (ms / 1e3, "s"),
        ms if ms >= 1.0 || ms == 0.0 => (ms, "ms"),
        ms => (ms * 1e3, "µs"),
    };
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_nothing_is_not_negative() {
        let none: f64 = [].iter().sum();
        let shown = [none, 0.0, 0.0125, 1.0, 31.54, 2680.0].map(time);
        assert_eq!(
            shown,
            [
                "0.00 ms", "0.00 ms", "12.5 µs", "1.00 ms", "31.5 ms", "2.68 s"
            ]
        );
    }
}
