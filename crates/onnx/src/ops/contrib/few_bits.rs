//! Products with weights of a few bits.
//!
//! Constant weights are laid out as reduced precision stores them, so that the same kernels read them: codes stay
//! packed, and are unpacked in the product. In that format, the two codes of a byte are rows `i` and `i + block / 2` of
//! a block; in the operator's, they are rows `2 i` and `2 i + 1`. Weights that are computed are unpacked by ops of the
//! graph. If a model allows 8 bits for the other factor (`accuracy_level` 4), it is quantised with a scale per row,
//! which gives products of integers.

use kiln_ir::{ReduceFunction, ValueId};
use kiln_tensor::{DType, Tensor};

use super::super::matmul::product;
use super::super::support::{Imported, one, operator};
use crate::import::Operator;
use crate::{Error, NodeContext};

pub(super) const OPERATORS: &[Operator] = &[operator("MatMulNBits", &[1], matmul_of_bits)];

/// The `accuracy_level` that allows factors of 8 bits.
const INT8: i64 = 4;

/// The largest code of 8 bits.
const LARGEST: f64 = 127.0;

/// Rows of smaller magnitudes are rounded to zero: their scale would not be a normal number.
const SMALLEST: f64 = 1e-30;

/// The sizes of weights.
#[derive(Clone, Copy)]
struct Sizes {
    bits: i64,
    depth: i64,
    columns: i64,
    block: i64,
    blocks: i64,
}

impl Sizes {
    fn read(ctx: &NodeContext<'_>) -> Result<Self, Error> {
        let attributes = ctx.attributes();
        let bits = attributes.get_or("bits", 4_i64)?;
        let block = attributes.require::<i64>("block_size")?;
        let (depth, columns) = (
            attributes.require::<i64>("K")?,
            attributes.require::<i64>("N")?,
        );
        if ![2, 4, 8].contains(&bits) {
            return Err(ctx.unsupported(format!("weights of {bits} bits")));
        }
        if block < 16 || block % 2 != 0 || depth < 1 || columns < 1 {
            let found = format!("K = {depth}, N = {columns}, blocks of {block}");
            let expected = "positive sizes and even blocks of 16 or more";
            return Err(ctx.attribute_error("block_size", expected, found));
        }
        Ok(Self {
            bits,
            depth,
            columns,
            block,
            blocks: (depth - 1) / block + 1,
        })
    }

    /// Bytes of the codes of a block, and of the zero points of a column.
    fn bytes(&self) -> (i64, i64) {
        let packed = |codes: i64| codes.saturating_mul(self.bits).saturating_add(7) / 8;
        (packed(self.block), packed(self.blocks))
    }
}

/// `a: [.., K]` times weights: `b: u8[N, blocks, bytes]`, scales `[N * blocks]`, zero points packed the same way or absent, for
/// blocks of `block_size` along `K`.
fn matmul_of_bits(ctx: &mut NodeContext<'_>) -> Imported {
    let a = ctx.input(0)?;
    let sizes = Sizes::read(ctx)?;
    if ctx.optional(4).is_some() {
        return Err(ctx.unsupported("weights in another order (\"g_idx\")"));
    }
    let dtype = ctx.dtype(a)?;
    let weights = match Stored::read(ctx, &sizes)? {
        Some(stored) => stored.weights(ctx, &sizes)?,
        None => computed(ctx, &sizes)?,
    };
    let weights = ctx.cast(weights, dtype)?;
    let level = ctx.attributes().get_or("accuracy_level", 0_i64)?;
    let mut y = if level == INT8 && dtype == DType::F32 {
        let (codes, scales) = in_eight_bits(ctx, a)?;
        let y = product(ctx, codes, weights, dtype)?;
        ctx.mul(y, scales)?
    } else {
        product(ctx, a, weights, dtype)?
    };
    if let Some(bias) = ctx.optional(5) {
        y = ctx.add(y, bias)?;
    }
    one(y)
}

/// `a: f32[.., K]` as whole numbers from -127 to 127, and the scale of each row, `f32[.., 1]`.
fn in_eight_bits(ctx: &mut NodeContext<'_>, a: ValueId) -> Result<(ValueId, ValueId), Error> {
    let last = ctx.rank(a)?.saturating_sub(1);
    let magnitudes = ctx.map("abs", &[a])?;
    let largest = ctx.reduce(ReduceFunction::Max, magnitudes, &[last], true)?;
    let smallest = ctx.scalar(DType::F32, SMALLEST)?;
    let largest = ctx.map("max", &[largest, smallest])?;
    let most = ctx.scalar(DType::F32, LARGEST)?;
    let scales = ctx.div(largest, most)?;
    let steps = ctx.div(a, scales)?;
    let steps = ctx.map("round_even", &[steps])?;
    let codes = ctx.cast(steps, DType::I8)?;
    Ok((ctx.cast(codes, DType::F32)?, scales))
}

