//! Compares compiled results with the interpreter's: how far apart they are, and whether rounding explains it.
//!
//! The reference is the interpreter in promoted mode, where every float is an `f64`. A result may be off because a step is
//! wrong, or because the model amplifies rounding errors that any implementation in its dtype has. To tell these apart,
//! each step is compared with the interpreter on what the step read: if every step is right in isolation, the model
//! amplifies.

use super::repro::Repro;
use crate::error::Error;
use crate::outputs::Outputs;

use kiln_tensor::Tensor;
use std::fmt;

/// Largest error, relative to the largest expected element, at which floats count as equal.
pub(crate) const AGREEMENT: f64 = 1e-5;

/// The expected results of a call: the interpreter's, computed once for any number of comparisons.
#[derive(Clone, Debug)]
pub struct Reference {
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) promoted: Outputs,
    pub(crate) declared: Outputs,
}

impl Reference {
    /// The results with every float computed as `f64`.
    pub fn promoted(&self) -> &Outputs {
        &self.promoted
    }

    /// The results rounded to the dtypes.
    pub fn declared(&self) -> &Outputs {
        &self.declared
    }
}

/// How a compiled call compares with its [`Reference`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Comparison {
    /// Each output.
    pub outputs: Vec<OutputComparison>,
    /// The first value, in order of execution, that a step computed wrongly from its operands. `None` if no output
    /// differs, or if no value differs while intermediates are kept.
    pub first_difference: Option<Difference>,
    /// The first value that is off although every step is correct in isolation, if outputs are off.
    pub amplified_at: Option<Difference>,
    /// A few ops and their inputs that reproduce the difference; `None` if no output differs.
    pub repro: Option<Repro>,
    /// The outputs of the compiled call.
    pub compiled: Outputs,
}

impl Comparison {
    /// The first output that is not bitwise equal to that of another comparison, such as one with a different number of
    /// threads.
    ///
    /// # Errors
    /// When memory runs out.
    pub fn first_unlike(&self, other: &Self) -> Result<Option<&str>, Error> {
        for ((name, a), (_, b)) in self.compiled.iter().zip(other.compiled.iter()) {
            if !is_same(a, b)? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Whether no output is wrong.
    pub fn agrees(&self) -> bool {
        let mut outputs = self.outputs.iter();
        outputs.all(|output| output.verdict != Verdict::Different)
    }
}

/// How one output compares.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OutputComparison {
    /// The output's name.
    pub name: String,
    /// The error of the compiled result: the largest error of an element, relative to the largest expected element.
    /// Infinite if shapes or NaNs differ.
    pub error: f64,
    /// The error of the interpreter in the mode that rounds to dtypes.
    pub declared_error: f64,
    /// The conclusion.
    pub verdict: Verdict,
}

/// The conclusion of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Equal within 1e-5; integers and bools exactly.
    Equal,
    /// Off by more, although every step is correct in isolation: the model amplifies rounding errors.
    Amplified,
    /// Wrong.
    Different,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Equal => "equal",
            Self::Amplified => "rounding amplified",
            Self::Different => "DIFFERENT",
        })
    }
}

/// Where results diverge: a value of the graph, and its context.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// The value.
    pub value: String,
    /// The op that computes it, and the node of the source model from which it came.
    pub op: String,
    /// The step that computes it.
    pub step: String,
    /// Its error, as [`OutputComparison::error`].
    pub error: f64,
    /// Its error relative to the correct result for the operands that the step read; `None` if that cannot be
    /// determined, such as after control flow.
    pub own_error: Option<f64>,
    /// The error of the interpreter in the mode that rounds to dtypes.
    pub declared_error: f64,
    /// The element with the largest error.
    pub worst: Option<WorstElement>,
    /// The operands of the step, each with its own error.
    pub reads: Vec<String>,
}

/// The element with the largest error.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WorstElement {
    /// Its index.
    pub index: Vec<usize>,
    /// The computed value.
    pub found: f64,
    /// The expected value.
    pub expected: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value,
            op,
            step,
            error,
            own_error,
            declared_error,
            ..
        } = self;
        writeln!(f, "{value}, given by {op}, in step {step}")?;
        write!(f, "  off by {error:.1e}")?;
        if let Some(own_error) = own_error {
            write!(f, " ({own_error:.1e} from what the step read)")?;
        }
        writeln!(f, ", plain rounding by {declared_error:.1e}")?;
        if let Some(worst) = &self.worst {
            writeln!(
                f,
                "  worst at {:?}: found {}, expected {}",
                worst.index, worst.found, worst.expected
            )?;
        }
        for read in &self.reads {
            writeln!(f, "  reads {read}")?;
        }
        Ok(())
    }
}

