//! A thread that computes the requests of a model, singly or batched.
//!
//! *Invariant:* no request fails because of another: if a batched call fails, each of its requests is computed
//! separately.

use crate::batching::{BatchPlan, join, split};
use crate::metrics::ModelMetrics;
use crate::queue::{Job, Queue, Reply};
use crate::stats::{CallTimes, Stats};
use kiln::{Cancellation, Model, Tensor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;
use tracing::Span;

pub(super) struct Worker {
    pub(super) name: String,
    pub(super) model: Model,
    pub(super) plan: Option<Arc<BatchPlan>>,
    pub(super) queue: Arc<Queue>,
    pub(super) stats: Arc<Stats>,
    pub(super) metrics: ModelMetrics,
}

impl Worker {
    /// Starts the thread; it ends when the queue is closed and empty.
    pub(super) fn start(self) -> std::io::Result<()> {
        let named = std::thread::Builder::new().name(format!("serve {}", self.name));
        named.spawn(move || {
            while let Some(jobs) = self.queue.next() {
                // A panic drops the requests, whose callers receive an error; the thread continues.
                let done = catch_unwind(AssertUnwindSafe(|| self.serve(jobs)));
                if done.is_err() {
                    tracing::error!(model = self.name, "a call panicked");
                }
            }
        })?;
        Ok(())
    }

    fn serve(&self, mut jobs: Vec<Job>) {
        let now = Instant::now();
        for job in &mut jobs {
            job.waiting = Span::none();
            let waited = now.saturating_duration_since(job.arrived);
            self.stats.waited(waited);
            self.metrics.waited(waited);
        }
        let jobs = match (&self.plan, jobs.len()) {
            (Some(plan), 2..) => match self.joined(plan, jobs) {
                Ok(()) => return,
                Err(jobs) => jobs,
            },
            _ => jobs,
        };
        for job in jobs {
            self.alone(job);
        }
    }

    /// Computes a request by itself.
    fn alone(&self, job: Job) {
        let now = Instant::now();
        if job.is_over(now) {
            return;
        }
        let limit = job.deadline.saturating_duration_since(now);
        let _span = self.span(&job, 1).entered();
        let call = self.model.call(&job.inputs);
        let call = call.cancellation(&job.cancellation).time_limit(limit);
        let outputs = call.run();
        let time = now.elapsed();
        if outputs.is_ok() {
            let times = CallTimes {
                infer: time,
                ..CallTimes::default()
            };
            self.executed(rows(&job), 1, times);
        }
        let answer: Reply = match outputs {
            Ok(outputs) => Ok(outputs.into_tensors()),
            // The caller, which knows the limit, reports the timeout.
            Err(_) if job.deadline <= Instant::now() => return,
            Err(error) => Err(error.into()),
        };
        let _client_left = job.reply.send(answer);
    }

    /// Computes requests in one call; returns them if it fails.
    fn joined(&self, plan: &BatchPlan, jobs: Vec<Job>) -> Result<(), Vec<Job>> {
        let start = Instant::now();
        let all = jobs.iter().map(rows).fold(0, usize::saturating_add);
        let batch = tracing::info_span!(
            parent: None,
            "serve.batch",
            model = self.name,
            requests = jobs.len(),
            rows = all
        );
        // A span for each request's share of the batch, in the request's own trace; these spans end with this function.
        let calls: Vec<Span> = jobs.iter().map(|job| self.span(job, jobs.len())).collect();
        for call in &calls {
            batch.follows_from(call);
        }
        let _batch = batch.entered();
        let parts: Vec<&[Tensor]> = jobs.iter().map(|job| job.inputs.as_slice()).collect();
        let counts: Vec<usize> = jobs.iter().map(rows).collect();
        let Ok(inputs) = join(plan, &parts) else {
            return Err(self.separated(jobs, "their inputs could not be joined"));
        };
        let joined = Instant::now();
        let ends = Ends::of(&jobs);
        let outputs = self
            .model
            .call(&inputs)
            .cancel_when(move || ends.all_over());
        let outputs = match outputs.run() {
            Ok(outputs) => outputs.into_tensors(),
            Err(error) => return Err(self.separated(jobs, error.code())),
        };
        let computed = Instant::now();
        let Some(answers) = split(plan, &outputs, &counts) else {
            return Err(self.separated(jobs, "the outputs do not have the size of the inputs"));
        };
        let times = CallTimes {
            input: joined - start,
            infer: computed - joined,
            output: computed.elapsed(),
        };
        self.executed(all, jobs.len(), times);
        for (job, answer) in jobs.into_iter().zip(answers) {
            let _client_left = job.reply.send(Ok(answer));
        }
        Ok(())
    }

    /// The span of a request's computation, in a call of this many requests.
    fn span(&self, job: &Job, requests: usize) -> Span {
        tracing::info_span!(
            parent: &job.request,
            "serve.call",
            model = self.name,
            requests,
            rows = rows(job)
        )
    }

    fn executed(&self, rows: usize, requests: usize, times: CallTimes) {
        self.stats.executed(rows, times);
        self.metrics.executed(rows, requests, times.infer);
    }

    fn separated(&self, jobs: Vec<Job>, reason: &str) -> Vec<Job> {
        self.stats.separated();
        self.metrics.separated();
        let requests = jobs.len();
        tracing::warn!(model = self.name, requests, reason, "a joined call failed");
        jobs
    }
}

/// The size of a request along the batch; 1 if nothing is batched.
fn rows(job: &Job) -> usize {
    job.group.as_ref().map_or(1, |(_, rows)| *rows)
}

/// When the requests of a joined call are no longer wanted.
struct Ends(Vec<(Cancellation, Instant)>);

impl Ends {
    fn of(jobs: &[Job]) -> Self {
        let ends = jobs.iter();
        Self(
            ends.map(|job| (job.cancellation.clone(), job.deadline))
                .collect(),
        )
    }

    fn all_over(&self) -> bool {
        let now = Instant::now();
        let mut ends = self.0.iter();
        ends.all(|(cancellation, deadline)| cancellation.is_cancelled() || *deadline <= now)
    }
}
