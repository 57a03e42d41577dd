//! Random numbers, as integer arithmetic on positions and a key.
//!
//! The same key gives the same numbers on every machine, so a key should be used only once: [`Var::split_key`] derives
//! further keys from it.

use super::Var;
use crate::size::Size;
use kiln_ir::Op;
use kiln_shape_inference::{InferError, InferErrorKind};
use kiln_tensor::DType;

impl Var {
    /// Random bits `u32[sizes..]`, numbered in row-major order: the variable is the key, `u64[2]`. The same key gives
    /// the same bits on every machine (Philox 4x32-10).
    #[must_use]
    #[track_caller]
    pub fn random_bits<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        match self.dims(sizes) {
            // An argument has symbols as sizes, and the key has to have two elements.
            Some(dims) => self.reshape([2]).record(|builder, key| {
                let dims = dims.iter().copied().collect();
                builder.op1(Op::RandomBits { dims }, &[key])
            }),
            None => Var::new(&self.recorder, None),
        }
    }

    /// Splits this key into new keys `u64[count, 2]`. They are random bits of this key, so draw nothing else with it.
    ///
    /// ```
    /// use kiln_tensor::DType;
    /// use kiln_trace::{ArgumentType, Var, trace};
    ///
    /// let draw = |key: Var| {
    ///     let keys = key.split_key(2);
    ///     (keys.index(0, 0).random_normal([3]), keys.index(0, 1).random_uniform([3]))
    /// };
    /// let graph = trace("draw", &draw, &[ArgumentType::new(DType::U64, 1)])?;
    /// assert_eq!(graph.outputs().len(), 2);
    /// # Ok::<(), kiln_trace::TraceError>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn split_key(&self, count: impl Into<Size>) -> Var {
        self.random_words([count.into(), Size::from(2)])
    }

    /// Uniform random numbers from 0 (inclusive) to 1 (exclusive), as `f32`, with this key; see
    /// [`random_bits`](Self::random_bits).
    #[must_use]
    #[track_caller]
    pub fn random_uniform<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        /// The number of bits that an `f32` represents exactly.
        const BITS: i64 = 24;
        let bits = self.random_bits(sizes);
        let high = bits.map2("shr", 32 - BITS);
        high.cast(DType::F32) * (-BITS as f64).exp2()
    }

    /// Random numbers of the normal distribution with mean 0 and variance 1, as `f32`, with this key; see
    /// [`random_bits`](Self::random_bits). None exceeds 5.8 in absolute value, the limit for 24 random bits.
    #[must_use]
    #[track_caller]
    pub fn random_normal<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        // Box-Muller transform: the radius and the angle of points in a plane.
        let uniform = self.random_uniform(with_pairs(sizes));
        // From above 0 to 1, where the logarithm is finite.
        let radius = ((1 - uniform.index(0, 0)).log() * -2).sqrt();
        radius * (uniform.index(0, 1) * std::f64::consts::TAU).cos()
    }

    /// Random integers from `low` (inclusive) to `high` (exclusive), as `i64`, with this key; see
    /// [`random_bits`](Self::random_bits). Their probabilities differ by at most 2^-64.
    #[must_use]
    #[track_caller]
    pub fn random_integers<S: Into<Size>>(
        &self,
        sizes: impl IntoIterator<Item = S>,
        low: i64,
        high: i64,
    ) -> Var {
        let Some(count) = high.checked_sub(low).filter(|&count| count > 0) else {
            return self.record(|_, _| Err(empty_range(low, high)));
        };
        let words = self.random_words(sizes);
        (words % count).cast(DType::I64) + low
    }

    /// Dropout with a key `u64[2]`: sets each element to zero with probability `share`, and divides the others by `1 -
    /// share`. A share of 0 changes nothing.
    #[must_use]
    #[track_caller]
    pub fn dropout(&self, key: impl AsRef<Var>, share: f64) -> Var {
        let sizes = (0..self.rank()).map(|axis| self.size(i64::try_from(axis).unwrap_or(0)));
        let kept = key.as_ref().random_uniform(sizes).greater_equal(share);
        let scaled = self / (1.0 - share);
        let zero = scaled.scalar(0.0);
        kept.select(scaled, zero)
    }

    /// Random bits, `u64[sizes..]`.
    #[track_caller]
    fn random_words<S: Into<Size>>(&self, sizes: impl IntoIterator<Item = S>) -> Var {
        let halves = self.random_bits(with_pairs(sizes)).cast(DType::U64);
        (halves.index(0, 0) << 32) | halves.index(0, 1)
    }
}

/// Sizes of two tensors, one after the other.
fn with_pairs<S: Into<Size>>(sizes: impl IntoIterator<Item = S>) -> Vec<Size> {
    let sizes = sizes.into_iter().map(Into::into);
    std::iter::once(Size::from(2)).chain(sizes).collect()
}

fn empty_range(low: i64, high: i64) -> InferError {
    InferError::new(
        "random_integers",
        InferErrorKind::Attribute {
            name: "high",
            expected: format!("a number above {low}, by less than 2^63"),
            found: high.to_string(),
        },
    )
}
