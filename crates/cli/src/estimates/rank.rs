//! Rank correlation of two lists of numbers.

use std::collections::BTreeMap;

/// Spearman's: the correlation of ranks, with equal values sharing theirs. `None` where all are equal.
pub(super) fn rank_correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 + 1.0) / 2.0;
    let covariance = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum()
    };
    let scale = (covariance(&a, &a) * covariance(&b, &b)).sqrt();
    (scale > 0.0).then(|| covariance(&a, &b) / scale)
}

/// The rank of each value from 1; equal values have their mean rank.
fn ranks(values: &[f64]) -> Vec<f64> {
    let key = |value: f64| value.to_bits();
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut places: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for (place, &value) in sorted.iter().enumerate() {
        let (first, count) = places.entry(key(value)).or_insert((place, 0));
        *count = place - *first + 1;
    }
    let rank = |value: &f64| {
        let (first, count) = places.get(&key(*value)).copied().unwrap_or_default();
        first as f64 + (count as f64 + 1.0) / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn rank_correlation_depends_on_order_alone() {
        let a = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(rank_correlation(&a, &[1.0, 10.0, 11.0, 1000.0]), Some(1.0));
        assert_eq!(rank_correlation(&a, &[4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        let mixed = rank_correlation(&a, &[2.0, 1.0, 4.0, 3.0]);
        assert!(mixed.is_some_and(|mixed| (mixed - 0.6).abs() < 1e-12));
        assert_eq!(rank_correlation(&a, &[1.0; 4]), None);
        assert_eq!(rank_correlation(&[], &[]), None);
    }
}
