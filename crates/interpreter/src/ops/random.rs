//! Random bits: each is a function of its position and the key, as defined by `scalar`.

use super::elementwise;
use crate::buffer::dense;
use crate::context::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::Dims;
use kiln_scalar::Function;
use kiln_tensor::{DType, Tensor};

/// Random bits of the given sizes: those of the positions in row-major order, under `key[0]`, of the stream `key[1]`.
pub(crate) fn random_bits(
    ctx: &EvaluateContext<'_>,
    key: &Tensor,
    dims: &Dims,
) -> Result<Tensor, OpFault> {
    if key.dtype() != DType::U64 || key.shape() != [2] {
        let found = ctx.describe(0, key);
        return Err(OpFault::malformed(format!(
            "expected a key of u64[2], found {found}"
        )));
    }
    let [key, stream] = match *dense(key)?.as_slice::<u64>()? {
        [key, stream] => [key, stream].map(Tensor::scalar),
        _ => unreachable!("the key's shape was just checked"),
    };
    let mut positions = Tensor::zeros(DType::U64, &ctx.sizes("a size", dims)?)?;
    for (position, element) in (0..).zip(positions.as_mut_slice::<u64>()?) {
        ctx.work(1)?;
        *element = position;
    }
    elementwise::map(ctx, Function::random_bits(), &[], &[positions, key, stream])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::TestSizes;

    fn bits(key: [u64; 2], shape: &[i64]) -> Vec<u32> {
        let mut sizes = TestSizes::new();
        let key = Tensor::from_slice(&[2], &key).unwrap();
        let dims = sizes.dims(shape);
        let bits = random_bits(&sizes.ctx(), &key, &dims).unwrap();
        let expected: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        assert_eq!(bits.shape(), expected);
        bits.to_vec::<u32>().unwrap()
    }

    /// The first block is the first of the published known answers; its words are eight elements apart.
    #[test]
    fn random_elements_do_not_depend_on_the_shape() {
        let known = [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8];
        let many = bits([0, 0], &[5, 5]);
        assert_eq!([many[0], many[8], many[16], many[24]], known);
        assert_eq!(bits([0, 0], &[3]), many[..3]);
        assert_eq!(bits([0, 0], &[]), many[..1]);
        assert_eq!(bits([0, 0], &[1, 6, 1]), many[..6]);
        assert_eq!(bits([0, 0], &[4, 0]), []);
    }

    #[test]
    fn keys_and_streams_give_different_bits() {
        let first = bits([7, 9], &[64]);
        for key in [
            [8, 9],
            [7 + (1 << 32), 9],
            [7, 8],
            [7, 9 + (1 << 32)],
            [9, 7],
        ] {
            let other = bits(key, &[64]);
            let equal = first.iter().zip(&other).filter(|(a, b)| a == b).count();
            assert_eq!(equal, 0, "{key:?}");
        }
    }

    #[test]
    fn random_bits_are_balanced_and_uncorrelated() {
        let n = 1 << 16;
        // Sums of n fair coins, within 6 standard deviations of n / 2.
        let is_fair =
            |heads: u32| (f64::from(heads) - n as f64 / 2.0).abs() < 3.0 * (n as f64).sqrt();
        for key in [[0, 0], [1, 0], [0, 1], [42, 7]] {
            let bits = bits(key, &[n]);
            for bit in 0..32 {
                let of = |x: u32| x >> bit & 1;
                assert!(is_fair(bits.iter().map(|&x| of(x)).sum()), "bit {bit}");
                for distance in [1, 2, 3, 4, 64] {
                    let others = bits.iter().cycle().skip(distance);
                    let differ = bits.iter().zip(others).map(|(&x, &y)| of(x ^ y));
                    assert!(is_fair(differ.sum()), "bit {bit} at {distance}");
                }
            }
            // 256 equal classes by the upper bits: chi-square, within 6 standard deviations of its mean.
            let mut classes = [0_u32; 256];
            bits.iter().for_each(|&x| classes[(x >> 24) as usize] += 1);
            let expected = n as f64 / 256.0;
            let square = |&found: &u32| (f64::from(found) - expected).powi(2) / expected;
            let sum: f64 = classes.iter().map(square).sum();
            assert!(
                (sum - 255.0).abs() < 6.0 * (2.0 * 255.0_f64).sqrt(),
                "{sum}"
            );
        }
    }

    #[test]
    fn a_key_of_another_kind_is_refused() {
        let sizes = TestSizes::new();
        let fault = random_bits(&sizes.ctx(), &Tensor::scalar(1u64), &Dims::new()).unwrap_err();
        assert_eq!(fault.code(), "E0829");
    }
}
