//! NumPy's `.npy`: one tensor in a stream.
//!
//! Reads versions 1 to 3, either byte order, either axis order; writes version 1, little-endian, row-major. Files are
//! untrusted: the header's length is limited, its text is read by a small parser without recursion, and memory grows with
//! the data that arrives. (Existing crates multiply a header's dims unchecked, allocate the announced size, or parse it
//! recursively.) Structured, text, complex and object arrays have no counterpart and are rejected by name; NumPy has no
//! bf16, so neither have files.

mod header;

use std::io::{Read, Write};

use crate::layout::Layout;
use crate::storage::Storage;
use crate::{Tensor, TensorError, element_count};

use header::{ByteOrder, Header, malformed, unsupported};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself rejects headers above 10,000 bytes by default.
const MAX_HEADER_BYTES: usize = 1 << 16;

/// Reads one tensor; the result is contiguous. Bytes after it are left in the reader.
pub fn read_npy(reader: &mut dyn Read) -> Result<Tensor, TensorError> {
    read_npy_within(reader, usize::MAX)
}

/// [`read_npy`], rejecting a tensor of more than `limit` bytes before reading it.
pub(crate) fn read_npy_within(reader: &mut dyn Read, limit: usize) -> Result<Tensor, TensorError> {
    let Header {
        dtype,
        byte_order,
        fortran_order,
        mut shape,
    } = Header::parse(&read_header_text(reader)?)?;
    let bytes = element_count(dtype, &shape)? * dtype.size_in_bytes();
    if bytes > limit {
        return Err(unsupported(format!(
            "{bytes} bytes of data, where at most {limit} are allowed"
        )));
    }
    let mut storage = Storage::read_from(reader, bytes)?;
    if byte_order == ByteOrder::Big {
        for element in storage
            .bytes_mut()
            .unwrap_or_default()
            .chunks_exact_mut(dtype.size_in_bytes())
        {
            element.reverse();
        }
    }
    if !fortran_order {
        return Ok(Tensor::from_raw(dtype, Layout::row_major(&shape), storage));
    }
    shape.reverse();
    let reversed_axes: Vec<usize> = (0..shape.len()).rev().collect();
    Tensor::from_raw(dtype, Layout::row_major(&shape), storage)
        .transpose(&reversed_axes)?
        .contiguous()
}

/// Writes one tensor.
pub fn write_npy(tensor: &Tensor, writer: &mut dyn Write) -> Result<(), TensorError> {
    let dims: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    let dims = match dims.as_slice() {
        [only] => format!("{only},"),
        _ => dims.join(", "),
    };
    let descr = header::descr(tensor.dtype())?;
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}");
    // Magic, version and length take ten bytes; the data start at a multiple of 64.
    let unpadded = MAGIC.len() + 4 + text.len() + 1;
    text.extend(std::iter::repeat_n(
        ' ',
        unpadded.next_multiple_of(64) - unpadded,
    ));
    text.push('\n');
    let length =
        u16::try_from(text.len()).map_err(|_| unsupported(format!("rank {}", tensor.rank())))?;
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(text.as_bytes())?;
    writer.write_all(tensor.contiguous()?.as_bytes()?)?;
    Ok(())
}

fn read_header_text(reader: &mut dyn Read) -> Result<String, TensorError> {
    let mut start = [0; 8];
    reader
        .read_exact(&mut start)
        .map_err(|_| malformed("it is shorter than the format's magic string"))?;
    let [magic @ .., major, _minor] = start;
    if &magic != MAGIC {
        return Err(malformed(
            "it does not begin with the format's magic string",
        ));
    }
    let length = match major {
        1 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length)?;
            u16::from_le_bytes(length) as usize
        }
        2 | 3 => {
            let mut length = [0; 4];
            reader.read_exact(&mut length)?;
            u32::from_le_bytes(length) as usize
        }
        other => return Err(unsupported(format!("format version {other}"))),
    };
    if length > MAX_HEADER_BYTES {
        return Err(malformed(format!(
            "a header of {length} bytes, expected at most {MAX_HEADER_BYTES}"
        )));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    String::from_utf8(text).map_err(|_| malformed("the header is not text"))
}

#[cfg(test)]
mod tests;
