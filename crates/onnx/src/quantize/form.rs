//! The request and the result of a quantisation.

use std::collections::BTreeMap;

/// Weights to quantise, `[batch, rows, columns]`, with a scale per `group` rows of each column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantizeRequest {
    /// Matrices, one after another.
    pub batch: usize,
    /// Elements along the summed axis.
    pub rows: usize,
    /// Elements along the other one.
    pub columns: usize,
    /// Rows per scale.
    pub group: usize,
    /// Bits of a code, 4 or 8.
    pub bits: u32,
    /// Whether each group has a zero point.
    pub zero_points: bool,
}

impl QuantizeRequest {
    /// Groups per column.
    pub fn groups(&self) -> usize {
        self.rows.div_ceil(self.group.max(1))
    }
}

/// Quantised weights.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedWeights {
    /// `[batch, groups * group, columns]`, signed around zero without zero points, and non-negative with them.
    pub codes: Vec<i16>,
    /// `[batch, groups, columns]`.
    pub scales: Vec<f32>,
    /// `[batch, groups, columns]`.
    pub zero_points: Option<Vec<i16>>,
    /// The norm of the differences over the norm of the weights.
    pub error: f64,
}

/// The function that quantises weights; it returns `None` if they cannot be.
pub type Quantize<'a> = dyn Fn(&[f32], &QuantizeRequest) -> Option<QuantizedWeights> + 'a;

/// The form of quantised products.
#[derive(Clone, Debug, PartialEq)]
pub enum QuantizedForm {
    /// Weights of this many bits, 4 or 8, with a scale per block of rows: 16, 32, 64, 128 or 256.
    Weights {
        /// Bits of a code.
        bits: u32,
        /// Rows per scale.
        block: usize,
        /// Whether each block has a zero point.
        zero_points: bool,
        /// Whether activations may be rounded to 8 bits where the product is computed (`accuracy_level` 4).
        int8_activations: bool,
    },
    /// Weights and activations of eight bits, with the range of each activation, by name.
    Int8(BTreeMap<String, (f32, f32)>),
}

/// The result for a product.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizedProduct {
    /// The node's name, or its first result's.
    pub name: String,
    /// The relative error of its weights, or why the product was left unchanged.
    pub outcome: Result<f64, &'static str>,
}
