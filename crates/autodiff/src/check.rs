//! Checks gradients against finite differences of the function.
//!
//! An element is *unsteady* if two differences with different steps disagree: at a kink, or next to a jump or a pole.
//! Such elements are counted, but not checked.
//!
//! The function is `sum_k <c_k, y_k>` of the requested outputs with given cotangents; its central difference in each
//! element of an input is compared with that element of the analytic gradient. Meant for `f64`: with a step of 1e-5,
//! the difference of a smooth function is accurate to about ten digits.

use crate::joint::{Cotangents, GradientRequest, JointGraph};
use kiln_ir::Graph;
use kiln_tensor::{DType, Tensor, TensorError};

/// The relative error between finite differences above which an element is unsteady.
const UNSTEADY: f64 = 1e-5;

/// How gradients are checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheckOptions {
    /// Half of the distance between the two points of a finite difference, for elements around 1; it is scaled up for
    /// larger elements.
    pub step: f64,
    /// The largest error that passes, relative to the larger of 1 and both values.
    pub tolerance: f64,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            step: 1e-5,
            tolerance: 1e-6,
        }
    }
}

/// The element of an input whose gradient is furthest from the finite difference.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstElement {
    /// The index along each axis.
    pub index: Vec<usize>,
    /// The analytic gradient.
    pub analytic: f64,
    /// The difference.
    pub numerical: f64,
    /// The error, relative to the larger of 1 and both values.
    pub error: f64,
}

/// The check of one input.
#[derive(Clone, Debug, PartialEq)]
pub struct InputCheck {
    /// The input's name.
    pub name: String,
    /// The number of elements.
    pub n_elements: usize,
    /// The elements whose finite differences depend on the step, which are not checked.
    pub n_unsteady: usize,
    /// The worst of the other elements; `None` if there are none.
    pub worst: Option<WorstElement>,
}

/// The checks of all requested inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientReport {
    /// Per input, in the order of the request.
    pub inputs: Vec<InputCheck>,
    /// The tolerance of the check.
    pub tolerance: f64,
}

impl GradientReport {
    /// Whether every steady element is within the tolerance. A NaN is not within it.
    pub fn passes(&self) -> bool {
        let mut worst = self.inputs.iter().filter_map(|input| input.worst.as_ref());
        worst.all(|worst| worst.error <= self.tolerance)
    }
}

impl std::fmt::Display for GradientReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for input in &self.inputs {
            let name = input.name.escape_debug();
            write!(f, "{name}: {} elements", input.n_elements)?;
            if input.n_unsteady > 0 {
                write!(f, ", {} unsteady", input.n_unsteady)?;
            }
            match &input.worst {
                Some(worst) => writeln!(
                    f,
                    ", worst at {:?}: analytic {:e}, numerical {:e}, error {:.1e}",
                    worst.index, worst.analytic, worst.numerical, worst.error
                )?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// Why gradients could not be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError<E> {
    /// E0610: a differentiated input that is not of `f64`.
    #[error(
        "input `{name}` has elements of {dtype}: expected f64, in which differences are accurate"
    )]
    NotF64 {
        /// The input.
        name: String,
        /// Its element type.
        dtype: DType,
    },
    /// The graph could not be evaluated.
    #[error("cannot evaluate the graph: {0}")]
    Evaluate(#[source] E),
    /// A tensor could not be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

impl<E> CheckError<E> {
    /// The stable code, documented in the book's error reference; `None` for an error of the evaluation, which has its
    /// own code.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::NotF64 { .. } => Some("E0610"),
            Self::Evaluate(_) => None,
            Self::Tensor(error) => Some(error.code()),
        }
    }
}

/// Runs a graph on inputs.
pub type Evaluate<'a, E> = dyn FnMut(&Graph, &[Tensor]) -> Result<Vec<Tensor>, E> + 'a;

