//! Quantised models written as standard ONNX, which other programs can run too.
//!
//! `kiln_onnx` rewrites the model, and `kiln_precision` computes the codes; this module combines the two, and runs the
//! examples.

mod ranges;

use crate::error::Error;
use crate::model::Model;
use crate::options::Options;
use crate::source::{Kind, Source};
use kiln_onnx::{
    NoFiles, ProtoModel, QuantizeRequest, QuantizedForm, QuantizedProduct, QuantizedWeights,
};
use kiln_precision::{Bits, Format, Layout, WeightFormat, quantize};
use kiln_tensor::Tensor;
use ranges::Ranges;

/// The default number of rows that share a scale.
const BLOCK: usize = 32;

/// How the range of an activation is determined from examples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Calibration {
    /// From the minimum to the maximum.
    #[default]
    MinMax,
    /// Without the most extreme elements at each end: the range contains this percentage of the elements.
    Percentile(f64),
}

/// How a model is written with narrower weights.
///
/// | format | weights | activations | operators |
/// |---|---|---|---|
/// | `int4-weights/32`, `int8-weights/32` | codes with a scale per 32 rows | f32 | `MatMulNBits` of `com.microsoft` |
/// | `int4-int8/32` | codes of 4 bits with a scale per 32 rows | rounded to 8 bits by each call | `MatMulNBits` with `accuracy_level` 4 |
/// | `int8` | 8-bit codes with a scale per channel | 8-bit codes, their ranges from examples | `QuantizeLinear`, `DequantizeLinear` |
///
/// The file is ONNX: Kiln multiplies by the codes as they are stored, and onnxruntime runs it too.
///
/// ```no_run
/// use kiln::{Options, Quantization};
///
/// let quantization = Quantization::of("int4-weights/32".parse()?);
/// let quantized = quantization.run("model.onnx", &[], &Options::new())?;
/// std::fs::write("model-int4.onnx", &quantized.model)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantization {
    format: Format,
    calibration: Calibration,
}

/// A model with narrower weights.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QuantizedModel {
    /// The ONNX file.
    pub model: Vec<u8>,
    /// The products by name, each with the relative error of its weights, or why it was left unchanged.
    pub products: Vec<(String, Result<f64, &'static str>)>,
}

impl Quantization {
    /// Quantises weights to this format, and for `int8` also activations.
    pub fn of(format: Format) -> Self {
        Self {
            format,
            calibration: Calibration::default(),
        }
    }

    /// Sets how ranges of activations are determined from examples.
    #[must_use]
    pub fn calibration(self, calibration: Calibration) -> Self {
        Self {
            calibration,
            ..self
        }
    }

    /// Rewrites an ONNX model. Under `int8` the model is run on `cases`, inputs by name, with these options.
    ///
    /// # Errors
    /// Those of loading and running the model; `E0928` when nothing can be quantised, or the format, or its block, has no
    /// form in ONNX, or there are no cases for `int8`.
    pub fn run<'a>(
        &self,
        source: impl Into<Source<'a>>,
        cases: &[Vec<(String, Tensor)>],
        options: &Options,
    ) -> Result<QuantizedModel, Error> {
        let limits = &options.limits.onnx;
        let proto = match source.into().0 {
            Kind::File(path) => ProtoModel::load(&path, limits)?,
            Kind::Onnx { bytes, files } => {
                ProtoModel::read(bytes, files.unwrap_or(&NoFiles), limits)?
            }
            Kind::Text(_) | Kind::Graph(_) => return Err(unfit("expected an ONNX model")),
        };
        let form = match self.format {
            Format::Int8 => QuantizedForm::Int8(self.observe(&proto, cases, options)?),
            Format::Weights(format) => weights(format, false)?,
            Format::Int4Int8(groups) => weights(groups.into(), true)?,
            other => {
                return Err(unfit(format!(
                    "expected int8 or weights of 4 or 8 bits, found {other}"
                )));
            }
        };
        let (model, products) = proto.quantized(&form, &codes)?;
        let products = products
            .into_iter()
            .map(|QuantizedProduct { name, outcome }| (name, outcome));
        Ok(QuantizedModel {
            model,
            products: products.collect(),
        })
    }

    /// The ranges of the activations that products read.
    fn observe(
        &self,
        proto: &ProtoModel,
        cases: &[Vec<(String, Tensor)>],
        options: &Options,
    ) -> Result<std::collections::BTreeMap<String, (f32, f32)>, Error> {
        if cases.is_empty() {
            return Err(unfit("ranges of activations need cases to observe them on"));
        }
        let (bytes, names) = proto.with_observed()?;
        let model: Model = options.load(Source::onnx(&bytes, None))?;
        let mut ranges = Ranges::new(self.calibration);
        for case in cases {
            let inputs: Vec<(&str, &Tensor)> = case
                .iter()
                .map(|(name, tensor)| (name.as_str(), tensor))
                .collect();
            let outputs = model.run(inputs)?;
            let first = outputs.len().saturating_sub(names.len());
            for (index, name) in names.iter().enumerate() {
                ranges.see(name, &outputs[first + index])?;
            }
        }
        Ok(ranges.finish())
    }
}

/// `MatMulNBits` has blocks of powers of two.
fn weights(format: WeightFormat, int8_activations: bool) -> Result<QuantizedForm, Error> {
    let block = format.group.map_or(BLOCK, |group| {
        usize::try_from(group.get()).unwrap_or(usize::MAX)
    });
    if !(16..=256).contains(&block) || !block.is_power_of_two() {
        return Err(unfit(format!(
            "expected groups of 16, 32, 64, 128 or 256 rows, found {block}"
        )));
    }
    Ok(QuantizedForm::Weights {
        bits: format.bits.count(),
        block,
        zero_points: format.zero_points,
        int8_activations,
    })
}

/// Quantises as reduced precision does.
fn codes(weights: &[f32], request: &QuantizeRequest) -> Option<QuantizedWeights> {
    let layout = Layout {
        batch: request.batch,
        rows: request.rows,
        columns: request.columns,
        group: request.group,
    };
    let bits = match request.bits {
        4 => Bits::Four,
        8 => Bits::Eight,
        _ => return None,
    };
    let format = WeightFormat {
        bits,
        group: None,
        zero_points: request.zero_points,
    };
    let quantized = quantize(weights, &layout, format);
    Some(QuantizedWeights {
        codes: quantized.codes,
        scales: quantized.scales,
        zero_points: quantized.zero_points,
        error: quantized.error,
    })
}

fn unfit(reason: impl Into<String>) -> Error {
    let reason = reason.into();
    kiln_onnx::Error::NotQuantized { reason }.into()
}
