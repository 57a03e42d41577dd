//! The plan of a kernel: the strategies' choices, with a text form.

use std::fmt;

use kiln_backend::{FALLBACK_SCHEDULE, Schedule};

use super::attention::AttentionPlan;
use super::unit::Unit;
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
    /// A block per tile of queries.
    Attention(AttentionPlan),
    /// A reduction with few results, in parts.
    Split(SplitPlan),
    /// A product by cuBLASLt.
    Gemm,
}

/// The parameters of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPlan {
    /// The axis along which a thread computes several points, by number.
    pub(crate) axis: u32,
    /// The points of a thread.
    pub(crate) lanes: u32,
}

/// The parameters of a row kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlan {
    /// Threads of a group: 32, or those of a block; 0 if the length of the rows decides.
    pub(crate) threads: u32,
    /// Consecutive elements of a thread.
    pub(crate) lanes: u32,
}

/// The number of threads for rows up to a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowGroup {
    /// The maximum length; `None` is any.
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

/// The parameters of a split reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitPlan {
    /// The reduced elements are consecutive in memory: parts are reduced by blocks, otherwise as rows.
    Rows(RowPlan),
    /// The reduced elements are not consecutive: parts are reduced by threads, otherwise as a map.
    Columns(MapPlan),
}

/// The parameters of a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContractionPlan {
    /// The unit that multiplies.
    pub(crate) unit: Unit,
    /// The tile of a block.
    pub(crate) tile: TilePlan,
    /// The tile used if there would be too few of the first.
    pub(crate) few: Option<TilePlan>,
}

/// A tile of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TilePlan {
    /// Rows, columns and depth.
    pub(crate) tile: [u32; 3],
    /// How its threads share it.
    pub(crate) team: Team,
}

/// How the threads of a block share a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Team {
    /// Warps along rows and columns, for tensor cores; otherwise 1 x 1.
    Warps([u32; 2]),
    /// Groups of four warps along rows, which multiply matrices in shared memory (`wgmma`, of Hopper alone).
    WarpGroups(u32),
}

impl TilePlan {
    /// Threads of a block.
    pub(crate) fn threads(&self, unit: Unit) -> u32 {
        match self.team {
            Team::WarpGroups(groups) => 128 * groups,
            Team::Warps([rows, columns]) if unit.has_tensor_cores() => 32 * rows * columns,
            Team::Warps(_) => 256,
        }
    }

    /// Whether its threads are a team that divides it evenly.
    fn is_valid(&self, unit: Unit) -> bool {
        let [m, n, k] = self.tile;
        let is_even = |size: u32, unit: u32| size > 0 && size.is_multiple_of(unit) && size <= 256;
        match self.team {
            Team::Warps([1, 1]) if !unit.has_tensor_cores() => {
                let is_small = m <= 128 && n <= 128;
                is_small && is_even(m, 64) && is_even(n, 64) && is_even(k, 4)
            }
            Team::Warps([rows, columns]) if unit.has_tensor_cores() => {
                let is_small = (1..=4).contains(&rows) && (1..=4).contains(&columns);
                is_small
                    && is_even(m, 32)
                    && is_even(m, 16 * rows)
                    && is_even(n, 16 * columns)
                    && is_even(k, 16)
            }
            Team::WarpGroups(groups) if unit.has_tensor_cores() => {
                // A line of a tile is 128 bytes, and the ring has to fit in shared memory.
                let is_small = (1..=2).contains(&groups) && k == 64 && m + n <= 384;
                is_small && is_even(m, 64 * groups) && is_even(n, 128)
            }
            Team::Warps(_) | Team::WarpGroups(_) => false,
        }
    }

    /// A valid tile, parsed from its words.
    fn of_words(unit: Unit, words: &[&str]) -> Option<Self> {
        let ["tile", m, n, k, team @ ..] = words else {
            return None;
        };
        let number = |word: &str| word.parse::<u32>().ok();
        let team = match team {
            ["warps", rows, columns] => Team::Warps([number(rows)?, number(columns)?]),
            ["groups", groups] => Team::WarpGroups(number(groups)?),
            _ => return None,
        };
        let tile = [number(m)?, number(n)?, number(k)?];
        Some(Self { tile, team }).filter(|plan| plan.is_valid(unit))
    }
}

