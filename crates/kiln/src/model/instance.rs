//! A model built for one choice of what its graph depends on: the graph as imported and as optimised.

use super::executable::Executable;
use super::instances::Choice;
use super::origin::{Made, Origin};
use super::wrong_index;
#[cfg(feature = "native")]
use crate::compiled::{ProgramStore, runtime_for};
use crate::error::Error;
use crate::options::{Options, Passes};
use crate::progress::Work;
use crate::recording::building;
use kiln_fork_lock::ForkCell;
use kiln_ir::Graph;
use kiln_lazy_runtime::{CallControl, Donations, RuntimeError, StepProfile};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::record_requirements;
use kiln_tensor::Tensor;
use std::sync::Arc;

/// The graphs and the executable that a call runs. The graphs share their constants, except those that passes created.
pub(crate) struct Instance {
    imported: ForkCell<Graph>,
    /// The source from which the graph is imported on demand, if the program came from a store.
    origin: Option<(Arc<Origin>, Choice)>,
    optimized: Graph,
    executable: Executable,
}

/// The result of building a model for a choice.
pub(crate) enum Built {
    /// The instance that calls run.
    Graph(Instance),
    /// The next question, and its number.
    #[cfg_attr(
        not(feature = "onnx"),
        expect(dead_code, reason = "only ONNX models ask questions")
    )]
    Question(usize, Instance),
}

impl Built {
    /// The instance, of either kind.
    pub(super) fn instance(&self) -> &Instance {
        match self {
            Self::Graph(instance) | Self::Question(_, instance) => instance,
        }
    }
}

impl Instance {
    /// Loads the stored program, or else imports, optimises, plans and stores. Questions are not stored.
    pub(super) fn build(
        source: &Arc<Origin>,
        choice: &Choice,
        options: &Options,
    ) -> Result<Built, Error> {
        #[cfg(feature = "native")]
        if let Some(store) = store_of(source, choice, options) {
            let stored = {
                let _time = building(options.timing(), "load_program", "Loading a program");
                let (source, choice, options) =
                    (Arc::clone(source), choice.clone(), options.clone());
                store.load(&Arc::clone(&source), move || {
                    let imported = source.graph(&choice, &options)?;
                    optimized_graph(&imported, &options)
                })
            };
            if let Some(program) = stored {
                let optimized = program.graph().clone();
                let executable = Executable::of_stored(&optimized, program, options)?;
                return Ok(Built::Graph(Self {
                    imported: ForkCell::new(),
                    origin: Some((Arc::clone(source), choice.clone())),
                    optimized,
                    executable,
                }));
            }
            let begin = std::time::Instant::now();
            let built = Self::import(source, choice, options)?;
            if let Built::Graph(instance) = &built
                && let Some(program) = instance.executable.compiled()
            {
                let time = begin.elapsed();
                let _time = building(options.timing(), "store_program", "Storing a program");
                store.store(program.program(), source, time);
            }
            return Ok(built);
        }
        Self::import(source, choice, options)
    }

    /// Makes an instance from a graph without a source.
    #[cfg(feature = "native")]
    pub(super) fn of_graph(graph: Graph, executable: Executable) -> Self {
        Self {
            imported: ForkCell::from(graph.clone()),
            origin: None,
            optimized: graph,
            executable,
        }
    }

    /// Imports and optimises.
    fn import(source: &Origin, choice: &Choice, options: &Options) -> Result<Built, Error> {
        let of_graph = |imported: Graph| {
            let optimized = optimized_graph(&imported, options)?;
            let executable = Executable::build(&optimized, options)?;
            Ok::<_, Error>(Self {
                imported: ForkCell::from(imported),
                origin: None,
                optimized,
                executable,
            })
        };
        Ok(match import_graph(source, choice, options)? {
            Made::Graph(graph) => Built::Graph(of_graph(graph)?),
            #[cfg(feature = "onnx")]
            Made::Question(question) => Built::Question(question.number, of_graph(question.graph)?),
        })
    }

