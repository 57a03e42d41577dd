//! Compares gradients with finite differences of the function along random directions.
//!
//! The differences are those of the graph interpreted in `f64`. Two kinds of gradients are compared with them: those
//! that the joint graph defines, interpreted in `f64`, and those of the compiled joint graph, as it will run. Inputs
//! are perturbed in groups, so that a graph with many parameters takes few calls of the interpreter; a group that
//! fails, or is next to a kink, is checked again input by input, which identifies the input at fault.

mod slope;

use super::{CheckFailure, KernelValidator, Outcome};
use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::internals::autodiff::{Cotangents, GradientRequest, JointGraph, differentiate, widened};
use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::internals::ir::Graph;
use kiln::{CompilePolicy, Compiling, Options, Tensor};
use slope::{Judged, Point, groups};

/// The number of directions tried for each group, to find one along which the finite difference does not depend on the
/// step.
const DIRECTIONS_OF_GROUP: usize = 2;
/// The same for a single input.
const DIRECTIONS: usize = 8;
/// How many combinations of sizes are drawn.
const SHAPES: usize = 3;
/// The largest size at which finite differences are taken: each needs two calls of the interpreter.
const LARGEST: i64 = 4;

impl KernelValidator {
    /// Checks the gradients of a graph with respect to all its inputs of floats, if it has any. They are compiled for the
    /// options' device and level, through their cache, on one thread.
    ///
    /// # Errors
    /// E1422 where no sizes can be drawn; E1420 when the gradients do not compile.
    pub fn check_gradients(
        &self,
        graph: &Graph,
        options: &Options,
    ) -> Result<Outcome, ServiceError> {
        let Some(request) = request_of(graph) else {
            let why = "no output of floats depends on an input of floats".to_owned();
            return Ok(Outcome::NotApplicable(why));
        };
        match differentiate(graph, &request) {
            Ok(joint) => self.check_joint(graph, &joint, &request, options),
            Err(error) => Ok(Outcome::NotApplicable(format!("{}: {error}", error.code()))),
        }
    }

    /// Checks a graph with gradients, whose positions `request` gives, against finite differences of the graph from
    /// which it was made.
    ///
    /// # Errors
    /// As [`check_gradients`](Self::check_gradients).
    pub fn check_joint(
        &self,
        graph: &Graph,
        joint: &JointGraph,
        request: &GradientRequest,
        options: &Options,
    ) -> Result<Outcome, ServiceError> {
        let model = crate::optimize::loaded(&on_one_thread(options), &joint.graph)?;
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
            let gradients = request.inputs.iter().zip(&joint.gradients);
            let inputs = gradients.map(|(&input, &gradient)| Judged {
                input,
                exact: &exact[gradient],
                compiled: &compiled[gradient],
            });
            let point = Point {
                graph: &wide,
                request,
                all: &all,
            };
            for group in groups(inputs.collect())? {
                let found = judge(&point, &group, &mut random)?;
                judged += found.judged;
                unsteady += group.len() - found.judged;
                if let Some((input, mut failure)) = found.failure {
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

/// The result of checking a group of inputs.
struct Found {
    /// The inputs that were checked; the others are next to a kink.
    judged: usize,
    /// The first input whose gradient is wrong.
    failure: Option<(usize, CheckFailure)>,
}

/// Checks a group of inputs together, then separately if that does not show that all are correct.
fn judge(
    point: &Point<'_>,
    group: &[Judged<'_>],
    random: &mut Random,
) -> Result<Found, ServiceError> {
    if group.len() > 1
        && let Some(slope) = point.slope(group, DIRECTIONS_OF_GROUP, random)?
        && slope.judge(group)?.is_none()
    {
        return Ok(Found {
            judged: group.len(),
            failure: None,
        });
    }
    let mut found = Found {
        judged: 0,
        failure: None,
    };
    for judged in group {
        let alone = std::slice::from_ref(judged);
        let Some(slope) = point.slope(alone, DIRECTIONS, random)? else {
            continue;
        };
        found.judged += 1;
        if let Some(failure) = slope.judge(alone)? {
            found.failure = Some((judged.input, failure));
            break;
        }
    }
    Ok(found)
}
/// Options that compile and run the joint graph on one thread, and compile each kernel when it is first called.
fn on_one_thread(options: &Options) -> Options {
    let compiling = Compiling {
        policy: CompilePolicy::FirstUse,
        threads: Some(1),
        variants: None,
        ..Compiling::default()
    };
    options.clone().compiling(compiling).threads(1)
}

/// Drawn inputs, then a cotangent for each requested output; `None` if the graph rejects the inputs, such as an index
/// out of range.
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

/// Requests the gradients of every floating-point output with respect to every floating-point input, with cotangents as
/// inputs.
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
