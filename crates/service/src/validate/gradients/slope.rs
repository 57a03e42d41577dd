//! Slopes of a graph along directions of several inputs at once, against which gradients are checked.
//!
//! The components of a direction are scaled so that each input's gradient has the same largest slope along its own
//! component. An error is relative to that slope, not to the sum of all slopes, so an input has the same tolerance in a
//! group as alone. Errors of two inputs could only hide each other by being opposite along independently drawn
//! directions. A group can fail although each of its inputs passes, because rounding errors add up; the caller then
//! checks each input separately.

use super::{internal, numbers, run};
use crate::draw::{self, Random};
use crate::error::ServiceError;
use crate::validate::CheckFailure;
use kiln::Tensor;
use kiln::internals::autodiff::GradientRequest;
use kiln::internals::ir::Graph;

/// Half of the distance between the two points of a finite difference.
const STEP: f64 = 1e-5;
/// The largest relative error of gradients in `f64`.
const TOLERANCE: f64 = 1e-4;
/// The largest relative error of compiled gradients, whose elements are rounded.
const TOLERANCE_COMPILED: f64 = 5e-3;
/// The maximum difference of slopes with different steps, relative to the largest possible slope.
const STEADY: f64 = 1e-5;
/// Slopes smaller than this are lost in the rounding of differences.
const LEAST_SCALE: f64 = 1e-6;
/// The maximum number of inputs of a group: each additional input is one more that may be near a kink.
const LARGEST_GROUP: usize = 8;
/// The maximum ratio of the largest to the smallest gradient of a group: steps along inputs with larger gradients are
/// made smaller, and a small slope must not be lost in the rounding of a function that the larger ones dominate.
const SPREAD: f64 = 1e3;

/// An input with its gradients.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    /// The input's position.
    pub(super) input: usize,
    /// Its gradient as the joint graph defines it, in `f64`.
    pub(super) exact: &'a Tensor,
    /// Its gradient as compiled.
    pub(super) compiled: &'a Tensor,
}

impl Judged<'_> {
    /// The largest slope along a direction of this length; at least [`LEAST_SCALE`], also for a gradient with a NaN.
    fn scale(&self, length: f64) -> Result<f64, ServiceError> {
        Ok((norm(self.exact)? * length).max(LEAST_SCALE))
    }
}

/// Groups of inputs to check together, each with gradients of similar size, in the order of inputs.
pub(super) fn groups(all: Vec<Judged<'_>>) -> Result<Vec<Vec<Judged<'_>>>, ServiceError> {
    let mut scaled = Vec::new();
    for judged in all {
        let length = (judged.exact.len() as f64).sqrt();
        scaled.push((judged.scale(length)?, judged));
    }
    scaled.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    let mut groups: Vec<Vec<Judged<'_>>> = Vec::new();
    let mut least = 0.0;
    for (scale, judged) in scaled {
        match groups.last_mut() {
            Some(group) if group.len() < LARGEST_GROUP && scale <= SPREAD * least => {
                group.push(judged);
            }
            _ => {
                least = scale;
                groups.push(vec![judged]);
            }
        }
    }
    for group in &mut groups {
        group.sort_by_key(|judged| judged.input);
    }
    Ok(groups)
}

/// A function, the weighted sum of a graph's outputs, at a point.
pub(super) struct Point<'a> {
    /// The graph in `f64`.
    pub(super) graph: &'a Graph,
    pub(super) request: &'a GradientRequest,
    /// The inputs, then the cotangents.
    pub(super) all: &'a [Tensor],
}

