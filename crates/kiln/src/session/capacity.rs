//! States that grow: caches begin small, and are replaced by larger ones as they fill.
//!
//! Growth is geometric, so that filling a cache copies each entry a constant number of times on average, and a few
//! sizes, each with a launch plan, serve every length.

use super::{Session, State};
use crate::error::{Error, Failure};
use kiln_tensor::Tensor;

impl Session {
    /// Makes the states that [grow](crate::SessionBuilder::grows) large enough for `length` entries, and returns how
    /// many they then have. A state that is too small is copied into memory of at least twice the size, within the
    /// limit; new entries are zeros.
    ///
    /// # Errors
    /// `E0879` for more entries than the limit, or than the states have if none grow; `E0876` if a failed call left a
    /// state undefined. In both cases nothing has changed. Otherwise, when memory cannot be allocated.
    pub fn reserve(&mut self, length: usize) -> Result<usize, Error> {
        self.check_states()?;
        let Some(growth) = &self.growth else {
            return match length {
                0 => Ok(0),
                _ => Err(too_long("", length, 0)),
            };
        };
        let size = |&(index, axis): &(usize, usize)| {
            let state: &State = &self.states[index];
            self.inputs[state.input].shape()[axis]
        };
        let own = growth.axes.iter().map(size).min().unwrap_or(0);
        if own >= length {
            return Ok(own);
        }
        if length > growth.limit {
            return Err(too_long(&growth.dim, length, growth.limit));
        }
        let larger = own.saturating_mul(2).max(length).min(growth.limit);
        let mut grown = Vec::with_capacity(growth.axes.len());
        for &(index, axis) in &growth.axes {
            let state = &self.states[index];
            grown.push((
                state.input,
                state.output,
                enlarged(&self.inputs[state.input], axis, larger)?,
            ));
        }
        for (input, output, tensor) in grown {
            self.inputs[input] = tensor;
            self.outputs[output] = self.nothing.clone();
        }
        Ok(larger)
    }
}

/// The tensor padded with zeros at the end of an axis, to `size` entries.
fn enlarged(tensor: &Tensor, axis: usize, size: usize) -> Result<Tensor, Error> {
    let mut missing = tensor.shape().to_vec();
    missing[axis] = size.saturating_sub(tensor.shape()[axis]);
    let zero = Tensor::zeros(tensor.dtype(), &[])?;
    let zeros = zero.broadcast_to(&missing)?;
    Ok(Tensor::concat(&[tensor, &zeros], axis)?)
}

fn too_long(axis: &str, given: usize, limit: usize) -> Error {
    let axis = axis.escape_debug().to_string();
    Failure::Capacity { axis, given, limit }.into()
}
