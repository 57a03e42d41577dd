//! The load: layers and kernels called on mixed sizes while packages are damaged, memory is cleared, requests are withdrawn,
//! inputs do not fit, and one layer's kernels time out.

use crate::{line, machine};
use kiln::Tensor;
use kiln::internals::ir::Graph;
use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
use kiln_service::layer::{CompiledLayer, ConvOptions, DenseOptions, LayerConfig, RanBy, Switches};
use kiln_service::{KernelRequest, KernelService, PackageStore, ServiceMetrics, ServiceOptions};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Calls that run at one time.
const CONCURRENT: u64 = 4;
/// Every so many calls there is a fault.
const FAULT_EVERY: u64 = 50;
/// Memory may grow by this much after the warm-up: pages that the allocator keeps.
const GROWTH: f64 = 0.05;
/// How often memory is looked at while it is watched.
const SAMPLES: u32 = 10;

/// What the load found.
pub(crate) struct Found {
    calls: u64,
    failed: u64,
    faults: u64,
    fallbacks: u64,
    warm: ServiceMetrics,
    end: ServiceMetrics,
    /// Resident bytes when the watch began, and at equal times until its end.
    resident: Vec<u64>,
    watched: Duration,
}

impl Found {
    pub(crate) fn print(&self) {
        let success = 1.0 - self.failed as f64 / self.calls as f64;
        let compiles = self.end.compiles;
        let compiled = 1.0 - self.end.failures as f64 / compiles.max(1) as f64;
        let requests = self.end.requests - self.warm.requests;
        let later = self.end.compiles - self.warm.compiles;
        let hits = 1.0 - later as f64 / requests.max(1) as f64;
        println!(
            "  load: {} calls, {} faults injected, {} fallbacks, {compiles} compiles, {} packages refused",
            self.calls, self.faults, self.fallbacks, self.end.packages_refused
        );
        line(
            "requests answered without a compile, warm",
            format!("{:.2} %", 100.0 * hits),
            "> 90 %",
            Some(hits > 0.9),
        );
        line(
            "compiles that succeed",
            format!("{:.3} % of {compiles}", 100.0 * compiled),
            "> 99.9 %",
            Some(compiled > 0.999),
        );
        line(
            "executions that succeed",
            format!("{:.4} % of {}", 100.0 * success, self.calls),
            "> 99.99 %",
            Some(success > 0.9999),
        );
        let minutes = self.watched.as_secs_f64() / 60.0;
        let bar = format!("< +{:.0} %", 100.0 * GROWTH);
        let growth = self.growth();
        line(
            &format!("memory after {minutes:.1} more minutes"),
            format!("{:+.1} %", 100.0 * growth),
            &bar,
            Some(growth < GROWTH),
        );
        // Growth that ends can be told from growth that does not.
        let megabytes = |&bytes: &u64| format!("{:.1}", bytes as f64 / 1e6);
        let resident: Vec<String> = self.resident.iter().map(megabytes).collect();
        println!("  resident, in MB: {}", resident.join(", "));
    }

    fn growth(&self) -> f64 {
        let at = |place: Option<&u64>| place.copied().unwrap_or(0).max(1) as f64;
        at(self.resident.last()) / at(self.resident.first()) - 1.0
    }
}

/// Everything that is called.
struct Targets {
    service: KernelService,
    folder: std::path::PathBuf,
    dense: CompiledLayer,
    conv: CompiledLayer,
    hurried: CompiledLayer,
    blueprints: Vec<Arc<Blueprint>>,
    failed: AtomicU64,
    faults: AtomicU64,
}

/// Runs the load.
pub(crate) fn run(calls: u64, watch: Duration) -> Result<Found, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    let targets = Arc::new(targets(folder.path())?);
    runtime.block_on(async {
        for layer in [&targets.dense, &targets.conv, &targets.hurried] {
            layer.load().await?;
        }
        for blueprint in &targets.blueprints {
            targets
                .service
                .get(KernelRequest::new("warm-up", Arc::clone(blueprint)))
                .await?;
        }
        let warm = targets.service.metrics();
        drive(&targets, 0..calls).await;
        let mut resident = vec![machine::resident_bytes()];
        let (begin, mut at) = (Instant::now(), calls);
        while begin.elapsed() < watch {
            drive(&targets, at..at + 1000).await;
            at += 1000;
            if begin.elapsed() >= watch * resident.len() as u32 / SAMPLES {
                resident.push(machine::resident_bytes());
            }
        }
        Ok(Found {
            calls: at,
            failed: targets.failed.load(Ordering::SeqCst),
            faults: targets.faults.load(Ordering::SeqCst),
            fallbacks: targets.hurried.metrics().fallbacks,
            warm,
            end: targets.service.metrics(),
            resident,
            watched: begin.elapsed(),
        })
    })
}

