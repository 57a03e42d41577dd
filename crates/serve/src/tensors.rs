//! Converts the bytes of requests to tensors, and tensors to the bytes of responses.

use crate::datatype;
use crate::error::ServeError;
use kiln::{DType, Tensor};

/// The tensor with these elements in row-major order, little-endian.
///
/// # Errors
/// E1502 when the number of bytes does not match the shape.
pub(crate) fn of_bytes(
    name: &str,
    dtype: DType,
    shape: &[usize],
    bytes: &[u8],
) -> Result<Tensor, ServeError> {
    let sizes = shape.iter().copied();
    let expected = sizes
        .chain([dtype.size_in_bytes()])
        .try_fold(1usize, usize::checked_mul);
    if expected != Some(bytes.len()) {
        return Err(ServeError::Tensor {
            what: "input",
            name: name.escape_debug().to_string(),
            expected: match expected {
                Some(expected) => {
                    format!("{expected} bytes for {}{shape:?}", datatype::name_of(dtype))
                }
                None => "sizes whose product is not too large".to_owned(),
            },
            found: format!("{} bytes", bytes.len()),
        });
    }
    Ok(Tensor::from_bytes(dtype, shape, bytes).map_err(kiln::Error::from)?)
}

/// Appends the elements in row-major order, little-endian.
pub(crate) fn append_bytes(bytes: &mut Vec<u8>, tensor: &Tensor) -> Result<(), ServeError> {
    let tensor = tensor.contiguous().map_err(kiln::Error::from)?;
    bytes.extend_from_slice(tensor.as_bytes().map_err(kiln::Error::from)?);
    Ok(())
}
