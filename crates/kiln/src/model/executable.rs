//! What a call executes: a compiled program, or the interpreted graph.

use crate::device::Device;
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::progress::Work;
use kiln_backend::StopSignal;
use kiln_interpreter::{InterpretOptions, TraceEvent, interpret};
use kiln_ir::{Graph, Op};
use kiln_lazy_runtime::{CallControl, CompiledProgram, StepProfile};
use kiln_scalar::Mode as InterpreterMode;
use kiln_tensor::Tensor;
use kiln_timing::Category;
use std::cell::Cell;

#[cfg(feature = "native")]
use super::deferred::Deferred;
#[cfg(feature = "native")]
use crate::compiled::{Bundled, GraphPlanner, SharedRuntime, runtime_for};
#[cfg(feature = "native")]
use crate::notice::Notice;
#[cfg(feature = "native")]
use crate::recording::building;
#[cfg(feature = "native")]
use kiln_lazy_runtime::Runtime;
#[cfg(feature = "native")]
use kiln_program::Program;
use std::sync::Arc;

/// How a graph is executed.
pub(crate) enum Executable {
    /// Interpreted op by op.
    Interpreted,
    /// Compiled to native code.
    #[cfg(feature = "native")]
    Compiled(Box<Compiled>),
    /// Interpreted op by op at first, and compiled later.
    #[cfg(feature = "native")]
    Deferred(Box<Deferred>),
}

/// A program and the runtime it runs on.
#[cfg(feature = "native")]
pub(crate) struct Compiled {
    pub(crate) program: CompiledProgram,
    pub(crate) shared: Arc<SharedRuntime>,
}

impl Executable {
    /// Plans the graph for the options' device.
    ///
    /// # Errors
    /// When the device was set explicitly and cannot run the graph, or this build lacks it.
    pub(super) fn build(graph: &Graph, options: &Options) -> Result<Self, Error> {
        Self::build_watched(graph, 0, options)
    }

