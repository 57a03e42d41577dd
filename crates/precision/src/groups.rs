//! Quantises weights: codes, and a scale (and a zero point) per group of rows of a column.
//!
//! Weights are viewed as `[batch, rows, columns]`, with rows as the summed axis. A code `q` stands for `(q -
//! zero_point) * scale`. Without zero points, codes are signed and centred at zero, and of several scales that clip the
//! largest weights, the one with the smallest squared error is chosen.

use crate::format::WeightFormat;

/// Factors of the scale that maps the largest magnitude to the largest code. Four bits gain from clipping, eight do not.
const CLIPPING: [f32; 6] = [1.0, 0.95, 0.9, 0.85, 0.8, 0.75];

/// The sizes of weights in quantisation: `[batch, rows, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Matrices, one after another.
    pub batch: usize,
    /// Elements along the summed axis.
    pub rows: usize,
    /// Elements along the other one.
    pub columns: usize,
    /// Rows per group, at least 1.
    pub group: usize,
}

impl Layout {
    /// Groups per column.
    pub(crate) fn groups(&self) -> usize {
        self.rows.div_ceil(self.group)
    }

    /// The number of rows, including those that fill the last group.
    pub(crate) fn padded_rows(&self) -> usize {
        self.groups().saturating_mul(self.group)
    }
}

/// Weights as codes.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantized {
    /// `[batch, groups * group, columns]`, in the range of the bits, signed without zero points and unsigned with them. Rows
    /// beyond the weights' own have the code of zero.
    pub codes: Vec<i16>,
    /// `[batch, groups, columns]`.
    pub scales: Vec<f32>,
    /// `[batch, groups, columns]`, if the format has them.
    pub zero_points: Option<Vec<i16>>,
    /// The norm of the differences over the norm of the weights.
    pub error: f64,
}

/// Quantises finite weights, `[batch, rows, columns]`; the format's own group is not read.
pub fn quantize(weights: &[f32], layout: &Layout, format: WeightFormat) -> Quantized {
    let (rows, columns) = (layout.rows, layout.columns);
    let (groups, padded) = (layout.groups(), layout.padded_rows());
    let n_scales = layout.batch * groups * columns;
    let mut codes = vec![0_i16; layout.batch * padded * columns];
    let mut scales = vec![0.0; n_scales];
    let mut zero_points = format.zero_points.then(|| vec![0_i16; n_scales]);
    let (mut difference, mut norm) = (0.0_f64, 0.0_f64);
    let mut elements = Vec::with_capacity(layout.group);
    for batch in 0..layout.batch {
        for group in 0..groups {
            let first = group * layout.group;
            let last = rows.min(first + layout.group);
            for column in 0..columns {
                let element = |row: usize| weights[(batch * rows + row) * columns + column];
                elements.clear();
                elements.extend((first..last).map(element));
                let scale = match zero_points {
                    Some(_) => Scale::with_zero_point(&elements, format.bits.count()),
                    None => Scale::centred(&elements, format.bits.count()),
                };
                let place = (batch * groups + group) * columns + column;
                scales[place] = scale.step;
                if let Some(zero_points) = &mut zero_points {
                    zero_points[place] = scale.zero_point;
                }
                for row in first..first + layout.group {
                    let weight = elements.get(row - first).copied().unwrap_or(0.0);
                    let code = scale.code(weight);
                    codes[(batch * padded + row) * columns + column] = code;
                    difference += (f64::from(weight) - f64::from(scale.weight(code))).powi(2);
                    norm += f64::from(weight).powi(2);
                }
            }
        }
    }
    let error = match norm > 0.0 {
        true => (difference / norm).sqrt(),
        false => 0.0,
    };
    Quantized {
        codes,
        scales,
        zero_points,
        error,
    }
}

/// How the weights of a group become codes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    step: f32,
    zero_point: i16,
    least: i16,
    most: i16,
}

