//! Concrete shapes from symbolic ones: [`ShapeVariantGenerator`].
//!
//! Deterministic: the same seed, shapes and counts give the same result on every machine.

use std::collections::BTreeMap;

use kiln_symbolic_shape::{SymbolicDimension, SymbolicShape};

/// The maximum generated size for a dimension without an upper bound, unless its lower bound is above.
const OPEN_END: i64 = 1024;

/// The maximum number of shapes generated at once.
const MAX_SHAPES: usize = 1 << 16;

/// Generates sizes for shapes: within the bounds, respecting divisors, equal for equal names.
///
/// ```
/// use kiln_lazy_runtime::ShapeVariantGenerator;
/// use kiln_symbolic_shape::{SymbolicDimension, SymbolicShape};
///
/// let seq = SymbolicDimension::range("seq", 8..=512)?.multiple_of(8)?;
/// let shape = SymbolicShape::new([SymbolicDimension::bounded("batch", 4)?, seq]);
/// let generator = ShapeVariantGenerator::new(7);
/// let variants = generator.generate_variants(std::slice::from_ref(&shape), 10);
/// assert_eq!(variants.len(), 10);
/// assert!(variants.iter().all(|shapes| shapes[0][0] <= 4 && shapes[0][1] % 8 == 0));
/// let grid = generator.generate_grid(&[shape], |dimension| match dimension.name() {
///     "seq" => 5,
///     _ => 2,
/// });
/// assert_eq!(grid.len(), 10);
/// # Ok::<(), kiln_symbolic_shape::DimError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeVariantGenerator {
    seed: u64,
}

/// A size that varies: the first and last of its multiples.
#[derive(Clone, Copy, Debug)]
struct Choices {
    first: i64,
    step: i64,
    count: i64,
    likely: Option<i64>,
}

impl ShapeVariantGenerator {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// This many distinct combinations of sizes, or all if fewer exist: the likely one, the minimum and the maximum
    /// first, then random ones; at most 65,536. A dimension without an upper bound goes up to 1024. Each element has
    /// the sizes of all shapes, which share dimensions by their names.
    pub fn generate_variants(&self, shapes: &[SymbolicShape], count: usize) -> Vec<Vec<Vec<i64>>> {
        let symbols = choices_of(shapes);
        let all = symbols
            .values()
            .try_fold(1_usize, |product, choices| {
                product.checked_mul(usize::try_from(choices.count).ok()?)
            })
            .unwrap_or(usize::MAX);
        let count = count.min(all).min(MAX_SHAPES);
        let corners = [
            symbols.values().map(Choices::likeliest).collect(),
            symbols.values().map(|choices| choices.at(0)).collect(),
            symbols
                .values()
                .map(|choices| choices.at(choices.count - 1))
                .collect(),
        ];
        let mut found: Vec<Vec<i64>> = Vec::new();
        for corner in corners {
            if found.len() < count && !found.contains(&corner) {
                found.push(corner);
            }
        }
        let mut random = Random(self.seed);
        let mut misses = 0;
        while found.len() < count && misses < 64 {
            let drawn: Vec<i64> = symbols
                .values()
                .map(|choices| choices.at(random.below(choices.count)))
                .collect();
            if found.contains(&drawn) {
                misses += 1;
            } else {
                misses = 0;
                found.push(drawn);
            }
        }
        // Nearly all combinations were drawn: the remaining ones follow in order.
        let mut every = combinations(symbols.values().map(|choices| choices.all()).collect());
        while found.len() < count {
            let Some(next) = every.next() else { break };
            if !found.contains(&next) {
                found.push(next);
            }
        }
        let sizes = found.iter();
        let sizes = sizes.map(|values| all_sizes_of(shapes, &symbols, values));
        sizes.collect()
    }

