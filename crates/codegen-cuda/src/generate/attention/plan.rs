//! The plan of an attention, with a text form.

use std::fmt;

use kiln_tensor::DType;

use crate::generate::unit::Unit;

/// The parameters of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttentionPlan {
    /// The unit that multiplies.
    pub(crate) unit: Unit,
    /// The tile of a block.
    pub(crate) tile: AttentionTile,
    /// The tile used if there would be too few of the first.
    pub(crate) few: Option<AttentionTile>,
    /// The tile used if there would be too few of both, with keys split over blocks.
    pub(crate) split: Option<AttentionTile>,
}

/// The tile of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttentionTile {
    /// The number of queries whose results the block computes.
    pub(crate) rows: u32,
    /// The number of keys, and their values, per step.
    pub(crate) keys: u32,
    /// The elements of a query and a key that are multiplied per step.
    pub(crate) depth: u32,
    /// The elements of a value, and of a result.
    pub(crate) columns: u32,
    /// Warps along the rows, for tensor cores.
    pub(crate) warps: u32,
}

impl AttentionTile {
    /// Threads of a block.
    pub(crate) fn threads(&self, unit: Unit) -> u32 {
        match unit.has_tensor_cores() {
            false => 256,
            true => 32 * self.warps,
        }
    }

    /// A tile with these numbers, if they divide it evenly.
    fn of(unit: Unit, [rows, keys, depth, columns, warps]: [u32; 5]) -> Option<Self> {
        let is_even = |size: u32, unit: u32| size > 0 && size.is_multiple_of(unit) && size <= 256;
        let is_valid = match unit.has_tensor_cores() {
            false => {
                let is_block = |size: u32| is_even(size, 64) && size <= 128;
                warps == 1 && [rows, keys, columns].into_iter().all(is_block) && is_even(depth, 4)
            }
            true => {
                let is_step = |size: u32| is_even(size, 16);
                (1..=8).contains(&warps)
                    && is_even(rows, 32)
                    && is_even(rows, 16 * warps)
                    && [keys, depth, columns].into_iter().all(is_step)
            }
        };
        is_valid.then_some(Self {
            rows,
            keys,
            depth,
            columns,
            warps,
        })
    }
}

/// The number of words of a tile's text.
const TILE_WORDS: usize = 7;

impl AttentionPlan {
    /// The plan with this unit, parsed from the words after it.
    pub(crate) fn of(unit: Unit, words: &[&str]) -> Option<Self> {
        let tile = |words: &[&str]| match words {
            ["tile", rows, keys, depth, columns, "warps", warps] => {
                let numbers = [rows, keys, depth, columns, warps];
                AttentionTile::of(unit, numbers.map(|word| word.parse().unwrap_or_default()))
            }
            _ => None,
        };
        let (first, mut rest) = words.split_at_checked(TILE_WORDS)?;
        let mut plan = Self {
            unit,
            tile: tile(first)?,
            few: None,
            split: None,
        };
        while let Some((word, words)) = rest.split_first() {
            let (words, after) = words.split_at_checked(TILE_WORDS)?;
            let place = match *word {
                "few" if plan.split.is_none() => &mut plan.few,
                "split" => &mut plan.split,
                _ => return None,
            };
            if place.replace(tile(words)?).is_some() {
                return None;
            }
            rest = after;
        }
        (unit.sum() == DType::F32).then_some(plan)
    }
}

impl fmt::Display for AttentionTile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rows,
            keys,
            depth,
            columns,
            warps,
        } = self;
        write!(
            formatter,
            "tile {rows} {keys} {depth} {columns} warps {warps}"
        )
    }
}

impl fmt::Display for AttentionPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.unit.as_word(), self.tile)?;
        for (word, tile) in [("few", &self.few), ("split", &self.split)] {
            if let Some(tile) = tile {
                write!(formatter, " {word} {tile}")?;
            }
        }
        Ok(())
    }
}
