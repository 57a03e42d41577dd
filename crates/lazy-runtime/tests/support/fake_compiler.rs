//! Compiles kernels to fake artifacts: the text as code, sizes of buffers from their shapes, symbols as arguments.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, Candidate, CompileError, CompileObserver,
    CompilePhase, Condition, FALLBACK_SCHEDULE, KernelCompiler, Listing, PackAxis, PackSpec, Phase,
    Quantity, Schedule, Target,
};
use kiln_kernel::{Role, VerifiedKernel};
use kiln_symbolic_shape::Predicate;

/// The schedules that the compiler offers in addition to the fallback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// No others.
    #[default]
    Nothing,
    /// A variant for kernels whose first symbol is a multiple of 4.
    MultipleOfFour,
    /// For each of these numbers, a variant for kernels whose first symbol is a multiple of it.
    MultiplesOf(&'static [i64]),
    /// A variant that never compiles.
    Broken,
    /// No schedule that compiles, not even the fallback.
    AllBroken,
}

#[derive(Clone, Debug, Default)]
pub struct FakeCompiler {
    pub offer: Offer,
    /// The number of compiles so far.
    pub compiles: Arc<AtomicUsize>,
    /// The gate that compiles wait for, if any.
    pub gate: Option<Arc<Gate>>,
    /// Whether a waiting compile gives up when it is no longer needed.
    pub stops: bool,
    /// Which kernels wait at the gate: those whose text contains one of these; if empty, all.
    pub held_up: &'static [&'static str],
    /// The number of compiles that fail before one succeeds.
    pub failures: Arc<AtomicUsize>,
    /// The number of compiles that panic before one succeeds.
    pub panics: Arc<AtomicUsize>,
    /// Part of keys.
    pub version: &'static str,
}

/// Blocks compiles until it is opened.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    waiting: usize,
}

impl Gate {
    pub fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    pub fn close(&self) {
        self.state.lock().unwrap().is_open = false;
    }

    /// Waits until this many compiles wait at the gate.
    pub fn wait_for(&self, compiles: usize) {
        let state = self.state.lock().unwrap();
        let waits = |state: &mut GateState| state.waiting < compiles;
        drop(self.changed.wait_while(state, waits).unwrap());
    }

    /// Waits until the gate is open, or until the compile is no longer needed; returns which.
    pub fn pass(&self, is_wanted: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        while !state.is_open {
            if !is_wanted() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(5));
            state = waited.unwrap().0;
        }
        true
    }
}

#[derive(Debug, thiserror::Error)]
#[error("this schedule never works")]
struct NeverWorks;

impl KernelCompiler for FakeCompiler {
    fn version(&self) -> String {
        format!("fake 1{}", self.version)
    }

    fn host(&self) -> Target {
        Target {
            backend: "fake".to_owned(),
            level: "any".to_owned(),
        }
    }

    fn supports(&self, target: &Target) -> bool {
        *target == self.host()
    }

