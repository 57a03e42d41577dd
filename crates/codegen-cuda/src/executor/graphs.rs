//! Batches of launches as CUDA graphs: recorded when a batch occurs for the second time, replayed from then on, and
//! updated where memory addresses have changed. The number of graphs of an execution is bounded; the least recently
//! used one is evicted first.
#![allow(unsafe_code, reason = "what launches access is vouched for by callers")]

use super::context::Context;
use crate::driver::{DriverError, Function, FunctionLaunch, Graph, Stream};
use kiln_backend::{BatchKey, LoadedKernel};
use std::ops::Range;

/// The maximum number of batches that an execution remembers.
const MAX_BATCHES: usize = 32;

/// Launches with their words, one after another.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    words: Vec<u64>,
    launches: Vec<Recorded>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Recorded {
    function: Function,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    words: Range<usize>,
}

impl Launches {
    /// Removes all launches.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.launches.clear();
    }

    /// Whether there are no launches.
    pub(crate) fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// The number of launches.
    pub(crate) fn len(&self) -> usize {
        self.launches.len()
    }

    /// Adds a launch.
    pub(crate) fn push(&mut self, launch: &FunctionLaunch<'_>) {
        let begin = self.words.len();
        self.words.extend_from_slice(launch.words);
        self.launches.push(Recorded {
            function: launch.function,
            blocks: launch.blocks,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            words: begin..self.words.len(),
        });
    }

    /// The launches, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FunctionLaunch<'_>> {
        self.launches.iter().map(|launch| FunctionLaunch {
            function: launch.function,
            blocks: launch.blocks,
            threads: launch.threads,
            shared_bytes: launch.shared_bytes,
            words: self.words.get(launch.words.clone()).unwrap_or_default(),
        })
    }

    /// Whether both launch the same functions.
    fn has_functions_of(&self, other: &Self) -> bool {
        let functions = |launches: &Self| -> Vec<(Function, usize)> {
            let launches = launches.launches.iter();
            launches
                .map(|launch| (launch.function, launch.words.len()))
                .collect()
        };
        self.len() == other.len() && functions(self) == functions(other)
    }
}

/// The batches of an execution.
#[derive(Default)]
pub(crate) struct GraphCache {
    /// The most recently used one is last.
    batches: Vec<Batch>,
}

struct Batch {
    key: BatchKey,
    state: State,
}

enum State {
    /// It occurred once.
    Seen,
    /// The driver rejected it.
    Refused,
    Recorded(Box<Recording>),
}

struct Recording {
    graph: Graph,
    launches: Launches,
    /// Keeps the functions loaded.
    #[allow(dead_code, reason = "held for its drop")]
    kernels: Vec<LoadedKernel>,
}

impl GraphCache {
    /// Launches a batch as a graph, if it occurred before and can be recorded; returns whether it did. `kernels` are
    /// the kernels of the launches.
    ///
    /// # Safety
    /// As for [`Driver::launch`](crate::driver::Driver::launch), for each launch.
    pub(crate) unsafe fn launch(
        &mut self,
        context: &Context,
        stream: Stream,
        key: BatchKey,
        launches: &mut Launches,
        kernels: impl Iterator<Item = LoadedKernel>,
    ) -> Result<bool, DriverError> {
        let position = self.batches.iter().position(|batch| batch.key == key);
        let Some(position) = position else {
            self.remember(context, key);
            return Ok(false);
        };
        let mut batch = self.batches.remove(position);
        // SAFETY: as the caller promises.
        let launched = unsafe { batch.launch(context, stream, launches, kernels) };
        self.batches.push(batch);
        launched
    }

    fn remember(&mut self, context: &Context, key: BatchKey) {
        if self.batches.len() >= MAX_BATCHES {
            self.batches.remove(0).end(context);
        }
        self.batches.push(Batch {
            key,
            state: State::Seen,
        });
    }

    /// Ends all graphs, none of which may be running.
    pub(crate) fn end(&mut self, context: &Context) {
        for batch in self.batches.drain(..) {
            batch.end(context);
        }
    }
}

impl Batch {
    /// See [`GraphCache::launch`].
    unsafe fn launch(
        &mut self,
        context: &Context,
        stream: Stream,
        launches: &mut Launches,
        kernels: impl Iterator<Item = LoadedKernel>,
    ) -> Result<bool, DriverError> {
        let counters = &context.counters;
        let state = std::mem::replace(&mut self.state, State::Refused);
        let mut recording = match state {
            State::Refused => return Ok(false),
            State::Recorded(recording) if recording.launches.has_functions_of(launches) => {
                let mut recording = recording;
                match recording.update(context, launches) {
                    Ok(()) => recording,
                    Err(error) => {
                        context.driver().destroy_graph(recording.graph);
                        return refused(context, error);
                    }
                }
            }
            State::Recorded(recording) => {
                // A kernel was replaced by a variant.
                context.driver().destroy_graph(recording.graph);
                match Recording::new(context, launches, kernels) {
                    Ok(recording) => Box::new(recording),
                    Err(error) => return refused(context, error),
                }
            }
            State::Seen => match Recording::new(context, launches, kernels) {
                Ok(recording) => Box::new(recording),
                Err(error) => return refused(context, error),
            },
        };
        // SAFETY: as the caller promises.
        let launched = unsafe { context.driver().launch_graph(&recording.graph, stream) };
        counters.graphs_launched.add(1);
        counters.graph_launches.add(launches.len());
        std::mem::swap(&mut recording.launches, launches);
        self.state = State::Recorded(recording);
        launched.map(|()| true)
    }

    fn end(self, context: &Context) {
        if let State::Recorded(recording) = self.state {
            context.driver().destroy_graph(recording.graph);
        }
    }
}

/// A batch that cannot be recorded: its functions are launched one by one from now on.
fn refused(context: &Context, error: DriverError) -> Result<bool, DriverError> {
    if error.is_sticky() {
        return Err(error);
    }
    context.counters.graphs_refused.add(1);
    tracing::warn!(device = context.name(), error = %error, "cuda.graph_refused");
    Ok(false)
}

impl Recording {
    fn new(
        context: &Context,
        launches: &Launches,
        kernels: impl Iterator<Item = LoadedKernel>,
    ) -> Result<Self, DriverError> {
        let nodes: Vec<FunctionLaunch<'_>> = launches.iter().collect();
        let graph = context.driver().create_graph(&nodes)?;
        context.counters.graphs_built.add(1);
        Ok(Self {
            graph,
            launches: Launches {
                words: launches.words.clone(),
                launches: launches.launches.clone(),
            },
            kernels: kernels.collect(),
        })
    }

    /// Patches the launches that differ.
    fn update(&mut self, context: &Context, launches: &Launches) -> Result<(), DriverError> {
        for (node, (before, now)) in self.launches.iter().zip(launches.iter()).enumerate() {
            if before != now {
                context.driver().update_graph(&self.graph, node, &now)?;
                context.counters.nodes_updated.add(1);
            }
        }
        Ok(())
    }
}
