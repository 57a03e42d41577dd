//! Random bits from Philox 4x32-10, a counter-based generator: any element without the others.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
//! Element `i` is word `i % 4` of the block whose counter is `(i / 4, key[1])`, low words first,
//! under the key `key[0]`.

use crate::buffer::dense;
use crate::evaluate::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::Dims;
use kiln_tensor::{DType, Tensor};

/// Random bits of the given sizes.
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
    let (key, stream) = match *dense(key)?.as_slice::<u64>()? {
        [key, stream] => (words(key), words(stream)),
        _ => unreachable!("the key's shape was just checked"),
    };
    let mut bits = Tensor::zeros(DType::U32, &ctx.sizes("a size", dims)?)?;
    for (block, four) in bits.as_mut_slice::<u32>()?.chunks_mut(4).enumerate() {
        ctx.work(4)?;
        let counter = words(block as u64);
        let random = philox_4x32_10([counter[0], counter[1], stream[0], stream[1]], key);
        four.copy_from_slice(&random[..four.len()]);
    }
    Ok(bits)
}

/// The low and the high word.
fn words(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

fn philox_4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for _ in 0..10 {
        let [low0, high0] = words(MULTIPLIERS[0] * u64::from(counter[0]));
        let [low1, high1] = words(MULTIPLIERS[1] * u64::from(counter[2]));
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Sizes;

    /// The known-answer vectors that the authors publish with their library (`kat_vectors`).
    #[test]
    fn philox_gives_the_published_answers() {
        let all = u32::MAX;
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, expected) in [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [all; 4],
                [all; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                pi,
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox_4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn elements_do_not_depend_on_how_many_there_are() {
        let mut sizes = Sizes::new();
        let key = Tensor::from_slice(&[2], &[7u64, 9]).unwrap();
        let (few, many) = (sizes.dims(&[3]), sizes.dims(&[2, 5]));
        let ctx = sizes.ctx();
        let few = random_bits(&ctx, &key, &few)
            .unwrap()
            .to_vec::<u32>()
            .unwrap();
        let many = random_bits(&ctx, &key, &many)
            .unwrap()
            .to_vec::<u32>()
            .unwrap();
        assert_eq!(few, many[..3]);
        assert_eq!(many[4..8], philox_4x32_10([1, 0, 9, 0], [7, 0]));
    }

    #[test]
    fn a_key_of_another_kind_is_refused() {
        let sizes = Sizes::new();
        let fault = random_bits(&sizes.ctx(), &Tensor::scalar(1u64), &Dims::new()).unwrap_err();
        assert_eq!(fault.code(), "E0829");
    }
}
