//! `kiln quantize`: an ONNX model with narrower weights, written as ONNX.

use std::path::PathBuf;

use anyhow::{Context, Error, bail};
use clap::Args;
use kiln::{Calibration, Format, Options, Quantization};

use crate::cases::Case;
use crate::report::{self, Failures};

/// Writes a model with narrower weights.
#[derive(Args, Debug)]
pub(crate) struct Quantize {
    /// An ONNX model
    model: PathBuf,
    /// Where the quantised model is written
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The format: `int4-weights/32` or `int8-weights/32`, optionally with `/zero-points`, or `int8` for weights and
    /// activations, which needs --cases
    #[arg(long, value_name = "FORMAT", default_value = "int4-weights/32")]
    format: String,
    /// A folder of case folders, each with a file INPUT.npy per input, to observe the ranges of activations
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// How ranges are derived from the cases: `min-max`, or a percentile such as `99.9`
    #[arg(long, value_name = "HOW", default_value = "min-max")]
    calibrate: String,
}

impl Quantize {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let format = self.format.parse::<Format>().map_err(kiln::Error::from)?;
        let calibration = match self.calibrate.as_str() {
            "min-max" => Calibration::MinMax,
            percent => match percent.parse::<f64>() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                    Calibration::Percentile(percent)
                }
                _ => bail!("--calibrate {percent}: expected min-max, or a percentile up to 100"),
            },
        };
        let options = Options::new();
        let mut cases = Vec::new();
        if let Some(folder) = &self.cases {
            let model = options.load(self.model.as_path())?;
            for case in Case::all(folder)? {
                cases.push(case.inputs(&model)?);
            }
        }
        let quantization = Quantization::of(format).calibration(calibration);
        let quantized = quantization.run(self.model.as_path(), &cases, &options)?;
        let context = || format!("cannot write {}", self.output.display());
        std::fs::write(&self.output, &quantized.model).with_context(context)?;
        let (mut worst, mut done) = (0.0_f64, 0);
        for (name, outcome) in &quantized.products {
            match outcome {
                Ok(error) => {
                    worst = worst.max(*error);
                    done += 1;
                    report::line(format!("{name}: weights off by {:.2} %", error * 100.0))?;
                }
                Err(reason) => report::line(format!("{name}: unchanged, {reason}"))?,
            }
        }
        report::line(format!(
            "{done} of {} products quantised, weights off by at most {:.2} %; {} bytes written",
            quantized.products.len(),
            worst * 100.0,
            quantized.model.len()
        ))?;
        Ok(Failures::default())
    }
}