/// Compares the gradients that `joint` computes with finite differences of `graph`, from which it was made by
/// `request`.
///
/// `inputs` are those of the graph; `cotangents` those of the requested outputs, one each, or none where the request has them be
/// 1. `evaluate` runs a graph on inputs.
///
/// # Errors
/// When a differentiated input is not of `f64`, or a graph cannot be evaluated.
pub fn check_gradients<E>(
    graph: &Graph,
    joint: &JointGraph,
    request: &GradientRequest,
    (inputs, cotangents): (&[Tensor], &[Tensor]),
    options: &CheckOptions,
    evaluate: &mut Evaluate<'_, E>,
) -> Result<GradientReport, CheckError<E>> {
    let all: Vec<Tensor> = inputs.iter().chain(cotangents).cloned().collect();
    let results = evaluate(&joint.graph, &all).map_err(CheckError::Evaluate)?;
    let mut checks = Vec::with_capacity(request.inputs.len());
    for (&position, &output) in request.inputs.iter().zip(&joint.gradients) {
        let (Some(input), Some(gradient)) = (inputs.get(position), results.get(output)) else {
            continue;
        };
        let name = graph.input_name(graph.inputs()[position]);
        if input.dtype() != DType::F64 {
            let dtype = input.dtype();
            return Err(CheckError::NotF64 { name, dtype });
        }
        let analytic: Vec<f64> = gradient.to_vec()?;
        let values: Vec<f64> = input.to_vec()?;
        let mut check = InputCheck {
            name,
            n_elements: values.len(),
            n_unsteady: 0,
            worst: None,
        };
        for (element, &analytic) in analytic.iter().enumerate() {
            let mut at = |moved: f64| -> Result<f64, CheckError<E>> {
                let mut values = values.clone();
                values[element] = moved;
                let mut inputs = inputs.to_vec();
                inputs[position] = Tensor::from_slice(input.shape(), &values)?;
                let outputs = evaluate(graph, &inputs).map_err(CheckError::Evaluate)?;
                weighted_sum(request, &outputs, cotangents)
            };
            let step = options.step * values[element].abs().max(1.0);
            let numerical = difference(&mut at, values[element], step)?;
            let error = relative_error(analytic, numerical);
            let passes = error <= options.tolerance;
            if !passes && !is_steady(&mut at, values[element], step, numerical)? {
                check.n_unsteady += 1;
                continue;
            }
            let worst = check.worst.as_ref().map(|worst| worst.error);
            if worst.is_none_or(|worst| error.is_nan() || error > worst) {
                check.worst = Some(WorstElement {
                    index: index_of(element, input.shape()),
                    analytic,
                    numerical,
                    error,
                });
            }
        }
        checks.push(check);
    }
    Ok(GradientReport {
        inputs: checks,
        tolerance: options.tolerance,
    })
}

/// The central difference of a function.
fn difference<E>(
    at: &mut dyn FnMut(f64) -> Result<f64, E>,
    value: f64,
    step: f64,
) -> Result<f64, E> {
    // The points as represented in `f64`.
    let (above, below) = (value + step, value - step);
    Ok((at(above)? - at(below)?) / (above - below))
}

/// Whether finite differences with other steps agree with this one.
fn is_steady<E>(
    at: &mut dyn FnMut(f64) -> Result<f64, E>,
    value: f64,
    step: f64,
    found: f64,
) -> Result<bool, E> {
    for other in [step / 4.0, step * 3.0] {
        let error = relative_error(difference(at, value, other)?, found);
        if error.is_nan() || error > UNSTEADY {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The error relative to the larger of 1 and both values.
fn relative_error(left: f64, right: f64) -> f64 {
    (left - right).abs() / left.abs().max(right.abs()).max(1.0)
}

/// The sum of the requested outputs, weighted with their cotangents.
fn weighted_sum<E>(
    request: &GradientRequest,
    outputs: &[Tensor],
    cotangents: &[Tensor],
) -> Result<f64, CheckError<E>> {
    let mut sum = 0.0;
    for (index, &position) in request.outputs.iter().enumerate() {
        let Some(output) = outputs.get(position) else {
            continue;
        };
        let values: Vec<f64> = output.to_vec()?;
        sum += match (request.cotangents, cotangents.get(index)) {
            (Cotangents::Inputs, Some(weights)) => {
                let weights: Vec<f64> = weights.to_vec()?;
                let products = values.iter().zip(&weights).map(|(value, weight)| {
                    // A masked element may be infinite.
                    if *weight == 0.0 { 0.0 } else { value * weight }
                });
                products.sum::<f64>()
            }
            _ => values.iter().sum(),
        };
    }
    Ok(sum)
}

/// The index along each axis of an element in row-major order.
fn index_of(mut element: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (position, &size) in index.iter_mut().zip(shape).rev() {
        *position = element % size;
        element /= size;
    }
    index
}
