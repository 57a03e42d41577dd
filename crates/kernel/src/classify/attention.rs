//! Recognises attention: sums of products, reduced along a row, and summed again with other factors.

use super::Contraction;
use super::dependence::{Dependence, reduced};
use crate::form::{Kernel, StageId};

/// The first contraction that a row reduction reads, that reduction, and a contraction that reads both.
pub(super) fn find(
    kernel: &Kernel,
    dependence: &Dependence,
    contractions: &[Contraction],
) -> Option<(StageId, StageId, StageId)> {
    let is_contraction = |stage: &StageId| contractions.iter().any(|c| c.stage == *stage);
    contractions.iter().find_map(|result| {
        let read = dependence.stages(result.stage);
        let mut rows = read
            .iter()
            .filter(|stage| !reduced(kernel.stage(**stage)).is_empty() && !is_contraction(stage));
        rows.find_map(|&row| {
            let scores = dependence
                .stages(row)
                .iter()
                .find(|stage| is_contraction(stage))?;
            read.contains(scores)
                .then_some((*scores, row, result.stage))
        })
    })
}
