//! Sizes to run a kernel at: edge cases of vectors and tiles, with little work.

use crate::random::SplitMix64;
use kiln_kernel::Kernel;
use kiln_kernel::analysis::points;
use kiln_symbolic_shape::{Binding, DimId};

/// 0, 1, and both sides of the widths of vectors and tiles, including primes.
pub const EDGE_SIZES: [i64; 12] = [0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 61, 67];

/// Edge sizes as random choices: small ones more often.
const WEIGHTED: [i64; 20] = [
    0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 67,
];

/// The validity of a binding of a kernel's symbols.
pub(super) fn binding(kernel: &Kernel, symbols: &[i64]) -> Binding {
    let dims = kernel.dims();
    let named = dims.symbols().zip(symbols.iter().copied());
    named
        .filter(|&(symbol, _)| dims.definition(symbol).is_none())
        .collect()
}

/// The shape of every buffer, if all facts hold for these sizes.
pub fn buffer_shapes(kernel: &Kernel, symbols: &[i64]) -> Option<Vec<Vec<usize>>> {
    let binding = binding(kernel, symbols);
    let dims = kernel.dims();
    dims.check(&binding).ok()?;
    let size = |&dim: &DimId| usize::try_from(dims.evaluate(dim, &binding).ok()?).ok();
    let shape = |buffer: &kiln_kernel::Buffer| buffer.shape.iter().map(size).collect();
    kernel.buffers().values().map(shape).collect()
}

/// Sizes such that every symbol takes every edge size at least once, if the work allows it, each time with different
/// values of the others.
pub fn covering_sizes(kernel: &Kernel, most_work: f64) -> Vec<Vec<i64>> {
    let n_symbols = kernel.dims().symbols().count();
    let mut found: Vec<Vec<i64>> = Vec::new();
    for round in 0..EDGE_SIZES.len() {
        let steps = [1, 5, 7, 11];
        let pick = |symbol: usize| {
            let at = round * steps[symbol % steps.len()] + symbol;
            EDGE_SIZES[at % EDGE_SIZES.len()]
        };
        let sizes: Vec<i64> = (0..n_symbols).map(pick).collect();
        push_reduced(kernel, sizes, most_work, &mut found);
    }
    // Each symbol once at each edge size while the others are small: this restores those that the cap on the work removed.
    for symbol in 0..n_symbols {
        for (round, &edge) in EDGE_SIZES.iter().enumerate() {
            if found.iter().any(|sizes| sizes[symbol] == edge) {
                continue;
            }
            let mut sizes: Vec<i64> = (0..n_symbols)
                .map(|other| 1 + ((round + other) % 2) as i64)
                .collect();
            sizes[symbol] = edge;
            if points(kernel, &sizes) <= most_work {
                push_reduced(kernel, sizes, most_work, &mut found);
            }
        }
    }
    found
}

/// Random edge sizes that a kernel's facts allow, if some were found.
pub fn random_sizes(random: &mut SplitMix64, kernel: &Kernel, most_work: f64) -> Option<Vec<i64>> {
    let n_symbols = kernel.dims().symbols().count();
    let mut found = Vec::new();
    for _ in 0..8 {
        let pick = |_| WEIGHTED[random.below(WEIGHTED.len() as u64) as usize];
        let sizes = (0..n_symbols).map(pick).collect();
        push_reduced(kernel, sizes, most_work, &mut found);
        if let Some(sizes) = found.pop() {
            return Some(sizes);
        }
    }
    None
}

/// Reduces the largest sizes until the work is small enough, and keeps those that satisfy the facts.
fn push_reduced(kernel: &Kernel, mut sizes: Vec<i64>, most_work: f64, found: &mut Vec<Vec<i64>>) {
    while points(kernel, &sizes) > most_work {
        let Some(largest) = sizes.iter_mut().max() else {
            return;
        };
        if *largest <= 1 {
            return;
        }
        *largest /= 2;
    }
    if buffer_shapes(kernel, &sizes).is_some() && !found.contains(&sizes) {
        found.push(sizes);
    }
}
