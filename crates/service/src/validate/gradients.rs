//! Gradients against differences of the function along drawn directions.
//!
//! The differences are those of the graph in `f64`, interpreted. Two things are compared with them: the gradients as the
//! joint graph defines them, in `f64`; and the joint graph compiled, as it will run.

use super::{CheckFailure, KernelValidator, Outcome};
use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::internals::autodiff::{Cotangents, GradientRequest, JointGraph, differentiate, widened};
use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::internals::ir::Graph;
use kiln::{Cache, CompilePolicy, Compiling, Device, Options, Tensor};

/// Half of the distance between the two points of a difference.
const STEP: f64 = 1e-5;
/// The largest relative error of gradients in `f64`.
const TOLERANCE: f64 = 1e-4;
/// That of compiled gradients, whose elements are rounded.
const TOLERANCE_COMPILED: f64 = 5e-3;
/// How far slopes with different steps may be apart, relative to the largest there may be.
const STEADY: f64 = 1e-5;
/// Slopes smaller than this are lost in the rounding of differences.
const LEAST_SCALE: f64 = 1e-6;
/// Directions that are tried for each combination of sizes until the difference along one does not depend on the step.
const DIRECTIONS: usize = 8;
/// How many combinations of sizes are drawn.
const SHAPES: usize = 3;
/// Differences are only taken of small sizes: each is two calls of the interpreter.
const LARGEST: i64 = 4;

impl KernelValidator {
    /// Checks the gradients of a graph with respect to all its inputs of floats, if it has any.
    ///
    /// # Errors
    /// E1422 where no sizes can be drawn; E1420 when the gradients do not compile.
    pub fn check_gradients(&self, graph: &Graph) -> Result<Outcome, ServiceError> {
        let Some(request) = request_of(graph) else {
            let why = "no output of floats depends on an input of floats".to_owned();
            return Ok(Outcome::NotApplicable(why));
        };
        match differentiate(graph, &request) {
            Ok(joint) => self.check_joint(graph, &joint, &request),
            Err(error) => Ok(Outcome::NotApplicable(format!("{}: {error}", error.code()))),
        }
    }

    /// Checks a graph with gradients, which `request` says the places of, against differences of the graph that it was
    /// made from.
    ///
    /// # Errors
    /// As [`check_gradients`](Self::check_gradients).
    pub fn check_joint(
        &self,
        graph: &Graph,
        joint: &JointGraph,
        request: &GradientRequest,
    ) -> Result<Outcome, ServiceError> {
        let model = crate::optimize::loaded(&options(), &joint.graph)?;
        let widen = |graph: &Graph| widened(graph).map_err(|error| internal(&error));
        let (wide, wide_joint) = (widen(graph)?, widen(&joint.graph)?);
        let mut random = Random::new(self.seed);
        let (mut judged, mut unsteady) = (0, 0);
        for _ in 0..SHAPES {
            let shapes = draw::drawn_shapes(graph, &mut random, LARGEST)?;
            let Some(inputs) = inputs_and_cotangents(graph, request, &shapes, &mut random)? else {
                continue;
            };
            let compiled = model.run(&inputs);
            let compiled = compiled.map_err(ServiceError::stage("gradients"))?;
            let all: Vec<Tensor> = inputs.iter().map(wide_tensor).collect::<Result<_, _>>()?;
            let exact = run(&wide_joint, &all).map_err(|error| internal(&error))?;
            for (&input, &gradient) in request.inputs.iter().zip(&joint.gradients) {
                let case = Case {
                    graph: &wide,
                    request,
                    all: &all,
                    input,
                };
                let Some(slope) = case.slope(norm(&exact[gradient])?, &mut random)? else {
                    unsteady += 1;
                    continue;
                };
                judged += 1;
                let gradients = [&exact[gradient], &compiled[gradient]];
                if let Some(mut failure) = slope.judge(gradients)? {
                    let name = name_of(graph, input);
                    failure.what = format!("the gradient with respect to {name}, {}", failure.what);
                    failure.place = format!("inputs {shapes:?}");
                    return Ok(Outcome::Failed(failure));
                }
            }
        }
        if judged == 0 {
            let amount = format!(
                "expected a difference that does not depend on its step, found none in {unsteady} attempts"
            );
            return Ok(Outcome::Failed(CheckFailure {
                what: "gradients".to_owned(),
                place: "all drawn sizes".to_owned(),
                amount,
            }));
        }
        Ok(Outcome::Passed(format!(
            "{judged} gradients along directions, {unsteady} next to a kink not judged"
        )))
    }
}

/// How the joint graph is compiled: on one thread, and kept nowhere.
fn options() -> Options {
    let compiling = Compiling {
        policy: CompilePolicy::FirstUse,
        threads: Some(1),
        variants: None,
        ..Compiling::default()
    };
    let options = Options::new().device(Device::cpu()).cache(Cache::off());
    options.compiling(compiling).threads(1)
}

/// Drawn inputs, then a cotangent for each requested output; none where the graph refuses the inputs, such as an index out
/// of range.
fn inputs_and_cotangents(
    graph: &Graph,
    request: &GradientRequest,
    shapes: &[Vec<usize>],
    random: &mut Random,
) -> Result<Option<Vec<Tensor>>, ServiceError> {
    let mut inputs = draw::drawn_inputs(graph, shapes, random)?;
    let Ok(results) = run(graph, &inputs) else {
        return Ok(None);
    };
    for &output in &request.outputs {
        let (dtype, shape) = (results[output].dtype(), results[output].shape());
        inputs.push(draw::drawn_tensor(dtype, shape, false, random)?);
    }
    Ok(Some(inputs))
}

