//! Regimes: the tiles that serve one kernel at different sizes, selected by each launch.
//!
//! A kernel whose sizes are symbols has one artifact, yet no tile suits both GEMM and GEMV. Each regime is a plan with
//! phases of its own, which have no tasks at sizes of another regime. The regime of a launch depends on its sizes alone,
//! never on threads.

use kiln_backend::{PackSpec, Quantity};
use kiln_kernel::{AxisId, VerifiedKernel};

use super::plan::Plan;
use super::scan::is_serial;
use super::split_reductions::SplitReductions;
use super::tile::{Tile, VectorAxis};
use super::winograd::{Transform, Winograd};
use super::{packing, work};

/// Rows reduced together where vectors run along the reduced axis.
const NARROW_ROWS: u32 = 4;

/// An axis with fewer points than this gives too few rows, if another axis has enough.
const FEW_ROWS: u32 = 4;

/// The most rows of a skinny GEMM: too few for a full tile, computed together.
pub(super) const SKINNY_ROWS: u32 = 3;

/// The least depth of a sum per column at which vectors run along the reduced axis although columns could be read in place:
/// a horizontal sum costs as much as a few products of a whole row.
const DEEP: i64 = 12;

/// Operations from which on a reduction to few results is worth splitting.
const SHARED_WORK: u32 = 1 << 17;

/// Vectors per tile of a GEMV.
const GEMV_VECTORS: u32 = 8;

/// A plan and the sizes that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Regime {
    pub(crate) tile: Tile,
    /// Elements of a vectorised outer axis per unit of work.
    pub(crate) chunk: u32,
    /// How constants are packed: the same in every regime.
    pub(crate) packs: Vec<PackSpec>,
    /// How other operands are packed by a phase of each launch.
    pub(crate) copies: Vec<PackSpec>,
    /// The Winograd transform, where windows use it.
    pub(crate) winograd: Option<Winograd>,
    /// Reductions to few results that are split, and the bytes of their partial results.
    pub(crate) split: Option<(SplitReductions, Quantity)>,
    /// 1 at the sizes it is for, 0 elsewhere.
    pub(crate) when: Quantity,
}

/// The reductions of a kernel that a regime of its own splits, and the bytes of their partial results.
pub(super) fn split_of(kernel: &VerifiedKernel) -> Option<(SplitReductions, Quantity)> {
    SplitReductions::of(kernel).filter(|_| !is_serial(kernel))
}

