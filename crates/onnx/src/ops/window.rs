//! Windows from a node's attributes, shared by convolutions and pools.
//!
//! `auto_pad` and `ceil_mode` become explicit padding, as expressions where sizes are symbolic.

use kiln_ir::{Dims, Integers, Window};
use kiln_symbolic_shape::DimId;

use crate::{Error, NodeContext};

/// A window's attributes, one entry per spatial axis.
pub(super) struct Moves {
    pub(super) strides: Integers,
    pub(super) dilations: Integers,
    pub(super) padding: Padding,
}

/// How the padding is specified.
pub(super) enum Padding {
    /// Explicit numbers of elements before and after each axis.
    Explicit(Integers, Integers),
    /// `size / stride` results, rounded up; the odd element goes after (or before).
    Same {
        /// Whether the odd element goes after.
        upper: bool,
    },
}

impl Moves {
    /// Reads `strides`, `dilations`, `pads` and `auto_pad`.
    pub(super) fn read(ctx: &NodeContext<'_>, spatial: usize) -> Result<Self, Error> {
        let strides = per_axis(ctx, "strides", spatial)?;
        let dilations = per_axis(ctx, "dilations", spatial)?;
        let padding = match ctx.attributes().get_or("auto_pad", "NOTSET")? {
            "SAME_UPPER" => Padding::Same { upper: true },
            "SAME_LOWER" => Padding::Same { upper: false },
            "VALID" => Padding::none(spatial),
            "NOTSET" | "" => match ctx.attributes().get::<&[i64]>("pads")? {
                None => Padding::none(spatial),
                Some(pads) if pads.len() == 2 * spatial => {
                    let (low, high) = pads.split_at(spatial);
                    Padding::Explicit(low.into(), high.into())
                }
                Some(pads) => {
                    let expected = format!("{} counts, two per spatial axis", 2 * spatial);
                    return Err(ctx.attribute_error("pads", expected, pads.len()));
                }
            },
            other => {
                let expected = "NOTSET, SAME_UPPER, SAME_LOWER or VALID";
                return Err(ctx.attribute_error("auto_pad", expected, other));
            }
        };
        Ok(Self {
            strides,
            dilations,
            padding,
        })
    }

    /// The window over axes of these sizes with a kernel of these.
    pub(super) fn window(
        &self,
        ctx: &mut NodeContext<'_>,
        sizes: &[DimId],
        kernel: &[DimId],
    ) -> Result<Window, Error> {
        let (mut low, mut high) = (Dims::new(), Dims::new());
        match &self.padding {
            Padding::Explicit(before, after) => {
                low.extend(before.iter().map(|&count| ctx.size(count)));
                high.extend(after.iter().map(|&count| ctx.size(count)));
            }
            Padding::Same { upper } => {
                let moves = self.strides.iter().zip(&self.dilations);
                for ((&size, &kernel), (&stride, &dilation)) in sizes.iter().zip(kernel).zip(moves)
                {
                    let (before, after) = ctx.build(|builder| {
                        builder.same_padding(size, kernel, stride, dilation, *upper)
                    })?;
                    low.push(before);
                    high.push(after);
                }
            }
        }
        Ok(Window {
            strides: self.strides.clone(),
            dilations: self.dilations.clone(),
            low,
            high,
        })
    }
}

impl Padding {
    fn none(spatial: usize) -> Self {
        Self::Explicit(
            Integers::from_elem(0, spatial),
            Integers::from_elem(0, spatial),
        )
    }
}

/// A list attribute of positive numbers, 1 for each spatial axis if it is omitted.
fn per_axis(ctx: &NodeContext<'_>, name: &str, spatial: usize) -> Result<Integers, Error> {
    let Some(given) = ctx.attributes().get::<&[i64]>(name)? else {
        return Ok(Integers::from_elem(1, spatial));
    };
    if given.len() != spatial {
        let expected = format!("{spatial} entries, one per spatial axis");
        return Err(ctx.attribute_error(name, expected, given.len()));
    }
    match given.iter().find(|&&entry| entry < 1) {
        Some(entry) => Err(ctx.attribute_error(name, "entries of at least 1", entry)),
        None => Ok(given.into()),
    }
}

/// The spatial sizes of operand `index`, which has rank 3 or more, or 2 without spatial axes.
pub(super) fn spatial_sizes(ctx: &NodeContext<'_>, index: usize) -> Result<Dims, Error> {
    let value = ctx.input(index)?;
    let dims = ctx.shape(value)?;
    match dims.get(2..) {
        Some(spatial) => Ok(spatial.into()),
        None => {
            let found = ctx.builder().describe(value);
            Err(ctx.operand_error(index, "a tensor of rank 2 or more", found))
        }
    }
}

/// The attribute `group`.
pub(super) fn groups(ctx: &NodeContext<'_>) -> Result<usize, Error> {
    let groups = ctx.attributes().get_or("group", 1_i64)?;
    usize::try_from(groups)
        .ok()
        .filter(|&groups| groups > 0)
        .ok_or_else(|| ctx.attribute_error("group", "at least 1", groups))
}
