//! Summary statistics that show whether a tensor looks right, without showing its data; and quantiles of times.

use kiln::Tensor;
use serde::Serialize;
use std::time::Duration;

/// Extremes and mean of a tensor's finite elements.
#[derive(Debug, Serialize)]
pub(crate) struct Statistics {
    /// `None` when no element is finite.
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) mean: Option<f64>,
    /// The number of NaN or infinite elements.
    pub(crate) not_finite: usize,
}

impl Statistics {
    /// The statistics, for numeric dtypes.
    pub(crate) fn of(tensor: &Tensor) -> Result<Self, kiln::Error> {
        // Large integers lose digits, which is acceptable for statistics.
        Ok(Self::of_elements(&tensor.to_f64_vec()?))
    }

    fn of_elements(elements: &[f64]) -> Self {
        let finite = || {
            elements
                .iter()
                .copied()
                .filter(|element| element.is_finite())
        };
        let count = finite().count();
        Self {
            min: finite().reduce(f64::min),
            max: finite().reduce(f64::max),
            mean: (count > 0).then(|| finite().sum::<f64>() / count as f64),
            not_finite: elements.len() - count,
        }
    }
}

/// The element at a fraction of sorted samples, in milliseconds; between two, their mean weighted
/// by distance.
pub(crate) fn quantile(sorted: &[Duration], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let position = last as f64 * fraction;
    let (low, high) = (position.floor() as usize, position.ceil() as usize);
    let at = |index: usize| {
        sorted
            .get(index)
            .copied()
            .map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    at(low) + (at(high) - at(low)) * position.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln::DType;

    #[test]
    fn quantiles_are_interpolated_between_samples() {
        let samples = [1, 2, 4].map(Duration::from_millis);
        assert_eq!(quantile(&samples, 0.5), 2.0);
        assert_eq!(quantile(&samples, 0.75), 3.0);
        assert_eq!(quantile(&samples, 0.0), 1.0);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn only_finite_elements_count() {
        let statistics = Statistics::of_elements(&[1.0, f64::NAN, 3.0, f64::INFINITY]);
        assert_eq!(
            (statistics.min, statistics.max, statistics.mean),
            (Some(1.0), Some(3.0), Some(2.0))
        );
        assert_eq!(statistics.not_finite, 2);
    }

    #[test]
    fn empty_tensors_have_no_min_or_mean() {
        let empty = Statistics::of(&Tensor::zeros(DType::I32, &[0]).unwrap()).unwrap();
        assert_eq!((empty.min, empty.mean, empty.not_finite), (None, None, 0));
        let flags = Statistics::of(&Tensor::from_slice(&[2], &[true, false]).unwrap()).unwrap();
        assert_eq!(flags.mean, Some(0.5));
    }
}
