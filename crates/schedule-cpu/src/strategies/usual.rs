//! The problem of a kernel: the vectorised axis, and the tile at sizes that no special strategy handles.

use kiln_backend::IsaLevel;
use kiln_kernel::VerifiedKernel;
use kiln_kernel::analysis::Dependence;

use super::problem::{Base, Kind, Problem};
use super::{map, reduction, scan, transpose};
use crate::cost::accesses;
use crate::register_tile::lanes;
use crate::tile::{Tile, VectorAxis};
use crate::winograd::Transform;

impl<'k> Problem<'k> {
    /// A kernel for a level; `None` if it has only its fallback. Winograd convolutions use up to the given transform.
    pub(crate) fn new(
        kernel: &'k VerifiedKernel,
        level: IsaLevel,
        transform: Transform,
    ) -> Option<Self> {
        let lanes = lanes(kernel, level);
        let is_scan = scan::is_scan(kernel);
        if lanes < 2 && !is_scan {
            return None;
        }
        let whole = Self::in_lanes(kernel, level, transform, lanes);
        let halves = !is_scan && level.halves_are_as_fast() && whole.suits_half_vectors();
        let halved = halves.then(|| Self::in_lanes(kernel, level, transform, lanes / 2));
        let same =
            |halved: &Self| halved.lanes >= 2 && halved.base.tile.vector == whole.base.tile.vector;
        Some(halved.filter(same).unwrap_or(whole))
    }

    /// A kernel that runs in plain loops.
    pub(crate) fn scalar(kernel: &'k VerifiedKernel) -> Self {
        let base = Base {
            kind: Kind::Fallback,
            tile: Tile::scalar(),
            chunk: 1,
            other_rows: None,
        };
        Self {
            kernel,
            level: IsaLevel::Portable,
            transform: Transform::default(),
            dependence: Dependence::of(kernel),
            accesses: Vec::new(),
            lanes: 1,
            vector: VectorAxis::None,
            base,
            packs: Vec::new(),
        }
    }

    pub(super) fn in_lanes(
        kernel: &'k VerifiedKernel,
        level: IsaLevel,
        transform: Transform,
        lanes: u32,
    ) -> Self {
        let mut problem = Self {
            level,
            transform,
            lanes,
            accesses: Vec::new(),
            ..Self::scalar(kernel)
        };
        if scan::is_scan(kernel) {
            problem.base = scan::base(&problem);
            problem.vector = problem.base.tile.vector;
            return problem;
        }
        problem.accesses = accesses(kernel, &problem.dependence);
        problem.vector = problem.cheapest_vectors();
        problem.base = match problem.has_reduction() {
            true => reduction::base(&problem),
            false => transpose::base(&problem).unwrap_or_else(|| map::base(&problem)),
        };
        problem.packs = problem.packs_of(&problem.base.tile);
        problem
    }
}
