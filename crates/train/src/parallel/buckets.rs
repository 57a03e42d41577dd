//! Buckets, which sum many tensors in few operations: consecutive tensors are summed together, up to a number of bytes.

use super::{Collective, Numbers};
use crate::error::TrainError;
use kiln::{DType, Tensor};

/// The bytes of a bucket: large enough to use the network's bandwidth, small enough that the first one is soon full.
const BUCKET_BYTES: usize = 16 << 20;

/// Sums tensors over ranks.
pub(crate) struct Buckets<'a> {
    collective: &'a dyn Collective,
    /// The factor by which this rank's numbers are multiplied.
    share: f64,
    /// The maximum size of a bucket in bytes.
    bytes: usize,
}

impl<'a> Buckets<'a> {
    /// Sums in which this rank's tensors have this weight.
    pub(crate) fn new(collective: &'a dyn Collective, share: f64) -> Self {
        Self {
            collective,
            share,
            bytes: BUCKET_BYTES,
        }
    }

    /// The same with buckets of this size.
    #[cfg(test)]
    fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// The weighted sums of tensors of floats, in their order and of their dtypes.
    ///
    /// Narrower dtypes than `f32` are summed in `f32`.
    pub(crate) fn sums(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>, TrainError> {
        let mut sums = Vec::with_capacity(tensors.len());
        let mut rest = tensors;
        while let Some(first) = rest.first() {
            let is_wide = first.dtype() == DType::F64;
            let mut bytes = 0;
            let fits = |tensor: &&Tensor| {
                bytes += tensor.len() * if is_wide { 8 } else { 4 };
                (tensor.dtype() == DType::F64) == is_wide && bytes <= self.bytes
            };
            // A tensor larger than a bucket gets a bucket for itself.
            let count = rest.iter().take_while(fits).count().max(1);
            let (bucket, after) = rest.split_at(count);
            rest = after;
            let numbers = self.summed(bucket, is_wide)?;
            let mut numbers = numbers.as_slice();
            for tensor in bucket {
                let (own, after) = numbers.split_at(tensor.len().min(numbers.len()));
                numbers = after;
                let (dtype, shape) = (tensor.dtype(), tensor.shape());
                sums.push(Tensor::from_f64_slice(dtype, shape, own)?);
            }
        }
        Ok(sums)
    }

    /// The sums of a bucket's numbers.
    fn summed(&self, bucket: &[Tensor], is_wide: bool) -> Result<Vec<f64>, TrainError> {
        let mut numbers: Vec<f64> = Vec::new();
        for tensor in bucket {
            let own = tensor.to_f64_vec()?;
            numbers.extend(own.into_iter().map(|number| number * self.share));
        }
        if is_wide {
            self.collective.all_reduce(Numbers::F64(&mut numbers))?;
            return Ok(numbers);
        }
        let mut narrow: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
        self.collective.all_reduce(Numbers::F32(&mut narrow))?;
        Ok(narrow.into_iter().map(f64::from).collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;
    use crate::parallel::{CollectiveError, LocalGroup};
    use std::sync::Mutex;

    /// One rank that counts the elements of each operation.
    #[derive(Debug, Default)]
    struct Counting(Mutex<Vec<usize>>);

    impl Collective for Counting {
        fn rank(&self) -> usize {
            0
        }

        fn size(&self) -> usize {
            1
        }

        fn all_reduce(&self, numbers: Numbers<'_>) -> Result<(), CollectiveError> {
            self.0.lock().unwrap().push(match numbers {
                Numbers::F32(numbers) => numbers.len(),
                Numbers::F64(numbers) => numbers.len(),
            });
            Ok(())
        }

        fn broadcast(&self, _: &mut [u8], _: usize) -> Result<(), CollectiveError> {
            Ok(())
        }
    }

    #[test]
    fn tensors_are_summed_in_buckets_in_their_order() {
        let collective = Counting::default();
        let buckets = Buckets::new(&collective, 0.5).with_bytes(40);
        let tensors: Vec<Tensor> = [4_usize, 6, 1, 30, 0, 3]
            .iter()
            .map(|&count| Tensor::full(&[count], 2.0_f32).unwrap())
            .chain([Tensor::full(&[2], 2.0_f64).unwrap()])
            .collect();
        let sums = buckets.sums(&tensors).unwrap();
        assert_eq!(*collective.0.lock().unwrap(), [10, 1, 30, 3, 2]);
        for (sum, tensor) in sums.iter().zip(&tensors) {
            assert_eq!((sum.dtype(), sum.shape()), (tensor.dtype(), tensor.shape()));
            assert!(
                sum.to_f64_vec()
                    .unwrap()
                    .iter()
                    .all(|&number| number == 1.0)
            );
        }
    }

    #[test]
    fn a_rank_that_ends_and_ranks_that_disagree_are_errors_of_all() {
        let ranks = LocalGroup::ranks(2);
        let found: Vec<_> = std::thread::scope(|threads| {
            let spawned = ranks.into_iter().map(|rank| {
                threads.spawn(move || {
                    let mut numbers = vec![0.0_f32; 1 + rank.rank()];
                    let other = rank.all_reduce(Numbers::F32(&mut numbers));
                    let alone = match rank.rank() {
                        0 => Ok(()),
                        _ => rank.broadcast(&mut [0], 0),
                    };
                    (other, alone)
                })
            });
            let spawned: Vec<_> = spawned.collect();
            spawned
                .into_iter()
                .map(|rank| rank.join().unwrap())
                .collect()
        });
        assert!(found.iter().all(|(other, _)| other.is_err()));
        assert!(found[1].1.is_err());
    }
}
