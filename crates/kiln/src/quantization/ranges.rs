//! The ranges of activations, from examples.

use super::Calibration;
use crate::error::Error;
use kiln_tensor::Tensor;
use std::collections::BTreeMap;

/// The maximum number of elements kept of one tensor of one example, evenly spaced.
const KEPT: usize = 1 << 16;

/// The observed statistics of each activation.
pub(super) struct Ranges {
    calibration: Calibration,
    seen: BTreeMap<String, Seen>,
}

struct Seen {
    low: f32,
    high: f32,
    /// Some of the elements, for percentiles.
    elements: Vec<f32>,
}

impl Ranges {
    pub(super) fn new(calibration: Calibration) -> Self {
        Self {
            calibration,
            seen: BTreeMap::new(),
        }
    }

    /// Records an activation of an example; elements that are not finite are ignored.
    pub(super) fn see(&mut self, name: &str, tensor: &Tensor) -> Result<(), Error> {
        let elements = tensor.to_f64_vec()?;
        let finite = elements.iter().map(|&element| element as f32);
        let finite: Vec<f32> = finite.filter(|element| element.is_finite()).collect();
        let seen = self.seen.entry(name.to_owned()).or_insert(Seen {
            low: 0.0,
            high: 0.0,
            elements: Vec::new(),
        });
        for &element in &finite {
            seen.low = seen.low.min(element);
            seen.high = seen.high.max(element);
        }
        if let Calibration::Percentile(_) = self.calibration {
            let step = finite.len().div_ceil(KEPT).max(1);
            seen.elements.extend(finite.iter().step_by(step));
        }
        Ok(())
    }

    /// The range of each activation; it includes zero.
    pub(super) fn finish(self) -> BTreeMap<String, (f32, f32)> {
        let calibration = self.calibration;
        let range = |mut seen: Seen| match calibration {
            Calibration::MinMax => (seen.low, seen.high),
            Calibration::Percentile(percent) => {
                seen.elements.sort_by(f32::total_cmp);
                let outside = (1.0 - percent / 100.0).clamp(0.0, 1.0) / 2.0;
                let last = seen.elements.len().saturating_sub(1);
                let at = |share: f64| {
                    let place = (share * last as f64).round() as usize;
                    seen.elements.get(place).copied().unwrap_or(0.0)
                };
                (at(outside).min(0.0), at(1.0 - outside).max(0.0))
            }
        };
        let seen = self.seen.into_iter();
        seen.map(|(name, seen)| (name, range(seen))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(calibration: Calibration, elements: &[f32]) -> (f32, f32) {
        let mut ranges = Ranges::new(calibration);
        // Two examples.
        for half in elements.chunks(elements.len().div_ceil(2)) {
            let tensor = Tensor::from_slice(&[half.len()], half).unwrap();
            ranges.see("x", &tensor).unwrap();
        }
        ranges.finish()["x"]
    }

    #[test]
    fn ranges_are_of_all_examples_and_include_zero() {
        let elements = [1.0, 3.0, f32::NAN, 2.0, f32::INFINITY];
        assert_eq!(range(Calibration::MinMax, &elements), (0.0, 3.0));
        assert_eq!(range(Calibration::MinMax, &[-2.0, 5.0]), (-2.0, 5.0));
    }

    #[test]
    fn percentiles_leave_extremes_out() {
        let mut elements: Vec<f32> = (0..1001).map(|k| k as f32 - 500.0).collect();
        elements[0] = -1e9;
        elements[1000] = 1e9;
        let (low, high) = range(Calibration::Percentile(98.0), &elements);
        assert!(
            (low + 490.0).abs() <= 2.0 && (high - 490.0).abs() <= 2.0,
            "{low} {high}"
        );
        assert_eq!(
            range(Calibration::Percentile(100.0), &elements),
            (-1e9, 1e9)
        );
    }
}
