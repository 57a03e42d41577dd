//! Samples by number, and their collation into batches.

use super::Batch;
use crate::error::TrainError;
use kiln::Tensor;

/// Samples by index, from which batches are made.
pub trait Dataset: Send + Sync {
    /// Several samples together.
    type Batch: Send + 'static;

    /// The number of samples.
    fn len(&self) -> usize;

    /// The batch of these samples, in this order. The indices are below [`len`](Self::len).
    ///
    /// # Errors
    /// When a sample cannot be read, or the samples do not fit each other.
    fn batch(&self, samples: &[usize]) -> Result<Self::Batch, TrainError>;

    /// Whether there is no sample.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same samples, with a function applied to each batch, on the thread that makes the batch.
    fn map<B, F>(self, function: F) -> Mapped<Self, F>
    where
        Self: Sized,
        B: Send + 'static,
        F: Fn(Self::Batch) -> Result<B, TrainError> + Send + Sync,
    {
        Mapped {
            data: self,
            function,
        }
    }
}

/// A dataset with a function applied to each batch; see [`Dataset::map`].
#[derive(Clone, Debug)]
pub struct Mapped<D, F> {
    data: D,
    function: F,
}

impl<D, B, F> Dataset for Mapped<D, F>
where
    D: Dataset,
    B: Send + 'static,
    F: Fn(D::Batch) -> Result<B, TrainError> + Send + Sync,
{
    type Batch = B;

    fn len(&self) -> usize {
        self.data.len()
    }

    fn batch(&self, samples: &[usize]) -> Result<B, TrainError> {
        (self.function)(self.data.batch(samples)?)
    }
}

/// Tensors by name whose outermost axes are the samples.
#[derive(Clone, Debug)]
pub struct Tensors {
    tensors: Vec<(String, Tensor)>,
    len: usize,
}

impl Tensors {
    /// A dataset of tensors `[samples, ..]`.
    ///
    /// # Errors
    /// E0628 when there is no tensor, or their numbers of samples differ.
    pub fn new<N: Into<String>>(
        tensors: impl IntoIterator<Item = (N, Tensor)>,
    ) -> Result<Self, TrainError> {
        let mut own: Vec<(String, Tensor)> = Vec::new();
        let mut len = None;
        for (name, tensor) in tensors {
            let name = name.into();
            let Some(&count) = tensor.shape().first() else {
                return Err(mismatch(
                    &name,
                    "a tensor with an axis of samples",
                    "a scalar",
                ));
            };
            let expected = *len.get_or_insert(count);
            if count != expected {
                let (expected, found) = (format!("{expected} samples"), count.to_string());
                return Err(mismatch(&name, &expected, &found));
            }
            own.push((name, tensor.contiguous()?));
        }
        match len {
            Some(len) => Ok(Self { tensors: own, len }),
            None => Err(mismatch("", "at least one tensor", "none")),
        }
    }
}

fn mismatch(name: &str, expected: &str, found: &str) -> TrainError {
    TrainError::Samples {
        tensor: name.escape_debug().to_string(),
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}

impl Dataset for Tensors {
    type Batch = Batch;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, samples: &[usize]) -> Result<Batch, TrainError> {
        if let Some(sample) = samples.iter().find(|&&sample| sample >= self.len) {
            let expected = format!("a sample below {}", self.len);
            return Err(mismatch("", &expected, &sample.to_string()));
        }
        let mut rows = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in &self.tensors {
            rows.push((name.clone(), rows_of(tensor, samples)?));
        }
        Ok(Batch::new(rows))
    }
}

/// Some rows of a contiguous tensor `[samples, ..]`.
fn rows_of(tensor: &Tensor, samples: &[usize]) -> Result<Tensor, TrainError> {
    let [_, rest @ ..] = tensor.shape() else {
        unreachable!("a dataset's tensors have an axis of samples")
    };
    let bytes = tensor.as_bytes()?;
    let row = rest.iter().product::<usize>() * tensor.dtype().size_in_bytes();
    let shape: Vec<usize> = [&[samples.len()], rest].concat();
    Ok(Tensor::filled_by(tensor.dtype(), &shape, |into| {
        // Rows without elements have no bytes to copy.
        for (into, &sample) in into.chunks_exact_mut(row.max(1)).zip(samples) {
            into.copy_from_slice(&bytes[sample * row..][..row]);
        }
        Ok(())
    })?)
}

/// Samples made by one function and collated by another.
///
/// ```
/// use kiln::Tensor;
/// use kiln_train::data::{Batch, Dataset, Samples, stacked};
///
/// // Squares, of which each is computed when a batch needs it.
/// let squares = Samples::new(
///     100,
///     |index| Ok(Tensor::scalar((index * index) as f32)),
///     |samples: Vec<Tensor>| Ok(Batch::new([("x", stacked(&samples)?)])),
/// );
/// assert_eq!(squares.batch(&[2, 3])?.get("x")?.to_vec::<f32>()?, [4.0, 9.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Samples<F, C> {
    len: usize,
    sample: F,
    collate: C,
}

impl<F, C> Samples<F, C> {
    /// `len` samples: `sample` makes the sample of an index, and `collate` makes a batch of several samples.
    pub fn new<S, B>(len: usize, sample: F, collate: C) -> Self
    where
        F: Fn(usize) -> Result<S, TrainError> + Send + Sync,
        C: Fn(Vec<S>) -> Result<B, TrainError> + Send + Sync,
        B: Send + 'static,
    {
        Self {
            len,
            sample,
            collate,
        }
    }
}

impl<S, B, F, C> Dataset for Samples<F, C>
where
    F: Fn(usize) -> Result<S, TrainError> + Send + Sync,
    C: Fn(Vec<S>) -> Result<B, TrainError> + Send + Sync,
    B: Send + 'static,
{
    type Batch = B;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, samples: &[usize]) -> Result<B, TrainError> {
        let samples = samples.iter().map(|&sample| (self.sample)(sample));
        (self.collate)(samples.collect::<Result<_, _>>()?)
    }
}
