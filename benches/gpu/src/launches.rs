//! What launching costs: one by one, as a repeated batch, and as a call of a model.
#![allow(unsafe_code, reason = "launches on memory of their own")]

use crate::measure::{filled, report, time, whole};
use anyhow::{Error, anyhow};
use kiln::internals::backend::{
    BatchKey, KernelCompiler, KernelExecutor, Launch, LaunchContext, LoadedKernel, Unobserved,
};
use kiln::internals::codegen_cuda::{CudaCompiler, CudaExecutor};
use kiln::internals::kernel;
use kiln::{Device, Model, Options, Source, Tensor};
use std::time::Instant;

/// Launches of the batch.
const LAUNCHES: usize = 20;

const TINY: &str =
    "kernel @tiny(%x: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %x[i] * 0.5\n}";

/// A small model whose steps are launches, for the cost of a call.
const MODEL: &str =
    "graph @mlp(%x: f32[N, 256], %w: f32[256, 256], %v: f32[256, 256]) -> f32[N, 256] {
  %a = matmul %x, %w
  %b = relu %a
  %c = matmul %b, %v
  %d = relu %c
  return %d
}";

/// Measures launches.
pub(crate) fn run(device: &CudaExecutor, compiler: &CudaCompiler) -> Result<(), Error> {
    let read = kernel::text::read(TINY).map_err(|errors| anyhow!("{}", errors.render(TINY)))?;
    let tiny = kernel::verify(read).map_err(|errors| anyhow!("{errors}"))?;
    let target = compiler.host();
    let schedules = compiler.schedules(&tiny, &target);
    let candidate = schedules.first().ok_or_else(|| anyhow!("no schedule"))?;
    let artifact = compiler.compile(&tiny, &target, &candidate.schedule, &mut Unobserved)?;
    let loaded = device.load(&artifact)?;
    let numbers = artifact.numbers(&LaunchContext {
        symbols: &[1024],
        threads: 1,
        caches: device.caches(),
    })?;
    let memories = [filled(device, 4096)?, filled(device, 4096)?];
    let [x, y] = &memories;
    let buffers = [[whole(x), whole(y)], [whole(y), whole(x)]];
    let launches: Vec<(&LoadedKernel, Launch<'_>)> = (0..LAUNCHES)
        .map(|number| {
            let launch = Launch {
                buffers: &buffers[number % 2],
                numbers: &numbers,
            };
            (&loaded, launch)
        })
        .collect();
    let each = LAUNCHES as f64;
    let seconds = time(&mut *device.begin(), |run, _| {
        for (kernel, launch) in &launches {
            // SAFETY: the memories are this run's own.
            unsafe { run.launch(kernel, launch)? };
        }
        Ok(())
    })?;
    report(
        "a launch of a tiny kernel, one by one",
        "",
        seconds / each,
        0.0,
        0.0,
    )?;
    let key = BatchKey { plan: 1, first: 0 };
    let seconds = time(&mut *device.begin(), |run, _| {
        // SAFETY: the memories are this run's own.
        unsafe { run.launch_batch(key, &launches) }.map_err(|(_, error)| error)?;
        run.finish()?;
        Ok(())
    })?;
    report(
        "a batch of 20 launches and the wait, as a graph",
        "",
        seconds,
        0.0,
        0.0,
    )?;
    let seconds = time(&mut *device.begin(), |run, _| {
        for (kernel, launch) in &launches {
            // SAFETY: the memories are this run's own.
            unsafe { run.launch(kernel, launch)? };
        }
        run.finish()?;
        Ok(())
    })?;
    report(
        "20 launches and the wait, one by one",
        "",
        seconds,
        0.0,
        0.0,
    )?;
    calls()?;
    println!("{:?}", device.statistics());
    Ok(())
}

/// The time of a call whose inputs and outputs stay on the device.
fn calls() -> Result<(), Error> {
    let options = Options::new().device(Device::cuda(0));
    let model = options.load(Source::text(MODEL))?;
    for rows in [1, 8, 64] {
        let x = Tensor::full(&[rows, 256], 0.01f32)?;
        let w = Tensor::full(&[256, 256], 0.02f32)?;
        let call = |model: &Model, x: &Tensor| -> Result<Tensor, Error> {
            let outputs = model.run([("x", x), ("w", &w), ("v", &w)])?;
            let first = outputs.iter().next().map(|(_, tensor)| tensor.clone());
            first.ok_or_else(|| anyhow!("no output"))
        };
        // Weights cross the bus here: the cost of a call with uploads of half a megabyte.
        for _ in 0..20 {
            call(&model, &x)?;
        }
        let mut times = Vec::new();
        for _ in 0..200 {
            let begin = Instant::now();
            call(&model, &x)?;
            times.push(begin.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let name = format!("a call of two small layers, {rows} rows, weights uploaded");
        report(&name, "", times[times.len() / 2], 0.0, 0.0)?;
    }
    Ok(())
}
