//! Operations that are not kernels, on the host's memory: sorting, finding nonzero elements, suppression of boxes, copies.
//!
//! Operands are checked here once: each slice is within its memory, has the size of its shape and is aligned, and written
//! slices overlap nothing else. The operations then work on plain slices.
#![allow(unsafe_code, reason = "slices over device memory are vouched for here")]

mod few_of_lanes;
mod interrupt;
mod non_zero;
mod order;
mod parallel;
mod suppress;
mod top_k;

use crate::error::NativeError;
use crate::executor::place_of;
use interrupt::Interrupt;
use kiln_backend::{Builtin, BuiltinOperand, MemorySlice, StopSignal, TaskPool};
use kiln_tensor::{DType, TensorError, element_count, match_dtype};
use std::ops::Range;
use std::ptr::NonNull;

/// Binds the type of a dtype's elements. Bools are bytes here: memory may hold any byte.
macro_rules! for_each_element {
    ($dtype:expr, $ty:ident => $body:expr) => {
        match $dtype {
            DType::Bool => {
                type $ty = u8;
                $body
            }
            dtype => match_dtype!(dtype, $ty => $body),
        }
    };
}

/// An operand or a result: its place, dtype and shape.
type Given<'a> = (MemorySlice<'a>, BuiltinOperand<'a>);

/// Runs a builtin, on the threads of the pool if it has independent parts. Once the signal is set, it returns before
/// its work is done.
pub(crate) fn run(
    builtin: &Builtin,
    inputs: &[Given<'_>],
    outputs: &[Given<'_>],
    stop: Option<&dyn StopSignal>,
    pool: &dyn TaskPool,
) -> Result<(), NativeError> {
    let interrupt = Interrupt(stop);
    match builtin {
        Builtin::TopK { axis, largest } => {
            let ([x], [values, indices]) = counted("top-k", inputs, outputs)?;
            let top_k = top_k::TopK::check(x.1, values.1, indices.1, *axis, *largest)?;
            let elements = Elements::of("top-k", x)?;
            let mut values = Elements::written("top-k", values)?;
            let mut indices = Elements::written("top-k", indices)?;
            apart("top-k", &[&elements], &[&values, &indices])?;
            // SAFETY: the slices do not overlap, as was just checked.
            let indices = unsafe { indices.as_mut_slice::<i64>() };
            for_each_element!(x.1.dtype, T => {
                // SAFETY: as above, and both have this dtype.
                let (x, values) = unsafe { (elements.as_slice::<T>(), values.as_mut_slice::<T>()) };
                top_k.run(x, values, indices, (interrupt, pool))?;
            });
            Ok(())
        }
        Builtin::NonZero => {
            let ([x], [indices, count]) = counted("non-zero", inputs, outputs)?;
            non_zero::check(x.1, indices.1, count.1)?;
            let elements = Elements::of("non-zero", x)?;
            let mut places = Elements::written("non-zero", indices)?;
            let mut total = Elements::written("non-zero", count)?;
            apart("non-zero", &[&elements], &[&places, &total])?;
            // SAFETY: the slices do not overlap, as was just checked.
            let (places, total) =
                unsafe { (places.as_mut_slice::<i64>(), total.as_mut_slice::<i64>()) };
            let found = for_each_element!(x.1.dtype, T => {
                // SAFETY: as above, and it has this dtype.
                non_zero::run(unsafe { elements.as_slice::<T>() }, x.1.shape, places, interrupt)?
            });
            total.fill(found);
            Ok(())
        }
        Builtin::Suppress => run_suppress(inputs, outputs, interrupt),
        Builtin::Copy => {
            let ([x], [y]) = counted("copy", inputs, outputs)?;
            let from = Elements::of("copy", x)?;
            let mut to = Elements::written("copy", y)?;
            if (x.1.dtype, from.count) != (y.1.dtype, to.count) {
                return Err(NativeError::mismatch(
                    "the result of copy",
                    format_args!("{} elements of {}", from.count, x.1.dtype),
                    format_args!("{} of {}", to.count, y.1.dtype),
                ));
            }
            apart("copy", &[&from], &[&to])?;
            for_each_element!(x.1.dtype, T => {
                // SAFETY: the slices do not overlap, as was just checked, and both have this dtype.
                let (from, to) = unsafe { (from.as_slice::<T>(), to.as_mut_slice::<T>()) };
                // The cause of the stop is reported at the next check of the signal.
                let _stopped = interrupt.copy(to, from);
            });
            Ok(())
        }
        other => Err(NativeError::mismatch(
            "a builtin",
            "one that the CPU has",
            format_args!("{other:?}"),
        )),
    }
}

/// Runs non-maximum suppression.
fn run_suppress(
    inputs: &[Given<'_>],
    outputs: &[Given<'_>],
    interrupt: Interrupt<'_>,
) -> Result<(), NativeError> {
    let (given, written) = counted("suppression", inputs, outputs)?;
    let ([boxes, scores, overlap, least], [selected, count]) = (given, written);
    let suppress = suppress::Suppress::check(given.map(|x| x.1), written.map(|x| x.1))?;
    let of = |operand| Elements::of("suppression", operand);
    let read = [of(boxes)?, of(scores)?, of(overlap)?, of(least)?];
    let mut selected = Elements::written("suppression", selected)?;
    let mut total = Elements::written("suppression", count)?;
    apart("suppression", &read.each_ref(), &[&selected, &total])?;
    // SAFETY: the slices do not overlap, as was just checked, and have these dtypes.
    let (read, selected, total) = unsafe {
        (
            read.each_ref().map(|elements| elements.as_slice::<f32>()),
            selected.as_mut_slice::<i64>(),
            total.as_mut_slice::<i64>(),
        )
    };
    let [boxes, scores, &[overlap], &[least]] = read else {
        unreachable!("thresholds are scalars");
    };
    let suppress = suppress.with_thresholds(overlap, least);
    total.fill(suppress.run(boxes, scores, selected, interrupt)?);
    Ok(())
}

/// An empty vector with room for this many items.
fn reserved<T>(size: usize) -> Result<Vec<T>, TensorError> {
    let mut items = Vec::new();
    items
        .try_reserve_exact(size)
        .map_err(|_| TensorError::Allocation {
            bytes: size.saturating_mul(size_of::<T>()),
        })?;
    Ok(items)
}

/// Checks the number of operands and results.
fn counted<'a, 'b, const INPUTS: usize, const OUTPUTS: usize>(
    what: &str,
    inputs: &'a [Given<'b>],
    outputs: &'a [Given<'b>],
) -> Result<(&'a [Given<'b>; INPUTS], &'a [Given<'b>; OUTPUTS]), NativeError> {
    match (inputs.try_into(), outputs.try_into()) {
        (Ok(inputs), Ok(outputs)) => Ok((inputs, outputs)),
        _ => Err(NativeError::mismatch(
            what,
            format_args!("{INPUTS} operands and {OUTPUTS} results"),
            format_args!("{} and {}", inputs.len(), outputs.len()),
        )),
    }
}

