//! Random tensors: mostly small numbers, so that integers can be indices and floats stay exact for a while, and
//! occasionally edge values.

use crate::random::SplitMix64;
use kiln_tensor::{DType, Element, Tensor, TensorError, bf16, f16};

/// The distribution of a random tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// Multiples of 1/64 in [-1, 1] for floats; integers from -3 to 8.
    Smooth,
    /// Multiples of 1/4 in [-4, 4] for floats; integers from -3 to 8.
    Small,
    /// As `Small`, with one float in eight a NaN, an infinity or a zero; no value is so large or so small that the order of
    /// operations decides what overflows.
    Special,
    /// As `Small`, with one in eight an edge value: NaN, infinities, -0, denormals, the ends of the range.
    Edges,
}

/// A tensor of random elements.
///
/// # Errors
/// When its size overflows or its memory cannot be allocated.
pub fn random_tensor(
    random: &mut SplitMix64,
    dtype: DType,
    shape: &[usize],
    flavor: Flavor,
) -> Result<Tensor, TensorError> {
    let float = |random: &mut SplitMix64| float(random, flavor);
    let integer = |random: &mut SplitMix64, low, high| integer(random, flavor, low, high);
    match dtype {
        DType::F64 => fill::<f64>(random, shape, float),
        DType::F32 => fill::<f32>(random, shape, |random| float(random) as f32),
        DType::F16 => fill::<f16>(random, shape, |random| f16::from_f64(float(random))),
        DType::BF16 => fill::<bf16>(random, shape, |random| bf16::from_f64(float(random))),
        DType::I64 => fill::<i64>(random, shape, |random| integer(random, i64::MIN, i64::MAX)),
        DType::I32 => fill::<i32>(random, shape, |random| {
            integer(random, i32::MIN.into(), i32::MAX.into()) as i32
        }),
        DType::I16 => fill::<i16>(random, shape, |random| {
            integer(random, i16::MIN.into(), i16::MAX.into()) as i16
        }),
        DType::I8 => fill::<i8>(random, shape, |random| {
            integer(random, i8::MIN.into(), i8::MAX.into()) as i8
        }),
        DType::U64 => fill::<u64>(random, shape, |random| integer(random, 0, i64::MAX) as u64),
        DType::U32 => fill::<u32>(random, shape, |random| {
            integer(random, 0, u32::MAX.into()) as u32
        }),
        DType::U16 => fill::<u16>(random, shape, |random| {
            integer(random, 0, u16::MAX.into()) as u16
        }),
        DType::U8 => fill::<u8>(random, shape, |random| {
            integer(random, 0, u8::MAX.into()) as u8
        }),
        DType::Bool => fill::<bool>(random, shape, |random| random.below(2) == 1),
        // No other dtype is represented here.
        other => Tensor::zeros(other, shape),
    }
}

fn fill<T: Element>(
    random: &mut SplitMix64,
    shape: &[usize],
    mut element: impl FnMut(&mut SplitMix64) -> T,
) -> Result<Tensor, TensorError> {
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    for slot in tensor.as_mut_slice::<T>()? {
        *slot = element(random);
    }
    Ok(tensor)
}

fn float(random: &mut SplitMix64, flavor: Flavor) -> f64 {
    const EDGES: [f64; 10] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        // The minimum positive f32 and f64, and the maximum f32.
        1e-45,
        5e-324,
        3.402_823_466_385_288_6e38,
        1.0,
        65504.0,
    ];
    const SPECIAL: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0];
    match flavor {
        Flavor::Smooth => random.between(-64, 64) as f64 / 64.0,
        Flavor::Edges if random.below(8) == 0 => edge(random, &EDGES, 0.0),
        Flavor::Special if random.below(8) == 0 => edge(random, &SPECIAL, 0.0),
        Flavor::Small | Flavor::Special | Flavor::Edges => random.between(-16, 16) as f64 / 4.0,
    }
}

fn integer(random: &mut SplitMix64, flavor: Flavor, low: i64, high: i64) -> i64 {
    let edges = [low, high, low.saturating_add(1), 0, 1, high.min(63)];
    match flavor {
        Flavor::Edges if random.below(8) == 0 => edge(random, &edges, 0),
        _ => random.between((-3).max(low), 8),
    }
}

fn edge<T: Copy>(random: &mut SplitMix64, edges: &[T], otherwise: T) -> T {
    let index = random.below(edges.len() as u64) as usize;
    edges.get(index).copied().unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tensors_of_every_dtype_follow_from_the_seed() {
        for dtype in DType::ALL {
            for flavor in [
                Flavor::Smooth,
                Flavor::Small,
                Flavor::Special,
                Flavor::Edges,
            ] {
                let make = || random_tensor(&mut SplitMix64::new(5), dtype, &[3, 7], flavor);
                let (first, second) = (make().unwrap(), make().unwrap());
                assert_eq!((first.dtype(), first.shape()), (dtype, &[3, 7][..]));
                assert!(first.bit_equal(&second), "{dtype} {flavor:?}");
            }
        }
    }

    #[test]
    fn edge_tensors_contain_nan_and_infinity() {
        let mut random = SplitMix64::new(1);
        let tensor = random_tensor(&mut random, DType::F32, &[1000], Flavor::Edges).unwrap();
        let elements = tensor.to_vec::<f32>().unwrap();
        assert!(elements.iter().any(|x| x.is_nan()) && elements.iter().any(|x| x.is_infinite()));
        let calm = random_tensor(&mut random, DType::F32, &[1000], Flavor::Smooth).unwrap();
        assert!(calm.to_vec::<f32>().unwrap().iter().all(|x| x.abs() <= 1.0));
    }
}
