//! Choosing how a graph runs by measuring it on the user's sizes: [`AutoTuner`].
//!
//! Invariants: the defaults are always a candidate, and only a candidate that is clearly faster is chosen instead. No
//! candidate computes with less precision than the options allow.

mod choose;
mod config;
mod remember;

pub use config::OptimizationConfig;

use crate::compiled::runtime_for;
use crate::compiling::Compiling;
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;
use crate::options::Options;
use crate::source::Source;
use choose::{Rounds, chosen, median};
use config::{Axis, variations};
use kiln_ir::Graph;
use kiln_lazy_runtime::CompilePolicy;
use kiln_tensor::Tensor;
use remember::Memory;
use std::fmt;
use std::time::{Duration, Instant};

/// The minimum total time of the calls of one candidate in one round.
const ROUND: Duration = Duration::from_millis(2);
/// The maximum number of calls of a round.
const MAX_CALLS: usize = 1000;

/// Measures how a graph runs under several configurations, on inputs of the user's sizes, and remembers the best.
///
/// Candidates differ in the number of threads, the level of the instruction set, how large kernels may become, and, if
/// the options [allow it](Compiling::fewer_products), in the use of Winograd convolution. They run in interleaved
/// rounds, so that other load on the machine affects all alike; a candidate replaces the defaults if it is clearly
/// faster, in the median and in most rounds. The choice is kept in the [cache](crate::Cache) for the graph, the sizes,
/// the machine's level and this version of Kiln: another process need not measure again.
///
/// ```
/// use kiln::{AutoTuner, Cache, Options, Source, Tensor};
///
/// let text = "graph @main(%x: f32[N]) -> f32[N] { %y = tanh %x return \"y\" = %y }";
/// let options = Options::new().cache(Cache::off());
/// let graph = options.load(Source::text(text))?.graph()?;
/// let sample = [Tensor::full(&[256], 0.5f32)?];
///
/// let config = AutoTuner::new(options.clone()).rounds(3).tune(&graph, &sample)?;
/// let model = config.apply(options).load(Source::graph(graph))?;
/// assert_eq!(model.run(&sample)?.get("y")?.shape(), [256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AutoTuner {
    options: Options,
    rounds: usize,
}

/// A configuration and the time of a call with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The configuration.
    pub config: OptimizationConfig,
    /// The median time of a call.
    pub time: Duration,
}

/// The measurements, and the choice.
#[derive(Clone, Debug)]
pub struct TuningReport {
    /// The choice.
    pub config: OptimizationConfig,
    /// Every candidate with its measurement, race by race; the defaults run in each race. Empty if nothing was
    /// measured: on the interpreter, or if the choice was [remembered](Self::is_remembered).
    pub measured: Vec<Measured>,
    /// The defaults and the choice, measured once more against each other; `None` if the defaults were chosen.
    pub confirmed: Option<[Duration; 2]>,
    /// Whether the choice was read from the cache.
    pub is_remembered: bool,
}

impl AutoTuner {
    /// A tuner for models that are loaded with these options. Settings that they fix are not varied: if they set a
    /// number of threads, for example, all candidates use it.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            rounds: 15,
        }
    }

    /// Sets the number of rounds, at least 3; 15 by default.
    #[must_use]
    pub fn rounds(self, rounds: usize) -> Self {
        Self {
            rounds: rounds.max(3),
            ..self
        }
    }

    /// The best configuration for a graph on inputs of these sizes, either remembered or measured.
    ///
    /// # Errors
    /// When the graph cannot be loaded with the options, or called with the inputs.
    pub fn tune(&self, graph: &Graph, sample: &[Tensor]) -> Result<OptimizationConfig, Error> {
        Ok(self.report(graph, sample)?.config)
    }

    /// As [`tune`](Self::tune), but also returns the measurements.
    ///
    /// # Errors
    /// As [`tune`](Self::tune).
    pub fn report(&self, graph: &Graph, sample: &[Tensor]) -> Result<TuningReport, Error> {
        guarded("tuning a graph", || self.measure(graph, sample))
    }

    fn measure(&self, graph: &Graph, sample: &[Tensor]) -> Result<TuningReport, Error> {
        let mut report = TuningReport {
            config: OptimizationConfig::default(),
            measured: Vec::new(),
            confirmed: None,
            is_remembered: false,
        };
        let device = self.options.device.clone().unwrap_or_default();
        if device.interprets() {
            return Ok(report);
        }
        let shared = runtime_for(&self.options)?;
        let memory = Memory::of(graph, sample, &self.options, &shared);
        if let Some(config) = memory.as_ref().and_then(Memory::read) {
            report.config = config;
            report.is_remembered = true;
            return Ok(report);
        }
        let begin = Instant::now();
        let mut trials = Trials::new(self, graph, sample)?;
        for axis in Axis::ALL {
            for config in variations(axis, &report.config, &self.options, &device) {
                trials.add(config);
            }
            let best = trials.race(&report.config)?;
            report.measured.append(&mut trials.measured);
            report.config = best;
        }
        if report.config != OptimizationConfig::default() {
            report.confirmed = trials.confirm(&report.config)?;
        }
        if report.confirmed.is_none() {
            report.config = OptimizationConfig::default();
        }
        if let Some(memory) = memory {
            memory.write(&report.config, begin.elapsed());
        }
        Ok(report)
    }
}

