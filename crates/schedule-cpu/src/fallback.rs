//! The fallback schedule: plain loops, which suit any verified kernel.

use super::plan::Plan;
use super::tile::Tile;

pub(super) fn plan() -> Plan {
    Plan {
        tile: Tile::scalar(),
        chunk: 1,
        ..Plan::default()
    }
}
