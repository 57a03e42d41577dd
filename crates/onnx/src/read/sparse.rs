//! Conversion of sparse tensors to dense ones.

use kiln_tensor::Tensor;

use super::tensor::Expected;
use crate::Error;

/// Puts `values[k]` at `indices[k]`, and zero elsewhere. Indices are i64: linear, of shape `[n]`, or one row of coordinates
/// per value, of shape `[n, rank]`; in either form they must ascend.
pub(crate) fn densify(
    expected: &Expected<'_>,
    values: &Tensor,
    indices: &Tensor,
) -> Result<Tensor, Error> {
    let at = |error| expected.at(error);
    let width = expected.dtype.size_in_bytes();
    let (count, rank) = (values.len(), expected.shape.len());
    let row = match indices.shape() {
        [rows] if *rows == count => 1,
        [rows, columns] if *rows == count && *columns == rank => rank,
        _ => {
            return Err(expected
                .malformed("the shape of a sparse tensor's indices does not match its values"));
        }
    };
    let coordinates = indices.as_slice::<i64>().map_err(at)?;
    let sources = values.as_bytes().map_err(at)?.chunks_exact(width);

    let size = expected.elements.saturating_mul(width);
    let mut dense = kiln_tensor::zeroed_bytes(size).map_err(at)?;
    let mut next = 0;
    for (index, source) in sources.enumerate() {
        let linear = match indices.rank() {
            1 => coordinates
                .get(index)
                .and_then(|&linear| usize::try_from(linear).ok()),
            _ => coordinates
                .get(index * row..(index + 1) * row)
                .and_then(|row| linear_index(row, &expected.shape)),
        };
        let linear = linear.filter(|&linear| linear < expected.elements);
        let linear = linear
            .ok_or_else(|| expected.malformed("an index of a sparse tensor is out of range"))?;
        if linear < next {
            return Err(expected.malformed("the indices of a sparse tensor do not ascend"));
        }
        next = linear + 1;
        if let Some(target) = dense.get_mut(linear * width..(linear + 1) * width) {
            target.copy_from_slice(source);
        }
    }
    Tensor::from_bytes(expected.dtype, &expected.shape, &dense).map_err(at)
}

/// The position of a coordinate in row-major order, if it is inside.
fn linear_index(coordinate: &[i64], shape: &[usize]) -> Option<usize> {
    coordinate
        .iter()
        .zip(shape)
        .try_fold(0_usize, |linear, (&index, &size)| {
            let index = usize::try_from(index).ok().filter(|&index| index < size)?;
            linear.checked_mul(size)?.checked_add(index)
        })
}
