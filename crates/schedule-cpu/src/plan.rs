//! A plan: the numbers of a schedule, decoded for one kernel.

use kiln_backend::{PackSpec, Schedule};
use kiln_kernel::{AxisId, VerifiedKernel};

use super::tile::{Tail, Tile, VectorAxis};
use super::winograd::Transform;
use super::{packing, regime};
use crate::error::ScheduleError;

/// A tile, how points are distributed, and how constants are packed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) tile: Tile,
    /// Elements of a vectorised outer axis per unit of work.
    pub(crate) chunk: u32,
    /// Whether constants are packed for the tile.
    pub(crate) pack: bool,
    /// From this many rows on other operands are packed at each launch; 0 for never.
    pub(crate) pack_rows: u32,
    /// Below this many columns, vectors run along the reduced axis if it is deep; 0 for never.
    pub(crate) narrow: u32,
    /// Up to this many columns tiles have one vector with as many lanes; 0 for never.
    pub(crate) half_lanes: u32,
    /// An axis that serves for rows as well as the tile's, for sizes at which that has too few points.
    pub(crate) second_rows: Option<AxisId>,
    /// GEMV, and products shallower than this, use many vectors of one or a few rows; 0 for never.
    pub(crate) shallow: u32,
    /// Whether rows go one by one where the written arrays do not fit the second-level cache.
    pub(crate) row_by_row: bool,
    /// The Winograd tile, for kernels that use it.
    pub(crate) winograd: Option<WinogradTile>,
    /// Vectors per tile of a skinny GEMM; 0 to leave it to the full tile.
    pub(crate) skinny_vectors: u32,
}

/// The register tile of Winograd's products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WinogradTile {
    /// The fewest points of an image, for tiles of two by two sums.
    pub(crate) from: u32,
    /// The most sums of a tile.
    pub(crate) transform: Transform,
    /// Tiles of sums that are multiplied together.
    pub(crate) rows: u32,
    /// Vectors of features.
    pub(crate) vectors: u32,
}

impl Plan {
    /// How constants are packed, for all regimes alike. Not where a regime splits a reduction, whose vectors run along the
    /// reduced axis and would cut across blocks.
    pub(crate) fn packs(&self, kernel: &VerifiedKernel) -> Vec<PackSpec> {
        if self.pack && regime::split_of(kernel).is_none() {
            packing::specs(kernel, &self.tile)
        } else {
            Vec::new()
        }
    }

    /// The same plan with a smaller tile; `None` if it has no rows to give up.
    pub(super) fn smaller(&self) -> Option<Plan> {
        let (axis, count) = self.tile.rows.filter(|&(_, count)| count > 1)?;
        let mut plan = self.clone();
        plan.tile.rows = Some((axis, count * 2 / 3)).filter(|&(_, count)| count > 1);
        Some(plan)
    }

    pub(super) fn to_schedule(&self, name: &str) -> Schedule {
        let tile = &self.tile;
        let mut schedule = Schedule::new(name);
        if tile.lanes > 1 {
            schedule = schedule
                .with("lanes", i64::from(tile.lanes))
                .with("vectors", i64::from(tile.vectors))
                .with("masked", i64::from(tile.tail == Tail::Masked));
        }
        if let Some((axis, count)) = tile.rows {
            schedule = schedule
                .with("rows", i64::from(count))
                .with("row_axis", i64::from(axis.as_u32()));
            if tile.spread {
                schedule = schedule.with("spread", 1);
            }
        }
        if let VectorAxis::Outer(axis) = tile.vector {
            schedule = schedule
                .with("vector_axis", i64::from(axis.as_u32()))
                .with("chunk", i64::from(self.chunk));
        }
        if let Some(axis) = self.second_rows {
            schedule = schedule.with("second_row_axis", i64::from(axis.as_u32()));
        }
        let numbers = [
            ("pack", u32::from(self.pack)),
            ("pack_rows", self.pack_rows),
            ("narrow", self.narrow),
            ("half_lanes", self.half_lanes),
            ("shallow", self.shallow),
            ("skinny_vectors", self.skinny_vectors),
            ("row_by_row", u32::from(self.row_by_row)),
        ];
        for (name, value) in numbers.into_iter().filter(|&(_, value)| value > 0) {
            schedule = schedule.with(name, i64::from(value));
        }
        if let Some(winograd) = self.winograd {
            schedule = schedule
                .with("winograd", i64::from(winograd.from))
                .with("winograd_sums", i64::from(winograd.transform.sums()))
                .with("winograd_rows", i64::from(winograd.rows))
                .with("winograd_vectors", i64::from(winograd.vectors));
        }
        schedule
    }

    pub(super) fn from_schedule(
        kernel: &VerifiedKernel,
        schedule: &Schedule,
    ) -> Result<Plan, ScheduleError> {
        let refused = || ScheduleError::Schedule {
            schedule: schedule.to_string(),
        };
        let number = |name: &str, default: u32, limit: u32| match schedule.get(name) {
            None => Ok(default),
            Some(value) => u32::try_from(value)
                .ok()
                .filter(|value| (1..=limit).contains(value))
                .ok_or_else(refused),
        };
        let threshold = |name: &str| match schedule.get(name) {
            None => Ok(0),
            Some(_) => number(name, 1, 1 << 24),
        };
        let axis = |name: &str| match schedule.get(name) {
            None => Ok(None),
            Some(position) => kernel
                .outer()
                .iter()
                .copied()
                .find(|axis: &AxisId| i64::from(axis.as_u32()) == position)
                .map(Some)
                .ok_or_else(refused),
        };
        let lanes = number("lanes", 1, 64)?;
        let vectors = number("vectors", 1, 8)?;
        let rows = match axis("row_axis")? {
            Some(axis) => Some((axis, number("rows", 1, 32)?)),
            None => None,
        };
        let vector = match axis("vector_axis")? {
            Some(axis) => VectorAxis::Outer(axis),
            None if lanes > 1 => VectorAxis::Inner,
            None => VectorAxis::None,
        };
        let chunk = number("chunk", lanes * vectors, 1 << 24)?;
        if !lanes.is_power_of_two() || !chunk.is_multiple_of(lanes * vectors) {
            return Err(refused());
        }
        Ok(Plan {
            tile: Tile {
                rows,
                spread: schedule.get("spread") == Some(1),
                vector,
                lanes,
                vectors,
                tail: if schedule.get("masked") == Some(1) {
                    Tail::Masked
                } else {
                    Tail::Scalar
                },
            },
            chunk,
            pack: schedule.get("pack") == Some(1),
            pack_rows: threshold("pack_rows")?,
            narrow: threshold("narrow")?,
            second_rows: axis("second_row_axis")?,
            half_lanes: match schedule.get("half_lanes") {
                None => 0,
                Some(_) => Some(number("half_lanes", 1, lanes / 2)?)
                    .filter(|halved| halved.is_power_of_two())
                    .ok_or_else(refused)?,
            },
            shallow: threshold("shallow")?,
            row_by_row: schedule.get("row_by_row") == Some(1),
            winograd: match threshold("winograd")? {
                0 => None,
                from => Some(WinogradTile {
                    from,
                    transform: Transform::of_sums(number("winograd_sums", 1, 8)?)
                        .ok_or_else(refused)?,
                    rows: number("winograd_rows", 1, 32)?,
                    vectors: number("winograd_vectors", 1, 8)?,
                }),
            },
            skinny_vectors: match schedule.get("skinny_vectors") {
                None => 0,
                Some(_) => number("skinny_vectors", 1, 8)?,
            },
        })
    }
}
