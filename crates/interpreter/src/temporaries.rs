//! Estimates of the memory that an op uses while it runs, in addition to operands and results, for the limit on live
//! bytes.

use kiln_ir::Op;
use kiln_tensor::{DType, Tensor};

/// Bytes of an element while it is accumulated.
const WIDE: u64 = 8;

/// Bytes of the blocks used by convolutions.
const BLOCKS: u64 = 8 << 20;

/// The number of rows of a product whose wide copies exist at one time.
const ROWS: u64 = 1024;

/// An approximate upper bound on the bytes used by an op with `results` result elements while it runs.
pub(crate) fn temporary_bytes(op: &Op, operands: &[Tensor], results: u64) -> u64 {
    let len = |index: usize| operands.get(index).map_or(0, |x| x.len() as u64);
    let wide = |elements: u64| elements.saturating_mul(WIDE);
    let last = |index: usize| {
        let x = operands.get(index).and_then(|x| x.shape().last());
        x.map_or(0, |&size| size as u64)
    };
    let own = match op {
        Op::Matmul { .. } => {
            let columns = last(0).saturating_add(last(1));
            wide(len(1).saturating_add(ROWS.saturating_mul(columns)))
        }
        Op::Conv { .. } | Op::ConvTranspose { .. } => wide(len(1)).saturating_add(BLOCKS),
        Op::Resize(_) => wide(len(0).saturating_add(results)),
        Op::ScatterElements { .. } | Op::ScatterNd { .. } => wide(len(0).saturating_add(len(1))),
        Op::Gather { .. } | Op::GatherElements { .. } | Op::GatherNd { .. } => wide(len(1)),
        Op::TopK { .. } => wide(len(0)),
        Op::Suppress { .. } => wide(len(1)),
        _ => 0,
    };
    // Views that are read row-major are copied first.
    let copies = match op {
        Op::Map { .. } | Op::Cast { .. } => {
            let copied = operands.iter().filter(|x| x.len() > 1);
            let copied = copied.filter(|x| x.len() as u64 != results || !x.is_contiguous());
            copied.fold(0u64, |sum, x| {
                sum.saturating_add(results.saturating_mul(bytes_of_element(x.dtype())))
            })
        }
        _ => operands
            .iter()
            .filter(|x| !x.is_contiguous())
            .fold(0u64, |sum, x| sum.saturating_add(x.byte_len() as u64)),
    };
    own.saturating_add(copies)
}

fn bytes_of_element(dtype: DType) -> u64 {
    dtype.size_in_bytes() as u64
}
