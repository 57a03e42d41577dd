//! Verifies that loops are valid for a kernel, wherever their text comes from.
//!
//! Strategies decide what is profitable; the verifier decides what is allowed. Loops come from strategies of this
//! process, from a worker's request, or from a user's file, and all of them are checked.

use kiln_backend::{PackAxis, PackSpec};
use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{AxisId, BufferId, Extent, Item, Role, StageId, StageOperation, VerifiedKernel};

use super::{ItemLoops, LoopNest, Loops, VectorStep, items};
use crate::launch_packing;
use crate::layout::Layout;
use crate::narrow_products::{bf16_factors, byte_factors, narrow_factors};
use crate::rows_allowed::{outer_vectors_allowed, rows_allowed};
use crate::scaled_bytes::ScaledBytes;
use crate::split_reductions::SplitReductions;
use crate::tables::tabulated;
use crate::tile::{Tail, VectorAxis};
use crate::winograd::Winograd;
use crate::{packing, register_transpose, transposing_reduction};

/// The maximum number of vectors, rows and lanes of a tile, which bounds the code size.
const MAX_VECTORS: u32 = 16;
const MAX_ROWS: u32 = 64;
const MAX_LANES: u32 = 64;
/// The maximum number of elements of a unit.
const MAX_CHUNK: u32 = 1 << 24;

type Verified = Result<(), String>;

/// Checks that loops compute what a kernel means.
///
/// # Errors
/// What is wrong with the first invalid nest.
pub fn verify(kernel: &VerifiedKernel, loops: &Loops) -> Result<(), String> {
    let dependence = Dependence::of(kernel);
    for pack in &loops.packs {
        let is_constant = kernel
            .buffers()
            .values()
            .nth(pack.buffer)
            .is_some_and(|buffer| buffer.role == Role::Const);
        check(is_constant, "expected a constant to pack ahead")?;
        pack_axes(kernel, pack)?;
    }
    let is_total = loops.nests.last().is_some_and(|nest| nest.when.is_always());
    check(is_total, "expected a last nest for all remaining sizes")?;
    for nest in &loops.nests {
        let verifier = Verifier {
            kernel,
            dependence: &dependence,
            packs: &loops.packs,
            nest,
        };
        let verified = verifier.nest();
        verified.map_err(|message| format!("{message}, in nest {}", nest.strategy))?;
    }
    Ok(())
}

struct Verifier<'a> {
    kernel: &'a VerifiedKernel,
    dependence: &'a Dependence,
    packs: &'a [PackSpec],
    nest: &'a LoopNest,
}

