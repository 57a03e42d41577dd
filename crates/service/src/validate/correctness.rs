//! Compares results with the interpreter's, at random sizes.

use super::{CheckFailure, KernelValidator, Outcome};
use crate::draw::{self, Random};
use crate::error::ServiceError;
use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::internals::ir::Graph;
use kiln::internals::scalar::Mode;
use kiln::{DType, Model, Tensor};

/// The maximum error of floats of 32 bits or more, relative to the largest expected element.
const TOLERANCE: f64 = 1e-4;
/// The maximum error of floats of 16 bits.
const TOLERANCE_OF_HALVES: f64 = 2e-2;

impl KernelValidator {
    /// Compares a model with the interpreter's results for the graph, at the sizes 0, 1, 2, vector widths, primes, and
    /// neighbours of the likely sizes. Where the graph rejects inputs, such as an index out of range, the model has to
    /// reject them too.
    ///
    /// # Errors
    /// E1422 if no sizes can be drawn.
    pub fn check_correctness(&self, graph: &Graph, model: &Model) -> Result<Outcome, ServiceError> {
        let mut random = Random::new(self.seed);
        let mut worst = 0.0f64;
        for _ in 0..self.shapes {
            let shapes = draw::drawn_shapes(graph, &mut random, self.largest_size)?;
            let inputs = draw::drawn_inputs(graph, &shapes, &mut random)?;
            match compare(graph, model, &inputs) {
                Ok(error) => worst = worst.max(error),
                Err(mut failure) => {
                    failure.place = format!("inputs {shapes:?}, {}", failure.place);
                    return Ok(Outcome::Failed(failure));
                }
            }
        }
        Ok(Outcome::Passed(format!(
            "{} combinations of sizes, largest error {worst:.1e}",
            self.shapes
        )))
    }
}

/// The largest relative error, or the first output that is wrong.
fn compare(graph: &Graph, model: &Model, inputs: &[Tensor]) -> Result<f64, CheckFailure> {
    let options = InterpretOptions {
        mode: Mode::Promoted,
        ..InterpretOptions::default()
    };
    let fail = |what: &str, place: String, amount: String| CheckFailure {
        what: what.to_owned(),
        place,
        amount,
    };
    let (expected, found) = match (interpret(graph, inputs, &options), model.run(inputs)) {
        (Ok(expected), Ok(found)) => (expected, found),
        (Err(_), Err(_)) => return Ok(0.0),
        (Ok(_), Err(error)) => {
            return Err(fail("the call", error.code().to_owned(), error.to_string()));
        }
        (Err(error), Ok(_)) => {
            let amount = format!("expected the error {error}, found results");
            return Err(fail("the call", error.code().to_owned(), amount));
        }
    };
    let mut worst = 0.0f64;
    for (expected, (name, found)) in expected.iter().zip(found.iter()) {
        let what = format!("output {}", name.escape_debug());
        if expected.shape() != found.shape() {
            let amount = format!(
                "expected shape {:?}, found {:?}",
                expected.shape(),
                found.shape()
            );
            return Err(fail(&what, "its shape".to_owned(), amount));
        }
        let unreadable = |error: kiln::internals::tensor::TensorError| {
            fail(&what, "its elements".to_owned(), error.to_string())
        };
        let wanted = expected.to_f64_vec().map_err(unreadable)?;
        let given = found.to_f64_vec().map_err(unreadable)?;
        let finite = wanted.iter().filter(|x| x.is_finite());
        let scale = finite.fold(1e-30f64, |scale, x| scale.max(x.abs()));
        let tolerance = match found.dtype() {
            DType::F16 | DType::BF16 => TOLERANCE_OF_HALVES,
            dtype if dtype.is_float() => TOLERANCE,
            _ => 0.0,
        };
        for (at, (&wanted, &given)) in wanted.iter().zip(&given).enumerate() {
            let is_same = wanted == given || (wanted.is_nan() && given.is_nan());
            let error = if is_same {
                0.0
            } else {
                (wanted - given).abs() / scale
            };
            // A NaN is not within any tolerance.
            if error.is_nan() || error > tolerance {
                let amount = format!(
                    "expected {wanted}, found {given}, an error of {error:.1e} where {tolerance:.0e} is allowed"
                );
                return Err(fail(&what, format!("element {at}"), amount));
            }
            worst = worst.max(error);
        }
    }
    Ok(worst)
}
