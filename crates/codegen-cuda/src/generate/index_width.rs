//! 32-bit offsets where a launch's sizes allow them: a 64-bit product takes several instructions, a 64-bit division a
//! call.
//!
//! A function's text computes offsets and decomposes points in the type `k_index`. It is emitted twice, once per width,
//! and sizes decide which version has tasks. Values that the kernel computes in `i64` stay in `i64`.

use kiln_backend::Quantity;
use kiln_kernel::VerifiedKernel;

use super::function::Function;
use super::strides;

/// The type in which offsets are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexWidth {
    /// 32 bits.
    Narrow,
    /// 64 bits.
    Wide,
}

impl IndexWidth {
    /// The C type.
    pub(super) fn c_type(self) -> &'static str {
        match self {
            Self::Narrow => "int",
            Self::Wide => "k_i64",
        }
    }
}

/// The maximum offset and number of points for narrow indices. With the amounts that a tile or a block adds, they still
/// fit in 31 bits.
const LIMIT: i64 = 1 << 30;

/// Two versions of each function: with narrow indices, run if those suffice, and with wide ones.
pub(super) fn narrow_where_possible(
    kernel: &VerifiedKernel,
    functions: Vec<Function>,
) -> Vec<Function> {
    let mut all = Vec::with_capacity(2 * functions.len());
    for wide in functions {
        let is_narrow = is_narrow(kernel, &wide);
        let narrow = Function {
            index: IndexWidth::Narrow,
            ..wide.clone()
        };
        match is_narrow.as_constant() {
            Some(0) => all.push(wide),
            Some(_) => all.push(narrow),
            None => {
                all.push(narrow.only_when(&is_narrow));
                all.push(wide.only_when(&(Quantity::constant(1) - is_narrow)));
            }
        }
    }
    all
}

/// 1 if every offset and every point of a function is within the limit, otherwise 0.
fn is_narrow(kernel: &VerifiedKernel, function: &Function) -> Quantity {
    let constant = Quantity::constant;
    let threads = constant(i64::from(function.threads));
    let points = super::points(kernel, kernel.outer());
    let spans = kernel.buffers().iter().map(|(id, buffer)| {
        let sizes = buffer.shape.iter();
        let sizes = sizes.map(|&size| Quantity::of(kernel.dims(), size));
        let steps = strides(kernel, id).into_iter().zip(sizes);
        steps.fold(constant(1), |span, (stride, size)| {
            let backwards = constant(0) - stride.clone();
            let last = (size - constant(1)).max(constant(0));
            span + stride.max(backwards) * last
        })
    });
    let first = points.max(function.tasks.clone() * threads);
    let most = spans.fold(first, Quantity::max).max(constant(1));
    constant(LIMIT).floor_div(most).min(constant(1))
}