fn targets(folder: &Path) -> Result<Targets, Box<dyn Error>> {
    let store = PackageStore::open(folder.join("packages"))?;
    let service = KernelService::start(crate::compiler()?, store, ServiceOptions::default())?;
    let on = |percent: f64| {
        Switches::new(&LayerConfig {
            enabled: true,
            rollout_percent: percent,
            ..LayerConfig::default()
        })
    };
    let dense = DenseOptions {
        inputs: 64,
        outputs: 32,
        bias: true,
        activation: Some("relu".to_owned()),
    };
    let conv = ConvOptions {
        channels: 3,
        filters: 8,
        size: 3,
        padding: 1,
        bias: true,
        activation: Some("relu".to_owned()),
        ..ConvOptions::default()
    };
    let hurried = CompiledLayer::dense("hurried", &service, &dense, on(100.0)?)?;
    let mut blueprints = Vec::new();
    for standard in STANDARD
        .iter()
        .filter(|standard| ["dense", "mlp", "attention_block"].contains(&standard.name))
    {
        blueprints.push(Arc::new(Blueprint::from_json(
            standard.json,
            &BlueprintLimits::default(),
        )?));
    }
    Ok(Targets {
        folder: folder.join("packages"),
        dense: CompiledLayer::dense("dense", &service, &dense, on(50.0)?)?,
        conv: CompiledLayer::conv2d("conv", &service, &conv, on(100.0)?)?,
        hurried: hurried.with_time_limit(Duration::from_micros(20))?,
        service,
        blueprints,
        failed: AtomicU64::new(0),
        faults: AtomicU64::new(0),
    })
}

