//! Random bits as integer arithmetic: Philox 4x32-10, a counter-based generator.
//!
//! Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). A block of four words
//! is a function of a counter of four words and a key of two, so any element is computed without the others.
//!
//! The order of elements: blocks are in groups of eight, a group's first words before its second ones and so on. So the
//! lanes of a vector are words of different blocks, and four vectors of eight lanes (or two of sixteen) that begin at a
//! group are computed from the same eight blocks, which compilers recognise.
//!
//! Words are the low halves of u64 nodes; the upper halves are arbitrary. A product of words is then one widening
//! multiplication, whose halves are the two needed words, and vectors need no shuffles between rounds.

use super::NamedFunction;
use super::activations::row_of;
use crate::{ExprBuilder, NodeId};
use kiln_tensor::DType;

/// The name of the function of a position, a key and a stream.
pub(super) const NAME: &str = "philox_4x32_10";

/// Blocks per group: a power of two.
const GROUP: u32 = 8;
const ROUNDS: usize = 10;
const MULTIPLIERS: [u64; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// The key's increment per round: the golden ratio, and the square root of 3 minus 1.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The functions of the generator.
pub(super) fn table() -> Vec<NamedFunction> {
    let bits = row_of(
        3,
        NAME,
        "32 random bits: word `x0 / 8 % 4` of the Philox 4x32-10 block with the counter `(x0 / 32 * 8 + x0 % 8, x2)` and the key `x1`.",
        |b, x, _| element(b, x[0], x[1], x[2]),
    );
    vec![bits.without_slope()]
}

/// Element `index` of a stream of random words with a key; all are u64, the result is u32.
fn element(b: &mut ExprBuilder, index: NodeId, key: NodeId, stream: NodeId) -> NodeId {
    let number = block_of(b, index);
    let counter = [number, upper_word(b, number), stream, upper_word(b, stream)];
    let key = [key, upper_word(b, key)];
    let words = block(b, counter, key);

    let position = b.cast(DType::U32, index);
    let mut is_set = |bit: u32| {
        let (zero, bit) = (b.constant(0_u32), b.constant(bit));
        let bit = b.bit_and(position, bit);
        b.ne(bit, zero)
    };
    let (odd, upper) = (is_set(GROUP), is_set(2 * GROUP));
    let [first, second, third, fourth] = words.map(|word| b.cast(DType::U32, word));
    let low = b.select(odd, second, first);
    let high = b.select(odd, fourth, third);
    b.select(upper, high, low)
}

/// The number of the block of which an element is a word.
fn block_of(b: &mut ExprBuilder, index: NodeId) -> NodeId {
    let log = GROUP.trailing_zeros();
    let (whole, blocks) = (b.constant(u64::from(log + 2)), b.constant(u64::from(log)));
    let group = b.shr(index, whole);
    let first = b.shl(group, blocks);
    let within = b.constant(u64::from(GROUP - 1));
    let within = b.bit_and(index, within);
    b.bit_or(first, within)
}

/// The four words of a counter and a key.
fn block(b: &mut ExprBuilder, mut counter: [NodeId; 4], key: [NodeId; 2]) -> [NodeId; 4] {
    // In 32 bits, so that the key's words wrap around.
    let mut key = key.map(|word| b.cast(DType::U32, word));
    for round in 0..ROUNDS {
        if round > 0 {
            for (word, grows_by) in key.iter_mut().zip(WEYL) {
                let grows_by = b.constant(grows_by);
                *word = b.add(*word, grows_by);
            }
        }
        let [low, high] = key.map(|word| b.cast(DType::U64, word));
        let first = product(b, counter[0], MULTIPLIERS[0]);
        let second = product(b, counter[2], MULTIPLIERS[1]);
        let first_high = upper_word(b, first);
        let second_high = upper_word(b, second);
        counter = [
            mixed(b, second_high, counter[1], low),
            second,
            mixed(b, first_high, counter[3], high),
            first,
        ];
    }
    counter
}

/// A word times a multiplier: two words.
fn product(b: &mut ExprBuilder, word: NodeId, multiplier: u64) -> NodeId {
    let (mask, multiplier) = (b.constant(u64::from(u32::MAX)), b.constant(multiplier));
    let word = b.bit_and(word, mask);
    b.mul(word, multiplier)
}

fn upper_word(b: &mut ExprBuilder, words: NodeId) -> NodeId {
    let width = b.constant(32_u64);
    b.shr(words, width)
}

fn mixed(b: &mut ExprBuilder, word: NodeId, other: NodeId, key: NodeId) -> NodeId {
    let keyed = b.bit_xor(other, key);
    b.bit_xor(word, keyed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Function, Mode, ScalarValue, evaluate};

    fn words(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
        [0, 1, 2, 3].map(|wanted: usize| {
            let mut b = ExprBuilder::new(6);
            let x = b.inputs();
            let words = block(&mut b, [x[0], x[1], x[2], x[3]], [x[4], x[5]]);
            let word = b.cast(DType::U32, words[wanted]);
            let expression = b.finish(word).unwrap();
            let given = counter.into_iter().chain(key).map(u64::from);
            let given: Vec<ScalarValue> = given.map(ScalarValue::U64).collect();
            match evaluate(&expression, &given, Mode::Declared).unwrap() {
                ScalarValue::U32(word) => word,
                other => panic!("{other:?}"),
            }
        })
    }

    fn at(index: u64, key: u64, stream: u64) -> u32 {
        let function = Function::random_bits();
        let given = [index, key, stream].map(ScalarValue::U64);
        let expression = function.expression(&[]).unwrap();
        match evaluate(&expression, &given, Mode::Declared).unwrap() {
            ScalarValue::U32(word) => word,
            other => panic!("{other:?}"),
        }
    }

    /// The known-answer vectors published by the authors with their library, Random123 (`kat_vectors`).
    #[test]
    fn philox_matches_the_published_vectors() {
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
            assert_eq!(words(counter, key), expected);
        }
    }

    #[test]
    fn random_elements_are_block_words_in_groups_of_eight() {
        let (key, stream) = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        // The last two blocks differ only in the counter's second word.
        for number in [0, 1, 77, (1 << 32) - 1, 5, (1 << 32) + 5, (1 << 62) - 1_u64] {
            let halves = |word: u64| [word as u32, (word >> 32) as u32];
            let ([a, b], [c, d]) = (halves(number), halves(stream));
            let block = words([a, b, c, d], halves(key));
            let first = number / 8 * 32 + number % 8;
            let elements = [0, 8, 16, 24].map(|word| at(first + word, key, stream));
            assert_eq!(elements, block, "block {number}");
        }
    }

    #[test]
    fn operands_of_other_dtypes_are_refused() {
        let function = Function::random_bits();
        assert_eq!(function.result_type(&[DType::U64; 3]), Ok(DType::U32));
        for dtype in [DType::I64, DType::U32, DType::F64] {
            for operand in 0..3 {
                let mut operands = [DType::U64; 3];
                operands[operand] = dtype;
                assert!(function.result_type(&operands).is_err(), "{operands:?}");
            }
        }
    }

    #[test]
    fn random_bits_have_no_derivative() {
        let function = Function::random_bits();
        for operand in 0..3 {
            assert_eq!(function.derivative(&[], operand).unwrap(), None);
        }
    }
}