fn name_of(graph: &Graph, input: usize) -> String {
    let input = graph.inputs().get(input);
    input.map_or_else(String::new, |&input| {
        graph.input_name(input).escape_debug().to_string()
    })
}

/// Every output of floats with respect to every input of floats, with cotangents as inputs.
fn request_of(graph: &Graph) -> Option<GradientRequest> {
    let floats = |values: &[kiln::internals::ir::ValueId]| -> Vec<usize> {
        let is_float = |&value| graph.tensor_ty(value).is_some_and(|ty| ty.dtype.is_float());
        let places = values
            .iter()
            .enumerate()
            .filter(|(_, value)| is_float(value));
        places.map(|(place, _)| place).collect()
    };
    let (outputs, inputs) = (floats(graph.outputs()), floats(graph.inputs()));
    let request = GradientRequest {
        outputs,
        inputs,
        cotangents: Cotangents::Inputs,
    };
    (!request.outputs.is_empty() && !request.inputs.is_empty()).then_some(request)
}

/// One input whose gradient is checked.
struct Case<'a> {
    graph: &'a Graph,
    request: &'a GradientRequest,
    /// The inputs, then the cotangents.
    all: &'a [Tensor],
    input: usize,
}

impl Case<'_> {
    /// The slope of the weighted sum of outputs along a drawn direction; none where slopes depend on the step. `length` is
    /// that of the gradient.
    fn slope(&self, length: f64, random: &mut Random) -> Result<Option<Slope>, ServiceError> {
        let at = &self.all[self.input];
        for _ in 0..DIRECTIONS {
            let direction = draw::drawn_tensor(at.dtype(), at.shape(), false, random)?;
            let difference = |step: f64| -> Result<f64, ServiceError> {
                let (above, below) = (
                    self.along(&direction, step)?,
                    self.along(&direction, -step)?,
                );
                Ok((above - below) / (2.0 * step))
            };
            let (slope, other) = (difference(STEP)?, difference(STEP / 4.0)?);
            let scale = (length * norm(&direction)?).max(LEAST_SCALE);
            if (slope - other).abs() <= STEADY * scale.max(slope.abs()) {
                return Ok(Some(Slope {
                    direction,
                    slope,
                    scale,
                }));
            }
        }
        Ok(None)
    }

    fn along(&self, direction: &Tensor, step: f64) -> Result<f64, ServiceError> {
        let (inputs, cotangents) = self.all.split_at(self.graph.inputs().len());
        let mut inputs = inputs.to_vec();
        let at = numbers(&inputs[self.input])?;
        let moved: Vec<f64> = at
            .iter()
            .zip(numbers(direction)?)
            .map(|(x, d)| x + step * d)
            .collect();
        let shape = inputs[self.input].shape().to_vec();
        inputs[self.input] =
            Tensor::from_slice(&shape, &moved).map_err(|error| internal(&error))?;
        let results = run(self.graph, &inputs).map_err(|error| internal(&error))?;
        let mut sum = 0.0;
        for (&output, cotangent) in self.request.outputs.iter().zip(cotangents) {
            sum += dot(&results[output], cotangent)?;
        }
        Ok(sum)
    }
}

/// The slope of a function along a direction.
struct Slope {
    direction: Tensor,
    slope: f64,
    /// The largest slope that a gradient of this length has along a direction of this length.
    scale: f64,
}

impl Slope {
    /// Compares gradients as defined and as compiled with the slope.
    fn judge(&self, [exact, compiled]: [&Tensor; 2]) -> Result<Option<CheckFailure>, ServiceError> {
        let slope = self.slope;
        for (how, gradient, tolerance) in [
            ("as defined", exact, TOLERANCE),
            ("as compiled", compiled, TOLERANCE_COMPILED),
        ] {
            let along = dot(gradient, &self.direction)?;
            let error = (along - slope).abs() / self.scale.max(slope.abs());
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

fn run(
    graph: &Graph,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, kiln::internals::interpreter::InterpretError> {
    interpret(graph, inputs, &InterpretOptions::default())
}

fn internal(error: &(dyn std::error::Error + 'static)) -> ServiceError {
    ServiceError::Panicked {
        doing: "the check of gradients",
        message: error.to_string(),
    }
}

fn wide_tensor(tensor: &Tensor) -> Result<Tensor, ServiceError> {
    if !tensor.dtype().is_float() {
        return Ok(tensor.clone());
    }
    let wide = Tensor::from_slice(tensor.shape(), &numbers(tensor)?);
    wide.map_err(|error| internal(&error))
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>, ServiceError> {
    tensor.to_f64_vec().map_err(|error| internal(&error))
}

fn dot(left: &Tensor, right: &Tensor) -> Result<f64, ServiceError> {
    let products = numbers(left)?.into_iter().zip(numbers(right)?);
    Ok(products.map(|(left, right)| left * right).sum())
}

fn norm(tensor: &Tensor) -> Result<f64, ServiceError> {
    Ok(dot(tensor, tensor)?.sqrt())
}