impl Verifier<'_> {
    fn nest(&self) -> Verified {
        self.tile()?;
        for copy in &self.nest.copies {
            let is_operand = packing::is_factor(self.kernel, copy.buffer);
            check(
                is_operand,
                "expected a packed copy of an operand that products alone read",
            )?;
            pack_axes(self.kernel, copy)?;
        }
        check(
            self.nest.task_operations >= 1,
            "expected a task of one operation or more",
        )?;
        self.remainder()?;
        if let Some(transform) = self.nest.winograd {
            let winograd = Winograd::of(self.kernel, &self.nest.tile, transform);
            check(
                winograd.is_some(),
                "expected a 3 x 3 convolution for Winograd's transform",
            )?;
        }
        if self.nest.split_reductions {
            let split = SplitReductions::of(self.kernel);
            let is_right = split.is_some() && self.nest.tile.rows.is_none();
            check(is_right, "expected reductions to few results to split")?;
        }
        self.tables()?;
        self.vectors()?;
        let (copies, _) = launch_packing::place(self.kernel, self.nest.copies.clone());
        let packs = launch_packing::with_blocked(self.packs, &copies);
        let layout = Layout::new(self.kernel, self.dependence, (&packs, &copies));
        let n_items = items(self.kernel).count();
        check(
            self.nest.items.len() == n_items,
            "expected loops for each item",
        )?;
        for (item, loops) in items(self.kernel).zip(&self.nest.items) {
            self.item(&layout, item, loops)?;
        }
        Ok(())
    }

    /// Tables share the scratch of packed copies and partial results.
    fn tables(&self) -> Verified {
        let nest = self.nest;
        let found = tabulated(self.kernel, self.dependence, &nest.tile).len();
        let is_alone = nest.copies.is_empty() && nest.winograd.is_none() && !nest.split_reductions;
        check(
            nest.tables == 0 || (nest.tables as usize <= found && is_alone),
            "expected values along the vectors to tabulate",
        )?;
        check(
            !nest.windows || nest.tables != 0,
            "expected tabulated indices of windows",
        )
    }

    fn tile(&self) -> Verified {
        let (kernel, tile) = (self.kernel, &self.nest.tile);
        let (lanes, vectors) = (tile.lanes, tile.vectors);
        let is_sized = lanes.is_power_of_two()
            && lanes <= MAX_LANES
            && (1..=MAX_VECTORS).contains(&vectors)
            && (1..=MAX_CHUNK).contains(&self.nest.chunk);
        check(
            is_sized,
            "expected a tile of up to 16 vectors of 1 to 64 lanes, a power of two",
        )?;
        let is_outer = |axis: AxisId| {
            let is_one = kernel.outer().contains(&axis);
            is_one && !must_run_in_order(kernel, axis)
        };
        if let Some((axis, count)) = tile.rows {
            check((1..=MAX_ROWS).contains(&count), "expected 1 to 64 rows")?;
            let is_right = is_outer(axis)
                && tile.vector != VectorAxis::Outer(axis)
                && rows_allowed(kernel, self.dependence, axis);
            check(
                is_right,
                "expected rows of an outer axis whose points have equal loops",
            )?;
        }
        if let VectorAxis::Outer(axis) = tile.vector {
            let is_carried = kernel
                .items()
                .iter()
                .any(|item| matches!(item, Item::Carry(_)));
            let is_right = is_outer(axis)
                && match is_carried {
                    true => carries_in_vectors(kernel),
                    false => outer_vectors_allowed(kernel, self.dependence, axis),
                };
            check(
                is_right,
                "expected vectors of an outer axis whose points have equal loops",
            )?;
            let is_whole = self.nest.chunk.is_multiple_of(lanes * vectors);
            check(is_whole, "expected a chunk of whole sets of vectors")?;
        }
        let is_scalar = tile.vector == VectorAxis::None;
        check(
            !is_scalar || lanes == 1,
            "expected one lane without vectors",
        )?;
        let is_split = self.nest.split_reductions;
        check(
            !is_scalar || vectors == 1 || is_split,
            "expected one vector without vectors",
        )
    }

    fn remainder(&self) -> Verified {
        let remainder = &self.nest.remainder;
        let Some((axis, count)) = self.nest.tile.rows else {
            return check(
                remainder.rows.is_empty(),
                "expected no row remainder without rows",
            );
        };
        let known = self
            .kernel
            .dims()
            .as_constant(self.kernel.axis(axis).extent.bound());
        let covers = match known {
            Some(size) => {
                let left = size.rem_euclid(i64::from(count));
                left == 0
                    || remainder
                        .rows
                        .iter()
                        .any(|&rows| left % i64::from(rows.max(1)) == 0)
            }
            None => remainder.rows.last() == Some(&1) || self.may_repeat(),
        };
        let is_sized = (1..=count).contains(&remainder.least)
            && remainder.rows.iter().all(|rows| (1..=count).contains(rows))
            && remainder.evened_below <= count;
        check(
            covers && is_sized,
            "expected a row remainder that covers every row",
        )
    }

    /// Whether rows may be computed twice, so that a remainder may repeat its last one.
    fn may_repeat(&self) -> bool {
        let mut all = items(self.kernel);
        all.all(|item| !matches!(item, Item::Store(store) if store.combine.is_some()))
    }

    /// Whether an axis has cuts for any number of rows: without cuts it would not be computed.
    fn is_cut(&self, axis: AxisId) -> bool {
        let mut all = self.nest.vectors.iter();
        all.any(|steps| steps.axis == axis && steps.rows.is_none() && !steps.steps.is_empty())
    }

    fn vectors(&self) -> Verified {
        let tile = &self.nest.tile;
        let carried = self.kernel.stages().values();
        let mut carried = carried.filter(|stage| stage.init.is_some());
        let is_all_cut = match tile.vector {
            VectorAxis::Outer(axis) => self.is_cut(axis) || self.nest.winograd.is_some(),
            // Locals of carry blocks are initialised along their last axis.
            VectorAxis::Inner => {
                carried.all(|stage| stage.axes.last().is_none_or(|&axis| self.is_cut(axis)))
            }
            VectorAxis::None => true,
        };
        check(is_all_cut, "expected cuts of every vectorised axis")?;
        for steps in &self.nest.vectors {
            check(!steps.steps.is_empty(), "expected steps of a cut")?;
            let is_sized = steps.steps.iter().all(|step| match *step {
                VectorStep::Whole(vectors) | VectorStep::NearlyWhole(vectors) => {
                    (1..=tile.vectors).contains(&vectors)
                }
                VectorStep::Masked { vectors, full }
                | VectorStep::MaskedAbove { vectors, full, .. } => {
                    (1..=tile.vectors).contains(&vectors)
                        && full < vectors
                        && tile.tail == Tail::Masked
                }
                VectorStep::Scalar => true,
            });
            let covers = match steps.steps.last() {
                Some(VectorStep::Whole(vectors)) => kiln_kernel::analysis::is_multiple(
                    self.kernel,
                    steps.axis,
                    vectors * tile.lanes,
                ),
                Some(VectorStep::Masked { full: 0, .. } | VectorStep::Scalar) => true,
                Some(VectorStep::MaskedAbove { above, full, .. }) => full <= above,
                _ => false,
            };
            check(is_sized && covers, "expected vectors that cover their axis")?;
        }
        Ok(())
    }

    fn item(&self, layout: &Layout<'_>, item: &Item, loops: &ItemLoops) -> Verified {
        let kernel = self.kernel;
        let is_inner = self.nest.tile.vector == VectorAxis::Inner;
        let is_cut = |axis| self.is_cut(axis);
        match item {
            Item::Stage(id) => {
                let stage = kernel.stage(*id);
                let reduced: &[AxisId] = match &stage.operation {
                    StageOperation::Reduce { axes, .. } => axes,
                    StageOperation::Map => &[],
                };
                if let Some(axis) = loops.along {
                    let is_own = stage.axes.contains(&axis) && is_cut(axis);
                    let is_right = is_inner
                        && (is_own || reduced.contains(&axis))
                        && self.has_equal_lanes(axis);
                    check(is_right, "expected an axis of the stage to vectorise")?;
                }
                if loops.transposing_reduction {
                    let may = |along| {
                        transposing_reduction::transposes(kernel, self.nest.tile.lanes, *id, along)
                    };
                    check(
                        loops.along.is_some_and(may),
                        "expected dot products to transpose",
                    )?;
                }
                if loops.pairs {
                    let (operation, value) = (&stage.operation, stage.value);
                    let may = narrow_factors(kernel, operation, value).is_some()
                        || bf16_factors(kernel, operation, value).is_some();
                    check(may, "expected products of 16-bit numbers to pair")?;
                }
                if loops.fours {
                    let factors = byte_factors(kernel, &stage.operation, stage.value);
                    check(
                        factors.is_some(),
                        "expected products of 8-bit integers to sum four at a time",
                    )?;
                }
                if loops.scaled_fours {
                    self.scaled_fours(*id)?;
                }
                if loops.fuse_next {
                    let place = kernel.items().iter().position(|other| other == item);
                    let next = place.and_then(|place| kernel.items().get(place + 1));
                    let may = next.and_then(|next| layout.fused_map(*id, next, &self.nest.tile));
                    check(may.is_some(), "expected a map of the same elements to fuse")?;
                }
            }
            Item::Store(store) => {
                if let Some(axis) = loops.along {
                    let is_right = is_inner
                        && store.axes.contains(&axis)
                        && store.combine.is_none()
                        && is_cut(axis)
                        && matches!(kernel.axis(axis).extent, Extent::Size(_))
                        && self.has_equal_lanes(axis);
                    check(is_right, "expected an axis of the store to vectorise")?;
                }
                if loops.register_transpose {
                    let may =
                        register_transpose::transposes(kernel, layout, &self.nest.tile, store);
                    check(may, "expected loads along the rows to transpose")?;
                }
            }
            Item::Carry(_) => {}
        }
        Ok(())
    }

    fn scaled_fours(&self, id: StageId) -> Verified {
        let bytes = ScaledBytes::of(self.kernel, self.dependence, id);
        let are_shared = match (bytes, self.nest.tile.vector) {
            (Some(bytes), VectorAxis::Outer(columns)) => {
                !self.dependence.depends(bytes.signed, columns)
            }
            _ => false,
        };
        check(
            are_shared,
            "expected products of scaled bytes, one of which the vectors share, to sum four at a time",
        )
    }

    /// Whether the trip counts of all loops are independent of the lane.
    fn has_equal_lanes(&self, axis: AxisId) -> bool {
        let mut axes = self.kernel.axes().values();
        axes.all(|other| match other.extent {
            Extent::Size(_) => true,
            Extent::Clamped { value, .. } => !self.dependence.depends(value, axis),
        })
    }
}