    /// Runs on inputs in the graph's order; the cost of each step goes to `profile`.
    pub(crate) fn run(
        &self,
        inputs: &[Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<Vec<Tensor>, Error> {
        let graph = &self.optimized;
        let named = |error| wrong_index::named(error, graph, inputs);
        let Some(profile) = profile else {
            let outputs = self.executable.run(graph, inputs, options, control);
            return outputs.map_err(named);
        };
        let profiled = self.executable.run_profiled(inputs, options, control);
        let (outputs, steps) = profiled.map_err(named)?;
        *profile = steps;
        Ok(outputs)
    }

    /// Runs into given tensors. A profiled call computes new tensors and replaces these.
    pub(super) fn run_into(
        &self,
        inputs: &[Tensor],
        outputs: &mut [Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<(), Error> {
        if profile.is_none()
            && let Some(program) = self.executable.compiled()
        {
            let done = program.run_into_controlled(inputs, outputs, control);
            return done.map_err(|error| wrong_index::named(error.into(), &self.optimized, inputs));
        }
        let (expected, found) = (self.optimized.outputs().len(), outputs.len());
        if expected != found {
            return Err(RuntimeError::OutputCount { expected, found }.into());
        }
        let given = self.run(inputs, options, control, profile)?;
        outputs.clone_from_slice(&given);
        Ok(())
    }

    /// Runs into given tensors, with donated inputs. A profiled call takes no donations.
    pub(super) fn run_donating(
        &self,
        (inputs, donations): (&mut [Tensor], &mut Donations),
        outputs: &mut [Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
        profile: Option<&mut Vec<StepProfile>>,
    ) -> Result<(), Error> {
        if profile.is_none()
            && let Some(program) = self.executable.compiled()
        {
            return Ok(program.run_donating(inputs, donations, outputs, control)?);
        }
        donations.begin(inputs.len(), outputs.len())?;
        self.run_into(inputs, outputs, options, control, profile)
    }

    pub(crate) fn executable(&self) -> &Executable {
        &self.executable
    }

    /// The graph before any pass.
    ///
    /// # Errors
    /// As importing it, if it has not been imported yet.
    pub(crate) fn imported(&self, options: &Options) -> Result<&Graph, Error> {
        if let Some(graph) = self.imported.get() {
            return Ok(graph);
        }
        let Some((source, choice)) = &self.origin else {
            unreachable!("a graph that was not imported has a source");
        };
        let graph = source.graph(choice, options)?;
        Ok(self.imported.get_or_init(|| graph))
    }

    pub(crate) fn optimized(&self) -> &Graph {
        &self.optimized
    }

    /// The graph after a pass; if it ran several times, after the last.
    pub(crate) fn after_pass(&self, name: &str, options: &Options) -> Result<Graph, Error> {
        let mut last = None;
        let imported = self.imported(options)?;
        run_passes(imported.clone(), options, &mut |pass, graph| {
            if pass == name {
                last = Some(graph.clone());
            }
        })?;
        // A pass that these options disable changes nothing.
        Ok(last.unwrap_or_else(|| imported.clone()))
    }
}

/// The graph of a model, or the question to answer first.
fn import_graph(source: &Origin, choice: &Choice, options: &Options) -> Result<Made, Error> {
    options
        .observation
        .on_progress
        .notify(Work::Import, "import", 0, Some(1));
    let imported = {
        let _span = tracing::info_span!("kiln.import").entered();
        let _time = building(options.timing(), "import", "Turning a model into a graph");
        source.make(choice, options)?
    };
    options
        .observation
        .on_progress
        .notify(Work::Import, "import", 1, Some(1));
    Ok(imported)
}

/// The same after all passes.
fn optimized_graph(imported: &Graph, options: &Options) -> Result<Graph, Error> {
    let optimized = if options.passes != Passes::None {
        let _span = tracing::info_span!("kiln.optimize").entered();
        let _time = building(options.timing(), "passes", "Passes over the graph");
        let mut done = 0;
        run_passes(imported.clone(), options, &mut |pass, _| {
            done += 1;
            options
                .observation
                .on_progress
                .notify(Work::Optimize, pass, done, None);
        })?
    } else {
        let mut graph = imported.clone();
        record_requirements(&mut graph);
        graph
    };
    options
        .observation
        .on_progress
        .notify(Work::Optimize, "optimized", 1, Some(1));
    Ok(optimized)
}

/// Where the program of a source is kept, if it is kept.
#[cfg(feature = "native")]
fn store_of(source: &Origin, choice: &Choice, options: &Options) -> Option<ProgramStore> {
    let digest = source.digest()?;
    // A failure of the runtime is reported by its first user.
    let shared = runtime_for(options).ok()?;
    ProgramStore::of(digest, choice, options, &shared)
}

fn run_passes(
    graph: Graph,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Graph, Error> {
    let mut pass_options = PassOptions {
        freeze: options.passes == Passes::All,
        widen_constants: options.precision.is_none(),
        dump: Some(seen),
        ..PassOptions::default()
    };
    let (graph, report) = optimize(graph, &mut pass_options)?;
    tracing::debug!(
        rounds = report.rounds,
        rewrites = report.rewrites(),
        "passes done"
    );
    Ok(graph)
}
