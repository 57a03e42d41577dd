//! How a kernel is arranged: the strategies' choices, with a text, and which ones are offered for a kernel.

use std::fmt;

use kiln_backend::{FALLBACK_SCHEDULE, Schedule};
use kiln_kernel::analysis::{Dependence, accesses};
use kiln_kernel::{AxisId, VerifiedKernel};

use crate::error::CudaError;

/// How a kernel is arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// One thread per point.
    Fallback,
    /// Lanes along an outer axis.
    Map(MapPlan),
    /// A group of threads per point.
    Row(RowPlan),
    /// A block per tile of a product.
    Contraction(ContractionPlan),
    /// Parts of a reduction, where it has few results.
    Split(SplitPlan),
}

/// The choices of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPlan {
    /// The axis along which a thread's points are, by number.
    pub(crate) axis: u32,
    /// The points of a thread.
    pub(crate) lanes: u32,
}

/// The choices of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlan {
    /// Threads of a group: 32, or those of a block; 0 where the length of the rows decides.
    pub(crate) threads: u32,
    /// Consecutive elements of a thread.
    pub(crate) lanes: u32,
}

/// The threads that rows up to a length have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowGroup {
    /// The length; `None` is any.
    pub(crate) longest: Option<u32>,
    /// The threads.
    pub(crate) threads: u32,
}

/// Measured on an H200: softmax over rows of 128 to 32,000 f32.
const ROW_GROUPS: [RowGroup; 3] = [
    RowGroup {
        longest: Some(1024),
        threads: 32,
    },
    RowGroup {
        longest: Some(8192),
        threads: 256,
    },
    RowGroup {
        longest: None,
        threads: 1024,
    },
];

impl RowPlan {
    /// The groups for rows of each length, shortest first.
    pub(crate) fn groups(&self) -> Vec<RowGroup> {
        match self.threads {
            0 => ROW_GROUPS.to_vec(),
            threads => vec![RowGroup {
                longest: None,
                threads,
            }],
        }
    }
}

/// The choices of a split reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPlan {
    /// What is reduced is consecutive in memory: parts by blocks, else rows.
    Rows(RowPlan),
    /// What is reduced is not: parts by threads, else a map.
    Columns(MapPlan),
}

/// What multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// f32 in registers.
    Registers,
    /// bf16 by tensor cores.
    Bf16,
    /// f16 by tensor cores.
    F16,
}

impl Unit {
    const ALL: [Unit; 3] = [Unit::Registers, Unit::Bf16, Unit::F16];

    fn as_word(self) -> &'static str {
        match self {
            Unit::Registers => "f32",
            Unit::Bf16 => "bf16",
            Unit::F16 => "f16",
        }
    }
}

/// The choices of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContractionPlan {
    /// What multiplies.
    pub(crate) unit: Unit,
    /// Rows, columns and depth of a block's tile.
    pub(crate) tile: [u32; 3],
    /// Warps along rows and columns, for tensor cores.
    pub(crate) warps: [u32; 2],
}

impl ContractionPlan {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        match self.unit {
            Unit::Registers => 256,
            Unit::Bf16 | Unit::F16 => 32 * self.warps[0] * self.warps[1],
        }
    }

    /// Whether the parts of the tile come out even.
    fn is_valid(&self) -> bool {
        let [m, n, k] = self.tile;
        let [rows, columns] = self.warps;
        let is_even = |size: u32, unit: u32| size > 0 && size.is_multiple_of(unit) && size <= 256;
        match self.unit {
            Unit::Registers => {
                rows * columns == 1
                    && is_even(m, 64)
                    && is_even(n, 64)
                    && is_even(k, 4)
                    && m <= 128
                    && n <= 128
            }
            Unit::Bf16 | Unit::F16 => {
                let is_small = (1..=4).contains(&rows) && (1..=4).contains(&columns);
                is_small
                    && is_even(m, 32)
                    && is_even(m, 16 * rows)
                    && is_even(n, 16 * columns)
                    && is_even(k, 16)
            }
        }
    }
}

