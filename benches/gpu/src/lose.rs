//! A kernel that accesses memory that is not there: the device is lost, with typed errors, and nothing panics.
#![allow(unsafe_code, reason = "the illegal access is the point")]

use crate::measure::whole;
use anyhow::{Error, anyhow, bail};
use kiln::internals::backend::{
    Artifact, KernelCompiler, KernelExecutor, Launch, LaunchContext, Quantity, Unobserved,
};
use kiln::internals::codegen_cuda::{CudaCompiler, CudaExecutor, arch_of};
use kiln::internals::kernel;
use kiln::{Device, Options, Source, Tensor};

const TEXT: &str =
    "kernel @copy(%x: in f32[N], %y: out f32[N]) {\n  outer i < N\n  store %y[i] = %x[i]\n}";

/// Loses the device of this process, and examines the consequences.
pub(crate) fn run() -> Result<(), Error> {
    let graph = "graph @f(%x: f32[N]) -> f32[N] { %y = exp %x return %y }";
    let [gpu, cpu] = [Device::cuda(0), Device::interpreter()]
        .map(|device| Options::new().device(device).load(Source::text(graph)));
    let (gpu, cpu) = (gpu?, cpu?);
    let x = Tensor::full(&[5], 0.5f32)?;
    let [seen, unseen] = [gpu.run([("x", &x)])?, gpu.run([("x", &x)])?];
    seen[0].to_vec::<f32>()?;

    let device = CudaExecutor::open(0)?;
    let compiler = CudaCompiler::new(arch_of(device.info())?)?;
    let read = kernel::text::read(TEXT).map_err(|errors| anyhow!("{}", errors.render(TEXT)))?;
    let copy = kernel::verify(read).map_err(|errors| anyhow!("{errors}"))?;
    let target = compiler.host();
    let schedules = compiler.schedules(&copy, &target);
    let schedule = &schedules
        .last()
        .ok_or_else(|| anyhow!("no schedule"))?
        .schedule;
    let made = compiler.compile(&copy, &target, schedule, &mut Unobserved)?;
    // It states that it accesses nothing, and is launched for a TiB.
    let mut parts = made.to_parts();
    for buffer in &mut parts.buffers {
        buffer.bytes = Quantity::constant(0);
    }
    // SAFETY: none; the device's own protection is tested.
    let artifact = unsafe { Artifact::trusted(parts) };
    let loaded = device.load(&artifact)?;
    let numbers = artifact.numbers(&LaunchContext {
        symbols: &[1 << 38],
        threads: 1,
        caches: device.caches(),
    })?;
    let memories = [device.alloc(256)?, device.alloc(256)?];
    let buffers: Vec<_> = memories.iter().map(whole).collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers,
    };
    let mut run = device.begin();
    // SAFETY: as above.
    let launched = unsafe { run.launch(&loaded, &launch) };
    let finished = run.finish();
    let Err(error) = launched.and(finished.map(drop)) else {
        bail!("expected an error, found none");
    };
    println!("the launch: {} {error}", error.code);
    let later = gpu.run([("x", &x)]);
    let unread = unseen[0].to_vec::<f32>();
    let facts = [
        ("a lost device", error.is_device_lost()),
        (
            "later calls fail",
            later.is_err_and(|error| error.code() == "E0896"),
        ),
        (
            "the model is not healthy",
            !gpu.is_healthy() && !device.is_healthy(),
        ),
        ("what was read stays", seen[0].to_vec::<f32>().is_ok()),
        ("what was not read is an error", unread.is_err()),
        ("other devices work", cpu.run([("x", &x)]).is_ok()),
    ];
    drop((memories, run, loaded, unseen, gpu, device));
    for (what, holds) in facts {
        println!("{what}: {holds}");
        if !holds {
            bail!("expected {what}");
        }
    }
    println!("lose: nothing panicked");
    Ok(())
}
