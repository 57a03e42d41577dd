//! The cost of a call: measured time, and figures derived from the bytes that it moves.

use crate::error::ServiceError;
use kiln::{Model, Tensor, diagnose};
use std::fmt;
use std::time::{Duration, Instant};

/// The minimum and maximum number of calls of which the median time is taken.
const CALLS: (usize, usize) = (5, 10_000);
/// The assumed size of the last-level cache, if the system does not report it.
const USUAL_CACHE: u64 = 8 << 20;

/// The cost of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelProfile {
    /// The median time of a call.
    pub time: Duration,
    /// How many calls were timed.
    pub calls: usize,
    /// The memory in addition to the inputs, in bytes: the arena, results, scratch.
    pub memory_bytes: u64,
    /// The bytes that any implementation moves: inputs and outputs, each once.
    pub least_bytes: u64,
    /// The fraction of the memory traffic that is unavoidable.
    pub cache: CacheEfficiency,
    /// `least_bytes` over `time`, in bytes per second.
    pub bandwidth: f64,
}

/// The bytes that must be moved, divided by the bytes that are moved, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheEfficiency {
    /// The ratio.
    pub ratio: f64,
    /// How the number of bytes moved is known.
    pub source: CacheSource,
}

/// How a cache efficiency was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheSource {
    /// By a model: a call whose operands, over all steps, fit the last-level cache moves its inputs and outputs; a
    /// larger one moves the operands of each step.
    Modelled,
}

impl fmt::Display for CacheSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("modelled")
    }
}

impl fmt::Display for KernelProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.1} us, {} bytes of memory, cache efficiency {:.2} ({}), {:.2} GB/s",
            self.time.as_secs_f64() * 1e6,
            self.memory_bytes,
            self.cache.ratio,
            self.cache.source,
            self.bandwidth / 1e9
        )
    }
}

/// The profile of a model on these inputs, measured for about this long.
pub(super) fn of_model(
    model: &Model,
    inputs: &[Tensor],
    measuring: Duration,
) -> Result<KernelProfile, ServiceError> {
    let failed = || ServiceError::stage("profile");
    let mut outputs = model.run(inputs).map_err(failed())?.into_tensors();
    let mut steps = Vec::new();
    model
        .call(inputs)
        .profile(&mut steps)
        .run()
        .map_err(failed())?;
    let shapes: Vec<Vec<usize>> = inputs
        .iter()
        .map(|tensor| tensor.shape().to_vec())
        .collect();
    let memory = diagnose::call_memory(model, &shapes).map_err(failed())?;
    let memory_bytes = memory.map_or(0, |memory| memory.arena + memory.results + memory.scratch);
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < CALLS.0 || (times.len() < CALLS.1 && begin.elapsed() < measuring) {
        let call = Instant::now();
        model
            .call(inputs)
            .run_into(&mut outputs)
            .map_err(failed())?;
        times.push(call.elapsed());
    }
    times.sort_unstable();
    let time = times.get(times.len() / 2).copied().unwrap_or_default();
    let tensors = inputs.iter().chain(&outputs);
    let least_bytes: u64 = tensors.map(|tensor| tensor.byte_len() as u64).sum();
    let all: u64 = steps.iter().map(|step| step.bytes).sum();
    let moved = match all <= last_level_cache() {
        true => least_bytes,
        false => all.max(least_bytes),
    };
    let ratio = if moved == 0 {
        1.0
    } else {
        least_bytes as f64 / moved as f64
    };
    Ok(KernelProfile {
        time,
        calls: times.len(),
        memory_bytes: memory_bytes as u64,
        least_bytes,
        cache: CacheEfficiency {
            ratio,
            source: CacheSource::Modelled,
        },
        bandwidth: least_bytes as f64 / time.as_secs_f64().max(1e-9),
    })
}

/// Bytes of the cache of level 3, or of the largest there is.
fn last_level_cache() -> u64 {
    use kiln::internals::backend::KernelExecutor as _;
    let caches = kiln::internals::native::NativeExecutor::new().caches();
    let largest = caches.into_iter().max().unwrap_or(0) as u64;
    if largest == 0 { USUAL_CACHE } else { largest }
}