async fn drive(targets: &Arc<Targets>, calls: std::ops::Range<u64>) {
    let workers: Vec<_> = (0..CONCURRENT)
        .map(|worker| {
            let (targets, calls) = (Arc::clone(targets), calls.clone());
            tokio::spawn(async move {
                for call in calls.filter(|call| call % CONCURRENT == worker) {
                    if call % FAULT_EVERY == 0 {
                        targets.faults.fetch_add(1, Ordering::SeqCst);
                        fault(&targets, call / FAULT_EVERY).await;
                    }
                    if let Err(problem) = one_call(&targets, call).await {
                        targets.failed.fetch_add(1, Ordering::SeqCst);
                        println!("  call {call} failed: {problem}");
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        if worker.await.is_err() {
            targets.failed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A fault; which one goes in turn.
async fn fault(targets: &Targets, number: u64) {
    match number % 4 {
        // A damaged package, which is found when memory is cleared: rarely, since it is compiled again.
        0 if number.is_multiple_of(40) => {
            let keys = targets.service.store().keys().unwrap_or_default();
            if let Some(key) = keys.get(number as usize % keys.len().max(1)) {
                let bundle = targets.folder.join(key).join("kernel.kiln-bundle");
                let _ = std::fs::write(bundle, b"torn");
            }
            targets.service.clear_memory();
        }
        0 => targets.service.clear_memory(),
        // A request that is withdrawn at once.
        1 => {
            let (service, blueprint) =
                (targets.service.clone(), Arc::clone(&targets.blueprints[0]));
            let asked =
                tokio::spawn(
                    async move { service.get(KernelRequest::new("fickle", blueprint)).await },
                );
            asked.abort();
        }
        // Inputs that do not fit: a typed error.
        2 => {
            let x = Tensor::full(&[2, 63], 1.0f32).unwrap_or_else(|_| Tensor::scalar(1.0f32));
            let refused = targets.dense.forward("bad", x, &[]).await.is_err();
            assert!(refused, "inputs that do not fit were accepted");
        }
        // The kernels of this layer do not make it in time; the default transform does. The roll-out is set again, since it
        // is taken back.
        _ => {
            let _ = targets.hurried.switches().set_rollout_percent(100.0);
        }
    }
}

/// Sizes of calls: mostly small, some primes.
const SIZES: [usize; 10] = [1, 2, 3, 5, 8, 13, 16, 17, 31, 64];

async fn one_call(targets: &Targets, call: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
    let size = SIZES[(call / 7) as usize % SIZES.len()];
    let key = format!("request {call}");
    match call % 4 {
        0 | 1 => {
            let layer = if call.is_multiple_of(4) {
                &targets.dense
            } else {
                &targets.hurried
            };
            let x = Tensor::full(&[size, 64], 0.25f32)?;
            let parameters = [
                ("w", Tensor::full(&[64, 32], 0.5f32)?),
                ("bias", Tensor::full(&[32], 1.0f32)?),
            ];
            let output = layer.forward(&key, x, &parameters).await?;
            expect(&output.tensor, &[size, 32], 9.0, output.ran_by)
        }
        2 => {
            let x = Tensor::full(&[1, 3, size, 9], 1.0f32)?;
            let parameters = [
                ("w", Tensor::full(&[8, 3, 3, 3], 1.0f32)?),
                ("bias", Tensor::full(&[8], 0.0f32)?),
            ];
            let output = targets.conv.forward(&key, x, &parameters).await?;
            let rows = if size == 1 { 1.0 } else { 2.0 };
            expect(
                &output.tensor,
                &[1, 8, size, 9],
                3.0 * 2.0 * rows,
                output.ran_by,
            )
        }
        _ => {
            let blueprint = &targets.blueprints[(call / 4) as usize % targets.blueprints.len()];
            let kernel = targets
                .service
                .get(KernelRequest::new("load", Arc::clone(blueprint)))
                .await?;
            let inputs = kernel.model.inputs().iter().map(|input| {
                let dims = input
                    .shape()
                    .map(|shape| shape.dimensions().to_vec())
                    .unwrap_or_default();
                let sizes: Vec<usize> = dims
                    .iter()
                    .map(|dim| dim.value().map_or(size, |value| value as usize))
                    .collect();
                Tensor::full(&sizes, 0.01f32)
            });
            let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
            let model = kernel.model.clone();
            let outputs = model.run(&inputs)?;
            let is_finite = outputs[0].to_vec::<f32>()?.iter().all(|x| x.is_finite());
            if is_finite {
                Ok(())
            } else {
                Err("a result that is not finite".into())
            }
        }
    }
}

/// Checks the shape and the first element.
fn expect(
    found: &Tensor,
    shape: &[usize],
    first: f32,
    ran_by: RanBy,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let element = found.to_vec::<f32>()?.first().copied().unwrap_or(first);
    if found.shape() == shape && (element - first).abs() < 1e-3 {
        return Ok(());
    }
    Err(format!(
        "expected {shape:?} and {first}, found {:?} and {element}, by {ran_by:?}",
        found.shape()
    )
    .into())
}

/// The shapes of a graph's inputs at the likely values of its symbols.
pub(crate) fn likely_shapes(graph: &Graph) -> Vec<Vec<usize>> {
    let dims = graph.dims();
    let shapes = graph.inputs().iter().map(|&input| {
        let sizes =
            graph
                .ty(input)
                .innermost()
                .dims
                .iter()
                .map(|&dim| match dims.as_constant(dim) {
                    Some(size) => size as usize,
                    None => dims
                        .as_symbol(dim)
                        .and_then(|symbol| dims.symbol_info(symbol).likely_value())
                        .unwrap_or(32) as usize,
                });
        sizes.collect()
    });
    shapes.collect()
}

/// Whether two tensors of floats are equal up to rounding.
pub(crate) fn are_close(expected: &Tensor, found: &Tensor) -> bool {
    let numbers = |tensor: &Tensor| tensor.to_f64_vec().unwrap_or_default();
    let (expected, found) = (numbers(expected), numbers(found));
    let scale = expected.iter().fold(1e-6f64, |scale, x| scale.max(x.abs()));
    expected.len() == found.len()
        && expected
            .iter()
            .zip(&found)
            .all(|(a, b)| (a - b).abs() <= 1e-4 * scale)
}
