//! The text and tables of the page: advice, steps, near misses, compiles.

use super::text::{bytes, colour, count, escape, short_name};
use crate::diagnose::report::advice::time;
use crate::diagnose::report::{CallReport, ReportedCompile, ReportedStep};
use std::fmt::Write;

/// The number of rows that a table shows before the rest is collapsed.
const SHOWN: usize = 30;

pub(super) fn advice(report: &CallReport) -> String {
    if report.advice.is_empty() {
        return "<p class=\"none\">Nothing stands out: the call is close to what this machine can do.</p>\n".to_owned();
    }
    let items = report.advice.iter().map(|advice| {
        let gain = advice.gain_ms.map_or(String::new(), |ms| {
            format!("<span class=\"gain\">up to {}</span>", time(ms))
        });
        let command = advice.command.as_deref().map_or(String::new(), |command| {
            format!("<code>{}</code>", escape(command))
        });
        format!(
            "<li><h3>{}{gain}</h3><p>{}.</p>{command}</li>\n",
            escape(&advice.title),
            escape(&sentence(&advice.because))
        )
    });
    format!(
        "<ol class=\"advice\">\n{}</ol>\n",
        items.collect::<String>()
    )
}

/// Capitalises the first letter.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(characters).collect()
}

pub(super) fn steps(report: &CallReport) -> String {
    let mut order: Vec<usize> = (0..report.steps.len()).collect();
    order.sort_by(|&a, &b| report.steps[b].ms.total_cmp(&report.steps[a].ms));
    let rows = order.iter().map(|&step| row(step, &report.steps[step]));
    table(
        "The steps of the call, the longest first.",
        "<th scope=\"col\">Step</th><th scope=\"col\">Name, and nodes of the model</th><th scope=\"col\" class=\"r\">Time</th><th scope=\"col\" class=\"r\">Share</th><th scope=\"col\">Share of roofline</th><th scope=\"col\" class=\"r\">GB/s</th><th scope=\"col\" class=\"r\">GFLOP/s</th><th scope=\"col\" class=\"r\">Tasks</th><th scope=\"col\">Schedule</th>",
        &rows.collect::<Vec<_>>(),
    )
}

fn row(number: usize, step: &ReportedStep) -> String {
    let seconds = step.ms / 1e3;
    let rate = |amount: f64| match seconds > 0.0 {
        true => count(amount / seconds / 1e9),
        false => "–".to_owned(),
    };
    let roofline = match (step.of_roofline, step.bound.as_deref()) {
        (Some(share), Some(bound)) => format!(
            "<span class=\"meter\"><i style=\"width:{:.0}%\"></i></span> {:.0} % <small>{}</small>",
            share.clamp(0.0, 1.0) * 100.0,
            share * 100.0,
            escape(bound)
        ),
        _ => "–".to_owned(),
    };
    let runs = match step.n_runs {
        0 | 1 => String::new(),
        n => format!(" <small>× {n}</small>"),
    };
    format!(
        "<tr><th scope=\"row\"><a href=\"#n{number}\" data-step=\"{number}\">{number}</a></th><td class=\"name\"><i class=\"{}\"></i>{}{runs}<small>{}</small></td><td class=\"r\">{}</td><td class=\"r\">{:.1} %</td><td>{roofline}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"r\">{}</td><td class=\"mono\">{}</td></tr>\n",
        colour(&step.kind, step.class.as_deref()),
        escape(&step.name),
        escape(&nodes(step)),
        time(step.ms),
        step.share * 100.0,
        rate(step.bytes as f64),
        step.operations.map_or("–".to_owned(), rate),
        step.tasks,
        escape(step.schedule.as_deref().unwrap_or("–")),
    )
}

/// The first and the last node of a step, and how many there are.
fn nodes(step: &ReportedStep) -> String {
    match step.nodes.as_slice() {
        [] => String::new(),
        [node] => short_name(node, 60),
        [first, .., last] => format!(
            "{} … {} ({} nodes)",
            short_name(first, 30),
            short_name(last, 30),
            step.nodes.len()
        ),
    }
}

