//! Compiled layers beside the same modules in PyTorch, in interleaved rounds.
//!
//! `KILN_TORCH_PYTHON` names a Python that has PyTorch; its side is `benches/peers/service/modules.py`, which measures a module
//! whenever it is told to.

use kiln::Tensor;
use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
use kiln_service::layer::{CompiledLayer, ConvOptions, DenseOptions, LayerConfig, RanBy, Switches};
use kiln_service::{KernelService, PackageStore, ServiceOptions};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The Python with PyTorch.
const PYTHON: &str = "KILN_TORCH_PYTHON";
/// Rounds; in each both sides run once.
const ROUNDS: usize = 15;
/// Calls of a side in a round, whose median counts.
const CALLS: usize = 100;

/// A layer with the inputs of its call.
struct Case {
    /// The name that the other side knows it by.
    name: &'static str,
    layer: CompiledLayer,
    x: Tensor,
    parameters: Vec<(&'static str, Tensor)>,
}

/// What was found of compiled layers beside modules.
pub(crate) enum Overhead {
    /// The worst ratio of a compiled layer's time to the module's, and which layer's.
    Worst(f64, &'static str),
    /// Why there is none.
    NotMeasured(String),
}

/// Time of compiled layers over that of the modules.
pub(crate) fn overhead() -> Result<Overhead, Box<dyn Error>> {
    let Ok(python) = std::env::var(PYTHON) else {
        let reason = "there is no PyTorch; `cargo xtask bench --train` installs it";
        return Ok(Overhead::NotMeasured(reason.to_owned()));
    };
    let mut modules = match Modules::start(&python) {
        Ok(modules) => modules,
        Err(error) => {
            let reason = format!("PyTorch did not start: {error}");
            return Ok(Overhead::NotMeasured(reason));
        }
    };
    let folder = tempfile::tempdir()?;
    let store = PackageStore::open(folder.path())?;
    let service = KernelService::start(crate::compiler()?, store, ServiceOptions::default())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()?;
    let mut worst = (0.0, "");
    for case in cases(&service)? {
        runtime.block_on(case.layer.load())?;
        let mut ratios = Vec::new();
        // The first round warms both sides up.
        for round in 0..=ROUNDS {
            let ours = runtime.block_on(case.median())?;
            let theirs = modules.median(case.name)?;
            if round > 0 {
                ratios.push(ours.as_secs_f64() / theirs.as_secs_f64());
            }
        }
        ratios.sort_by(f64::total_cmp);
        let ratio = ratios[ROUNDS / 2];
        println!(
            "  {:<20} {ratio:.2} of the time of the module in PyTorch",
            case.name
        );
        if ratio > worst.0 {
            worst = (ratio, case.name);
        }
    }
    Ok(Overhead::Worst(worst.0, worst.1))
}

fn cases(service: &KernelService) -> Result<Vec<Case>, Box<dyn Error>> {
    let switches = || {
        Switches::new(&LayerConfig {
            enabled: true,
            rollout_percent: 100.0,
            ..LayerConfig::default()
        })
    };
    let full = |shape: &[usize]| Tensor::full(shape, 0.1f32);
    let dense = DenseOptions {
        inputs: 256,
        outputs: 128,
        bias: true,
        activation: None,
    };
    let conv = ConvOptions {
        channels: 16,
        filters: 32,
        size: 3,
        padding: 1,
        bias: true,
        ..ConvOptions::default()
    };
    let mlp = STANDARD.iter().find(|standard| standard.name == "mlp");
    let mlp = mlp.ok_or("the standard set has an mlp")?;
    let mlp = Blueprint::from_json(mlp.json, &BlueprintLimits::default())?;
    Ok(vec![
        Case {
            name: "dense",
            layer: CompiledLayer::dense("dense", service, &dense, switches()?)?,
            x: full(&[32, 256])?,
            parameters: vec![("w", full(&[256, 128])?), ("bias", full(&[128])?)],
        },
        Case {
            name: "conv2d",
            layer: CompiledLayer::conv2d("conv2d", service, &conv, switches()?)?,
            x: full(&[1, 16, 32, 32])?,
            parameters: vec![("w", full(&[32, 16, 3, 3])?), ("bias", full(&[32])?)],
        },
        Case {
            name: "mlp",
            layer: CompiledLayer::of_blueprints("mlp", service, vec![mlp], switches()?)?,
            x: full(&[32, 64])?,
            parameters: vec![
                ("w1", full(&[64, 256])?),
                ("b1", full(&[256])?),
                ("w2", full(&[256, 64])?),
                ("b2", full(&[64])?),
            ],
        },
    ])
}

impl Case {
    async fn median(&self) -> Result<Duration, Box<dyn Error>> {
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let begin = Instant::now();
            let output = self
                .layer
                .forward("bench", self.x.clone(), &self.parameters)
                .await?;
            times.push(begin.elapsed());
            if output.ran_by != RanBy::Compiled {
                return Err(format!("{} was run by {:?}", self.name, output.ran_by).into());
            }
        }
        times.sort();
        Ok(times[CALLS / 2])
    }
}

/// The other side.
struct Modules {
    process: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Modules {
    fn start(python: &str) -> Result<Self, Box<dyn Error>> {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../benches/peers/service/modules.py"
        );
        let mut process = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = (process.stdin.take(), process.stdout.take());
        let (Some(ask), Some(answers)) = pipes else {
            return Err("no pipes".into());
        };
        let mut modules = Self {
            process,
            ask,
            answers: BufReader::new(answers),
        };
        modules.line()?;
        Ok(modules)
    }

    fn line(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the modules' process ended".into()),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn median(&mut self, name: &str) -> Result<Duration, Box<dyn Error>> {
        writeln!(self.ask, "{name} {CALLS}")?;
        let seconds: f64 = self.line()?.parse()?;
        Ok(Duration::from_secs_f64(seconds))
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