/// Checks the dtype and shape of an operand.
fn expect(
    what: &str,
    given: BuiltinOperand<'_>,
    dtype: DType,
    shape: &[usize],
) -> Result<(), NativeError> {
    if given.dtype != dtype || given.shape != shape {
        return Err(NativeError::mismatch(
            what,
            format_args!("{dtype}{shape:?}"),
            format_args!("{}{:?}", given.dtype, given.shape),
        ));
    }
    Ok(())
}

/// The elements of an operand, contiguous in memory.
struct Elements {
    start: NonNull<u8>,
    count: usize,
    dtype: DType,
}

impl Elements {
    /// The slice of an operand.
    fn of(what: &str, given: &Given<'_>) -> Result<Self, NativeError> {
        Self::checked(what, given, false)
    }

    /// The slice of a result.
    fn written(what: &str, given: &Given<'_>) -> Result<Self, NativeError> {
        Self::checked(what, given, true)
    }

    fn checked(what: &str, given: &Given<'_>, written: bool) -> Result<Self, NativeError> {
        let (slice, BuiltinOperand { dtype, shape }) = *given;
        let count = element_count(dtype, shape)?;
        let bytes = count * dtype.size_in_bytes();
        let name = || match written {
            false => format!("an operand of {what}"),
            true => format!("a result of {what}"),
        };
        let start = place_of(&slice, dtype.size_in_bytes(), written, name)?;
        if slice.bytes < bytes {
            let expected = format_args!("at least {bytes} bytes").to_string();
            return Err(NativeError::mismatch(name(), expected, slice.bytes));
        }
        // An empty slice needs an aligned address too, if not an actual one.
        let start = if bytes == 0 {
            NonNull::<u64>::dangling().cast()
        } else {
            start
        };
        Ok(Self {
            start,
            count,
            dtype,
        })
    }

    /// Its address range.
    fn range(&self) -> Range<usize> {
        let start = self.start.addr().get();
        start..start + self.count * self.dtype.size_in_bytes()
    }

    /// The elements.
    ///
    /// # Safety
    /// `T` has the size of the dtype and any bits are valid for it; no other thread writes to the elements meanwhile.
    unsafe fn as_slice<T>(&self) -> &[T] {
        debug_assert_eq!(size_of::<T>(), self.dtype.size_in_bytes());
        // SAFETY: the range was checked to be in live, initialised memory and to be aligned.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.count) }
    }

    /// The elements.
    ///
    /// # Safety
    /// As for `as_slice`, and no other thread reads them meanwhile either.
    unsafe fn as_mut_slice<T>(&mut self) -> &mut [T] {
        debug_assert_eq!(size_of::<T>(), self.dtype.size_in_bytes());
        // SAFETY: as in `as_slice`; the memory was checked to be writable.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast().as_ptr(), self.count) }
    }
}

/// Checks that results overlap nothing.
fn apart(what: &str, inputs: &[&Elements], outputs: &[&Elements]) -> Result<(), NativeError> {
    let overlap = |a: &Elements, b: &Elements| {
        let (a, b) = (a.range(), b.range());
        a.start < b.end && b.start < a.end
    };
    for (position, output) in outputs.iter().enumerate() {
        let others = inputs.iter().chain(&outputs[..position]);
        if others.into_iter().any(|other| overlap(output, other)) {
            return Err(NativeError::mismatch(
                format!("a result of {what}"),
                "memory of its own",
                "memory of another operand or result",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