impl Plan {
    /// The name of its strategy.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Plan::Fallback => FALLBACK_SCHEDULE,
            Plan::Map(_) => "map",
            Plan::Row(_) => "row",
            Plan::Contraction(_) => "contraction",
            Plan::Split(_) => "split",
        }
    }

    /// The schedule.
    pub(crate) fn schedule(&self) -> Schedule {
        let schedule = Schedule::new(self.name());
        match self {
            Plan::Fallback => schedule,
            plan => schedule.with_text(plan.to_string()),
        }
    }

    /// The plan of a schedule.
    ///
    /// # Errors
    /// If its text is not a plan's.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self, CudaError> {
        let unknown = || CudaError::Schedule {
            text: format!("{} `{}`", schedule.name, schedule.text),
        };
        if schedule.is_fallback() {
            return Ok(Plan::Fallback);
        }
        let words: Vec<&str> = schedule.text.split_whitespace().collect();
        let number = |text: &str| text.parse::<u32>().ok();
        let text = |schedule: &Schedule| schedule.text.strip_prefix("split ").map(str::to_owned);
        if let Some(rest) = text(schedule) {
            let inner = Schedule::new("split").with_text(rest);
            return match Self::of(&inner) {
                Ok(Plan::Row(plan)) => Ok(Plan::Split(SplitPlan::Rows(plan))),
                Ok(Plan::Map(plan)) => Ok(Plan::Split(SplitPlan::Columns(plan))),
                _ => Err(unknown()),
            };
        }
        match words.as_slice() {
            ["map", "axis", axis, "lanes", lanes] => {
                let plan = number(axis).zip(number(lanes));
                let plan = plan.filter(|(_, lanes)| [1, 2, 4, 8].contains(lanes));
                let (axis, lanes) = plan.ok_or_else(unknown)?;
                Ok(Plan::Map(MapPlan { axis, lanes }))
            }
            ["row", "threads", threads, "lanes", lanes] => {
                let plan = number(threads).zip(number(lanes));
                let plan = plan.filter(|(threads, lanes)| {
                    [0, 32, 64, 128, 256, 512, 1024].contains(threads)
                        && [1, 2, 4, 8].contains(lanes)
                });
                let (threads, lanes) = plan.ok_or_else(unknown)?;
                Ok(Plan::Row(RowPlan { threads, lanes }))
            }
            ["contraction", unit, "tile", m, n, k, "warps", rows, columns] => {
                let unit = Unit::ALL.into_iter().find(|known| known.as_word() == *unit);
                let all = [m, n, k, rows, columns].map(|text| number(text));
                let (Some(unit), [Some(m), Some(n), Some(k), Some(rows), Some(columns)]) =
                    (unit, all)
                else {
                    return Err(unknown());
                };
                let plan = ContractionPlan {
                    unit,
                    tile: [m, n, k],
                    warps: [rows, columns],
                };
                match plan.is_valid() {
                    true => Ok(Plan::Contraction(plan)),
                    false => Err(unknown()),
                }
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Fallback => formatter.write_str(FALLBACK_SCHEDULE),
            Plan::Map(MapPlan { axis, lanes }) => {
                write!(formatter, "map axis {axis} lanes {lanes}")
            }
            Plan::Row(RowPlan { threads, lanes }) => {
                write!(formatter, "row threads {threads} lanes {lanes}")
            }
            Plan::Split(SplitPlan::Rows(plan)) => write!(formatter, "split {}", Plan::Row(*plan)),
            Plan::Split(SplitPlan::Columns(plan)) => {
                write!(formatter, "split {}", Plan::Map(*plan))
            }
            Plan::Contraction(ContractionPlan {
                unit,
                tile: [m, n, k],
                warps: [rows, columns],
            }) => write!(
                formatter,
                "contraction {} tile {m} {n} {k} warps {rows} {columns}",
                unit.as_word()
            ),
        }
    }
}

/// The plans offered for a kernel, best first; the last one is the fallback.
pub(crate) fn propose(kernel: &VerifiedKernel) -> Vec<Plan> {
    let dependence = Dependence::of(kernel);
    let mut plans = contraction_plans(kernel, &dependence);
    let map = map_plan(kernel, &dependence);
    let row = row_plan(kernel, &dependence);
    let is_split = super::split::single_reduction(kernel).is_some();
    let split = |plan: SplitPlan| is_split.then_some(Plan::Split(plan));
    match (reduces_along_inner(kernel, &dependence), row, map) {
        (true, Some(row), map) => {
            plans.extend(split(SplitPlan::Rows(row)));
            plans.push(Plan::Row(row));
            plans.extend(map.map(Plan::Map));
        }
        (_, row, Some(map)) => {
            plans.extend(split(SplitPlan::Columns(map)));
            plans.push(Plan::Map(map));
            plans.extend(row.filter(|_| is_split).map(Plan::Row));
        }
        (_, row, None) => plans.extend(row.map(Plan::Row)),
    }
    plans.push(Plan::Fallback);
    plans
}