    /// Every combination of this many sizes of each dimension, spread evenly from the smallest to the largest; at most
    /// 65,536. Each element has the sizes of all shapes.
    ///
    /// Shapes share dimensions by their names. `samples` returns the number of sizes for a dimension that varies, and
    /// is called once per name, with the dimension's first occurrence; if that is 1, the likely size is taken, and a
    /// dimension with 0 sizes makes the grid empty.
    pub fn generate_grid(
        &self,
        shapes: &[SymbolicShape],
        mut samples: impl FnMut(&SymbolicDimension) -> usize,
    ) -> Vec<Vec<Vec<i64>>> {
        let symbols = choices_of(shapes);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for_each_varying(shapes, |name, dimension| {
            counts.entry(name).or_insert_with(|| samples(dimension));
        });
        // Both lists are in the order of names.
        let per_symbol = symbols.values().zip(counts.values());
        let per_symbol = per_symbol.map(|(choices, &samples)| choices.spread(samples));
        let grid = combinations(per_symbol.collect()).take(MAX_SHAPES);
        let points = grid.map(|values| all_sizes_of(shapes, &symbols, &values));
        points.collect()
    }
}

impl Choices {
    fn of(dimension: &SymbolicDimension) -> Self {
        let step = dimension.multiple().max(1);
        let low = dimension.min().max(0);
        let first = next_multiple(low, step);
        let open = OPEN_END.max(first.saturating_add(step.saturating_mul(7)));
        let last = dimension.max().unwrap_or(open);
        let count = (last.saturating_sub(first) / step).saturating_add(1).max(1);
        let likely = dimension
            .likely_value()
            .filter(|&size| dimension.allows(size));
        Self {
            first,
            step,
            count,
            likely,
        }
    }

    fn at(&self, index: i64) -> i64 {
        self.first
            .saturating_add(self.step.saturating_mul(index.clamp(0, self.count - 1)))
    }

    fn likeliest(&self) -> i64 {
        self.likely.unwrap_or_else(|| self.at(self.count / 2))
    }

    fn spread(&self, samples: usize) -> Vec<i64> {
        let samples = i64::try_from(samples).unwrap_or(i64::MAX).min(self.count);
        match samples {
            ..=0 => Vec::new(),
            1 => vec![self.likeliest()],
            _ => {
                let index = |sample: i64| {
                    let wide = i128::from(sample) * i128::from(self.count - 1);
                    i64::try_from(wide / i128::from(samples - 1)).unwrap_or(i64::MAX)
                };
                (0..samples).map(|sample| self.at(index(sample))).collect()
            }
        }
    }

    fn all(&self) -> Vec<i64> {
        let count = self.count.min(MAX_SHAPES as i64);
        (0..count).map(|index| self.at(index)).collect()
    }
}

/// The least common multiple of two positive numbers; `None` if it is too large.
fn least_common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).checked_mul(b)
}

fn next_multiple(size: i64, step: i64) -> i64 {
    match size % step {
        0 => size,
        over => size.saturating_add(step - over),
    }
}

/// The range of each name; nameless dimensions are identified by their position.
fn choices_of(shapes: &[SymbolicShape]) -> BTreeMap<String, Choices> {
    let mut symbols: BTreeMap<String, Choices> = BTreeMap::new();
    for_each_varying(shapes, |name, dimension| {
        let choices = Choices::of(dimension);
        symbols
            .entry(name)
            .and_modify(|known| *known = known.and(choices))
            .or_insert(choices);
    });
    symbols
}

/// Visits the unknown dimensions, in order, with their names.
fn for_each_varying<'a>(
    shapes: &'a [SymbolicShape],
    mut visit: impl FnMut(String, &'a SymbolicDimension),
) {
    for (number, shape) in shapes.iter().enumerate() {
        for (axis, dimension) in shape.dimensions().iter().enumerate() {
            if !dimension.is_known() {
                visit(name_of(number, axis, dimension), dimension);
            }
        }
    }
}

