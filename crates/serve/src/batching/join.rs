//! Joins requests into one call, and splits its outputs.

use super::axes::BatchPlan;
use kiln::{Error, Tensor};

/// The sizes that requests must have in common to be joined: all except that of the batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Group(Vec<usize>);

impl Group {
    /// The group of a request's inputs, and its size along the batch; `None` if the inputs disagree on that size.
    pub(crate) fn of(plan: &BatchPlan, inputs: &[Tensor]) -> Option<(Self, usize)> {
        let mut rows = None;
        let mut sizes = Vec::new();
        for (tensor, &axis) in inputs.iter().zip(&plan.inputs) {
            let here = *tensor.shape().get(axis)?;
            if rows.is_some_and(|rows| rows != here) {
                return None;
            }
            rows = Some(here);
            let others = tensor.shape().iter().enumerate();
            sizes.extend(others.filter(|(at, _)| *at != axis).map(|(_, size)| *size));
        }
        Some((Self(sizes), rows?))
    }
}

/// The inputs of several requests, one after another along the batch.
pub(crate) fn join(plan: &BatchPlan, requests: &[&[Tensor]]) -> Result<Vec<Tensor>, Error> {
    let joined = plan.inputs.iter().enumerate().map(|(input, &axis)| {
        let parts: Vec<&Tensor> = requests
            .iter()
            .filter_map(|request| request.get(input))
            .collect();
        Ok(Tensor::concat(&parts, axis)?)
    });
    joined.collect()
}

/// The outputs of each request, which took `rows` of the batch; `None` if the outputs do not have that many rows in
/// total.
pub(crate) fn split(
    plan: &BatchPlan,
    outputs: &[Tensor],
    rows: &[usize],
) -> Option<Vec<Vec<Tensor>>> {
    let total: usize = rows.iter().sum();
    let mut answers = vec![Vec::with_capacity(outputs.len()); rows.len()];
    for (tensor, &axis) in outputs.iter().zip(&plan.outputs) {
        if tensor.shape().get(axis) != Some(&total) {
            return None;
        }
        let mut start = 0;
        for (answer, &rows) in answers.iter_mut().zip(rows) {
            answer.push(tensor.narrow(axis, start, rows).ok()?);
            start += rows;
        }
    }
    Some(answers)
}
