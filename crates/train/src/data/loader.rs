//! Epochs over a dataset: every sample once, in batches.

use super::ahead::{Ahead, ahead};
use super::dataset::Dataset;
use crate::error::TrainError;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Reads a dataset in batches, epoch by epoch.
///
/// The order of an epoch depends only on the seed and the epoch's number, so training that was stopped continues with
/// the same batches as if it had not been.
pub struct Loader<D> {
    data: Arc<D>,
    /// The sizes of batches, in turn; none is 0.
    sizes: Vec<usize>,
    seed: Option<u64>,
    drops_last: bool,
    n_ahead: usize,
}

impl<D: Dataset + 'static> Loader<D> {
    /// Batches of `size` samples, in the dataset's order; the last has the samples that remain.
    ///
    /// # Errors
    /// E0629 for a size of 0.
    pub fn new(data: D, size: usize) -> Result<Self, TrainError> {
        Self::of_sizes(data, &[size])
    }

    /// As [`new`](Self::new), but with batches that cycle through these sizes.
    ///
    /// # Errors
    /// E0629 if there are no sizes, or one of them is 0.
    pub fn of_sizes(data: D, sizes: &[usize]) -> Result<Self, TrainError> {
        if sizes.is_empty() || sizes.contains(&0) {
            return Err(TrainError::BatchSize {
                found: format!("{sizes:?}"),
            });
        }
        Ok(Self {
            data: Arc::new(data),
            sizes: sizes.to_vec(),
            seed: None,
            drops_last: false,
            n_ahead: 0,
        })
    }

    /// Shuffles the samples, differently in each epoch.
    #[must_use]
    pub fn shuffled(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// Drops a last batch that would have fewer samples than its size.
    #[must_use]
    pub fn without_partial(self) -> Self {
        Self {
            drops_last: true,
            ..self
        }
    }

    /// Prepares up to `count` batches ahead of time on a separate thread; with 0, the default, each is prepared when it
    /// is requested.
    #[must_use]
    pub fn ahead(self, count: usize) -> Self {
        Self {
            n_ahead: count,
            ..self
        }
    }

    /// The dataset.
    pub fn data(&self) -> &D {
        &self.data
    }

    /// The number of batches of an epoch.
    pub fn n_batches(&self) -> usize {
        self.parts().len()
    }

    /// The batches of an epoch, by its number.
    pub fn epoch(&self, number: u64) -> Epoch<D::Batch> {
        let (data, order) = (Arc::clone(&self.data), self.order(number));
        let parts = self.parts();
        let n_batches = parts.len();
        let batches = parts.into_iter().map(move |part| {
            let samples = order.get(part).unwrap_or_default();
            data.batch(samples)
        });
        Epoch {
            left: n_batches,
            batches: match self.n_ahead {
                0 => Batches::Here(Box::new(batches)),
                count => match ahead(batches, count) {
                    Ok(batches) => Batches::Ahead(batches),
                    Err(error) => Batches::Failed(Some(error)),
                },
            },
        }
    }

    /// Where each batch is in the order.
    fn parts(&self) -> Vec<Range<usize>> {
        let (len, mut start) = (self.data.len(), 0_usize);
        let mut parts = Vec::new();
        for &size in self.sizes.iter().cycle() {
            let end = start.saturating_add(size);
            if start >= len || (self.drops_last && end > len) {
                break;
            }
            parts.push(start..end.min(len));
            start = end;
        }
        parts
    }

    /// The samples in the order of an epoch.
    fn order(&self, number: u64) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.data.len()).collect();
        if let Some(seed) = self.seed {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(number);
            // Fisher-Yates, written out here, because the order must not change with the version of a dependency.
            for last in (1..order.len()).rev() {
                let scaled = u128::from(random.next_u64()) * (last as u128 + 1);
                let chosen = usize::try_from(scaled >> 64).unwrap_or(last);
                order.swap(last, chosen);
            }
        }
        order
    }
}

impl<D> fmt::Debug for Loader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader")
            .field("sizes", &self.sizes)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

/// The batches of an epoch; see [`Loader::epoch`]. After an error, iteration can continue with the next batch.
pub struct Epoch<B> {
    left: usize,
    batches: Batches<B>,
}

enum Batches<B> {
    Here(Box<dyn Iterator<Item = Result<B, TrainError>> + Send>),
    Ahead(Ahead<Result<B, TrainError>>),
    /// The thread could not be started.
    Failed(Option<TrainError>),
}

impl<B> Iterator for Epoch<B> {
    type Item = Result<B, TrainError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = match &mut self.batches {
            Batches::Here(batches) => batches.next(),
            Batches::Ahead(batches) => batches.next(),
            Batches::Failed(error) => error.take().map(Err),
        };
        self.left = match next {
            Some(_) => self.left.saturating_sub(1),
            None => 0,
        };
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self.batches {
            Batches::Failed(_) => (0, Some(1)),
            _ => (self.left, Some(self.left)),
        }
    }
}

impl<B> fmt::Debug for Epoch<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Epoch({} batches left)", self.left)
    }
}