impl Choices {
    /// The intersection of two dimensions with the same name; the first one if they contradict each other.
    fn and(self, other: Self) -> Self {
        let last = |choices: Self| choices.at(choices.count - 1);
        let Some(step) = least_common_multiple(self.step, other.step) else {
            return self;
        };
        let first = next_multiple(self.first.max(other.first), step);
        let end = last(self).min(last(other));
        if first > end {
            return self;
        }
        Self {
            first,
            step,
            count: (end - first) / step + 1,
            likely: [self.likely, other.likely]
                .into_iter()
                .flatten()
                .find(|size| (first..=end).contains(size) && size % step == 0),
        }
    }
}

fn name_of(shape: usize, axis: usize, dimension: &SymbolicDimension) -> String {
    match dimension.name() {
        "" | "?" => format!("?{shape}.{axis}"),
        name => name.to_owned(),
    }
}

fn all_sizes_of(
    shapes: &[SymbolicShape],
    symbols: &BTreeMap<String, Choices>,
    values: &[i64],
) -> Vec<Vec<i64>> {
    let shapes = shapes.iter().enumerate();
    let sizes = shapes.map(|(number, shape)| sizes_of(number, shape, symbols, values));
    sizes.collect()
}

fn sizes_of(
    number: usize,
    shape: &SymbolicShape,
    symbols: &BTreeMap<String, Choices>,
    values: &[i64],
) -> Vec<i64> {
    let size = |(axis, dimension): (usize, &SymbolicDimension)| {
        dimension.value().unwrap_or_else(|| {
            let name = name_of(number, axis, dimension);
            let mut named = symbols.keys().zip(values);
            let found = named.find(|(known, _)| **known == name);
            found.map_or(dimension.min(), |(_, &value)| value)
        })
    };
    shape.dimensions().iter().enumerate().map(size).collect()
}