impl fmt::Display for TilePlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.tile;
        write!(formatter, "tile {m} {n} {k} ")?;
        match self.team {
            Team::Warps([rows, columns]) => write!(formatter, "warps {rows} {columns}"),
            Team::WarpGroups(groups) => write!(formatter, "groups {groups}"),
        }
    }
}

/// A contraction, parsed from its words.
fn contraction_of(unit: Unit, words: &[&str]) -> Option<ContractionPlan> {
    let mut tiles = words.splitn(2, |&word| word == "few");
    let tile = TilePlan::of_words(unit, tiles.next()?)?;
    let few = match tiles.next() {
        Some(words) => Some(TilePlan::of_words(unit, words)?),
        None => None,
    };
    Some(ContractionPlan { unit, tile, few })
}

impl Plan {
    /// The name of its strategy.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Plan::Fallback => FALLBACK_SCHEDULE,
            Plan::Map(_) => "map",
            Plan::Row(_) => "row",
            Plan::Contraction(_) => "contraction",
            Plan::Attention(_) => "attention",
            Plan::Split(_) => "split",
            Plan::Gemm => "gemm",
        }
    }

    /// Whether it needs the matrix instructions of warp groups.
    pub(crate) fn needs_warp_groups(&self) -> bool {
        let Plan::Contraction(plan) = self else {
            return false;
        };
        let mut tiles = plan.few.iter().chain([&plan.tile]);
        tiles.any(|tile| matches!(tile.team, Team::WarpGroups(_)))
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
    /// If its text is not that of a plan.
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
            ["gemm"] => Ok(Plan::Gemm),
            ["contraction", unit, words @ ..] => {
                let plan = Unit::of_word(unit).and_then(|unit| contraction_of(unit, words));
                plan.map(Plan::Contraction).ok_or_else(unknown)
            }
            ["attention", unit, words @ ..] => {
                let plan = Unit::of_word(unit).and_then(|unit| AttentionPlan::of(unit, words));
                plan.map(Plan::Attention).ok_or_else(unknown)
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
            Plan::Gemm => formatter.write_str("gemm"),
            Plan::Split(SplitPlan::Rows(plan)) => write!(formatter, "split {}", Plan::Row(*plan)),
            Plan::Split(SplitPlan::Columns(plan)) => {
                write!(formatter, "split {}", Plan::Map(*plan))
            }
            Plan::Attention(plan) => write!(formatter, "attention {plan}"),
            Plan::Contraction(ContractionPlan { unit, tile, few }) => {
                write!(formatter, "contraction {} {tile}", unit.as_word())?;
                match few {
                    Some(few) => write!(formatter, " few {few}"),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::attention::AttentionTile;

    #[test]
    fn plans_round_trip_through_schedules() {
        let plans = [
            Plan::Fallback,
            Plan::Gemm,
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
                tile: TilePlan {
                    tile: [128, 64, 32],
                    team: Team::Warps([2, 2]),
                },
                few: Some(TilePlan {
                    tile: [64, 64, 32],
                    team: Team::Warps([2, 2]),
                }),
            }),
            Plan::Contraction(ContractionPlan {
                unit: Unit::F16,
                tile: TilePlan {
                    tile: [256, 128, 64],
                    team: Team::WarpGroups(2),
                },
                few: None,
            }),
            Plan::Attention(AttentionPlan {
                unit: Unit::F16,
                tile: AttentionTile {
                    rows: 128,
                    keys: 64,
                    depth: 64,
                    columns: 96,
                    warps: 8,
                },
                few: None,
                split: Some(AttentionTile {
                    rows: 32,
                    keys: 64,
                    depth: 64,
                    columns: 96,
                    warps: 2,
                }),
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
            "contraction f32 tile 64 64 16 warps 2 2",
            "contraction bf16 tile 64 64 32 warps 2 2 few",
            "contraction bf16 tile 256 256 64 groups 2",
            "contraction bf16 tile 128 128 32 groups 2",
            "contraction f32 tile 128 128 64 groups 2",
            "attention f16 tile 48 64 64 64 warps 3",
            "attention f32 tile 64 64 64 96 warps 1",
            "attention f32 tile 64 64 64 64 warps 1 split tile 64 64 64 64",
            "attention f32 tile 64 64 64 64 warps 1 rows tile 64 64 64 64 warps 1",
        ] {
            let schedule = Schedule::new("map").with_text(text);
            let error = Plan::of(&schedule).unwrap_err();
            assert_eq!(error.code(), "E0552", "{text}");
        }
    }
}