    /// The same for a graph with this many leading results that exist only to be inspected.
    pub(crate) fn build_watched(
        graph: &Graph,
        watched: usize,
        options: &Options,
    ) -> Result<Self, Error> {
        let device = options.device.clone().unwrap_or_default();
        if !device.is_available() {
            return Err(Device::unknown(device.key()));
        }
        if device.interprets() {
            if options.device.is_none() {
                options.observation.on_notice.notify_debug_build();
            }
            return Ok(Self::Interpreted);
        }
        #[cfg(not(feature = "native"))]
        {
            let _ = (graph, watched);
            Err(Device::unknown(device.key()))
        }
        #[cfg(feature = "native")]
        if let Some(calls) = options.compile_after
            && watched == 0
        {
            return Ok(Self::Deferred(Box::new(Deferred::new(calls))));
        }
        #[cfg(feature = "native")]
        match Compiled::build(graph, watched, None, options) {
            Ok(compiled) => Ok(Self::Compiled(Box::new(compiled))),
            Err(error)
                if options.device.is_none()
                    && error.kind() == crate::error::ErrorKind::Unsupported =>
            {
                let reason = error.to_string();
                options
                    .observation
                    .on_notice
                    .notify(&Notice::NotCompilable { reason });
                Ok(Self::Interpreted)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes it from a stored program of this graph.
    #[cfg(feature = "native")]
    pub(super) fn of_stored(
        graph: &Graph,
        program: Program,
        options: &Options,
    ) -> Result<Self, Error> {
        let compiled = Compiled::build(graph, 0, Some(program), options)?;
        Ok(Self::Compiled(Box::new(compiled)))
    }

    /// Makes it from a program of this graph that came with its code.
    #[cfg(feature = "native")]
    pub(super) fn of_bundle(
        graph: &Graph,
        bundled: Bundled,
        options: &Options,
    ) -> Result<Self, Error> {
        if options.device.as_ref().is_some_and(Device::interprets) {
            return Ok(Self::Interpreted);
        }
        let Bundled {
            program,
            others,
            shared,
            compiles,
        } = bundled;
        let mut compiled = match compiles {
            true => Compiled::on(shared, graph, 0, Some(program), options)?,
            // The code of further plans could not be compiled.
            false => Compiled {
                program: CompiledProgram::of_program(Arc::clone(&shared.runtime), program)
                    .with_timing(options.timing().clone()),
                shared,
            },
        };
        compiled.program = compiled.program.with_outputs(options.outputs);
        for (facts, program) in others {
            compiled.program = compiled.program.with_other_plan(facts, program);
        }
        Ok(Self::Compiled(Box::new(compiled)))
    }

    /// The program and its runtime, if it is compiled by now.
    #[cfg(feature = "native")]
    pub(crate) fn native(&self) -> Option<&Compiled> {
        match self {
            Self::Interpreted => None,
            Self::Compiled(compiled) => Some(compiled),
            Self::Deferred(deferred) => deferred.compiled(),
        }
    }

    /// The program, if it is compiled by now.
    pub(crate) fn compiled(&self) -> Option<&CompiledProgram> {
        #[cfg(not(feature = "native"))]
        return None;
        #[cfg(feature = "native")]
        self.native().map(|compiled| &compiled.program)
    }

    /// The device.
    pub(crate) fn device(&self) -> Device {
        #[cfg(feature = "native")]
        if let Some(compiled) = self.native() {
            return compiled.shared.device.clone();
        }
        Device::interpreter()
    }

    /// The runtime, if it is compiled by now.
    #[cfg(feature = "native")]
    pub(crate) fn runtime(&self) -> Option<&Arc<Runtime>> {
        Some(&self.native()?.shared.runtime)
    }

    /// Runs on inputs in the graph's order; `control` may end it.
    pub(crate) fn run(
        &self,
        graph: &Graph,
        inputs: &[Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
    ) -> Result<Vec<Tensor>, Error> {
        match self {
            Self::Interpreted => run_interpreted(graph, inputs, options, control),
            #[cfg(feature = "native")]
            Self::Compiled(compiled) => compiled.run(inputs, options, control),
            #[cfg(feature = "native")]
            Self::Deferred(deferred) => match deferred.call(graph, options)? {
                Some(compiled) => compiled.run(inputs, options, control),
                None => run_interpreted(graph, inputs, options, control),
            },
        }
    }

    /// The same, with the cost of each step.
    ///
    /// # Errors
    /// When the model is interpreted.
    pub(super) fn run_profiled(
        &self,
        inputs: &[Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
    ) -> Result<(Vec<Tensor>, Vec<StepProfile>), Error> {
        #[cfg(feature = "native")]
        if let Some(compiled) = self.native() {
            let _subscription = compiled.shared.subscribe(&options.observation.on_progress);
            let program = &compiled.program;
            return Ok(program.run_profiled_controlled(inputs, control)?);
        }
        let _ = (inputs, options, control);
        Err(Failure::not_compiled("a profile"))
    }
}

#[cfg(feature = "native")]
impl Compiled {
    fn run(
        &self,
        inputs: &[Tensor],
        options: &Options,
        control: Option<&Arc<CallControl>>,
    ) -> Result<Vec<Tensor>, Error> {
        let _subscription = self.shared.subscribe(&options.observation.on_progress);
        Ok(self.program.run_controlled(inputs, control)?)
    }

    pub(super) fn build(
        graph: &Graph,
        watched: usize,
        stored: Option<Program>,
        options: &Options,
    ) -> Result<Self, Error> {
        let timing = options.timing();
        let shared = {
            let _time = building(timing, "runtime", "Threads, device, and stores of kernels");
            runtime_for(options)?
        };
        Self::on(shared, graph, watched, stored, options)
    }

    /// Runs on a runtime.
    fn on(
        shared: Arc<SharedRuntime>,
        graph: &Graph,
        watched: usize,
        stored: Option<Program>,
        options: &Options,
    ) -> Result<Self, Error> {
        let timing = options.timing();
        options
            .observation
            .on_progress
            .notify(Work::Plan, "program", 0, Some(1));
        let planner = GraphPlanner::new(graph.clone())
            .with_layouts(shared.layouts())
            .with_watched(watched)
            .with_memory(options.memory)
            .with_stored(stored)
            .for_device(&shared.device, &options.limits.fusion)
            .with_timing(timing.clone());
        let program = CompiledProgram::new(Arc::clone(&shared.runtime), Arc::new(planner))?
            .with_timing(timing.clone())
            .with_outputs(options.outputs);
        options
            .observation
            .on_progress
            .notify(Work::Plan, "program", 1, Some(1));
        Ok(Self { program, shared })
    }
}

/// Interprets the graph, op by op, notifying the listener of progress.
fn run_interpreted(
    graph: &Graph,
    inputs: &[Tensor],
    options: &Options,
    control: Option<&Arc<CallControl>>,
) -> Result<Vec<Tensor>, Error> {
    // Ops of nested regions run any number of times, so only those of the body are counted.
    let total = graph.region(graph.body()).ops.len();
    let done = Cell::new(0);
    let tell = |event: TraceEvent<'_>| {
        done.set(done.get() + 1);
        options.observation.on_progress.notify(
            Work::Run,
            event.op.op.mnemonic(),
            done.get().min(total),
            Some(total),
        );
    };
    let trace: Option<&Trace<'_>> = options.observation.on_progress.is_some().then_some(&tell);
    let control = control.map(|control| &**control);
    if let Some(control) = control {
        load_constants(graph, control)?;
    }
    let watched = Watched { control, trace };
    let mode = InterpreterMode::Declared;
    let outputs = interpret_watched(graph, inputs, options, mode, &watched);
    // The reason why it was stopped, if it was.
    if outputs.is_err()
        && let Some(control) = control
    {
        control.check()?;
    }
    outputs
}

/// Loads constants that are read from files on demand: inside an op, loading could not be interrupted.
fn load_constants(graph: &Graph, control: &CallControl) -> Result<(), Error> {
    for (_, op) in graph.ops() {
        if let Op::Constant(constant) = &op.op {
            control.load(&constant.tensor())?;
        }
    }
    Ok(())
}

/// The observers of an interpreted call: its listener, and what may end it.
struct Watched<'a> {
    control: Option<&'a CallControl>,
    trace: Option<&'a Trace<'a>>,
}

/// The description of an interpreted call's event, before the graph's name.
const INTERPRET: &str = "Interpreted calls of ";

/// Called with every intermediate.
type Trace<'a> = dyn Fn(TraceEvent<'_>) + 'a;

/// Interprets a graph in a mode, under the options' limits.
pub(crate) fn interpret_graph(
    graph: &Graph,
    inputs: &[Tensor],
    options: &Options,
    mode: InterpreterMode,
    trace: Option<&Trace<'_>>,
) -> Result<Vec<Tensor>, Error> {
    let control = options.control(None);
    let watched = Watched {
        control: control.as_deref(),
        trace,
    };
    interpret_watched(graph, inputs, options, mode, &watched)
}

fn interpret_watched(
    graph: &Graph,
    inputs: &[Tensor],
    options: &Options,
    mode: InterpreterMode,
    watched: &Watched<'_>,
) -> Result<Vec<Tensor>, Error> {
    let is_stopped = watched.control.map(|control| move || control.is_stopped());
    let _span = tracing::debug_span!("kiln.interpret", ?mode).entered();
    let timing = options.timing();
    let event = timing.named(Category::Runtime, "interpret_", graph.name(), INTERPRET);
    let _time = timing.begin(event);
    let interpret_options = InterpretOptions {
        mode,
        limits: options.limits.run,
        cancelled: is_stopped.as_ref().map(|asked| asked as &dyn Fn() -> bool),
        trace: watched.trace,
        ..InterpretOptions::default()
    };
    Ok(interpret(graph, inputs, &interpret_options)?)
}
