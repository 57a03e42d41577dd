//! The machine's best rates, measured with Kiln's own kernels: a stream through memory, and a large product.

use crate::error::Error;
use crate::model::Model;
use crate::options::Options;
use crate::source::Source;
use kiln_tensor::{DType, Tensor};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Elements of the stream: two arrays of 64 MiB, more than caches hold.
const STREAMED: usize = 16 << 20;
/// Elements of a stream that stays in caches: two arrays of 256 KiB.
const CACHED: usize = 64 << 10;
/// The maximum number of bytes of a step that are assumed to be in caches.
const CACHED_BYTES: u64 = 1 << 20;
/// Rows, depth and columns of the product.
const SIDE: usize = 768;
/// The maximum number of calls, of which the fastest counts; fewer are made if time runs out.
const CALLS: usize = 40;
const LEAST_CALLS: usize = 4;
const TIME: Duration = Duration::from_millis(120);

/// The best rates of a device, with as many threads as a model has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct MachineRates {
    /// Bytes of memory read or written per second.
    pub bytes_per_second: f64,
    /// The same for 512 KiB that stay in caches.
    pub cached_bytes_per_second: f64,
    /// Operations on `f32` per second, where a multiply-add counts as two.
    pub operations_per_second: f64,
}

impl MachineRates {
    /// Measures the device of a model, with its threads and its target, in a fraction of a second.
    ///
    /// # Errors
    /// As [`Model::load`], and when there is no memory for the measurement.
    pub(super) fn measure(model: &Model) -> Result<Self, Error> {
        let stream = "graph @stream(%x: f32[N]) -> f32[N] {
          %y = neg %x
          return %y
        }";
        let product = "graph @product(%x: f32[M, K], %w: f32[K, N]) -> f32[M, N] {
          %y = matmul %x, %w
          return %y
        }";
        let streamed = best(model, stream, &[Tensor::full(&[STREAMED], 0.5_f32)?])?;
        let cached = best(model, stream, &[Tensor::full(&[CACHED], 0.5_f32)?])?;
        let square = Tensor::full(&[SIDE, SIDE], 0.5_f32)?;
        let multiplied = best(model, product, &[square.clone(), square])?;
        let per_second = |amount: f64, time: Duration| amount / time.as_secs_f64().max(1e-9);
        let bytes = |elements: usize| 2.0 * (elements * DType::F32.size_in_bytes()) as f64;
        Ok(Self {
            bytes_per_second: per_second(bytes(STREAMED), streamed),
            cached_bytes_per_second: per_second(bytes(CACHED), cached),
            operations_per_second: per_second(2.0 * (SIDE as f64).powi(3), multiplied),
        })
    }

    /// The minimum time for this work, and the rate that bounds it. A step of few bytes is assumed to find them in a
    /// cache.
    pub(super) fn least(&self, bytes: u64, operations: Option<f64>) -> (Duration, &'static str) {
        let (rate, place) = match bytes <= CACHED_BYTES {
            true => (
                self.cached_bytes_per_second.max(self.bytes_per_second),
                "cache",
            ),
            false => (self.bytes_per_second, "memory"),
        };
        let memory = bytes as f64 / rate.max(1.0);
        let arithmetic = operations.unwrap_or(0.0) / self.operations_per_second.max(1.0);
        let (seconds, bound) = match arithmetic > memory {
            true => (arithmetic, "arithmetic"),
            false => (memory, place),
        };
        let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        (time, bound)
    }
}

/// The shortest time of a graph on the model's device.
fn best(model: &Model, text: &str, inputs: &[Tensor]) -> Result<Duration, Error> {
    let of_model = model.options();
    let options = Options {
        threads: of_model.threads,
        target: of_model.target.clone(),
        cache: of_model.cache.clone(),
        ..Options::new()
    };
    let graph = options.device(model.device()).load(Source::text(text))?;
    let mut outputs = graph.run(inputs)?.into_tensors();
    let mut best = Duration::MAX;
    let begin = Instant::now();
    for call in 0..CALLS {
        if call >= LEAST_CALLS && begin.elapsed() > TIME {
            break;
        }
        let start = Instant::now();
        graph.call(inputs).run_into(&mut outputs)?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}