/// Whether the stages of carry blocks are scalars, carried in registers by vectors of points, in steps of equal length.
fn carries_in_vectors(kernel: &VerifiedKernel) -> bool {
    let mut axes = kernel.axes().values();
    let mut stages = kernel.stages().values();
    axes.all(|axis| matches!(axis.extent, Extent::Size(_)))
        && stages.all(|stage| stage.axes.is_empty())
}

/// Whether the packed axes are those of the operand, each once.
fn pack_axes(kernel: &VerifiedKernel, spec: &PackSpec) -> Verified {
    let rank = match kernel.buffers().values().nth(spec.buffer) {
        Some(_) => kernel.buffer(BufferId::from_u32(spec.buffer as u32)).rank(),
        None => return Err("expected a buffer of the kernel to pack".to_owned()),
    };
    let count =
        |is_it: &dyn Fn(&PackAxis) -> bool| spec.axes.iter().filter(|axis| is_it(axis)).count();
    let is_right = |place: usize| {
        let whole = count(&|axis| *axis == PackAxis::Whole(place));
        let outer = count(&|axis| matches!(axis, PackAxis::Outer { axis, .. } if *axis == place));
        let inner = count(&|axis| matches!(axis, PackAxis::Inner { axis, .. } if *axis == place));
        (whole, outer, inner) == (1, 0, 0) || (whole, outer, inner) == (0, 1, 1)
    };
    let blocks: Vec<(usize, usize)> = spec
        .axes
        .iter()
        .filter_map(|axis| match *axis {
            PackAxis::Outer { axis, block } | PackAxis::Inner { axis, block } => {
                Some((axis, block))
            }
            PackAxis::Whole(_) => None,
        })
        .collect();
    let is_even = blocks.iter().all(|&(axis, block)| {
        let mut same = blocks.iter().filter(|&&(other, _)| other == axis);
        block > 0 && same.all(|&(_, other)| other == block)
    });
    let n_axes = rank + blocks.len() / 2;
    let all = (0..rank).all(is_right) && is_even && spec.axes.len() == n_axes;
    check(
        all,
        "expected each axis of the operand once, whole or in blocks",
    )
}

fn check(holds: bool, message: &str) -> Verified {
    match holds {
        true => Ok(()),
        false => Err(message.to_owned()),
    }
}