/// The regimes of a plan. At any sizes exactly one applies.
pub(crate) fn of_plan(plan: &Plan, kernel: &VerifiedKernel) -> Vec<Regime> {
    let size = |axis: AxisId| Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound());
    let packs = plan.packs(kernel);
    let mut rest = Quantity::constant(1);
    let mut regimes = Vec::new();
    if let Some(split) = split_of(kernel) {
        let when = at_least(work::per_point(kernel), SHARED_WORK);
        regimes.push(Regime {
            tile: Tile {
                rows: None,
                spread: false,
                vector: match plan.tile.lanes > 1 {
                    true => VectorAxis::Inner,
                    false => VectorAxis::None,
                },
                ..plan.tile
            },
            chunk: plan.chunk,
            packs: packs.clone(),
            copies: Vec::new(),
            winograd: None,
            split: Some(split),
            when: when.clone(),
        });
        rest = not(when);
    }
    let mut put = |when: Quantity, tile: Tile, chunk: u32, copies: Vec<PackSpec>, winograd| {
        let regime = Regime {
            tile,
            chunk,
            packs: packs.clone(),
            copies,
            winograd,
            split: None,
            when: rest.clone() * when.clone(),
        };
        rest = rest.clone() * not(when);
        if regime.when.as_constant() != Some(0) {
            regimes.push(regime);
        }
    };
    for (fewer, transform) in plan.winograd.iter().flat_map(|fewer| {
        // Where tiles of four by four sums do not stay in the cache, tiles of two by two may.
        let transforms = fewer.transform.and_smaller();
        transforms.map(move |transform| (fewer, transform))
    }) {
        let Some(winograd) = Winograd::of(kernel, &plan.tile, transform) else {
            continue;
        };
        let tile = Tile {
            rows: plan.tile.rows.map(|(axis, _)| (axis, fewer.rows)),
            vectors: fewer.vectors,
            ..plan.tile
        };
        let [lines, columns] = winograd.image().map(size);
        // Larger tiles waste less of larger images.
        let sums = transform.sums();
        let larger = sums * sums / Transform::default().sums().pow(2);
        let many = at_least(lines.clone() * columns.clone(), fewer.from * larger);
        let whole = at_least(lines, sums) * at_least(columns, sums);
        // Planes that do not stay in the second-level cache cost more to load than their products save.
        let bytes = winograd.near_bytes(kernel, &tile);
        let near = Quantity::cache(2).floor_div(bytes.max(Quantity::constant(1)));
        let when = many * whole * near.min(Quantity::constant(1));
        put(when, tile, plan.chunk, Vec::new(), Some(winograd));
    }
    let mut add = |when, tile, chunk, copies| put(when, tile, chunk, copies, None);
    let Some((rows, _)) = plan.tile.rows else {
        add(Quantity::constant(1), plan.tile, plan.chunk, Vec::new());
        return regimes;
    };
    if plan.row_by_row {
        let tile = Tile {
            rows: None,
            spread: false,
            ..plan.tile
        };
        let one = Quantity::constant(1);
        let fits = Quantity::cache(2).floor_div(written_bytes(kernel).max(one.clone()));
        add(not(fits.min(one)), tile, plan.chunk, Vec::new());
    }
    if let Some(second) = plan.second_rows {
        let tile = Tile {
            rows: plan.tile.rows.map(|(_, count)| (second, count)),
            ..plan.tile
        };
        let few = not(at_least(size(rows), FEW_ROWS));
        let when = few * at_least(size(second), FEW_ROWS);
        add(when, tile, plan.chunk, Vec::new());
    }
    // No lane is idle, and each row is contiguous.
    let along_reduced = Tile {
        rows: Some((rows, NARROW_ROWS)),
        vector: VectorAxis::Inner,
        ..plan.tile
    };
    let narrow = match plan.tile.vector {
        VectorAxis::Outer(columns) if plan.narrow > 0 => {
            packing::along_reduced(kernel, rows).map(|copies| (columns, copies))
        }
        _ => None,
    };
    if let Some((columns, copies)) = &narrow {
        let few = not(at_least(size(*columns), plan.narrow));
        let is_dense = packing::are_dense(kernel, &packing::copies(kernel, &plan.tile));
        let deep = match packing::reduced(kernel) {
            Some(reduced) if is_dense => is_deep(size(reduced), size(*columns)),
            _ => Quantity::constant(1),
        };
        add(few * deep, along_reduced, plan.chunk, copies.clone());
    }
    if let VectorAxis::Outer(columns) = plan.tile.vector
        && plan.half_lanes > 0
    {
        let tile = Tile {
            lanes: plan.half_lanes,
            vectors: 1,
            ..plan.tile
        };
        let few = not(at_least(size(columns), plan.half_lanes + 1));
        let several = at_least(size(rows), SKINNY_ROWS + 1);
        add(few * several, tile, plan.half_lanes, Vec::new());
    }
    // With shallow sums, what counts is how results are written: in long runs.
    let is_written = |pieces: u32| {
        let shallow = packing::reduced(kernel).map_or(Quantity::constant(0), |axis| {
            not(at_least(size(axis), plan.shallow))
        });
        let wide = match plan.tile.vector {
            VectorAxis::Outer(columns) => at_least(size(columns), pieces),
            _ => Quantity::constant(0),
        };
        shallow * wide
    };
    // A tile for a few rows that is as wide serves single rows as well.
    if plan.shallow > 0 && plan.skinny_vectors < GEMV_VECTORS {
        let tile = Tile {
            rows: None,
            vectors: GEMV_VECTORS,
            ..plan.tile
        };
        let piece = tile.lanes * tile.vectors;
        let single = not(at_least(size(rows), 2));
        let one_by_one = either(single, is_written(piece));
        add(one_by_one, tile, piece, Vec::new());
    }
    if plan.skinny_vectors > 0 {
        let tile = Tile {
            rows: Some((rows, SKINNY_ROWS)),
            vectors: plan.skinny_vectors,
            ..plan.tile
        };
        let piece = tile.lanes * tile.vectors;
        let few = not(at_least(size(rows), SKINNY_ROWS + 1));
        let few = match plan.shallow > 0 && plan.skinny_vectors >= GEMV_VECTORS {
            true => either(few, is_written(piece)),
            false => few,
        };
        add(few, tile, piece, Vec::new());
    }
    let copies = packing::copies(kernel, &plan.tile);
    if plan.pack_rows > 0 {
        let many = at_least(size(rows), plan.pack_rows);
        // Columns that fill one block are as contiguous as a packed copy.
        let wide = match plan.tile.vector {
            VectorAxis::Outer(columns) if packing::are_dense(kernel, &copies) => {
                at_least(size(columns), plan.tile.lanes * plan.tile.vectors + 1)
            }
            _ => Quantity::constant(1),
        };
        add(many * wide, plan.tile, plan.chunk, copies.clone());
    }
    let always = Quantity::constant(1);
    match narrow {
        // Unpacked, vectors would be gathered.
        Some((_, read_along)) if !packing::are_dense(kernel, &copies) => {
            add(always, along_reduced, plan.chunk, read_along);
        }
        _ => add(always, plan.tile, plan.chunk, Vec::new()),
    }
    regimes
}