impl Scale {
    /// Codes from `1 - 2^(bits-1)` to `2^(bits-1) - 1` around zero.
    fn centred(weights: &[f32], bits: u32) -> Self {
        let most = (1_i16 << (bits - 1)) - 1;
        let magnitude = weights.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
        let scale = |step| Self {
            step,
            zero_point: 0,
            least: -most,
            most,
        };
        let whole = magnitude / f32::from(most);
        if !(whole.is_normal() && (1.0 / whole).is_finite()) {
            // All zeros, or numbers so small that their codes would not be finite.
            return scale(1.0);
        }
        if bits > 4 {
            return scale(whole);
        }
        let candidates = CLIPPING.iter().map(|factor| scale(whole * factor));
        let scored = candidates.map(|scale| (scale.squared_error(weights), scale));
        let best = scored.min_by(|left, right| left.0.total_cmp(&right.0));
        best.map_or(scale(whole), |(_, scale)| scale)
    }

    /// Codes from 0 to `2^bits - 1`, over a range that includes zero.
    fn with_zero_point(weights: &[f32], bits: u32) -> Self {
        let most = ((1_i32 << bits) - 1) as i16;
        let low = weights.iter().copied().fold(0.0, f32::min);
        let high = weights.iter().copied().fold(0.0, f32::max);
        let step = high / f32::from(most) - low / f32::from(most);
        let is_usable = step.is_normal() && (1.0 / step).is_finite();
        let step = if is_usable { step } else { 1.0 };
        let zero_point = (-low / step).round().clamp(0.0, f32::from(most)) as i16;
        Self {
            step,
            zero_point,
            least: 0,
            most,
        }
    }

    fn code(&self, weight: f32) -> i16 {
        let steps = (weight / self.step).round_ties_even() + f32::from(self.zero_point);
        steps.clamp(f32::from(self.least), f32::from(self.most)) as i16
    }

    fn weight(&self, code: i16) -> f32 {
        f32::from(code - self.zero_point) * self.step
    }

    fn squared_error(&self, weights: &[f32]) -> f64 {
        let error =
            |&weight: &f32| (f64::from(weight) - f64::from(self.weight(self.code(weight)))).powi(2);
        weights.iter().map(error).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Bits;

    fn format(bits: Bits, zero_points: bool) -> WeightFormat {
        WeightFormat {
            bits,
            group: None,
            zero_points,
        }
    }

    #[test]
    fn codes_times_scales_are_within_half_a_step_of_the_weights() {
        let layout = Layout {
            batch: 2,
            rows: 5,
            columns: 3,
            group: 4,
        };
        let weights: Vec<f32> = (0..30).map(|i| (i as f32 * 0.37).sin() - 0.2).collect();
        for zero_points in [false, true] {
            let quantized = quantize(&weights, &layout, format(Bits::Eight, zero_points));
            for (batch, row, column) in
                (0..2).flat_map(|b| (0..5).flat_map(move |r| (0..3).map(move |c| (b, r, c))))
            {
                let place = (batch * 2 + row / 4) * 3 + column;
                let step = quantized.scales[place];
                let zero = quantized
                    .zero_points
                    .as_ref()
                    .map_or(0, |zeros| zeros[place]);
                let code = quantized.codes[(batch * 8 + row) * 3 + column];
                let found = f32::from(code - zero) * step;
                let weight = weights[(batch * 5 + row) * 3 + column];
                assert!(
                    (found - weight).abs() <= step * 0.5001,
                    "{found} {weight} {step}"
                );
            }
            assert!(quantized.error < 0.01, "{}", quantized.error);
        }
    }

    #[test]
    fn zeros_and_tiny_weights_have_finite_scales() {
        let layout = Layout {
            batch: 1,
            rows: 2,
            columns: 2,
            group: 2,
        };
        for zero_points in [false, true] {
            for bits in [Bits::Four, Bits::Eight] {
                let weights = [0.0, 1e-40, -0.0, -1e-44];
                let quantized = quantize(&weights, &layout, format(bits, zero_points));
                assert!(quantized.scales.iter().all(|scale| scale.is_normal()));
            }
        }
    }

    #[test]
    fn an_outlier_is_clipped_if_that_lowers_the_error() {
        let mut weights = vec![0.5_f32; 64];
        weights[0] = 0.75;
        let layout = Layout {
            batch: 1,
            rows: 64,
            columns: 1,
            group: 64,
        };
        let quantized = quantize(&weights, &layout, format(Bits::Four, false));
        assert!(quantized.scales[0] < 0.75 / 7.0);
    }
}