/// How far a tensor is from the expected one, and where the error is largest.
#[derive(Clone, Debug)]
pub(crate) struct Distance {
    pub(crate) error: f64,
    pub(crate) worst: Option<WorstElement>,
}

impl Distance {
    const NONE: Self = Self {
        error: 0.0,
        worst: None,
    };

    const SHAPES_DIFFER: Self = Self {
        error: f64::INFINITY,
        worst: None,
    };

    /// The distance of `found` from `expected`.
    pub(crate) fn of(found: &Tensor, expected: &Tensor) -> Result<Self, Error> {
        if found.shape() != expected.shape() {
            return Ok(Self::SHAPES_DIFFER);
        }
        let shape = found.shape();
        let (found, expected) = (found.to_f64_vec()?, expected.to_f64_vec()?);
        let magnitudes = expected.iter().map(|value| value.abs());
        let largest = magnitudes
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let mut worst: Option<(usize, f64)> = None;
        for (position, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let error = element_error(found, expected);
            if error > worst.map_or(0.0, |(_, error)| error) {
                worst = Some((position, error));
            }
        }
        let Some((position, error)) = worst else {
            return Ok(Self::NONE);
        };
        let at = |elements: &[f64]| elements.get(position).copied().unwrap_or(f64::NAN);
        Ok(Self {
            error: if largest > 0.0 {
                error / largest
            } else {
                error
            },
            worst: Some(WorstElement {
                index: index_of(position, shape),
                found: at(&found),
                expected: at(&expected),
            }),
        })
    }
}

/// Whether tensors are bitwise equal.
pub(crate) fn is_same(a: &Tensor, b: &Tensor) -> Result<bool, Error> {
    if a.dtype() != b.dtype() || a.shape() != b.shape() {
        return Ok(false);
    }
    // Compared as contiguous elements, whatever the strides.
    let bytes = |tensor: &Tensor| {
        let mut bytes = Vec::new();
        kiln_tensor::write_npy(tensor, &mut bytes).map(|()| bytes)
    };
    Ok(bytes(a)? == bytes(b)?)
}

/// Infinite if one is NaN or infinite and the other is not the same.
fn element_error(found: f64, expected: f64) -> f64 {
    if found == expected || (found.is_nan() && expected.is_nan()) {
        0.0
    } else if found.is_finite() && expected.is_finite() {
        (found - expected).abs()
    } else {
        f64::INFINITY
    }
}

/// The index of the element at a row-major position.
fn index_of(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index: Vec<usize> = shape
        .iter()
        .rev()
        .map(|&size| {
            let size = size.max(1);
            let axis = position % size;
            position /= size;
            axis
        })
        .collect();
    index.reverse();
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(found: &[f32], expected: &[f64]) -> Distance {
        let found = Tensor::from_slice(&[found.len()], found).unwrap();
        let expected = Tensor::from_slice(&[expected.len()], expected).unwrap();
        Distance::of(&found, &expected).unwrap()
    }

    #[test]
    fn errors_are_relative_to_the_largest_element() {
        let found = distance(&[1.0, 10.5, -3.0], &[1.0, 10.0, -3.0]);
        assert_eq!(found.error, 0.05);
        let worst = found.worst.unwrap();
        assert_eq!(
            (worst.index, worst.found, worst.expected),
            (vec![1], 10.5, 10.0)
        );
        assert_eq!(distance(&[0.5], &[0.0]).error, 0.5);
        assert_eq!(distance(&[], &[]).error, 0.0);
    }

    #[test]
    fn nan_and_infinity_must_match_element_by_element() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(distance(&[nan, inf], &[f64::NAN, f64::INFINITY]).error, 0.0);
        assert_eq!(distance(&[nan], &[1.0]).error, f64::INFINITY);
        assert_eq!(distance(&[-inf], &[f64::INFINITY]).error, f64::INFINITY);
        assert_eq!(distance(&[1.0, 2.0], &[1.0]).error, f64::INFINITY);
    }

    #[test]
    fn index_of_a_position_is_row_major() {
        assert_eq!(index_of(5, &[2, 3]), [1, 2]);
        assert_eq!(index_of(0, &[]), [0usize; 0]);
        assert_eq!(index_of(0, &[0, 2]), [0, 0]);
    }

    #[test]
    fn verdicts_print_in_columns() {
        assert_eq!(format!("{:>6}|", Verdict::Equal), " equal|");
        assert_eq!(Verdict::Different.to_string(), "DIFFERENT");
        assert_eq!(Verdict::Amplified.to_string(), "rounding amplified");
    }
}
