//! Initial values of parameters: for a given seed, the same on every machine.

mod orthogonal;

use kiln::internals::tensor::TensorError;
use kiln::{DType, Tensor};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal, Uniform};

/// How a parameter is initialised.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Initial {
    /// Every element is this number.
    Constant(f64),
    /// Uniform between minus and plus this number.
    Uniform(f64),
    /// Normal, of mean 0 and this standard deviation.
    Normal(f64),
    /// Normal, of mean 0, with elements outside a limit drawn again.
    TruncatedNormal {
        /// The standard deviation of the normal distribution.
        deviation: f64,
        /// The limit on the absolute value, in deviations; more than 0.
        limit: f64,
    },
    /// Uniform with the variance of `2 / (fan_in + fan_out)`: Glorot and Bengio (2010), for layers before `tanh` or none. Also
    /// known as Xavier's.
    Glorot {
        /// The inputs that each output sums.
        fan_in: usize,
        /// The outputs that each input contributes to.
        fan_out: usize,
    },
    /// As [`Glorot`](Self::Glorot), but normal.
    GlorotNormal {
        /// The inputs that each output sums.
        fan_in: usize,
        /// The outputs that each input contributes to.
        fan_out: usize,
    },
    /// Normal with the variance `2 / fan_in`: He et al. (2015), for layers before `relu`. Also known as Kaiming's.
    He {
        /// The inputs that each output sums.
        fan_in: usize,
    },
    /// As [`He`](Self::He), but uniform.
    HeUniform {
        /// The inputs that each output sums.
        fan_in: usize,
    },
    /// Random orthonormal rows, or columns where there are fewer, times this number: Saxe et al. (2014). The axes after
    /// the first are flattened into one axis of columns; there must be at least two axes.
    Orthogonal(f64),
}

impl Initial {
    /// Every element is 0.
    pub const ZEROS: Self = Self::Constant(0.0);
    /// Every element is 1.
    pub const ONES: Self = Self::Constant(1.0);

    /// A tensor of this kind.
    ///
    /// # Errors
    /// What was expected, if the parameters of the initialiser are invalid.
    pub(crate) fn tensor(
        self,
        dtype: DType,
        shape: &[usize],
        random: &mut ChaCha8Rng,
    ) -> Result<Result<Tensor, TensorError>, &'static str> {
        let count: usize = shape.iter().product();
        let elements: Vec<f64> = match self {
            Self::Constant(number) => vec![number; count],
            Self::Uniform(limit) => uniform(limit, count, random)?,
            Self::Normal(deviation) => normal(deviation, count, random)?,
            Self::TruncatedNormal { deviation, limit } => {
                truncated(deviation, limit, count, random)?
            }
            Self::Glorot { fan_in, fan_out } => {
                let fans = (fan_in + fan_out).max(1) as f64;
                uniform((6.0 / fans).sqrt(), count, random)?
            }
            Self::GlorotNormal { fan_in, fan_out } => {
                let fans = (fan_in + fan_out).max(1) as f64;
                normal((2.0 / fans).sqrt(), count, random)?
            }
            Self::He { fan_in } => normal((2.0 / fan_in.max(1) as f64).sqrt(), count, random)?,
            Self::HeUniform { fan_in } => {
                uniform((6.0 / fan_in.max(1) as f64).sqrt(), count, random)?
            }
            Self::Orthogonal(gain) => {
                let &[rows, ref rest @ ..] = shape else {
                    return Err("a parameter of two axes or more");
                };
                if rest.is_empty() {
                    return Err("a parameter of two axes or more");
                }
                let gain = spread(gain)?;
                orthogonal::matrix(rows, rest.iter().product(), random)
                    .into_iter()
                    .map(|element| gain * element)
                    .collect()
            }
        };
        Ok(Tensor::from_f64_slice(dtype, shape, &elements))
    }
}

/// A bound or deviation of a distribution.
fn spread(number: f64) -> Result<f64, &'static str> {
    match number.is_finite() && number >= 0.0 {
        true => Ok(number),
        false => Err("a finite number of 0 or more"),
    }
}

fn uniform(limit: f64, count: usize, random: &mut ChaCha8Rng) -> Result<Vec<f64>, &'static str> {
    let limit = spread(limit)?;
    let distribution = Uniform::new_inclusive(-limit, limit).map_err(|_| "a smaller number")?;
    Ok(sampled(&distribution, count, random))
}

fn normal(deviation: f64, count: usize, random: &mut ChaCha8Rng) -> Result<Vec<f64>, &'static str> {
    let deviation = spread(deviation)?;
    let distribution = Normal::new(0.0, deviation).map_err(|_| "a finite number of 0 or more")?;
    Ok(sampled(&distribution, count, random))
}

/// By rejection sampling: from the normal distribution, or from the uniform one if the limit is so narrow that few
/// normal numbers are within it.
fn truncated(
    deviation: f64,
    limit: f64,
    count: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<f64>, &'static str> {
    let deviation = spread(deviation)?;
    if !(limit.is_finite() && limit > 0.0) {
        return Err("a finite limit of more than 0");
    }
    let unit = Normal::new(0.0, 1.0).map_err(|_| "a finite limit of more than 0")?;
    let mut element = || loop {
        let (number, is_kept) = match limit < 1.0 {
            true => {
                let number: f64 = limit * (2.0 * random.random::<f64>() - 1.0);
                (
                    number,
                    random.random::<f64>() < (-0.5 * number * number).exp(),
                )
            }
            false => {
                let number: f64 = unit.sample(random);
                (number, number.abs() <= limit)
            }
        };
        if is_kept {
            break deviation * number;
        }
    };
    Ok((0..count).map(|_| element()).collect())
}

fn sampled(distribution: &impl Distribution<f64>, count: usize, random: &mut impl Rng) -> Vec<f64> {
    (0..count).map(|_| distribution.sample(random)).collect()
}

#[cfg(test)]
mod tests;
