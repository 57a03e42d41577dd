//! Batches of an iterator whose length is not known.

use crate::error::TrainError;
use std::fmt;

/// Batches of `size` samples of an iterator, each made by `collate`; the last has the samples that remain.
///
/// ```
/// use kiln::Tensor;
/// use kiln_train::data::batches_of;
///
/// let lines = "1 2\n3 4\n5 6".lines();
/// let rows = lines.map(|line| line.split(' ').map(|number| number.parse().unwrap_or(0.0)));
/// let batches = batches_of(rows, 2, |rows| {
///     let count = rows.len();
///     let numbers: Vec<f32> = rows.into_iter().flatten().collect();
///     Ok(Tensor::from_slice(&[count, 2], &numbers)?)
/// })?;
/// let shapes: Vec<Vec<usize>> = batches.map(|batch| Ok(batch?.shape().to_vec())).collect::<Result<_, kiln_train::TrainError>>()?;
/// assert_eq!(shapes, [[2, 2], [1, 2]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// E0629 for a size of 0.
pub fn batches_of<I, B, C>(
    samples: I,
    size: usize,
    collate: C,
) -> Result<BatchesOf<I::IntoIter, C>, TrainError>
where
    I: IntoIterator,
    C: FnMut(Vec<I::Item>) -> Result<B, TrainError>,
{
    if size == 0 {
        return Err(TrainError::BatchSize {
            found: size.to_string(),
        });
    }
    Ok(BatchesOf {
        samples: samples.into_iter(),
        size,
        collate,
    })
}

/// Batches of an iterator; see [`batches_of`].
#[derive(Clone)]
pub struct BatchesOf<I, C> {
    samples: I,
    size: usize,
    collate: C,
}

impl<I, B, C> Iterator for BatchesOf<I, C>
where
    I: Iterator,
    C: FnMut(Vec<I::Item>) -> Result<B, TrainError>,
{
    type Item = Result<B, TrainError>;

    fn next(&mut self) -> Option<Self::Item> {
        let samples: Vec<I::Item> = self.samples.by_ref().take(self.size).collect();
        (!samples.is_empty()).then(|| (self.collate)(samples))
    }
}

impl<I, C> fmt::Debug for BatchesOf<I, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchesOf({} samples)", self.size)
    }
}
