//! Data movement: transpose, concat, split, expand, tile, and the moves between space and depth.

use kiln_ir::Dims;
use kiln_symbolic_shape::DimId;

use super::support::{Imported, one, operator};
use crate::NodeContext;
use crate::import::{Item, Operator, Takes};

pub(super) const OPERATORS: &[Operator] = &[
    operator("Concat", &[4], concat).taking(Takes::Moved),
    operator("DepthToSpace", &[1], depth_to_space).taking(Takes::Moved),
    operator("Expand", &[8], expand).taking(Takes::Moved),
    operator("SpaceToDepth", &[1], space_to_depth).taking(Takes::Moved),
    operator("Split", &[2, 13, 18], split).taking(Takes::Moved),
    operator("Tile", &[6], tile).taking(Takes::Moved),
    operator("Transpose", &[1], transpose).taking(Takes::Moved),
];

fn transpose(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let rank = ctx.rank(x)?;
    let axes = match ctx.attributes().get::<&[i64]>("perm")? {
        Some(perm) => {
            let axes = perm.iter().map(|&axis| ctx.axis(axis, rank));
            axes.collect::<Result<Vec<usize>, _>>()?
        }
        None => (0..rank).rev().collect(),
    };
    one(ctx.transpose(x, &axes)?)
}

fn concat(ctx: &mut NodeContext<'_>) -> Imported {
    let first = ctx.input(0)?;
    let rank = ctx.rank(first)?;
    let axis = ctx.attributes().require::<i64>("axis")?;
    let axis = ctx.axis(axis, rank)?;
    let operands = (0..ctx.n_inputs()).map(|index| ctx.input(index));
    let operands = operands.collect::<Result<Vec<_>, _>>()?;
    one(ctx.build(|builder| builder.concat(&operands, axis))?)
}

fn split(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.shape(x)?;
    let axis = ctx.axis_attribute(0, dims.len())?;
    let explicit = if ctx.version() < 13 {
        let split = ctx.attributes().get::<&[i64]>("split")?;
        split.map(|split| split.iter().map(|&size| ctx.size(size)).collect())
    } else if ctx.optional(1).is_some() {
        Some(ctx.sizes_of(1)?)
    } else {
        None
    };
    let sizes: Vec<DimId> = match explicit {
        Some(sizes) => sizes,
        None => equal_parts(ctx, dims[axis])?,
    };
    let parts = ctx.build(|builder| builder.split(x, axis, &sizes))?;
    Ok(parts.into_iter().map(Item::Tensor).collect())
}

/// One part per result, of one size; the last may be smaller.
fn equal_parts(ctx: &mut NodeContext<'_>, size: DimId) -> Result<Vec<DimId>, crate::Error> {
    let count = match ctx.attributes().get::<i64>("num_outputs")? {
        Some(count) => count,
        None => i64::try_from(ctx.node().outputs().len()).unwrap_or(i64::MAX),
    };
    if count < 1 || count > i64::try_from(ctx.node().outputs().len()).unwrap_or(i64::MAX) {
        return Err(ctx.attribute_error("num_outputs", "the number of results", count));
    }
    ctx.sizes(|table| {
        let (zero, parts) = (table.constant(0), table.constant(count));
        let part = table.ceil_div(size, parts)?;
        let whole = table.mul(part, parts)?;
        let mut sizes = vec![part; usize::try_from(count).unwrap_or(0)];
        if whole != size {
            // Part i ends at min(size, (i + 1) * part).
            let mut start = zero;
            for (index, entry) in sizes.iter_mut().enumerate() {
                let end = table.constant(i64::try_from(index).unwrap_or(i64::MAX) + 1);
                let end = table.mul(end, part)?;
                let end = table.min(end, size)?;
                *entry = table.sub(end, start)?;
                start = end;
            }
        }
        Ok(sizes)
    })
}

fn expand(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let dims = ctx.sizes_of(1)?;
    one(ctx.build(|builder| builder.expand(x, &dims))?)
}

fn tile(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let repeats = ctx.sizes_of(1)?;
    one(ctx.build(|builder| builder.tile(x, &repeats))?)
}

/// Blocks of space become channels: `[N, C, H, W] -> [N, C * b * b, H / b, W / b]`.
fn space_to_depth(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let block = ctx.attributes().require::<i64>("blocksize")?;
    let crd = ctx.attributes().get_or("mode", "DCR")? == "CRD";
    let Blocks {
        batch,
        channels,
        height,
        width,
        block,
    } = blocks(ctx, block)?;
    let (split, merged) = ctx.sizes(|table| {
        let (rows, columns) = (
            table.floor_div(height, block)?,
            table.floor_div(width, block)?,
        );
        let depth = table.product(&[channels, block, block])?;
        let split: Dims = [batch, channels, rows, block, columns, block]
            .into_iter()
            .collect();
        let merged: Dims = [batch, depth, rows, columns].into_iter().collect();
        Ok((split, merged))
    })?;
    let axes: [usize; 6] = if crd {
        [0, 1, 3, 5, 2, 4]
    } else {
        [0, 3, 5, 1, 2, 4]
    };
    one(ctx.build(|builder| {
        let split = builder.reshape(x, &split)?;
        let moved = builder.transpose(split, &axes)?;
        builder.reshape(moved, &merged)
    })?)
}

/// The inverse: `[N, C, H, W] -> [N, C / (b * b), H * b, W * b]`.
fn depth_to_space(ctx: &mut NodeContext<'_>) -> Imported {
    let x = ctx.input(0)?;
    let block = ctx.attributes().require::<i64>("blocksize")?;
    let crd = ctx.attributes().get_or("mode", "DCR")? == "CRD";
    let Blocks {
        batch,
        channels,
        height,
        width,
        block,
    } = blocks(ctx, block)?;
    let (split, merged) = ctx.sizes(|table| {
        let area = table.mul(block, block)?;
        let depth = table.floor_div(channels, area)?;
        let (rows, columns) = (table.mul(height, block)?, table.mul(width, block)?);
        let split: Dims = if crd {
            [batch, depth, block, block, height, width]
                .into_iter()
                .collect()
        } else {
            [batch, block, block, depth, height, width]
                .into_iter()
                .collect()
        };
        let merged: Dims = [batch, depth, rows, columns].into_iter().collect();
        Ok((split, merged))
    })?;
    let axes: [usize; 6] = if crd {
        [0, 1, 4, 2, 5, 3]
    } else {
        [0, 3, 4, 1, 5, 2]
    };
    one(ctx.build(|builder| {
        let split = builder.reshape(x, &split)?;
        let moved = builder.transpose(split, &axes)?;
        builder.reshape(moved, &merged)
    })?)
}

/// The sizes of a picture and of its blocks.
struct Blocks {
    batch: DimId,
    channels: DimId,
    height: DimId,
    width: DimId,
    block: DimId,
}

fn blocks(ctx: &mut NodeContext<'_>, block: i64) -> Result<Blocks, crate::Error> {
    if block < 1 {
        return Err(ctx.attribute_error("blocksize", "at least 1", block));
    }
    let x = ctx.input(0)?;
    let &[batch, channels, height, width] = ctx.shape(x)?.as_slice() else {
        let found = ctx.builder().describe(x);
        return Err(ctx.operand_error(0, "a tensor of rank 4", found));
    };
    let block = ctx.size(block);
    Ok(Blocks {
        batch,
        channels,
        height,
        width,
        block,
    })
}
