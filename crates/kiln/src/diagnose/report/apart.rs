//! Adjacent steps that were not fused, ranked by what fusing them would save.
//!
//! The estimate: the value between the two steps would be neither written nor read again, at the rate that both steps
//! reached over all their bytes, and one launch would be saved. The estimate is at most the time of the shorter step.
//! If other steps read the value too, it would still be written.

use super::seen::Seen;
use super::steps::is_control;
use super::{Apart, CallReport, Edge};
use crate::error::Error;
use kiln_ir::OpId;
use std::collections::BTreeMap;

/// The maximum number of pairs explained.
const EXPLAINED: usize = 24;

/// Adds the pairs.
pub(super) fn add(
    report: &mut CallReport,
    seen: &Seen<'_>,
    ops_of: &[Vec<OpId>],
) -> Result<(), Error> {
    let mut pairs: BTreeMap<(usize, usize), Vec<&Edge>> = BTreeMap::new();
    for edge in &report.edges {
        pairs.entry((edge.from, edge.to)).or_default().push(edge);
    }
    let mut readers: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for edge in &report.edges {
        *readers.entry((edge.from, &edge.value)).or_default() += 1;
    }
    let kernels = report.steps.iter().filter(|step| step.kind == "kernel");
    let launch_ms = kernels
        .map(|step| step.ms / step.n_runs.max(1) as f64)
        .fold(f64::INFINITY, f64::min);
    let gain = |(from, to): (usize, usize), between: &[&Edge]| {
        let (first, last) = (&report.steps[from], &report.steps[to]);
        if [first, last].iter().any(|step| is_control(step)) {
            return 0.0;
        }
        let saved: f64 = between
            .iter()
            .map(|edge| {
                let passes = if readers.get(&(from, edge.value.as_str())) == Some(&1) {
                    2.0
                } else {
                    1.0
                };
                edge.bytes.unwrap_or(0) as f64 * passes
            })
            .sum();
        let rate = (first.ms + last.ms) / ((first.bytes + last.bytes) as f64).max(1.0);
        let shorter = first.ms.min(last.ms);
        (saved * rate + launch_ms.min(shorter)).min(shorter)
    };
    let mut ranked: Vec<((usize, usize), f64, String)> = pairs
        .iter()
        .map(|(&pair, between)| {
            let values: Vec<&str> = between.iter().map(|edge| edge.value.as_str()).collect();
            (pair, gain(pair, between), values.join(", "))
        })
        .filter(|(_, gain, _)| *gain > 0.0)
        .collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut apart = Vec::new();
    for ((from, to), gain_ms, values) in ranked.into_iter().take(EXPLAINED) {
        let (reason, fact) = explained(seen, &ops_of[from], &ops_of[to])?;
        apart.push(Apart {
            from,
            to,
            values,
            gain_ms,
            reason,
            fact,
        });
    }
    report.apart = apart;
    Ok(())
}

/// Why two steps are not fused, and the fact that would allow it, if there is one.
fn explained(
    seen: &Seen<'_>,
    first: &[OpId],
    last: &[OpId],
) -> Result<(String, Option<String>), Error> {
    let (Some(&a), Some(&b)) = (first.last(), last.first()) else {
        return Ok(Default::default());
    };
    let explanation = seen.fusion.explain(seen.graph, a, b)?;
    // The reasons are the indented lines below the steps that they concern.
    let reasons = explanation.lines.iter();
    let reasons: Vec<&str> = reasons
        .filter_map(|line| line.strip_prefix("  "))
        .map(str::trim)
        .collect();
    let fact = explanation.fact.map(|fact| fact.name(seen.graph.dims()));
    Ok((reasons.join("; "), fact))
}
