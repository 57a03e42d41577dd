//! Random bits from Philox 4x32-10, a counter-based generator: any element without the others.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
//! Element `i` is word `i % 4` of the block whose counter is `(i / 4, stream)`, low words first.

use super::interrupt::{Interrupt, PIECE};

/// Fills `bits` with the elements 0, 1, 2, … of a key's stream.
pub(crate) fn fill(bits: &mut [u32], key: u64, stream: u64, interrupt: Interrupt<'_>) {
    let (key, stream) = (words(key), words(stream));
    for (block, four) in bits.chunks_mut(4).enumerate() {
        if block.is_multiple_of(PIECE) && interrupt.check().is_err() {
            return;
        }
        let counter = words(block as u64);
        let random = philox_4x32_10([counter[0], counter[1], stream[0], stream[1]], key);
        four.copy_from_slice(&random[..four.len()]);
    }
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