/// The models of candidates that are measured against each other.
struct Trials<'a> {
    tuner: &'a AutoTuner,
    graph: &'a Graph,
    sample: &'a [Tensor],
    /// The calls of a round.
    n_calls: usize,
    /// The defaults, then the others of this race.
    runners: Vec<(OptimizationConfig, Model)>,
    measured: Vec<Measured>,
}

impl<'a> Trials<'a> {
    fn new(tuner: &'a AutoTuner, graph: &'a Graph, sample: &'a [Tensor]) -> Result<Self, Error> {
        let mut trials = Self {
            tuner,
            graph,
            sample,
            n_calls: 1,
            runners: Vec::new(),
            measured: Vec::new(),
        };
        let config = OptimizationConfig::default();
        let model = trials.load(&config)?;
        let call = trials.time(&model)?.max(Duration::from_nanos(1));
        let calls = ROUND.as_nanos().div_ceil(call.as_nanos());
        trials.n_calls = usize::try_from(calls)
            .unwrap_or(MAX_CALLS)
            .clamp(1, MAX_CALLS);
        trials.runners.push((config, model));
        Ok(trials)
    }

    /// Adds a candidate, unless it already exists. A candidate that cannot be loaded or called is omitted; the defaults
    /// always can.
    fn add(&mut self, config: OptimizationConfig) {
        if self.runners.iter().any(|(known, _)| *known == config) {
            return;
        }
        match self.load(&config) {
            Ok(model) => self.runners.push((config, model)),
            Err(error) => tracing::info!(%config, %error, "a candidate cannot be measured"),
        }
    }

    /// The candidate's model, called until its code is compiled.
    fn load(&self, config: &OptimizationConfig) -> Result<Model, Error> {
        let mut options = config.apply(self.tuner.options.clone());
        // Compiling during the measurement of other candidates would disturb them; variants are measured by the runtime
        // itself.
        options.compiling = Compiling {
            policy: CompilePolicy::FirstUse,
            max_block: None,
            timeout: None,
            variants: None,
            ..options.compiling
        };
        options.compile_after = None;
        let model = options.load(Source::graph(self.graph.clone()))?;
        for _ in 0..2 {
            self.call(&model)?;
        }
        Ok(model)
    }

    fn call(&self, model: &Model) -> Result<(), Error> {
        model
            .run(self.sample.iter().collect::<Inputs<'_>>())
            .map(drop)
    }

    /// The time of a call, in a round.
    fn time(&self, model: &Model) -> Result<Duration, Error> {
        let begin = Instant::now();
        for _ in 0..self.n_calls {
            self.call(model)?;
        }
        Ok(begin.elapsed() / u32::try_from(self.n_calls).unwrap_or(1))
    }

    /// Measures all candidates against each other; returns the best, or `current` if none is better than the defaults.
    /// Afterwards only the defaults and the best remain.
    fn race(&mut self, current: &OptimizationConfig) -> Result<OptimizationConfig, Error> {
        if self.runners.len() == 1 {
            return Ok(current.clone());
        }
        let rounds = self.rounds()?;
        for ((config, _), times) in self.runners.iter().zip(&rounds) {
            self.measured.push(Measured {
                config: config.clone(),
                time: median(times),
            });
        }
        let best = chosen(&rounds);
        let kept = self.runners.swap_remove(best);
        if best == 0 {
            self.runners.clear();
        } else {
            self.runners.truncate(1);
        }
        let config = kept.0.clone();
        self.runners.push(kept);
        Ok(config)
    }

    /// Measures the choice against the defaults again; returns both times if the choice is still better.
    fn confirm(&mut self, config: &OptimizationConfig) -> Result<Option<[Duration; 2]>, Error> {
        self.add(config.clone());
        let rounds = self.rounds()?;
        let [defaults, choice] = rounds.as_slice() else {
            return Ok(None);
        };
        let times = [median(defaults), median(choice)];
        Ok((chosen(&rounds) == 1).then_some(times))
    }

    /// The times of all candidates, by candidate and round. Each round begins with a different candidate.
    fn rounds(&self) -> Result<Rounds, Error> {
        let count = self.runners.len();
        let mut rounds: Rounds = vec![Vec::with_capacity(self.tuner.rounds); count];
        for round in 0..self.tuner.rounds {
            for turn in 0..count {
                let index = (round + turn) % count;
                rounds[index].push(self.time(&self.runners[index].1)?);
            }
        }
        Ok(rounds)
    }
}

impl fmt::Display for TuningReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_remembered {
            return write!(f, "{}, as remembered", self.config);
        }
        for Measured { config, time } in &self.measured {
            writeln!(f, "{:>12.3?}  {config}", time)?;
        }
        match self.confirmed {
            Some([defaults, choice]) => {
                write!(
                    f,
                    "chosen: {}, {choice:.3?} against {defaults:.3?}",
                    self.config
                )
            }
            None => write!(f, "chosen: {}", self.config),
        }
    }
}