    fn schedules(&self, kernel: &VerifiedKernel, _target: &Target) -> Vec<Candidate> {
        let candidate = |name: &str, predicate| Candidate {
            schedule: Schedule::new(name),
            predicate,
            layouts: Vec::new(),
            cost: 1.0,
        };
        let dims = kernel.kernel().dims();
        let mut candidates = Vec::new();
        match (self.offer, dims.symbols().next()) {
            (Offer::MultipleOfFour, Some(symbol)) => {
                let predicate = Predicate::Divides {
                    divisor: 4,
                    dim: dims.dim(symbol),
                };
                candidates.push(candidate("by_four", vec![predicate]));
            }
            (Offer::MultiplesOf(numbers), Some(symbol)) => {
                for &divisor in numbers {
                    let dim = dims.dim(symbol);
                    let predicate = Predicate::Divides { divisor, dim };
                    candidates.push(candidate(&format!("by_{divisor}"), vec![predicate]));
                }
            }
            (Offer::Broken | Offer::AllBroken, _) => candidates.push(candidate("broken", vec![])),
            _ => {}
        }
        candidates.push(candidate(FALLBACK_SCHEDULE, vec![]));
        candidates
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        self.compiles.fetch_add(1, Ordering::SeqCst);
        let text = kiln_kernel::text::print(kernel.kernel());
        if let Some(gate) = &self.gate
            && (self.held_up.is_empty() || self.held_up.iter().any(|part| text.contains(part)))
        {
            let passed = gate.pass(|| !(self.stops && observer.is_cancelled()));
            if !passed {
                return Err(CompileError {
                    kernel: kernel.name().to_owned(),
                    target: target.clone(),
                    schedule: schedule.clone(),
                    code: "E0515",
                    source: Box::new(NeverWorks),
                });
            }
        }
        let is_left = |count: &AtomicUsize| {
            let count_down = |n: usize| n.checked_sub(1);
            let left = count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down);
            left.is_ok()
        };
        assert!(!is_left(&self.panics), "this compile panics");
        observer.begin(CompilePhase::Emit);
        observer.end(CompilePhase::Emit);
        let is_broken = schedule.name == "broken" || self.offer == Offer::AllBroken;
        if is_broken || is_left(&self.failures) {
            return Err(CompileError {
                kernel: kernel.name().to_owned(),
                target: target.clone(),
                schedule: schedule.clone(),
                code: "E0599",
                source: Box::new(NeverWorks),
            });
        }
        let form = kernel.kernel();
        let dims = form.dims();
        let buffers = form.buffers().values().map(|buffer| {
            let width = Quantity::constant(buffer.dtype.size_in_bytes() as i64);
            let bytes = match &buffer.strides {
                None => buffer
                    .shape
                    .iter()
                    .fold(width, |bytes, &size| bytes * Quantity::of(dims, size)),
                Some(strides) => {
                    let one = || Quantity::constant(1);
                    let reach = buffer
                        .shape
                        .iter()
                        .zip(strides)
                        .fold(one(), |reach, (&n, &s)| {
                            reach + (Quantity::of(dims, n) - one()) * Quantity::of(dims, s)
                        });
                    // An empty buffer is not accessed; an upper bound would also do.
                    let zero = Quantity::constant(0);
                    let any = buffer
                        .shape
                        .iter()
                        .fold(one(), |any, &n| any.min(Quantity::of(dims, n)));
                    (reach * width * any).max(zero)
                }
            };
            ArtifactBuffer {
                name: buffer.name.clone(),
                dtype: buffer.dtype,
                written: buffer.role.is_written(),
                bytes,
            }
        });
        let packs = form.buffers().values().enumerate().filter(|(_, buffer)| {
            buffer.role == Role::Const && buffer.rank() == 2 && buffer.strides.is_none()
        });
        let packs = packs.map(|(buffer, _)| PackSpec {
            buffer,
            axes: vec![PackAxis::Whole(1), PackAxis::Whole(0)],
        });
        let parts = ArtifactParts {
            kernel: form.name().to_owned(),
            target: target.clone(),
            schedule: schedule.clone(),
            code: kiln_kernel::text::print(form).into_bytes(),
            contract: Condition::contract(dims),
            buffers: buffers.collect(),
            arguments: (0..dims.symbols().count() as u32)
                .map(Quantity::symbol)
                .collect(),
            phases: vec![Phase {
                entry: "evaluate".to_owned(),
                tasks: Quantity::constant(1),
                block: 1,
                scratch: Quantity::constant(0),
            }],
            shared_scratch: Quantity::constant(0),
            packs: packs.collect(),
            in_place: Vec::new(),
            fault_sites: vec!["somewhere in the kernel".to_owned()],
        };
        // SAFETY: the code is a kernel's text, which the fake device evaluates.
        Ok(unsafe { Artifact::trusted(parts) })
    }

    fn listing(
        &self,
        kernel: &VerifiedKernel,
        _target: &Target,
        _schedule: &Schedule,
        _listing: Listing,
    ) -> Result<String, CompileError> {
        Ok(kiln_kernel::text::print(kernel.kernel()))
    }
}
