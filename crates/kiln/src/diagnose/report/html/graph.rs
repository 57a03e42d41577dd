//! The fused graph: a box for each step, in layers, with edges for the values between them.

use super::text::{colour, escape, short, short_name};
use crate::diagnose::report::advice::time;
use crate::diagnose::report::{CallReport, ReportedStep};
use kiln_ir::draw::{BoxSize, arrange};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The size of a box.
const SIZE: BoxSize = BoxSize {
    width: 232.0,
    height: 62.0,
};
/// The number of characters that fit into it.
const CHARACTERS: usize = 29;
/// The width of the bar of a step's share of time, in a box.
const BAR: f64 = SIZE.width - 20.0;

pub(super) fn section(report: &CallReport) -> String {
    let pairs: BTreeSet<(usize, usize)> = report
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    let pairs: Vec<(usize, usize)> = pairs.into_iter().collect();
    let arranged = arrange(&vec![SIZE; report.steps.len()], &pairs);
    let (width, height) = (
        arranged.width.max(SIZE.width),
        arranged.height.max(SIZE.height),
    );
    let mut out = String::from(
        "<div class=\"tools\"><label>Find <input id=\"find\" type=\"search\" placeholder=\"a step, an op or a node\" autocomplete=\"off\"></label><span id=\"found\" role=\"status\"></span><span class=\"zoom\"><button type=\"button\" data-zoom=\"in\" aria-label=\"Zoom in\">+</button><button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">−</button><button type=\"button\" data-zoom=\"all\">Show all</button></span></div>\n<p class=\"note keys\">Click a step for its details. With the keyboard: Tab into the graph, arrow keys to go from step to step, Enter for details, + and − to zoom.</p>\n",
    );
    let _infallible = writeln!(
        out,
        "<div class=\"graph\"><svg id=\"graph-svg\" viewBox=\"0 0 {width:.0} {height:.0}\" role=\"group\" aria-label=\"The fused graph: {} steps\">",
        report.steps.len()
    );
    out.push_str("<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n");
    for ((from, to), points) in pairs.iter().zip(&arranged.edges) {
        if !points.is_empty() {
            let _infallible = writeln!(
                out,
                "<path class=\"edge\" data-e=\"{from} {to}\" d=\"{}\"/>",
                curve(points)
            );
        }
    }
    let longest = report.steps.iter().map(|step| step.ms).fold(0.0, f64::max);
    for (position, (step, &(x, y))) in report.steps.iter().zip(&arranged.boxes).enumerate() {
        out.push_str(&node(position, step, (x, y), longest));
    }
    out.push_str("</svg>\n<aside id=\"details\" aria-live=\"polite\" tabindex=\"-1\"><p class=\"none\">Choose a step to see its ops, its nodes in the model, its shapes, its schedule and what it cost.</p></aside></div>\n");
    out
}

fn node(position: usize, step: &ReportedStep, (x, y): (f64, f64), longest: f64) -> String {
    let class = step.class.as_deref().unwrap_or(&step.kind);
    let bar = if longest > 0.0 {
        step.ms / longest * BAR
    } else {
        0.0
    };
    let node = step.nodes.last().unwrap_or(&step.name);
    let mut out = format!(
        "<g class=\"node {}\" id=\"n{position}\" data-n=\"{position}\" tabindex=\"{}\" role=\"button\" aria-label=\"{}\" transform=\"translate({x:.1} {y:.1})\">",
        colour(&step.kind, step.class.as_deref()),
        if position == 0 { 0 } else { -1 },
        escape(&format!(
            "step {position}: {}, {class}, {}, {:.0} percent of the call",
            step.name,
            time(step.ms),
            step.share * 100.0
        )),
    );
    let _infallible = write!(
        out,
        "<rect class=\"box\" width=\"{}\" height=\"{}\" rx=\"7\"/><rect class=\"strip\" width=\"5\" height=\"{}\" rx=\"2.5\"/>",
        SIZE.width, SIZE.height, SIZE.height
    );
    let _infallible = write!(
        out,
        "<text class=\"t\" x=\"14\" y=\"18\">{}</text><text class=\"s\" x=\"14\" y=\"33\">{} · {}</text><text class=\"s m\" x=\"14\" y=\"47\">{}</text>",
        escape(&short(&step.name, CHARACTERS)),
        escape(class),
        time(step.ms),
        escape(&short_name(node, CHARACTERS + 4)),
    );
    let _infallible = writeln!(
        out,
        "<rect class=\"bar\" x=\"14\" y=\"54\" width=\"{bar:.1}\" height=\"3\" rx=\"1.5\"/></g>"
    );
    out
}

/// A line through the points of an edge that leaves and enters boxes downwards. Edges across many layers have a point in each,
/// most of them straight below each other.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    let is_straight = |from: (f64, f64), to: (f64, f64)| (to.0 - from.0).abs() < 0.5;
    for (number, pair) in points.windows(2).enumerate() {
        let &[(x, y), (to_x, to_y)] = pair else {
            continue;
        };
        if number == 0 {
            let _infallible = write!(path, "M{x:.0} {y:.0}");
        }
        if !is_straight((x, y), (to_x, to_y)) {
            let middle = (y + to_y) / 2.0;
            let _infallible = write!(
                path,
                "C{x:.0} {middle:.0} {to_x:.0} {middle:.0} {to_x:.0} {to_y:.0}"
            );
        } else if points
            .get(number + 2)
            .is_none_or(|&next| !is_straight((to_x, to_y), next))
        {
            let _infallible = write!(path, "V{to_y:.0}");
        }
    }
    path
}
