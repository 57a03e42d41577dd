//! Initial values of parameters, the same for the same seed on every machine.

use kiln::internals::tensor::TensorError;
use kiln::{DType, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, Uniform};

/// How a parameter begins.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Initial {
    /// Every element is this number.
    Constant(f64),
    /// Uniform between the negative and the positive of this number.
    Uniform(f64),
    /// Normal, of mean 0 and this standard deviation.
    Normal(f64),
    /// Uniform with the variance of `2 / (fan_in + fan_out)`: Glorot and Bengio (2010), for layers before `tanh` or none.
    Glorot {
        /// The inputs that each output sums.
        fan_in: usize,
        /// The outputs that each input goes to.
        fan_out: usize,
    },
    /// Normal with the variance `2 / fan_in`: He et al. (2015), for layers before `relu`.
    He {
        /// The inputs that each output sums.
        fan_in: usize,
    },
}

impl Initial {
    /// A tensor of this kind; `None` where its number is negative or not finite.
    pub(crate) fn tensor(
        self,
        dtype: DType,
        shape: &[usize],
        random: &mut ChaCha8Rng,
    ) -> Option<Result<Tensor, TensorError>> {
        let count: usize = shape.iter().product();
        let spread = |number: f64| (number.is_finite() && number >= 0.0).then_some(number);
        let elements: Vec<f64> = match self {
            Self::Constant(number) => vec![number; count],
            Self::Uniform(limit) => uniform(spread(limit)?, count, random)?,
            Self::Normal(deviation) => normal(spread(deviation)?, count, random)?,
            Self::Glorot { fan_in, fan_out } => {
                let fans = (fan_in + fan_out).max(1) as f64;
                uniform((6.0 / fans).sqrt(), count, random)?
            }
            Self::He { fan_in } => normal((2.0 / fan_in.max(1) as f64).sqrt(), count, random)?,
        };
        Some(Tensor::from_f64_slice(dtype, shape, &elements))
    }
}

fn uniform(limit: f64, count: usize, random: &mut ChaCha8Rng) -> Option<Vec<f64>> {
    let distribution = Uniform::new_inclusive(-limit, limit).ok()?;
    Some(sampled(&distribution, count, random))
}

fn normal(deviation: f64, count: usize, random: &mut ChaCha8Rng) -> Option<Vec<f64>> {
    let distribution = Normal::new(0.0, deviation).ok()?;
    Some(sampled(&distribution, count, random))
}

fn sampled(distribution: &impl Distribution<f64>, count: usize, random: &mut impl Rng) -> Vec<f64> {
    (0..count).map(|_| distribution.sample(random)).collect()
}