/// Whether what is reduced or stored is consecutive along an inner axis.
fn reduces_along_inner(kernel: &VerifiedKernel, dependence: &Dependence) -> bool {
    let mut all = accesses(kernel).into_iter();
    all.any(|access| {
        let is_along = |&axis: &AxisId| is_consecutive(kernel, dependence, &access, axis);
        access.axes.iter().any(is_along)
    })
}

fn is_consecutive(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    access: &kiln_kernel::analysis::Access<'_>,
    axis: AxisId,
) -> bool {
    let (Some(&last), buffer) = (access.indices.last(), kernel.buffer(access.buffer)) else {
        return false;
    };
    let is_dense = match &buffer.strides {
        None => true,
        Some(strides) => strides
            .last()
            .is_some_and(|&stride| kernel.dims().as_constant(stride) == Some(1)),
    };
    is_dense && dependence.step_along(kernel, last, axis) == Some(1)
}

/// A map along the outer axis with the most consecutive accesses.
fn map_plan(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<MapPlan> {
    let all = accesses(kernel);
    let score = |axis: AxisId| {
        let mut score = 0;
        for access in &all {
            if is_consecutive(kernel, dependence, access, axis) {
                score += if access.load.is_none() { 3 } else { 2 };
            }
        }
        score
    };
    let outer = kernel.outer().iter().copied();
    let servable = outer.filter(|&axis| super::map::serves(kernel, dependence, axis));
    let axis = servable.max_by_key(|&axis| score(axis))?;
    Some(MapPlan {
        axis: axis.as_u32(),
        lanes: lanes_along(kernel, dependence, &[axis]),
    })
}

/// The lanes along axes: 32 bytes of the narrowest elements that are consecutive there, at most eight elements. Measured on
/// an H200: 16 bytes per thread are 8 % slower in maps with functions.
fn lanes_along(kernel: &VerifiedKernel, dependence: &Dependence, axes: &[AxisId]) -> u32 {
    let all = accesses(kernel).into_iter();
    let consecutive = all.filter(|access| {
        let mut axes = axes.iter();
        axes.any(|&axis| is_consecutive(kernel, dependence, access, axis))
    });
    let widths = consecutive.map(|access| kernel.buffer(access.buffer).dtype.size_in_bytes());
    match widths.min() {
        Some(bytes) => (32 / bytes.max(1)).min(8) as u32,
        None => 1,
    }
}

/// Rows, where a kernel has inner axes.
fn row_plan(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<RowPlan> {
    let axes = kernel.axes().keys();
    let inner: Vec<AxisId> = axes.filter(|axis| !kernel.outer().contains(axis)).collect();
    if inner.is_empty() || !super::row::serves(kernel) {
        return None;
    }
    Some(RowPlan {
        threads: 0,
        lanes: lanes_along(kernel, dependence, &inner).min(8),
    })
}

/// Products: large tiles, then small ones.
fn contraction_plans(kernel: &VerifiedKernel, dependence: &Dependence) -> Vec<Plan> {
    let Some(product) = super::contraction::Product::of(kernel, dependence) else {
        return Vec::new();
    };
    let unit = product.unit;
    let (tiles, warps) = match unit {
        Unit::Registers => ([[128, 128, 16], [64, 64, 16]], [[1, 1], [1, 1]]),
        Unit::Bf16 | Unit::F16 => ([[128, 128, 32], [64, 64, 32]], [[2, 4], [2, 2]]),
    };
    let plans = tiles.into_iter().zip(warps);
    plans
        .map(|(tile, warps)| Plan::Contraction(ContractionPlan { unit, tile, warps }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip_through_schedules() {
        let plans = [
            Plan::Fallback,
            Plan::Map(MapPlan { axis: 2, lanes: 8 }),
            Plan::Row(RowPlan {
                threads: 256,
                lanes: 4,
            }),
            Plan::Split(SplitPlan::Rows(RowPlan {
                threads: 0,
                lanes: 8,
            })),
            Plan::Split(SplitPlan::Columns(MapPlan { axis: 0, lanes: 4 })),
            Plan::Contraction(ContractionPlan {
                unit: Unit::Bf16,
                tile: [128, 64, 32],
                warps: [2, 2],
            }),
        ];
        for plan in plans {
            assert_eq!(Plan::of(&plan.schedule()).unwrap(), plan);
        }
    }

    #[test]
    fn other_texts_are_not_plans() {
        for text in [
            "",
            "map",
            "map axis 0 lanes 3",
            "row threads 31 lanes 4",
            "row threads",
        ] {
            let schedule = Schedule::new("map").with_text(text);
            let error = Plan::of(&schedule).unwrap_err();
            assert_eq!(error.code(), "E0552", "{text}");
        }
    }
}
