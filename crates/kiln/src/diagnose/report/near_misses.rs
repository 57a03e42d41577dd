//! The near misses of a report as text: pairs of steps that were not fused, by what fusing them would save.

use super::{Apart, CallReport, ReportedStep};
use std::fmt::Write;

/// The maximum number of nodes named for a step.
const NODES: usize = 2;

impl CallReport {
    /// The pairs of steps that are not one kernel, as text: first those that a fact about sizes would allow to fuse,
    /// then those that are separate for another reason, each group sorted by the milliseconds that one kernel would
    /// save.
    pub fn near_misses(&self) -> String {
        let mut text = String::new();
        let (near, other): (Vec<&Apart>, Vec<&Apart>) =
            self.apart.iter().partition(|apart| apart.fact.is_some());
        section(&mut text, self, "one kernel if a fact were known", &near);
        text.push('\n');
        section(&mut text, self, "apart for another reason", &other);
        text
    }
}

fn section(text: &mut String, report: &CallReport, title: &str, pairs: &[&Apart]) {
    // Writing to a string never fails.
    let _ = match pairs.len() {
        0 => writeln!(text, "{title}: none"),
        count => writeln!(text, "{title}: {count}"),
    };
    for apart in pairs {
        let (Some(from), Some(to)) = (report.steps.get(apart.from), report.steps.get(apart.to))
        else {
            continue;
        };
        let (from, to) = (name(from), name(to));
        let _ = writeln!(text, "{:9.4} ms  {from} and {to}", apart.gain_ms);
        let _ = writeln!(text, "{:14}between them: {}", "", apart.values);
        if !apart.reason.is_empty() {
            let _ = writeln!(text, "{:14}{}", "", apart.reason);
        }
        if let Some(fact) = &apart.fact {
            let _ = writeln!(
                text,
                "{:14}were {fact} known: state it with --dim, if it always holds",
                ""
            );
        }
    }
}

/// Describes a step by its ops, and by the nodes that it computes.
fn name(step: &ReportedStep) -> String {
    let shown = step.nodes.iter().take(NODES);
    let mut nodes: Vec<String> = shown.map(|node| node.escape_debug().to_string()).collect();
    if step.nodes.len() > NODES {
        nodes.push("…".to_owned());
    }
    match nodes.is_empty() {
        true => step.name.clone(),
        false => format!("{} ({})", step.name, nodes.join(", ")),
    }
}