/// Constant weights of four or eight bits.
struct Stored {
    /// `[N, blocks, bytes]`.
    codes: Vec<u8>,
    /// `[N, blocks]`.
    scales: Vec<f32>,
    /// A zero point per block, `[N, blocks]`, in the range of the codes.
    zero_points: Option<Vec<f32>>,
}

impl Stored {
    /// The constants; `None` if one of them is computed, or does not have the usual form.
    fn read(ctx: &NodeContext<'_>, sizes: &Sizes) -> Result<Option<Self>, Error> {
        if sizes.bits == 2 {
            return Ok(None);
        }
        let constant = |index: usize| ctx.optional(index).and_then(|value| ctx.constant(value));
        let (Some(codes), Some(scales)) = (constant(1), constant(2)) else {
            return Ok(None);
        };
        let (block_bytes, zero_bytes) = sizes.bytes();
        let n_blocks = sizes.columns.saturating_mul(sizes.blocks);
        let has = |tensor: &Tensor, count: i64| i64::try_from(tensor.len()) == Ok(count);
        if codes.dtype() != DType::U8
            || !has(&codes, n_blocks.saturating_mul(block_bytes))
            || !has(&scales, n_blocks)
        {
            return Ok(None);
        }
        let zero_points = match ctx.optional(3) {
            None => None,
            Some(_) => {
                let Some(zero_points) = constant(3) else {
                    return Ok(None);
                };
                let count = match zero_points.dtype() {
                    DType::U8 => sizes.columns.saturating_mul(zero_bytes),
                    _ => n_blocks,
                };
                if !has(&zero_points, count) {
                    return Ok(None);
                }
                Some(match zero_points.dtype() {
                    DType::U8 => {
                        let bytes = ctx.tensor_at(zero_points.to_vec::<u8>())?;
                        unpacked_zero_points(&bytes, sizes)
                    }
                    _ => narrowed(ctx.tensor_at(zero_points.to_f64_vec())?),
                })
            }
        };
        Ok(Some(Self {
            codes: ctx.tensor_at(codes.to_vec::<u8>())?,
            scales: narrowed(ctx.tensor_at(scales.to_f64_vec())?),
            zero_points,
        }))
    }

    /// `f32[K, N]`.
    fn weights(&self, ctx: &mut NodeContext<'_>, sizes: &Sizes) -> Result<ValueId, Error> {
        let (blocks, columns) = (sizes.blocks as usize, sizes.columns as usize);
        let codes = match sizes.bits {
            4 => self.four_bits(ctx, sizes)?,
            _ => self.eight_bits(ctx, sizes)?,
        };
        let per_block: &[usize] = match sizes.bits {
            4 => &[blocks, 1, 1, columns],
            _ => &[blocks, 1, columns],
        };
        let turned = |numbers: &[f32]| {
            let by_block = (0..blocks)
                .flat_map(|block| (0..columns).map(move |column| numbers[column * blocks + block]));
            by_block.collect::<Vec<f32>>()
        };
        let middle = (1_i64 << (sizes.bits - 1)) as f64;
        let zero_points = match &self.zero_points {
            Some(zero_points) => {
                let tensor = ctx.tensor_at(Tensor::from_vec(per_block, turned(zero_points)))?;
                ctx.add_constant(tensor)?
            }
            None => ctx.scalar(DType::F32, middle)?,
        };
        let codes = ctx.cast(codes, DType::F32)?;
        let centred = ctx.sub(codes, zero_points)?;
        let scales = ctx.tensor_at(Tensor::from_vec(per_block, turned(&self.scales)))?;
        let scales = ctx.add_constant(scales)?;
        let weights = ctx.mul(centred, scales)?;
        let all = sizes.blocks.saturating_mul(sizes.block);
        let dims = [all, sizes.columns].map(|size| ctx.size(size));
        let weights = ctx.reshape(weights, &dims)?;
        match all == sizes.depth {
            true => Ok(weights),
            false => ctx.narrow(weights, 0, 0, sizes.depth),
        }
    }

    /// Codes as i32, `[blocks, 2, block / 2, N]`, two of which are stored per byte.
    fn four_bits(&self, ctx: &mut NodeContext<'_>, sizes: &Sizes) -> Result<ValueId, Error> {
        let (blocks, columns) = (sizes.blocks as usize, sizes.columns as usize);
        let half = sizes.block as usize / 2;
        let code = |column: usize, block: usize, row: usize| {
            let byte = self.codes[(column * blocks + block) * half + row / 2];
            if row.is_multiple_of(2) {
                byte & 15
            } else {
                byte >> 4
            }
        };
        let mut bytes = Vec::with_capacity(self.codes.len());
        for block in 0..blocks {
            for row in 0..half {
                let pair = |column| code(column, block, row) | code(column, block, row + half) << 4;
                bytes.extend((0..columns).map(pair));
            }
        }
        let stored = ctx.tensor_at(Tensor::from_vec(&[blocks, 1, half, columns], bytes))?;
        let stored = ctx.add_constant(stored)?;
        // Vectors have no shift of bytes.
        let stored = ctx.cast(stored, DType::I32)?;
        let shifts = ctx.tensor_at(Tensor::from_slice::<i32>(&[2, 1, 1], &[0, 4]))?;
        let shifts = ctx.add_constant(shifts)?;
        let mask = ctx.scalar(DType::I32, 15.0)?;
        let shifted = ctx.map("shr", &[stored, shifts])?;
        ctx.map("bit_and", &[shifted, mask])
    }

