//! A loaded model that serves requests: its queue, its threads, and its statistics.

mod inputs;
mod worker;

use crate::batching::{BatchPlan, Group, Refusal};
use crate::config::{Batching, Serving, Wanted};
use crate::error::ServeError;
use crate::metrics::{ModelLabels, ModelMetrics};
use crate::queue::{Job, Joining, Queue};
use crate::request::{InferAnswer, InferRequest};
use crate::stats::Stats;
use kiln::diagnose::{self, Stage};
use kiln::{Cancellation, Model, ValueDescription};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::{Instrument, Span};
use worker::Worker;

/// One version of a model, ready for requests. Its threads end once it is closed and its queue is empty.
pub(crate) struct ServedModel {
    pub(crate) labels: ModelLabels,
    pub(crate) model: Model,
    timeout: Duration,
    /// How requests are joined, or why they are not.
    pub(crate) plan: Result<Arc<BatchPlan>, Refusal>,
    queue: Arc<Queue>,
    pub(crate) stats: Arc<Stats>,
    metrics: ModelMetrics,
}

impl ServedModel {
    /// Starts the threads of a loaded model. `config` is the file named in errors.
    ///
    /// # Errors
    /// E1523 when batching is enabled for a model whose requests cannot be batched; E1533 when the system cannot start
    /// a thread.
    pub(crate) fn start(
        model: Model,
        serving: &Serving,
        metrics: ModelMetrics,
        config: &str,
    ) -> Result<Self, ServeError> {
        let plan = plan_of(&model, &serving.batching).map(Arc::new);
        if let (Wanted::Required, Err(Refusal(reason))) = (serving.batching.wanted, &plan) {
            return Err(ServeError::NotIndependent {
                reason: reason.clone(),
                path: config.to_owned(),
            });
        }
        let batching = &serving.batching;
        let largest = plan.as_ref().ok().and_then(|plan| plan.max);
        let joining = Joining {
            max_batch: batching.max_batch.min(largest.unwrap_or(usize::MAX)),
            max_delay: batching.max_delay,
        };
        let served = Self {
            labels: metrics.labels().clone(),
            model,
            timeout: serving.timeout,
            plan,
            queue: Arc::new(Queue::new(serving.queue, joining)),
            stats: Arc::default(),
            metrics,
        };
        for _ in 0..serving.calls {
            if let Err(source) = served.worker().start() {
                served.close();
                let name = served.labels.to_string();
                return Err(ServeError::Thread { name, source });
            }
        }
        Ok(served)
    }

    fn worker(&self) -> Worker {
        Worker {
            name: self.labels.to_string(),
            model: self.model.clone(),
            plan: self.plan.as_ref().ok().cloned(),
            queue: Arc::clone(&self.queue),
            stats: Arc::clone(&self.stats),
            metrics: self.metrics.clone(),
        }
    }

    pub(crate) fn inputs(&self) -> &[ValueDescription] {
        self.model.inputs()
    }

    pub(crate) fn outputs(&self) -> &[ValueDescription] {
        self.model.outputs()
    }

    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Stops accepting requests; those already accepted are completed.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Handles a request.
    ///
    /// # Errors
    /// E1502 for tensors that are missing or unknown; E1505 when too many requests wait; E1507 when the request times
    /// out; the error of the call if that fails.
    pub(crate) async fn infer(&self, request: InferRequest) -> Result<InferAnswer, ServeError> {
        let start = Instant::now();
        let span = tracing::info_span!("serve.request", model = %self.labels, id = ?request.id);
        let answer = self.answer(request, start).instrument(span).await;
        let time = start.elapsed();
        self.stats.ended(answer.is_ok(), time);
        let outcome = answer.as_ref().map_or_else(ServeError::code, |_| "ok");
        self.metrics.ended(outcome, time);
        answer
    }

    async fn answer(
        &self,
        request: InferRequest,
        start: Instant,
    ) -> Result<InferAnswer, ServeError> {
        let inputs = inputs::arranged(self.inputs(), request.inputs)?;
        let wanted = inputs::positions(self.outputs(), &request.outputs)?;
        let limit = request
            .timeout
            .map_or(self.timeout, |asked| asked.min(self.timeout));
        let group = match &self.plan {
            Ok(plan) if inputs::fit(self.inputs(), &inputs) => Group::of(plan, &inputs),
            _ => None,
        };
        let (reply, answer) = oneshot::channel();
        let cancellation = Cancellation::new();
        // This future is dropped when the client disconnects.
        let _cancels = CancelOnDrop(cancellation.clone());
        let job = Job {
            inputs,
            group,
            request: Span::current(),
            waiting: tracing::info_span!("serve.queue", waiting = self.queue.len()),
            arrived: start,
            deadline: start
                .checked_add(limit)
                .unwrap_or(start + Duration::from_secs(1 << 30)),
            cancellation,
            reply,
        };
        self.queue.push(&self.labels.model, job)?;
        let outputs = match tokio::time::timeout(limit, answer).await {
            Err(_) => return Err(ServeError::Deadline { limit }),
            // The thread dropped the request: it timed out, or the thread panicked.
            Ok(Err(_)) if start.elapsed() >= limit => return Err(ServeError::Deadline { limit }),
            Ok(Err(_)) => {
                return Err(ServeError::Panicked {
                    doing: "a request's call",
                });
            }
            Ok(Ok(outputs)) => outputs?,
        };
        let named = wanted.iter().filter_map(|&position| {
            let name = self.outputs().get(position)?.name().to_owned();
            Some((name, outputs.get(position)?.clone()))
        });
        Ok(InferAnswer {
            model: self.labels.model.clone(),
            version: self.labels.version.clone(),
            id: request.id,
            outputs: named.collect(),
        })
    }
}

impl fmt::Debug for ServedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServedModel({}: {:?})", self.labels, self.model)
    }
}

/// Without a handle to the model, no request can arrive.
impl Drop for ServedModel {
    fn drop(&mut self) {
        self.close();
    }
}

struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// How requests of the model are joined, or why they are not.
fn plan_of(model: &Model, batching: &Batching) -> Result<BatchPlan, Refusal> {
    if batching.wanted == Wanted::Never {
        return Err(Refusal("the configuration says so".to_owned()));
    }
    let graph = diagnose::graph(model, Stage::Optimized);
    let graph = graph.map_err(|error| Refusal(error.to_string()))?;
    BatchPlan::of_graph(
        &graph,
        batching.symbol.as_deref(),
        batching.assume_independent,
    )
}
