//! Builds a variant on a compile thread: specialises the kernel to its sizes, compiles it, and puts it on trial.

use std::sync::Arc;
use std::time::Duration;

use kiln_backend::Schedule;
use kiln_kernel_cache::Failure;

use super::registry::{Stage, Variant};
use super::trial::Trial;
use crate::compile::{Asked, CompiledKernel, KernelFailure, KernelIdentity, Kernels};
use crate::recorder::Recorder;

/// The inputs of building a variant.
#[derive(Clone)]
pub(crate) struct Making {
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) variant: Arc<Variant>,
    /// The kernel for all sizes.
    pub(crate) identity: Arc<KernelIdentity>,
    /// Its code, which the variant must beat.
    pub(crate) generic: Arc<CompiledKernel>,
    /// Whether it may be compiled, and not only looked up.
    pub(crate) is_allowed: bool,
    pub(crate) recorder: Recorder,
    pub(crate) margin: u32,
    /// How long to wait for another thread's compile of the same variant.
    pub(crate) trusted: Duration,
}

impl Making {
    /// Runs the job. A failure is recorded with the variant.
    pub(crate) fn run(self) {
        let Some(known) = self.identity.at(&self.variant.symbols) else {
            let reason = "none of its symbols can be replaced by a size".to_owned();
            return self.variant.set(Stage::Impossible(reason));
        };
        let known = Arc::new(known);
        if self.variant.is_new() {
            let best = self
                .kernels
                .dispatch(&known.kernel)
                .launches_for_all()
                .next()
                .cloned();
            let general = &self.generic.artifact.schedule;
            let same = self.kernels.compiler().and_then(|(compiler, target)| {
                let adapted = compiler.adapted(&known.kernel, target, general);
                adapted.filter(|adapted| Some(adapted) != best.as_ref())
            });
            self.variant.offer(best.into_iter().chain(same));
        }
        let mut reason = "it has no schedule".to_owned();
        while let Some(schedule) = self.variant.next_try() {
            match self.compile(&known, &schedule) {
                // Another form of the constants would take the same amount of memory again.
                Ok(code) if code.artifact.packs != self.generic.artifact.packs => {
                    reason = "it needs constants in another form".to_owned();
                }
                Ok(code) => {
                    let trial = Arc::new(Trial::new(code, schedule, self.margin));
                    return self.variant.set(Stage::OnTrial(trial));
                }
                Err(error) => reason = error,
            }
        }
        self.variant.set(Stage::Impossible(reason));
    }

    fn compile(
        &self,
        known: &Arc<KernelIdentity>,
        schedule: &Schedule,
    ) -> Result<Arc<CompiledKernel>, String> {
        let Some(key) = self.kernels.key(known, schedule) else {
            return Err("there is no compiler".to_owned());
        };
        let failed = |failure: Failure<KernelFailure>| failure.to_string();
        match self.kernels.ask(known, &key) {
            Asked::Ready(code) => Ok(code),
            Asked::Failed(failure) => Err(failed(failure)),
            Asked::Follow(waiter) => match waiter.wait(self.trusted) {
                Ok(found) => Ok(self.kernels.found(known, found)),
                Err(failure) => Err(failed(failure)),
            },
            Asked::Lead(ticket) => {
                let recorder = &self.recorder;
                let made = self
                    .kernels
                    .fulfil(ticket, known, schedule, self.is_allowed, recorder);
                match made {
                    Some(Ok(found)) => Ok(self.kernels.found(known, found)),
                    Some(Err(failure)) => Err(failed(failure)),
                    None => Err("no store has it, and nothing more may be compiled".to_owned()),
                }
            }
        }
    }
}