/// Every choice of one value per list, the last varying fastest.
fn combinations(lists: Vec<Vec<i64>>) -> impl Iterator<Item = Vec<i64>> {
    let mut next: Option<Vec<usize>> = lists
        .iter()
        .all(|list| !list.is_empty())
        .then(|| vec![0; lists.len()]);
    std::iter::from_fn(move || {
        let indices = next.as_mut()?;
        let values = indices
            .iter()
            .zip(&lists)
            .filter_map(|(&index, list)| list.get(index).copied())
            .collect();
        let mut carry = true;
        for (index, list) in indices.iter_mut().zip(&lists).rev() {
            if !carry {
                break;
            }
            *index += 1;
            carry = *index == list.len();
            if carry {
                *index = 0;
            }
        }
        if carry {
            next = None;
        }
        Some(values)
    })
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        let end = end.max(1).unsigned_abs();
        i64::try_from(z % end).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dimension(name: &str, min: i64, max: Option<i64>, multiple: i64) -> SymbolicDimension {
        let dimension = SymbolicDimension::named(name).with_constraints(min, max);
        dimension
            .and_then(|dimension| dimension.multiple_of(multiple))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_likely_the_smallest_and_the_largest_come_first() {
        let shape = SymbolicShape::new([
            SymbolicDimension::known(3),
            dimension("n", 1, Some(9), 1).likely(4),
        ]);
        let shapes = [shape];
        let variants = ShapeVariantGenerator::new(1).generate_variants(&shapes, 3);
        assert_eq!(variants, [[[3, 4]], [[3, 1]], [[3, 9]]]);
        let all = ShapeVariantGenerator::new(1).generate_variants(&shapes, 100);
        assert_eq!(all.len(), 9);
        let scalar = ShapeVariantGenerator::new(1).generate_variants(&[SymbolicShape::scalar()], 5);
        assert_eq!(scalar, [[Vec::<i64>::new()]]);
    }

    #[test]
    fn variants_of_several_shapes_have_one_size_per_name() {
        let shapes = [
            SymbolicShape::new([dimension("n", 1, Some(9), 1), dimension("k", 2, Some(3), 1)]),
            SymbolicShape::new([dimension("n", 4, Some(20), 1)]),
        ];
        let variants = ShapeVariantGenerator::new(1).generate_variants(&shapes, 100);
        assert_eq!(variants.len(), 6 * 2);
        for sizes in &variants {
            assert_eq!(sizes[0][0], sizes[1][0]);
            assert!((4..=9).contains(&sizes[0][0]), "{sizes:?}");
        }
    }

    #[test]
    fn grids_share_dimensions_by_name_and_have_the_asked_counts() {
        let n = || dimension("n", 0, Some(10), 1);
        let shapes = [
            SymbolicShape::new([n(), SymbolicDimension::named("?")]),
            SymbolicShape::new([n(), SymbolicDimension::named("?")]),
        ];
        let generator = ShapeVariantGenerator::new(0);
        let grid = generator.generate_grid(&shapes, |_| 3);
        assert_eq!(grid.len(), 27, "one shared dimension and two nameless ones");
        assert!(grid.iter().all(|point| point[0][0] == point[1][0]));
        assert!(grid.iter().any(|point| point[0][1] != point[1][1]));
        let firsts: std::collections::BTreeSet<i64> =
            grid.iter().map(|point| point[0][0]).collect();
        assert_eq!(firsts.into_iter().collect::<Vec<_>>(), [0, 5, 10]);
        assert!(generator.generate_grid(&shapes, |_| 0).is_empty());
        assert_eq!(generator.generate_grid(&shapes, |_| 1).len(), 1);
    }

    #[test]
    fn each_grid_dimension_has_its_own_count() {
        let batch = || dimension("batch", 1, Some(9), 1).likely(4);
        let shapes = [
            SymbolicShape::new([batch(), dimension("seq", 0, Some(90), 1)]),
            SymbolicShape::new([SymbolicDimension::known(3), batch()]),
        ];
        let mut asked = Vec::new();
        let grid = ShapeVariantGenerator::new(0).generate_grid(&shapes, |dimension| {
            asked.push(dimension.name().to_owned());
            if dimension.name() == "seq" { 4 } else { 1 }
        });
        assert_eq!(asked, ["batch", "seq"]);
        let expected = [0, 30, 60, 90].map(|seq| vec![vec![4, seq], vec![3, 4]]);
        assert_eq!(grid, expected);
    }

    #[test]
    fn dimensions_of_one_name_are_multiples_of_both_their_numbers() {
        let shapes = [
            SymbolicShape::new([dimension("n", 1, Some(60), 4).likely(8)]),
            SymbolicShape::new([dimension("n", 0, Some(70), 6)]),
        ];
        let grid = ShapeVariantGenerator::new(0).generate_grid(&shapes, |_| 100);
        let sizes: Vec<i64> = grid.iter().map(|point| point[0][0]).collect();
        assert_eq!(sizes, [12, 24, 36, 48, 60]);
        assert_eq!(least_common_multiple(i64::MAX, 2), None);
    }

    proptest! {
        #[test]
        fn generated_variants_are_distinct_valid_and_reproducible(
            min in 0..50_i64, extra in 0..60_i64, multiple in 1..9_i64, seed: u64, count in 0..40_usize,
        ) {
            let low = next_multiple(min, multiple);
            let shape = SymbolicShape::new([
                dimension("a", min, Some(low + extra), multiple),
                dimension("b", min, None, multiple),
                dimension("a", min, Some(low + extra), multiple),
            ]);
            let generator = ShapeVariantGenerator::new(seed);
            let shapes = [shape];
            let variants = generator.generate_variants(&shapes, count);
            prop_assert_eq!(variants.len(), count);
            prop_assert_eq!(&variants, &generator.generate_variants(&shapes, count));
            let [shape] = shapes;
            for (number, of_all) in variants.iter().enumerate() {
                prop_assert!(!variants[..number].contains(of_all));
                let sizes = &of_all[0];
                prop_assert_eq!(sizes[0], sizes[2]);
                for (dimension, &size) in shape.dimensions().iter().zip(sizes) {
                    prop_assert!(dimension.allows(size), "{} of {:?}", size, dimension);
                }
            }
        }
    }
}
