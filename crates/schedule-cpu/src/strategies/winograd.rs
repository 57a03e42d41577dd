//! Winograd convolution: 3 x 3 windows over images that are large enough to pay for its transforms.

use super::Proposal;
use super::problem::Problem;
use crate::loops::{Factor, When};
use crate::register_tile::contraction_shape;
use crate::tile::Tile;
use crate::tile_choice::Work;
use crate::winograd::{Transform, Winograd};

/// Points of an image from which Winograd is faster for 3 x 3 windows, including its weight transform. Measured at 14 x
/// 14 for 24 to 256 channels; at 7 x 7 it took up to twice as long.
const POINTS: u32 = 192;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let (kernel, base) = (problem.kernel, &problem.base.tile);
    if !problem.level.has_fma() {
        return Vec::new();
    }
    // If tiles of F(4x4, 3x3) do not fit the cache, those of F(2x2, 3x3) may.
    let transforms = problem.transform.and_smaller();
    let proposals = transforms.filter_map(|transform| {
        let winograd = Winograd::of(kernel, base, transform)?;
        let features = problem.size(winograd.features);
        let (rows, vectors) = contraction_shape(problem.level, Work::Product, features, base.lanes);
        let tile = Tile {
            rows: base.rows.map(|(axis, _)| (axis, rows)),
            vectors,
            ..*base
        };
        let [lines, columns] = winograd.image().map(Factor::Axis);
        // Larger tiles waste less of larger images.
        let sums = transform.sums();
        let larger = sums * sums / Transform::default().sums().pow(2);
        let many = When::at_least(
            crate::loops::Size::product(1, [lines, columns]),
            POINTS * larger,
        );
        let whole = When::at_least(lines, sums).and(When::at_least(columns, sums));
        // Planes that exceed the second-level cache cost more to load than their products save.
        let near = When::at_least(Factor::Cache(2), winograd.near_bytes(&tile));
        Some(Proposal {
            winograd: Some(transform),
            ..Proposal::new(many.and(whole).and(near), tile, tile.lanes * tile.vectors)
        })
    });
    proposals.collect()
}