pub(super) fn apart(report: &CallReport) -> String {
    if report.apart.is_empty() {
        return "<p class=\"none\">No two steps exchange a value.</p>\n".to_owned();
    }
    let rows = report.apart.iter().map(|apart| {
        let fact = apart.fact.as_deref().map_or(String::new(), |fact| {
            format!("<span class=\"fact\">if {} were known</span> ", escape(fact))
        });
        let step = |step: usize| {
            format!(
                "<a href=\"#n{step}\" data-step=\"{step}\">{step}</a> {}",
                escape(&report.steps[step].name)
            )
        };
        format!(
            "<tr><td class=\"r\">{}</td><td class=\"pair\">{}<br>{}</td><td class=\"mono wide\">{}</td><td>{fact}{}</td></tr>\n",
            time(apart.gain_ms),
            step(apart.from),
            step(apart.to),
            escape(&apart.values),
            escape(&apart.reason)
        )
    });
    let table = table(
        "Steps that pass a value on, those first that would save most as one kernel.",
        "<th scope=\"col\" class=\"r\">Would save</th><th scope=\"col\">Steps</th><th scope=\"col\">Value between them</th><th scope=\"col\">Why they are two</th>",
        &rows.collect::<Vec<_>>(),
    );
    format!(
        "<p>Most of these are two for a good reason, such as a product whose result is read more than once per element. A fact in colour is one that you may know: state it with <code>--dim</code>, or in the model.</p>\n{table}"
    )
}

pub(super) fn compiles(report: &CallReport) -> String {
    if report.compiles.is_empty() {
        return format!(
            "<p class=\"none\">The first call compiled nothing: {} kernels came from a store, others were in memory. <code>--cache off</code> shows what compiling costs.</p>\n",
            report.kernels_loaded
        );
    }
    let longest = report
        .compiles
        .iter()
        .map(|compile| compile.ms)
        .fold(0.0, f64::max);
    let rows = report.compiles.iter().map(|compile| {
        let what = match (&compile.error, compile.facts.is_empty()) {
            (Some(error), _) => format!("<span class=\"error\">{}</span>", escape(error)),
            (None, true) => escape(&compile.reason),
            (None, false) => format!("{}, for {}", escape(&compile.reason), escape(&compile.facts)),
        };
        format!(
            "<tr><th scope=\"row\">{}</th><td class=\"r\">{}</td><td>{}</td><td class=\"r\">{}</td><td class=\"mono wide\">{}</td><td>{what}</td></tr>\n",
            escape(&compile.kernel),
            time(compile.ms),
            stages(compile, longest),
            bytes(compile.code_bytes as f64),
            escape(&compile.schedule),
        )
    });
    let table = table(
        "What the first call compiled, in order.",
        "<th scope=\"col\">Kernel</th><th scope=\"col\" class=\"r\">Time</th><th scope=\"col\">Stages</th><th scope=\"col\" class=\"r\">Code</th><th scope=\"col\">Schedule</th><th scope=\"col\">Why</th>",
        &rows.collect::<Vec<_>>(),
    );
    format!("{}{table}", stage_totals(report))
}

/// A bar of the time of each stage.
fn stages(compile: &ReportedCompile, longest: f64) -> String {
    let width = |ms: f64| {
        if longest > 0.0 {
            ms / longest * 100.0
        } else {
            0.0
        }
    };
    let parts = compile
        .stages
        .iter()
        .enumerate()
        .map(|(number, (stage, ms))| {
            format!(
                "<i class=\"g{}\" style=\"width:{:.1}%\" title=\"{} {}\"></i>",
                number % 5,
                width(*ms),
                escape(stage),
                time(*ms)
            )
        });
    format!(
        "<span class=\"stages\">{}</span>",
        parts.collect::<String>()
    )
}

fn stage_totals(report: &CallReport) -> String {
    let mut totals: Vec<(&str, f64)> = Vec::new();
    for (stage, ms) in report.compiles.iter().flat_map(|compile| &compile.stages) {
        match totals.iter_mut().find(|(known, _)| known == stage) {
            Some((_, total)) => *total += ms,
            None => totals.push((stage, *ms)),
        }
    }
    let entries = totals.iter().enumerate().map(|(number, (stage, ms))| {
        format!(
            "<li><i class=\"g{}\"></i>{} <span>{}</span></li>",
            number % 5,
            escape(stage),
            time(*ms)
        )
    });
    format!(
        "<ul class=\"legend\">{}</ul>\n",
        entries.collect::<String>()
    )
}

/// A table whose later rows are collapsed.
fn table(caption: &str, head: &str, rows: &[String]) -> String {
    let (shown, folded) = rows.split_at(rows.len().min(SHOWN));
    let mut out = format!(
        "<div class=\"table\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{}</tbody></table></div>\n",
        shown.concat()
    );
    if !folded.is_empty() {
        let _infallible = write!(
            out,
            "<details><summary>{} more</summary><div class=\"table\"><table><thead><tr>{head}</tr></thead><tbody>\n{}</tbody></table></div></details>\n",
            folded.len(),
            folded.concat()
        );
    }
    out
}