impl Point<'_> {
    /// The slope along a drawn direction of a group's inputs; `None` if the slope depends on the step for all of
    /// `directions` directions.
    pub(super) fn slope(
        &self,
        group: &[Judged<'_>],
        directions: usize,
        random: &mut Random,
    ) -> Result<Option<Slope>, ServiceError> {
        for _ in 0..directions {
            let (parts, scale) = self.direction(group, random)?;
            let difference = |step: f64| -> Result<f64, ServiceError> {
                let (above, below) = (
                    self.along(group, &parts, step)?,
                    self.along(group, &parts, -step)?,
                );
                Ok((above - below) / (2.0 * step))
            };
            let (slope, other) = (difference(STEP)?, difference(STEP / 4.0)?);
            if (slope - other).abs() <= STEADY * scale.max(slope.abs()) {
                return Ok(Some(Slope {
                    parts,
                    slope,
                    scale,
                }));
            }
        }
        Ok(None)
    }

    /// A direction, as a part for each input of a group, and the largest slope along each part.
    fn direction(
        &self,
        group: &[Judged<'_>],
        random: &mut Random,
    ) -> Result<(Vec<Vec<f64>>, f64), ServiceError> {
        let mut drawn = Vec::new();
        for judged in group {
            let at = &self.all[judged.input];
            let part = numbers(&draw::drawn_tensor(at.dtype(), at.shape(), false, random)?)?;
            let length = part.iter().map(|x| x * x).sum::<f64>().sqrt();
            drawn.push((judged.scale(length)?, part));
        }
        let scales = drawn.iter().map(|&(scale, _)| scale);
        let least = scales.fold(f64::INFINITY, f64::min);
        let parts = drawn.into_iter().map(|(scale, mut part)| {
            let shrink = if scale == least { 1.0 } else { least / scale };
            part.iter_mut().for_each(|x| *x *= shrink);
            part
        });
        Ok((parts.collect(), least))
    }

    /// The function's value a step along a direction.
    fn along(
        &self,
        group: &[Judged<'_>],
        parts: &[Vec<f64>],
        step: f64,
    ) -> Result<f64, ServiceError> {
        let (inputs, cotangents) = self.all.split_at(self.graph.inputs().len());
        let mut inputs = inputs.to_vec();
        for (judged, part) in group.iter().zip(parts) {
            let at = &mut inputs[judged.input];
            let from = numbers(at)?;
            let moved: Vec<f64> = from.iter().zip(part).map(|(x, d)| x + step * d).collect();
            let moved = Tensor::from_slice(at.shape(), &moved);
            *at = moved.map_err(|error| internal(&error))?;
        }
        let results = run(self.graph, &inputs).map_err(|error| internal(&error))?;
        let mut sum = 0.0;
        for (&output, cotangent) in self.request.outputs.iter().zip(cotangents) {
            sum += dot(&results[output], &numbers(cotangent)?)?;
        }
        Ok(sum)
    }
}

/// The slope of a function along a direction.
pub(super) struct Slope {
    /// The direction, a part for each input of the group.
    parts: Vec<Vec<f64>>,
    slope: f64,
    /// The largest slope that each gradient has along its part.
    scale: f64,
}

impl Slope {
    /// Compares both the defined and the compiled gradients with the slope.
    pub(super) fn judge(&self, group: &[Judged<'_>]) -> Result<Option<CheckFailure>, ServiceError> {
        type Of = for<'a> fn(&Judged<'a>) -> &'a Tensor;
        let slope = self.slope;
        let both: [(&str, Of, f64); 2] = [
            ("as defined", |judged| judged.exact, TOLERANCE),
            ("as compiled", |judged| judged.compiled, TOLERANCE_COMPILED),
        ];
        for (how, gradient, tolerance) in both {
            let mut along = 0.0;
            for (judged, part) in group.iter().zip(&self.parts) {
                along += dot(gradient(judged), part)?;
            }
            let error = (along - slope).abs() / self.scale;
            if error.is_nan() || error > tolerance {
                return Ok(Some(CheckFailure {
                    what: how.to_owned(),
                    place: String::new(),
                    amount: format!(
                        "expected a slope of {slope:e}, found {along:e}, an error of {error:.1e} where {tolerance:.0e} is allowed"
                    ),
                }));
            }
        }
        Ok(None)
    }
}

fn dot(left: &Tensor, right: &[f64]) -> Result<f64, ServiceError> {
    let products = numbers(left)?.into_iter().zip(right);
    Ok(products.map(|(left, right)| left * right).sum())
}

fn norm(tensor: &Tensor) -> Result<f64, ServiceError> {
    let squares = numbers(tensor)?.into_iter().map(|x| x * x);
    Ok(squares.sum::<f64>().sqrt())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]
    use super::*;

    fn grouped(gradients: &[f64]) -> Vec<Vec<usize>> {
        let tensors: Vec<Tensor> = gradients.iter().map(|&x| Tensor::scalar(x)).collect();
        let all = tensors.iter().enumerate().map(|(input, gradient)| Judged {
            input,
            exact: gradient,
            compiled: gradient,
        });
        let groups = groups(all.collect()).unwrap();
        let inputs = groups
            .iter()
            .map(|group| group.iter().map(|judged| judged.input).collect());
        inputs.collect()
    }

    #[test]
    fn groups_are_of_at_most_eight_inputs() {
        assert!(grouped(&[]).is_empty());
        assert_eq!(grouped(&[1.0]), [[0]]);
        assert_eq!(grouped(&[1.0; 8]).len(), 1);
        let of_nine = grouped(&[1.0; 9]);
        assert_eq!(of_nine, [(0..8).collect(), vec![8]]);
    }

    #[test]
    fn gradients_of_other_sizes_are_judged_in_other_groups() {
        // Zeros and NaNs have the least scale.
        let groups = grouped(&[1.0, 0.0, -2e4, 3.0, f64::NAN, 1e4, f64::INFINITY]);
        assert_eq!(groups, [vec![1, 4], vec![0, 3], vec![2, 5], vec![6]]);
    }
}