/// The bytes of all results.
fn written_bytes(kernel: &VerifiedKernel) -> Quantity {
    let written = kernel.buffers().values();
    let bytes = written
        .filter(|buffer| buffer.role.is_written())
        .map(|buffer| {
            let size = Quantity::constant(buffer.dtype.size_in_bytes() as i64);
            let sizes = buffer
                .shape
                .iter()
                .map(|&dim| Quantity::of(kernel.dims(), dim));
            sizes.fold(size, |product, size| product * size)
        });
    bytes.fold(Quantity::constant(0), |sum, bytes| sum + bytes)
}

/// 1 if the sums are deep enough for a horizontal sum per column not to matter, else 0.
fn is_deep(reduced: Quantity, columns: Quantity) -> Quantity {
    let (zero, one) = (Quantity::constant(0), Quantity::constant(1));
    let spare = reduced.floor_div(Quantity::constant(DEEP)) - columns;
    (spare + one.clone()).max(zero).min(one)
}

/// 1 if a size is at least `limit`, else 0.
pub(super) fn at_least(size: Quantity, limit: u32) -> Quantity {
    let limit = Quantity::constant(i64::from(limit));
    size.floor_div(limit).min(Quantity::constant(1))
}

/// Logical or of two conditions, each 0 or 1.
fn either(first: Quantity, second: Quantity) -> Quantity {
    not(not(first) * not(second))
}

/// Logical not of a condition, 0 or 1.
fn not(condition: Quantity) -> Quantity {
    Quantity::constant(1) - condition
}

#[cfg(test)]
mod tests {
    use kiln_backend::LaunchContext;

    use super::*;
    use crate::candidates::candidates;
    use kiln_backend::IsaLevel;

    const SIZES: [i64; 14] = [0, 1, 2, 3, 4, 7, 8, 11, 12, 31, 32, 33, 63, 64];

    fn regimes(right: &str) -> Vec<Regime> {
        regimes_with(right, &[])
    }

