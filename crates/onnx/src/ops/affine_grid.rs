//! Grids of points, transformed by affine maps.

use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[operator("AffineGrid", &[20], affine_grid)];

/// `theta: [N, k, k + 1], size: i64[k + 2] -> [N, spatial.., k]`.
fn affine_grid(ctx: &mut NodeContext<'_>) -> Imported {
    let theta = ctx.input(0)?;
    let [batch, rows, _] = ctx.dims_of_rank::<3>(0, theta)?;
    let sizes = ctx.sizes_of(1)?;
    let Some(spatial) = sizes.get(2..).filter(|spatial| !spatial.is_empty()) else {
        return Err(ctx.operand_error(1, "3 sizes or more", sizes.len().to_string()));
    };
    let corners = ctx.flag("align_corners", false)?;
    let dtype = ctx.dtype(theta)?;
    let wide = if dtype == DType::F64 {
        dtype
    } else {
        DType::F32
    };
    let unit = ctx.size(1);
    let count = ctx.product(spatial)?;
    let mut coordinates = Vec::with_capacity(spatial.len() + 1);
    // Innermost axis first, then the constants for the last column of the map.
    for (axis, &size) in spatial.iter().enumerate().rev() {
        let mut along: Vec<DimId> = vec![unit; spatial.len()];
        along[axis] = size;
        let index = ctx.positions(wide, &along, axis)?;
        let size = ctx.dim_as(size, wide)?;
        let two = ctx.scalar(wide, 2.0)?;
        let at = if corners {
            let span = ctx.plus(size, -1.0)?;
            let step = ctx.div(two, span)?;
            ctx.mul(index, step)?
        } else {
            let step = ctx.div(two, size)?;
            let middle = ctx.plus(index, 0.5)?;
            ctx.mul(middle, step)?
        };
        let at = ctx.plus(at, -1.0)?;
        let at = ctx.broadcast(at, spatial)?;
        coordinates.push(ctx.reshape(at, &[count])?);
    }
    coordinates.push(ctx.filled(wide, 1.0, &[count])?);
    let points = ctx.build(|builder| builder.stack(&coordinates, 0))?;
    let theta = ctx.cast(theta, wide)?;
    let moved = ctx.matmul(theta, points)?;
    let moved = ctx.transpose(moved, &[0, 2, 1])?;
    let mut dims = vec![batch];
    dims.extend_from_slice(spatial);
    dims.push(rows);
    let grid = ctx.reshape(moved, &dims)?;
    one(ctx.cast(grid, dtype)?)
}