    /// Codes as u8, `[blocks, block, N]`.
    fn eight_bits(&self, ctx: &mut NodeContext<'_>, sizes: &Sizes) -> Result<ValueId, Error> {
        let (blocks, columns) = (sizes.blocks as usize, sizes.columns as usize);
        let rows = sizes.block as usize;
        let mut bytes = Vec::with_capacity(self.codes.len());
        for block in 0..blocks {
            for row in 0..rows {
                let code = |column| self.codes[(column * blocks + block) * rows + row];
                bytes.extend((0..columns).map(code));
            }
        }
        let stored = ctx.tensor_at(Tensor::from_vec(&[blocks, rows, columns], bytes))?;
        ctx.add_constant(stored)
    }
}

/// A zero point per block, `[N, blocks]`; each column begins with a new byte.
fn unpacked_zero_points(bytes: &[u8], sizes: &Sizes) -> Vec<f32> {
    let (_, per_column) = sizes.bytes();
    let (blocks, per_column) = (sizes.blocks as usize, per_column as usize);
    let per_byte = (8 / sizes.bits) as usize;
    let mask = u8::MAX >> (8 - sizes.bits);
    let columns = bytes.chunks(per_column.max(1));
    let zero_points = columns.flat_map(|column| {
        (0..blocks).map(move |block| {
            let shift = block % per_byte * sizes.bits as usize;
            f32::from(column[block / per_byte] >> shift & mask)
        })
    });
    zero_points.collect()
}

fn narrowed(numbers: Vec<f64>) -> Vec<f32> {
    numbers.into_iter().map(|number| number as f32).collect()
}

/// Weights that are not constant, or of two bits, `f32[K, N]`.
fn computed(ctx: &mut NodeContext<'_>, sizes: &Sizes) -> Result<ValueId, Error> {
    let &Sizes {
        bits,
        depth,
        columns,
        block,
        blocks,
    } = sizes;
    let (b, scales) = (ctx.input(1)?, ctx.input(2)?);
    let weights = unpacked(ctx, b, bits, (columns, blocks, block))?;
    let zero_points = match ctx.optional(3) {
        Some(packed) if ctx.dtype(packed)? == DType::U8 => {
            let wide = unpacked(ctx, packed, bits, (columns, 1, blocks))?;
            let dims = [columns, blocks, 1].map(|size| ctx.size(size));
            ctx.reshape(wide, &dims)?
        }
        Some(numbers) => {
            let dims = [columns, blocks, 1].map(|size| ctx.size(size));
            let numbers = ctx.cast(numbers, DType::F32)?;
            ctx.reshape(numbers, &dims)?
        }
        None => ctx.scalar(DType::F32, 2_f64.powi(bits as i32 - 1))?,
    };
    let centred = ctx.sub(weights, zero_points)?;
    let dims = [columns, blocks, 1].map(|size| ctx.size(size));
    let scales = ctx.cast(scales, DType::F32)?;
    let scales = ctx.reshape(scales, &dims)?;
    let scaled = ctx.mul(centred, scales)?;
    let dims = [columns, blocks.saturating_mul(block)].map(|size| ctx.size(size));
    let flat = ctx.reshape(scaled, &dims)?;
    let cut = ctx.narrow(flat, 1, 0, depth)?;
    ctx.transpose(cut, &[1, 0])
}

/// Sub-byte codes, the first in a byte's low bits: `[rows, blocks, size]` as f32.
fn unpacked(
    ctx: &mut NodeContext<'_>,
    packed: ValueId,
    bits: i64,
    (rows, blocks, size): (i64, i64, i64),
) -> Result<ValueId, Error> {
    let per_byte = 8 / bits;
    let bytes = size.saturating_add(per_byte - 1) / per_byte;
    let dims = [rows, blocks, bytes, 1].map(|size| ctx.size(size));
    let packed = ctx.reshape(packed, &dims)?;
    let mask = ctx.scalar(DType::U8, 2_f64.powi(bits as i32) - 1.0)?;
    let mut codes = Vec::new();
    for place in 0..per_byte {
        let shift = ctx.scalar(DType::U8, (place * bits) as f64)?;
        let code = ctx.map("shr", &[packed, shift])?;
        codes.push(ctx.map("bit_and", &[code, mask])?);
    }
    let codes = ctx.build(|builder| builder.concat(&codes, 3))?;
    let dims = [rows, blocks, bytes.saturating_mul(per_byte)].map(|size| ctx.size(size));
    let codes = ctx.reshape(codes, &dims)?;
    let codes = ctx.narrow(codes, 2, 0, size)?;
    ctx.cast(codes, DType::F32)
}