    /// The regimes of a product with this right operand, with some numbers of the schedule set.
    fn regimes_with(right: &str, numbers: &[(&'static str, i64)]) -> Vec<Regime> {
        let text = format!(
            "kernel @mm(%x: in f32[M, K], %y: in f32{right}, %o: out f32[M, N]) {{
               outer m < M, n < N
               s = reduce add[k < K] %x[m, k] * %y[{}]
               store %o[m, n] = s
             }}",
            right.trim_matches(['[', ']']).to_lowercase(),
        );
        let kernel = kiln_kernel::verify(kiln_kernel::text::read(&text).unwrap()).unwrap();
        let first = candidates(&kernel, IsaLevel::Avx2Fma, Transform::default())
            .remove(0)
            .schedule;
        let with = |schedule: kiln_backend::Schedule, &(name, number)| schedule.with(name, number);
        let schedule = numbers.iter().fold(first, with);
        of_plan(&Plan::from_schedule(&kernel, &schedule).unwrap(), &kernel)
    }

    /// The regimes that apply at some sizes, given in the order of the kernel's symbols.
    fn meant(regimes: &[Regime], symbols: &[i64]) -> Vec<usize> {
        let context = LaunchContext {
            symbols,
            threads: 2,
            caches: [1; 3],
        };
        let is_meant = |regime: &Regime| regime.when.evaluate(&context) == Ok(1);
        (0..regimes.len())
            .filter(|&place| is_meant(&regimes[place]))
            .collect()
    }

    #[test]
    fn exactly_one_is_meant_at_any_size() {
        let halved = [("half_lanes", 4), ("narrow", 3)];
        for (regimes, count) in [
            (regimes("[K, N]"), 5),
            (regimes("[N, K]"), 3),
            (regimes_with("[K, N]", &halved), 6),
            (regimes_with("[K, N]", &[("skinny_vectors", 8)]), 4),
        ] {
            assert_eq!(regimes.len(), count);
            let mut seen = std::collections::BTreeSet::new();
            for m in SIZES {
                for k in SIZES {
                    for n in SIZES {
                        let found = meant(&regimes, &[m, k, n]);
                        assert_eq!(found.len(), 1, "{m} x {k} x {n}: {found:?}");
                        seen.extend(found);
                    }
                }
            }
            assert_eq!(seen.len(), regimes.len(), "each is for something");
        }
    }

    #[test]
    fn a_few_rows_are_done_together() {
        let regimes = regimes("[K, N]");
        let rows = |symbols: [i64; 3]| {
            let tile = &regimes[meant(&regimes, &symbols)[0]].tile;
            tile.rows.map(|(_, count)| count)
        };
        assert_eq!(rows([1, 64, 64]), None);
        assert_eq!([2, 3].map(|m| rows([m, 64, 64])), [Some(SKINNY_ROWS); 2]);
        assert_eq!(rows([4, 64, 64]), Some(6));
    }

    #[test]
    fn tiles_of_a_few_wide_rows_do_single_ones() {
        for (few, one) in [(2, None), (8, Some(SKINNY_ROWS))] {
            let regimes = regimes_with("[K, N]", &[("skinny_vectors", few)]);
            let tile = &regimes[meant(&regimes, &[1, 64, 64])[0]].tile;
            assert_eq!(tile.rows.map(|(_, count)| count), one, "{few}");
        }
    }

    #[test]
    fn columns_that_fill_half_a_vector_take_tiles_of_halves() {
        let regimes = regimes_with("[K, N]", &[("half_lanes", 4), ("narrow", 3)]);
        let lanes = |m, n| {
            let tile = &regimes[meant(&regimes, &[m, 100, n])[0]].tile;
            let of_columns = matches!(tile.vector, VectorAxis::Outer(_));
            of_columns.then_some((tile.lanes, tile.vectors))
        };
        assert_eq!([3, 4].map(|n| lanes(64, n)), [Some((4, 1)); 2]);
        assert_eq!([2, 5].map(|n| lanes(64, n)), [None, Some((8, 2))]);
        assert_eq!([3, 4].map(|m| lanes(m, 4)), [Some((8, 3)), Some((4, 1))]);
    }

    #[test]
    fn columns_of_one_block_are_read_as_they_lie() {
        let regimes = regimes("[K, N]");
        let copies = |m, n| regimes[meant(&regimes, &[m, 7, n])[0]].copies.len();
        assert_eq!([16, 17].map(|n| copies(32, n)), [0, 1]);
        assert_eq!([31, 32].map(|m| copies(m, 17)), [0, 1]);
    }

