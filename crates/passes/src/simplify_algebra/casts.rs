//! Casts of casts, and casts of moved elements.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, TensorType};
use kiln_tensor::DType;

/// A cast through a dtype that represents every value of the first becomes a direct cast.
pub(super) fn join_casts(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Cast { to }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let Some((Op::Cast { .. }, source)) = site.through(operand) else {
        return None;
    };
    let (Some(first), Some(middle)) = (site.dtype(source), site.dtype(operand)) else {
        return None;
    };
    let last = *to;
    let is_joined = holds(middle, first) && !wraps_instead(first, middle, last);
    is_joined.then(|| Rewrite::op(site.op().clone(), [source]))
}

/// A narrowing cast after data movement is moved before it: narrow elements are moved, and the cast is next to the op
/// that computes them.
pub(super) fn cast_before_move(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Cast { to }, Some(operand)) = (site.op(), site.operand()) else {
        return None;
    };
    let (to, from) = (*to, site.dtype(operand)?);
    let (movement, source) = match site.through(operand)? {
        (movement @ (Op::Reshape { .. } | Op::Transpose { .. }), source) => {
            (movement.clone(), source)
        }
        _ => return None,
    };
    if to.bits() >= from.bits() {
        return None;
    }
    let dims = site.dims_of(source)?;
    let narrowed = site.emit(Op::Cast { to }, [source], TensorType::new(to, dims));
    Some(Rewrite::op(movement, [narrowed]))
}

/// Whether the cast of an integer to the last dtype would wrap around where that of the intermediate float saturates.
fn wraps_instead(first: DType, middle: DType, last: DType) -> bool {
    let is_integer = |dtype: DType| !dtype.is_float() && dtype != DType::Bool;
    middle.is_float() && is_integer(first) && is_integer(last) && !holds(last, first)
}

/// Whether every value of `narrow` is a value of `wide`.
fn holds(wide: DType, narrow: DType) -> bool {
    if wide == narrow || narrow == DType::Bool {
        return true;
    }
    // Bits of a number without its sign, and the largest exponent of two.
    let reach = |dtype| match dtype {
        DType::F64 => (53, 1023),
        DType::F32 => (24, 127),
        DType::F16 => (11, 15),
        DType::BF16 => (8, 127),
        integer => {
            let digits = integer.bits() - u32::from(integer.is_signed());
            (digits, digits)
        }
    };
    if wide == DType::Bool || (narrow.is_float() && !wide.is_float()) {
        return false;
    }
    if narrow.is_signed() && !wide.is_signed() {
        return false;
    }
    let (wide, narrow) = (reach(wide), reach(narrow));
    // An integer of n digits is below 2^n, so an exponent of n is more than enough.
    wide.0 >= narrow.0 && wide.1 >= narrow.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{graph, same_results};
    use kiln_interpreter::{InterpretOptions, interpret};
    use kiln_tensor::Tensor;

    #[test]
    fn a_dtype_holds_another_exactly_when_no_value_is_lost() {
        use DType::*;
        let yes = [
            (F64, F32),
            (F32, F16),
            (F32, BF16),
            (F64, I32),
            (F32, I16),
            (I64, U32),
            (I16, U8),
            (F16, Bool),
            (U8, Bool),
        ];
        let no = [
            (F16, BF16),
            (BF16, F16),
            (F64, I64),
            (F32, I32),
            (I64, U64),
            (U64, I8),
            (I64, F16),
            (I32, U32),
            (Bool, U8),
        ];
        assert!(yes.iter().all(|&(wide, narrow)| holds(wide, narrow)));
        assert!(
            no.iter().all(|&(wide, narrow)| !holds(wide, narrow)),
            "{no:?}"
        );
        for dtype in DType::ALL {
            assert!(holds(dtype, dtype));
        }
    }

    #[test]
    fn casts_of_casts_change_no_value_for_any_dtypes() {
        let extremes = [
            -1e30, -4e9, -129.0, -3.0, -0.5, 0.0, 1.0, 200.0, 7e4, 3e9, 1e30,
        ];
        let extremes = Tensor::from_slice(&[extremes.len()], &extremes).unwrap();
        for first in DType::ALL {
            let text = format!(
                "graph @extremes(%x: f64[B]) -> ({first}[B]) {{
                  %y: {first}[B] = cast %x {{to = {first}}}
                  return %y
                }}"
            );
            let options = InterpretOptions::default();
            let inputs =
                interpret(&graph(&text), std::slice::from_ref(&extremes), &options).unwrap();
            for middle in DType::ALL {
                let casts =
                    DType::ALL.map(|last| format!("%{last}: {last}[B] = cast %m {{to = {last}}}"));
                let results = DType::ALL.map(|last| format!("%{last}"));
                let types = DType::ALL.map(|last| format!("{last}[B]"));
                let text = format!(
                    "graph @casts(%x: {first}[B]) -> ({}) {{
                      %m: {middle}[B] = cast %x {{to = {middle}}}
                      {}
                      return {}
                    }}",
                    types.join(", "),
                    casts.join("\n"),
                    results.join(", ")
                );
                same_results(&text, &inputs);
            }
        }
    }
}
