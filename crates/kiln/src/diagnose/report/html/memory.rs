//! Memory over time: a rectangle for each value, from the step that writes it to the last step that reads it, at its
//! offset in the arena; results are stacked above it.

use super::text::{bytes, escape};
use crate::diagnose::report::{CallReport, ReportedMemory};
use std::fmt::Write;

/// The size of the drawing, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 320.0;
/// Values of a smaller height than this are omitted.
const LEAST: f64 = 0.05;

pub(super) fn section(report: &CallReport) -> String {
    let Some(memory) = report
        .memory
        .as_ref()
        .filter(|memory| !memory.values.is_empty())
    else {
        return "<p class=\"none\">The memory of this call is not known before it runs.</p>\n"
            .to_owned();
    };
    let total = (memory.arena + memory.results).max(1);
    let mut out = format!(
        "<p>The arena has {}, results have {} of their own, kernels {} of scratch. Of values and results, {} are live at step <b>{}</b>, the most at one time: any placement needs {:.0}&nbsp;% of what this one has.</p>\n",
        bytes(memory.arena as f64),
        bytes(memory.results as f64),
        bytes(memory.scratch as f64),
        bytes(memory.largest_live_set as f64),
        escape(&memory.largest_at),
        (memory.largest_live_set as f64 / total as f64 * 100.0).min(100.0),
    );
    let _infallible = writeln!(
        out,
        "<div class=\"chart\"><div class=\"y\" aria-hidden=\"true\"><span>{}</span><span>{}</span><span>0</span></div><svg class=\"memory\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{} values over {} steps\">",
        bytes(total as f64),
        bytes(total as f64 / 2.0),
        memory.values.len(),
        memory.n_steps,
    );
    out.push_str(&rectangles(memory, total));
    let _infallible = writeln!(
        out,
        "<path class=\"live\" d=\"{}\"/></svg><div class=\"x\" aria-hidden=\"true\"><span>step 0</span><span>each rectangle is a value; the line is what is live</span><span>step {}</span></div></div>",
        live(memory, total),
        memory.n_steps.saturating_sub(1)
    );
    out
}

fn rectangles(memory: &ReportedMemory, total: usize) -> String {
    let mut out = String::new();
    let mut above = memory.arena;
    let scale = HEIGHT / total as f64;
    let column = WIDTH / memory.n_steps.max(1) as f64;
    for (number, value) in memory.values.iter().enumerate() {
        let offset = value.offset.unwrap_or_else(|| {
            above += value.bytes;
            above - value.bytes
        });
        let height = value.bytes as f64 * scale;
        if height < LEAST {
            continue;
        }
        let kind = if value.offset.is_some() {
            number % 4
        } else {
            4
        };
        let _infallible = writeln!(
            out,
            "<rect class=\"v{kind}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{height:.2}\"><title>%{} · {} · steps {} to {}</title></rect>",
            value.from as f64 * column,
            HEIGHT - offset as f64 * scale - height,
            (value.to + 1 - value.from) as f64 * column,
            escape(&value.name),
            bytes(value.bytes as f64),
            value.from,
            value.to,
        );
    }
    out
}

/// The total of live values at each step, as a staircase line.
fn live(memory: &ReportedMemory, total: usize) -> String {
    let mut change = vec![0_i64; memory.n_steps + 1];
    for value in &memory.values {
        let bytes = i64::try_from(value.bytes).unwrap_or(i64::MAX);
        change[value.from] = change[value.from].saturating_add(bytes);
        change[value.to + 1] = change[value.to + 1].saturating_sub(bytes);
    }
    let column = WIDTH / memory.n_steps.max(1) as f64;
    let mut path = format!("M0 {HEIGHT}");
    let mut sum = 0_i64;
    for (step, change) in change.iter().take(memory.n_steps).enumerate() {
        sum = sum.saturating_add(*change);
        let y = HEIGHT - sum.max(0) as f64 / total as f64 * HEIGHT;
        let _infallible = write!(path, "V{y:.1}H{:.1}", (step + 1) as f64 * column);
    }
    path
}
