//! One record per compile: which kernel, why, the time of each part, the size of the code.

use std::fmt;
use std::time::Duration;

use kiln_backend::{CompileObserver, CompilePhase, Schedule, Target};
use kiln_kernel::Class;
use kiln_timing::{EventId, Part, Span, Timing};

use crate::clock::Clock;

/// Why a kernel was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileReason {
    /// Nothing similar was compiled before.
    FirstUse,
    /// The kernel is known, but not with this schedule.
    NewVariant,
    /// A store has the kernel in a different form: made by a different version, or for another target.
    KeyDiffers {
        /// The fields in which the closest stored entry differs, one line each.
        differences: Vec<String>,
    },
}

impl fmt::Display for CompileReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstUse => f.write_str("first use"),
            Self::NewVariant => f.write_str("new variant"),
            Self::KeyDiffers { differences } => {
                write!(f, "stored otherwise: {}", differences.join("; "))
            }
        }
    }
}

/// The record of one compile.
#[derive(Clone, Debug)]
pub struct CompileRecord {
    /// The kernel's name.
    pub kernel: String,
    /// Its class.
    pub class: Class,
    /// The key of the code.
    pub key: String,
    /// The target.
    pub target: Target,
    /// The schedule.
    pub schedule: Schedule,
    /// The assumptions of a variant: `s0 == 128`; empty for the generic kernel.
    pub facts: String,
    /// The reason.
    pub reason: CompileReason,
    /// The result of the lookup in each store, one line each.
    pub misses: Vec<String>,
    /// Time of each part, in the order in which they were first begun.
    pub phases: Vec<(CompilePhase, Duration)>,
    /// Time to make the code callable.
    pub load: Duration,
    /// The total time.
    pub total: Duration,
    /// Bytes of code.
    pub code_bytes: usize,
    /// The error, if there is no code.
    pub error: Option<String>,
}

impl CompileRecord {
    /// Whether a contraction was left to plain loops.
    pub fn is_contraction_left_to_fallback(&self) -> bool {
        let heavy = matches!(
            self.class,
            Class::Contraction | Class::Window | Class::Attention
        );
        heavy && self.schedule.is_fallback()
    }
}

impl fmt::Display for CompileRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kernel,
            class,
            schedule,
            target,
            facts,
            reason,
            total,
            ..
        } = self;
        let at = if facts.is_empty() { "" } else { " at " };
        write!(
            f,
            "@{kernel}{at}{facts} [{class}] {schedule} for {target} ({reason}): {total:.1?}"
        )?;
        for (phase, time) in &self.phases {
            write!(f, ", {phase:?} {time:.1?}")?;
        }
        match &self.error {
            Some(error) => write!(f, ", failed: {error}"),
            None => write!(f, ", load {:.1?}, {} bytes", self.load, self.code_bytes),
        }
    }
}

/// A part in progress, as timed by the recorder.
#[expect(dead_code, reason = "held until the part ends")]
enum Timed<'a> {
    Event(Span<'a>),
    Part(Part<'a>),
}

/// Adds up the time of each part.
pub(super) struct PhaseTimes<'a> {
    clock: &'a dyn Clock,
    timing: &'a Timing,
    /// The event of the part that generates the compiler's input; the others are parts of the compile's event.
    codegen: EventId,
    begun: Vec<(CompilePhase, Duration, Timed<'a>)>,
    pub(super) times: Vec<(CompilePhase, Duration)>,
    /// Whether the compile is no longer needed.
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> PhaseTimes<'a> {
    pub(super) fn new(
        clock: &'a dyn Clock,
        timing: &'a Timing,
        codegen: EventId,
        is_cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            clock,
            timing,
            codegen,
            begun: Vec::new(),
            times: Vec::new(),
            is_cancelled,
        }
    }
}

impl CompileObserver for PhaseTimes<'_> {
    fn begin(&mut self, phase: CompilePhase) {
        if !self.times.iter().any(|(known, _)| *known == phase) {
            self.times.push((phase, Duration::ZERO));
        }
        let timed = match phase {
            CompilePhase::Lower => Timed::Event(self.timing.begin(self.codegen)),
            CompilePhase::Verify => Timed::Part(self.timing.part("verify")),
            CompilePhase::Optimize => Timed::Part(self.timing.part("optimize")),
            CompilePhase::Emit => Timed::Part(self.timing.part("emit")),
            _ => Timed::Part(self.timing.part("other")),
        };
        self.begun.push((phase, self.clock.now(), timed));
    }

    fn end(&mut self, phase: CompilePhase) {
        let Some(position) = self.begun.iter().rposition(|(begun, ..)| *begun == phase) else {
            return;
        };
        let (_, begin, _timed) = self.begun.remove(position);
        let elapsed = self.clock.now().saturating_sub(begin);
        if let Some((_, time)) = self.times.iter_mut().find(|(known, _)| *known == phase) {
            *time += elapsed;
        }
    }

    fn is_cancelled(&self) -> bool {
        (self.is_cancelled)()
    }
}
