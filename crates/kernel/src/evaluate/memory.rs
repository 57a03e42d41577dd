//! The contents of buffers, one value per element, row-major.

use kiln_scalar::{Mode, ScalarOp, ScalarValue, evaluate_op};
use kiln_tensor::{DType, Tensor, TensorError, match_dtype};

use super::EvaluateError;
use crate::form::{Buffer, Role};

/// The contents of a buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    shape: Vec<i64>,
    /// The type in which elements are kept.
    dtype: Option<DType>,
    values: Vec<ScalarValue>,
    /// How often each element of an `out` buffer was written.
    writes: Vec<u32>,
}

impl Contents {
    pub(super) fn of(
        buffer: &Buffer,
        shape: &[i64],
        tensor: &Tensor,
        mode: Mode,
    ) -> Result<Self, EvaluateError> {
        let stored = mode.stored(buffer.dtype);
        if tensor.dtype() != buffer.dtype && tensor.dtype() != stored {
            return Err(EvaluateError::BufferType {
                buffer: buffer.name.clone(),
                expected: buffer.dtype,
                found: tensor.dtype(),
            });
        }
        let is_same = |(&expected, &found): (&i64, &usize)| usize::try_from(expected) == Ok(found);
        if shape.len() != tensor.rank() || !shape.iter().zip(tensor.shape()).all(is_same) {
            return Err(EvaluateError::BufferShape {
                buffer: buffer.name.clone(),
                expected: shape.to_vec(),
                found: tensor.shape().to_vec(),
            });
        }
        let mut values = elements(tensor).map_err(|source| EvaluateError::Tensor {
            buffer: buffer.name.clone(),
            source,
        })?;
        for value in &mut values {
            if value.dtype() != stored {
                *value = evaluate_op(ScalarOp::Cast(stored), &[*value], Mode::Declared)?;
            }
        }
        let writes = if buffer.role == Role::Out {
            vec![0; values.len()]
        } else {
            Vec::new()
        };
        Ok(Self {
            shape: shape.to_vec(),
            dtype: Some(stored),
            values,
            writes,
        })
    }

    pub(super) fn is_inside(&self, indices: &[i64]) -> bool {
        indices
            .iter()
            .zip(&self.shape)
            .all(|(index, size)| (0..*size).contains(index))
    }

    pub(super) fn get(&self, name: &str, indices: &[i64]) -> Result<ScalarValue, EvaluateError> {
        let at = offset(&self.shape, indices, || format!("%{name}"))?;
        self.values
            .get(at)
            .copied()
            .ok_or_else(|| EvaluateError::unverified(format!("no element {at} of %{name}")))
    }

    pub(super) fn set(
        &mut self,
        name: &str,
        indices: &[i64],
        value: ScalarValue,
    ) -> Result<(), EvaluateError> {
        let at = offset(&self.shape, indices, || format!("%{name}"))?;
        if Some(value.dtype()) != self.dtype {
            return Err(EvaluateError::unverified(format!(
                "a {} stored to %{name}",
                value.dtype()
            )));
        }
        if let Some(element) = self.values.get_mut(at) {
            *element = value;
        }
        if let Some(writes) = self.writes.get_mut(at) {
            *writes = writes.saturating_add(1);
        }
        Ok(())
    }

    /// Whether every element of an `out` buffer was written once.
    pub(super) fn check_coverage(&self, name: &str) -> Result<(), EvaluateError> {
        let Some(at) = self.writes.iter().position(|&times| times != 1) else {
            return Ok(());
        };
        let mut rest = at;
        let mut index = Vec::with_capacity(self.shape.len());
        for &size in self.shape.iter().rev() {
            let size = usize::try_from(size).unwrap_or(1).max(1);
            index.push(rest % size);
            rest /= size;
        }
        index.reverse();
        let times = self.writes.get(at).copied().unwrap_or_default();
        Err(EvaluateError::NotWrittenOnce {
            buffer: name.to_owned(),
            index,
            times,
        })
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Tensor, EvaluateError> {
        let shape: Vec<usize> = self
            .shape
            .iter()
            .map(|&size| usize::try_from(size).unwrap_or_default())
            .collect();
        let made = self.dtype.map_or_else(
            || Tensor::zeros(DType::F32, &[0]),
            |dtype| tensor_of(dtype, &shape, &self.values),
        );
        made.map_err(|source| EvaluateError::Tensor {
            buffer: name.to_owned(),
            source,
        })
    }
}

/// The position of an element in row-major order.
pub(super) fn offset(
    shape: &[i64],
    indices: &[i64],
    what: impl Fn() -> String,
) -> Result<usize, EvaluateError> {
    if shape.len() != indices.len() {
        return Err(EvaluateError::unverified(format!(
            "{} indices of {}",
            indices.len(),
            what()
        )));
    }
    let mut at = 0_usize;
    for (axis, (&size, &index)) in shape.iter().zip(indices).enumerate() {
        match (usize::try_from(size), usize::try_from(index)) {
            (Ok(size), Ok(index)) if index < size => at = at * size + index,
            _ => {
                return Err(EvaluateError::IndexOutOfRange {
                    what: what(),
                    axis,
                    index,
                    size,
                });
            }
        }
    }
    Ok(at)
}

fn elements(tensor: &Tensor) -> Result<Vec<ScalarValue>, TensorError> {
    match_dtype!(tensor.dtype(), T => Ok(tensor.to_vec::<T>()?.into_iter().map(ScalarValue::from).collect()))
}

fn tensor_of(dtype: DType, shape: &[usize], values: &[ScalarValue]) -> Result<Tensor, TensorError> {
    macro_rules! gathered {
        ($($variant:ident),*) => {
            match dtype {
                $(DType::$variant => {
                    let element = |value: &ScalarValue| match value {
                        ScalarValue::$variant(value) => *value,
                        other => unreachable!("a {} among elements of {dtype}", other.dtype()),
                    };
                    Tensor::from_vec(shape, values.iter().map(element).collect())
                })*
                other => unreachable!("dtype {other} has no elements"),
            }
        };
    }
    gathered!(
        F64, F32, F16, BF16, I64, I32, I16, I8, U64, U32, U16, U8, Bool
    )
}
