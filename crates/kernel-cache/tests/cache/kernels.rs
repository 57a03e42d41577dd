//! Kernels by signature: partial matching, order, rates.

use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{DimPattern, KernelCache, LruKernelCache, LruLimits, ShapeSignature};
use proptest::prelude::*;

use crate::support::ManualClock;

const MANY: LruLimits = LruLimits {
    entries: 100,
    bytes: 100_000,
};

fn lru(limits: LruLimits, hand: &ManualClock) -> LruKernelCache<Vec<u8>> {
    LruKernelCache::new(limits, Vec::len, Arc::new(hand.clone()))
}

fn matmul(rows: DimPattern) -> ShapeSignature {
    ShapeSignature::new("matmul", vec![vec![rows, DimPattern::Exact(384)]])
}

/// Of the three kernels for any rows, multiples of 8 and exactly 128, the best for each number of rows.
fn best_serves(cache: &dyn KernelCache<Vec<u8>>) {
    for (rows, kernel) in [
        (DimPattern::Any, b"any".to_vec()),
        (DimPattern::Multiple(8), b"eights".to_vec()),
        (DimPattern::Exact(128), b"exact".to_vec()),
    ] {
        cache.set(&matmul(rows), kernel, Duration::from_millis(20));
    }
    for (rows, expected) in [(128, "exact"), (64, "eights"), (7, "any"), (0, "eights")] {
        let entry = cache
            .get(&matmul(DimPattern::Exact(rows)))
            .expect("any serves");
        assert_eq!(entry.kernel(), expected.as_bytes(), "{rows} rows");
        assert_eq!(
            (entry.uses() > 0, entry.compile_time()),
            (true, Duration::from_millis(20))
        );
    }
    assert!(
        cache
            .get(&ShapeSignature::concrete("matmul", &[&[128, 385]]))
            .is_none()
    );
    assert!(
        cache
            .get(&ShapeSignature::concrete("add", &[&[128, 384]]))
            .is_none()
    );
    assert!(
        cache
            .get(&ShapeSignature::concrete("matmul", &[&[128, 384, 1]]))
            .is_none()
    );
    assert!(
        cache
            .get(&ShapeSignature::concrete("matmul", &[]))
            .is_none()
    );
    let eights = matmul(DimPattern::Multiple(8));
    assert!(cache.contains(&eights) && !cache.contains(&matmul(DimPattern::Exact(64))));
    assert!(cache.remove(&eights) && !cache.remove(&eights));
    let entry = cache
        .get(&matmul(DimPattern::Exact(64)))
        .expect("any serves");
    assert_eq!(entry.kernel(), b"any");
    assert_eq!(
        (
            cache.stats().hits(),
            cache.stats().misses,
            cache.stats().compiles
        ),
        (5, 4, 3)
    );
    cache.clear();
    assert!(cache.get(&matmul(DimPattern::Any)).is_none());
}

#[test]
fn a_general_kernel_serves_a_concrete_shape_and_the_most_special_one_answers() {
    let cache = lru(MANY, &ManualClock::default());
    best_serves(&cache);
    cache.reset_stats();
    assert_eq!(cache.stats().misses, 0);
}

#[test]
fn entries_tell_their_use_and_the_oldest_goes_first() {
    let hand = ManualClock::default();
    let limits = LruLimits {
        entries: 3,
        bytes: 100,
    };
    let cache = lru(limits, &hand);
    let signature = |rows| matmul(DimPattern::Exact(rows));
    for rows in 1..=3 {
        cache.set(&signature(rows), vec![0; 20], Duration::from_millis(10));
    }
    hand.set(Duration::from_secs(9));
    for _ in 0..2 {
        cache.get(&signature(1)).expect("it is there");
    }
    let entry = cache.get(&signature(1)).expect("it is there");
    assert_eq!(
        (entry.uses(), entry.last_used()),
        (3, Duration::from_secs(9))
    );
    assert_eq!(*entry.signature(), signature(1));
    let rows: Vec<_> = cache
        .eviction_candidates(2)
        .iter()
        .map(|entry| entry.signature().to_string())
        .collect();
    assert_eq!(rows, ["matmul([2, 384])", "matmul([3, 384])"]);
    cache.set(&signature(4), vec![0; 20], Duration::from_millis(10));
    assert!(!cache.contains(&signature(2)) && cache.contains(&signature(1)));
    // By bytes too; and one that has no room alone takes nobody else's.
    cache.set(&signature(5), vec![0; 90], Duration::from_millis(10));
    cache.set(&signature(6), vec![0; 101], Duration::from_millis(10));
    let stats = cache.stats();
    assert_eq!((stats.kernels, stats.bytes, stats.evicted), (1, 90, 4));
    assert_eq!(
        stats.average_compile_time(),
        Some(Duration::from_millis(10))
    );
    cache.set(&signature(5), vec![0; 10], Duration::ZERO);
    assert_eq!((cache.stats().kernels, cache.stats().bytes), (1, 10));
    assert_eq!(format!("{cache:?}"), "LruKernelCache { .. }");
}

#[test]
fn mixed_shapes_hit_in_more_than_nine_of_ten_calls_after_warm_up() {
    let cache = lru(MANY, &ManualClock::default());
    let operations = ["matmul", "add", "softmax", "conv", "norm"];
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for call in 0..3000 {
        if call == 500 {
            cache.reset_stats();
        }
        let operation = operations[random(5) as usize];
        // Sizes that come often, and sizes that come once.
        let size = match random(10) {
            0 => random(10_000) as i64,
            _ => 32 * (1 + random(8)) as i64,
        };
        let wanted = ShapeSignature::concrete(operation, &[&[size, 64]]);
        if cache.get(&wanted).is_none() {
            let general = match size % 32 {
                0 => wanted,
                _ => ShapeSignature::new(
                    operation,
                    vec![vec![DimPattern::Any, DimPattern::Exact(64)]],
                ),
            };
            cache.set(&general, vec![1], Duration::from_millis(5));
        }
    }
    assert!(cache.stats().hit_rate() > 0.9, "{}", cache.stats());
}

proptest! {
    /// Whatever comes in whatever order, no kernel answers for sizes that it was not compiled for.
    #[test]
    fn no_order_of_shapes_gives_a_kernel_that_does_not_cover_them(
        steps in prop::collection::vec((0..40_i64, 0..4_u8), 1..60),
    ) {
        let limits = LruLimits { entries: 3, bytes: 1000 };
        let cache = lru(limits, &ManualClock::default());
        for (size, kind) in steps {
            let wanted = matmul(DimPattern::Exact(size));
            if let Some(entry) = cache.get(&wanted) {
                prop_assert!(entry.signature().covers(&wanted));
                continue;
            }
            let pattern = match kind {
                0 => DimPattern::Any,
                1 if size % 8 == 0 => DimPattern::Multiple(8),
                2 if size % 4 == 0 => DimPattern::Multiple(4),
                _ => DimPattern::Exact(size),
            };
            cache.set(&matmul(pattern), vec![0; 8], Duration::ZERO);
            let entry = cache.get(&wanted).expect("it was set just now");
            prop_assert!(entry.signature().covers(&wanted));
        }
    }
}