    #[test]
    fn vectors_run_along_what_is_reduced_if_that_is_much_for_few_columns() {
        let regimes = regimes("[K, N]");
        let is_narrow = |k, n| {
            let tile = &regimes[meant(&regimes, &[64, k, n])[0]].tile;
            tile.vector == VectorAxis::Inner
        };
        let narrow = [(12, 1), (48, 4), (11, 1), (47, 4), (1000, 5)].map(|(k, n)| is_narrow(k, n));
        assert_eq!(narrow, [true, true, false, false, false]);
    }

    #[test]
    fn rows_run_along_the_axis_that_has_them() {
        let text = "kernel @mm(%x: in f32[A, B, K], %y: const f32[K, N], %o: out f32[B, A, N]) {
           outer b < B, a < A, n < N
           s = reduce add[k < K] %x[a, b, k] * %y[k, n]
           store %o[b, a, n] = s
         }";
        let kernel = kiln_kernel::verify(kiln_kernel::text::read(text).unwrap()).unwrap();
        let first = candidates(&kernel, IsaLevel::Avx2Fma, Transform::default()).remove(0);
        let regimes = of_plan(
            &Plan::from_schedule(&kernel, &first.schedule).unwrap(),
            &kernel,
        );
        let rows = |a, b| {
            let found = meant(&regimes, &[a, b, 64, 64]);
            assert_eq!(found.len(), 1, "{a} x {b}");
            let (axis, _) = regimes[found[0]].tile.rows.unwrap();
            kernel.axis(axis).name.to_string()
        };
        assert_eq!([rows(50, 50), rows(50, 4), rows(50, 1)], ["a", "a", "a"]);
        assert_eq!([rows(1, 50), rows(3, 4), rows(3, 3)], ["b", "b", "a"]);
    }

    #[test]
    fn rows_that_do_not_fit_the_second_cache_go_one_by_one() {
        let of_value = |value: &str| {
            let text = format!(
                "kernel @rows(%x: in f32[M, N], %o: out f32[M, N]) {{
                   outer m < M
                   s = reduce add[n < N] %x[m, n]
                   store[i < N] %o[m, i] = {value}
                 }}"
            );
            let kernel = kiln_kernel::verify(kiln_kernel::text::read(&text).unwrap()).unwrap();
            let first = candidates(&kernel, IsaLevel::Avx512, Transform::default()).remove(0);
            of_plan(
                &Plan::from_schedule(&kernel, &first.schedule).unwrap(),
                &kernel,
            )
        };
        let regimes = of_value("%x[m, i] - s");
        let rows = |m| {
            let context = LaunchContext {
                symbols: &[m, 1024],
                threads: 2,
                caches: [32 << 10, 1 << 20, 32 << 20],
            };
            let is_meant = |regime: &&Regime| regime.when.evaluate(&context) == Ok(1);
            let mut found = regimes.iter().filter(is_meant);
            let tile = found.next().unwrap().tile;
            assert!(found.next().is_none(), "{m}");
            tile.rows.map(|(_, count)| count)
        };
        assert_eq!(
            [0, 1, 256, 257].map(rows),
            [Some(2), Some(2), Some(2), None]
        );
        // A kernel with much arithmetic does not wait for memory.
        assert_eq!(of_value("exp(%x[m, i] - s)").len(), 1);
    }

    #[test]
    fn what_is_asked_for_is_copied_and_nothing_else() {
        let regimes = regimes("[K, N]");
        let of_sizes = |symbols: [i64; 3]| &regimes[meant(&regimes, &symbols)[0]];
        assert_eq!(of_sizes([64, 64, 64]).copies.len(), 1);
        assert_eq!(of_sizes([8, 64, 64]).copies.len(), 0);
        assert_eq!(of_sizes([64, 64, 3]).tile.vector, VectorAxis::Inner);
        assert_eq!(of_sizes([1, 64, 64]).tile.rows, None);
        assert_eq!(of_sizes([64, 2, 64]).tile.rows, None);
    }
}
