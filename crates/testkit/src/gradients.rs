//! Checks the interpreted gradients of a graph: against finite differences, against tangents, and for second
//! derivatives.
//!
//! Elements of `f64` inputs are replaced by others of a range, which are at no kink and equal no other.

use kiln_autodiff::{
    CheckOptions, GradientRequest, JointGraph, check_gradients, differentiate, tangents,
};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{Graph, ValueId, verify};
use kiln_shape_inference::check_types;
use kiln_tensor::{DType, Tensor};

use crate::random::SplitMix64;

/// A range of elements in which most functions have a derivative.
pub const GENERIC: (f64, f64) = (-2.0, 2.0);

/// Half of the distance between two points along a direction.
const STEP: f64 = 1e-5;

/// The tolerance of a finite difference along a direction: the errors of elements that move together add up.
const DIRECTION_TOLERANCE: f64 = 1e-5;

/// One element out of this many may be unsteady.
const MAX_UNSTEADY: usize = 8;

/// The tolerance of `<c, J v> = <Jᵀ c, v>`, relative to the larger of both and 1.
const TANGENT_TOLERANCE: f64 = 1e-9;

/// Differentiates every output of floats with respect to every input of floats, with cotangents as inputs; checks the gradients,
/// the gradients of these, and the tangents, on some inputs; and returns the joint graph.
///
/// # Errors
/// The problem.
pub fn check(
    graph: &Graph,
    inputs: impl Iterator<Item = Result<Vec<Tensor>, String>>,
    range: (f64, f64),
) -> Result<Graph, String> {
    let (outputs, wrt) = (
        floats(graph, graph.outputs()),
        floats(graph, graph.inputs()),
    );
    let request = GradientRequest::with_cotangents(&outputs, &wrt);
    let joint = differentiated(graph, &request)?;
    let again_wrt: Vec<usize> = wrt.iter().chain(&joint.cotangents).copied().collect();
    let again_request = GradientRequest::with_cotangents(&joint.gradients, &again_wrt);
    let again = differentiated(&joint.graph, &again_request)?;
    for (inputs, seed) in inputs.zip(1..) {
        let mut random = SplitMix64::new(seed);
        let mut all = Vec::new();
        for tensor in inputs? {
            all.push(match tensor.dtype() {
                DType::F64 => elements(tensor.shape(), range, &mut random)?,
                _ => tensor,
            });
        }
        let n_inputs = all.len();
        let of_inputs = shapes_of(graph, &all, &outputs)?;
        for shape in &of_inputs {
            all.push(elements(shape, GENERIC, &mut random)?);
        }
        let (inputs, cotangents) = all.split_at(n_inputs);
        compare(graph, &joint, &request, (inputs, cotangents))?;
        check_tangents(graph, &joint, &request, (inputs, cotangents), &mut random)?;

        let mut weights = Vec::new();
        for shape in shapes_of(&joint.graph, &all, &joint.gradients)? {
            weights.push(elements(&shape, GENERIC, &mut random)?);
        }
        compare(&joint.graph, &again, &again_request, (&all, &weights))
            .map_err(|error| format!("twice: {error}"))?;
    }
    Ok(joint.graph)
}

/// Differentiates as [`check`] does, and compares the gradients in some random directions with finite differences along
/// them, on some inputs; twice, if `twice` is set. Cheaper than [`check`], which moves each element.
///
/// `Ok(false)` if the differences depend on the step, such as at a kink.
///
/// # Errors
/// The problem.
pub fn check_directions(
    graph: &Graph,
    inputs: &[Tensor],
    range: (f64, f64),
    (twice, seed): (bool, u64),
) -> Result<bool, String> {
    let (outputs, wrt) = (
        floats(graph, graph.outputs()),
        floats(graph, graph.inputs()),
    );
    let request = GradientRequest::with_cotangents(&outputs, &wrt);
    let joint = differentiated(graph, &request)?;
    let mut random = SplitMix64::new(seed);
    let mut all = Vec::new();
    for tensor in inputs {
        all.push(match tensor.dtype() {
            DType::F64 => elements(tensor.shape(), range, &mut random)?,
            _ => tensor.clone(),
        });
    }
    for shape in shapes_of(graph, &all, &outputs)? {
        all.push(elements(&shape, GENERIC, &mut random)?);
    }
    if !agrees_along(graph, &joint, &request, &all, &mut random)? {
        return Ok(false);
    }
    if !twice {
        return Ok(true);
    }
    let again_wrt: Vec<usize> = wrt.iter().chain(&joint.cotangents).copied().collect();
    let again_request = GradientRequest::with_cotangents(&joint.gradients, &again_wrt);
    let again = differentiated(&joint.graph, &again_request)?;
    for shape in shapes_of(&joint.graph, &all, &joint.gradients)? {
        all.push(elements(&shape, GENERIC, &mut random)?);
    }
    agrees_along(&joint.graph, &again, &again_request, &all, &mut random)
        .map_err(|error| format!("twice: {error}"))
}

