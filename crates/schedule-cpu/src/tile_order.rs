//! The order of the tiles of a contraction: down a block of columns, or along a block of rows.
//!
//! Down the columns, a block of the right operand is read once, and all rows once per block. Along the rows it is the other
//! way round, and results are written in long runs: with long rows, each tile of the other order touches a new page per
//! row, for a line or two.

use kiln_backend::{PackSpec, Quantity};
use kiln_kernel::{Class, VerifiedKernel};

use super::packing;
use super::regime::at_least;
use super::tile::{Tile, VectorAxis};

/// Bytes of a row from which on its tiles are in pages of their own.
const PAGE: u32 = 4096;

/// 1 at the sizes at which tiles go along the rows, 0 elsewhere: where rows are long, and the right operand stays in the
/// cache while it is read again for each block of rows.
///
/// Never where the weights are the rows, as in a convolution whose pixels are the columns: nothing was gained there, and a
/// choice made at each launch is code to compile.
pub(crate) fn columns_first(kernel: &VerifiedKernel, tile: &Tile, packs: &[PackSpec]) -> Quantity {
    let never = Quantity::constant(0);
    let size = |axis| Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound());
    let (Some(_), VectorAxis::Outer(columns), Some(reduced), Class::Contraction) = (
        tile.rows,
        tile.vector,
        packing::reduced(kernel),
        kernel.classification().class,
    ) else {
        return never;
    };
    let is_known = kernel
        .dims()
        .as_constant(kernel.axis(columns).extent.bound());
    if !packs.is_empty() && is_known.is_none() {
        return never;
    }
    let written = kernel
        .buffers()
        .values()
        .filter(|buffer| buffer.role.is_written());
    let Some(element) = written.map(|buffer| buffer.dtype.size_in_bytes()).max() else {
        return never;
    };
    let is_long = at_least(size(columns), PAGE.div_ceil(element as u32));
    let one = Quantity::constant(1);
    let bytes = size(columns) * size(reduced) * Quantity::constant(element as i64);
    let stays = Quantity::cache(3)
        .floor_div(bytes.max(one.clone()))
        .min(one);
    is_long * stays
}

#[cfg(test)]
mod tests {
    use kiln_backend::LaunchContext;

    use super::*;
    use crate::candidates::candidates;
    use crate::plan::Plan;
    use crate::winograd::Transform;
    use kiln_backend::IsaLevel;

    /// At `M`, `K` and `N`, with a cache of 1 MiB; `None` where no launch decides.
    fn at(right: &str, symbols: &[i64]) -> Option<i64> {
        let text = format!(
            "kernel @mm(%x: in f32[M, K], %y: {right}[K, N], %o: out f32[M, N]) {{
               outer m < M, n < N
               s = reduce add[k < K] %x[m, k] * %y[k, n]
               store %o[m, n] = s
             }}"
        );
        let kernel = kiln_kernel::verify(kiln_kernel::text::read(&text).unwrap()).unwrap();
        let first = candidates(&kernel, IsaLevel::Avx2Fma, Transform::default()).remove(0);
        let plan = Plan::from_schedule(&kernel, &first.schedule).unwrap();
        let order = columns_first(&kernel, &plan.tile, &plan.packs(&kernel));
        let context = LaunchContext {
            symbols,
            threads: 2,
            caches: [1 << 20; 3],
        };
        match order.as_constant() {
            Some(_) => None,
            None => Some(order.evaluate(&context).unwrap()),
        }
    }

    #[test]
    fn long_rows_are_written_along_while_the_right_factor_stays_in_the_cache() {
        let inputs = |n, k| at("in f32", &[50, k, n]);
        assert_eq!([inputs(1023, 8), inputs(1024, 8)], [Some(0), Some(1)]);
        assert_eq!([inputs(1024, 256), inputs(1024, 257)], [Some(1), Some(0)]);
        assert_eq!(at("const f32", &[50, 8, 1024]), None, "columns not known");
    }
}