/// Whether the gradients in a random direction equal the finite difference along it; false if that depends on the step.
/// `all` are the graph's inputs and cotangents.
fn agrees_along(
    graph: &Graph,
    joint: &JointGraph,
    request: &GradientRequest,
    all: &[Tensor],
    random: &mut SplitMix64,
) -> Result<bool, String> {
    let (inputs, cotangents) = all.split_at(graph.inputs().len());
    let mut directions = Vec::new();
    for &input in &request.inputs {
        directions.push(elements(inputs[input].shape(), GENERIC, random)?);
    }
    let pulled = evaluate(&joint.graph, all)?;
    let analytic = dot(&pulled, &joint.gradients, &directions)?;
    let along = |step: f64| -> Result<f64, String> {
        let mut moved = inputs.to_vec();
        for (&input, direction) in request.inputs.iter().zip(&directions) {
            moved[input] = shifted(&inputs[input], direction, step)?;
        }
        dot(&evaluate(graph, &moved)?, &request.outputs, cotangents)
    };
    let difference =
        |step: f64| -> Result<f64, String> { Ok((along(step)? - along(-step)?) / (2.0 * step)) };
    let error = |left: f64, right: f64| (left - right).abs() / left.abs().max(right.abs()).max(1.0);
    let numerical = difference(STEP)?;
    if error(analytic, numerical) <= DIRECTION_TOLERANCE {
        return Ok(true);
    }
    for step in [STEP / 4.0, STEP * 3.0] {
        let other = error(difference(step)?, numerical);
        if other.is_nan() || other > DIRECTION_TOLERANCE {
            return Ok(false);
        }
    }
    Err(format!(
        "along a direction: analytic {analytic:e}, numerical {numerical:e}"
    ))
}

/// A tensor moved along a direction.
fn shifted(tensor: &Tensor, direction: &Tensor, step: f64) -> Result<Tensor, String> {
    let elements = |tensor: &Tensor| tensor.to_vec::<f64>().map_err(|error| error.to_string());
    let (values, direction) = (elements(tensor)?, elements(direction)?);
    let moved: Vec<f64> = values
        .iter()
        .zip(&direction)
        .map(|(value, direction)| value + step * direction)
        .collect();
    Tensor::from_slice(tensor.shape(), &moved).map_err(|error| error.to_string())
}

/// The joint graph, verified.
fn differentiated(graph: &Graph, request: &GradientRequest) -> Result<JointGraph, String> {
    let joint = differentiate(graph, request).map_err(|error| error.to_string())?;
    verify(&joint.graph).map_err(|errors| errors.to_string())?;
    check_types(&joint.graph).map_err(|errors| errors.to_string())?;
    Ok(joint)
}

/// The positions of values of floats.
fn floats(graph: &Graph, values: &[ValueId]) -> Vec<usize> {
    let is_float = |&index: &usize| graph.ty(values[index]).innermost().dtype.is_float();
    (0..values.len()).filter(is_float).collect()
}

/// Elements of a range.
fn elements(
    shape: &[usize],
    (low, high): (f64, f64),
    random: &mut SplitMix64,
) -> Result<Tensor, String> {
    let count: usize = shape.iter().product();
    let fraction = |random: &mut SplitMix64| random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
    let element = |_| low + (high - low) * fraction(random);
    let elements: Vec<f64> = (0..count).map(element).collect();
    Tensor::from_slice(shape, &elements).map_err(|error| error.to_string())
}

fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    interpret(graph, inputs, &InterpretOptions::default()).map_err(|error| error.to_string())
}

/// The shapes of some outputs.
fn shapes_of(
    graph: &Graph,
    inputs: &[Tensor],
    outputs: &[usize],
) -> Result<Vec<Vec<usize>>, String> {
    let results = evaluate(graph, inputs)?;
    Ok(outputs
        .iter()
        .map(|&output| results[output].shape().to_vec())
        .collect())
}

fn compare(
    graph: &Graph,
    joint: &JointGraph,
    request: &GradientRequest,
    (inputs, cotangents): (&[Tensor], &[Tensor]),
) -> Result<(), String> {
    let report = check_gradients(
        graph,
        joint,
        request,
        (inputs, cotangents),
        &CheckOptions::default(),
        &mut |graph, inputs| evaluate(graph, inputs),
    )
    .map_err(|error| error.to_string())?;
    let unsteady: usize = report.inputs.iter().map(|input| input.n_unsteady).sum();
    let elements: usize = report.inputs.iter().map(|input| input.n_elements).sum();
    if report.passes() && unsteady * MAX_UNSTEADY <= elements {
        return Ok(());
    }
    let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
    Err(format!("gradients at {shapes:?}:\n{report}"))
}

/// Compares tangents in a random direction with gradients.
fn check_tangents(
    graph: &Graph,
    joint: &JointGraph,
    request: &GradientRequest,
    (inputs, cotangents): (&[Tensor], &[Tensor]),
    random: &mut SplitMix64,
) -> Result<(), String> {
    let forward = tangents(graph, &request.outputs, &request.inputs);
    let forward = forward.map_err(|error| error.to_string())?;
    verify(&forward.graph).map_err(|errors| errors.to_string())?;
    let mut directions = Vec::new();
    for &input in &request.inputs {
        directions.push(elements(inputs[input].shape(), GENERIC, random)?);
    }
    let pushed = evaluate(&forward.graph, &[inputs, &directions].concat())?;
    let pulled = evaluate(&joint.graph, &[inputs, cotangents].concat())?;
    let left = dot(&pushed, &forward.tangent_outputs, cotangents)?;
    let right = dot(&pulled, &joint.gradients, &directions)?;
    if (left - right).abs() <= TANGENT_TOLERANCE * left.abs().max(right.abs()).max(1.0) {
        return Ok(());
    }
    Err(format!(
        "tangents and gradients differ: <c, Jv> = {left}, <Jᵀc, v> = {right}"
    ))
}

/// The inner product of some tensors with others.
fn dot(tensors: &[Tensor], positions: &[usize], others: &[Tensor]) -> Result<f64, String> {
    let mut sum = 0.0;
    for (&position, other) in positions.iter().zip(others) {
        let elements = |tensor: &Tensor| tensor.to_vec::<f64>().map_err(|error| error.to_string());
        let (left, right) = (elements(&tensors[position])?, elements(other)?);
        sum += left.iter().zip(&right).map(|(a, b)| a * b).sum::<f64>();
    }
    Ok(sum)
}
