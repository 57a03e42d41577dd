//! Launch plans: everything about a segment that depends on sizes, evaluated once per combination of them.
//!
//! A [`SegmentPlan`] is immutable and shared by every run whose symbols have the same values. It holds compiled kernels,
//! the numbers of their launches, and the memory and offset of each operand.

mod arena;
mod axis_order;
mod facts;
mod frame;
mod make;
mod memo;
mod placed;
mod prepared;
mod usage;

use frame::OperandMemory;
pub(crate) use frame::{Frame, MemoryIndex, OperandSlice, PlacedTensor};
pub(crate) use make::{make_plan, place_all_constants};
pub(crate) use memo::{Key, Memo};
pub(crate) use placed::PlacedConstants;
pub(crate) use prepared::{Prepared, key_of};
pub(crate) use usage::Use;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use kiln_backend::{Builtin, LaunchNumbers, Schedule};
use kiln_program::BufferId;
use kiln_symbolic_shape::{Binding, PlanFact};
use kiln_tensor::DType;
use smallvec::SmallVec;

pub(crate) use arena::{lifetimes_of, lifetimes_where, place};
pub(crate) use axis_order::AxisOrder;

use crate::compile::CompiledKernel;
use crate::error::RuntimeError;
use crate::variants::{Heat, Stale, Trial, Variant};

/// A segment with every size evaluated.
#[derive(Debug)]
pub(crate) struct SegmentPlan {
    /// A number unique in this process.
    pub(crate) id: u64,
    /// The values of all symbols known when the segment begins.
    pub(crate) binding: Binding,
    /// Bytes of the arena.
    pub(crate) arena: usize,
    /// The offsets of the buffers in the arena, by buffer; for later segments.
    pub(crate) starts: Vec<(BufferId, usize)>,
    /// Separate memories to allocate before the first step, and their sizes.
    pub(crate) own: Vec<OwnMemory>,
    /// The parameters whose memory a result may reuse, if the caller donates them.
    pub(crate) donations: Vec<DonationPlan>,
    /// In the order of the segment's steps.
    pub(crate) steps: Vec<StepPlan>,
    /// Of the last segment: the block's results.
    pub(crate) results: Vec<TensorPlace>,
    /// The state of steps that still wait for code, if there are any.
    pub(crate) waits: Option<Waits>,
    /// Of the body's first segment: the calls that used it.
    pub(crate) use_so_far: Use,
    /// The time of its kernels, if one may get a variant.
    pub(crate) heat: Option<Heat>,
    /// A flag that is set when the plan is worth rebuilding.
    pub(crate) stale: Stale,
    /// Whether calls with its sizes are known to take much time.
    pub(crate) is_hot: AtomicBool,
}

/// A memory that is neither a part of an arena nor passed by the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnMemory {
    pub(crate) index: MemoryIndex,
    pub(crate) bytes: usize,
    /// The block's result that it is, if the result spans it, only launches access it before the block ends, and it is
    /// large enough: it may then be the memory of a tensor that the caller passed.
    pub(crate) result: Option<usize>,
}

/// A result that may reuse a parameter's memory, in a plan whose steps are all launches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DonationPlan {
    /// The parameter, by position.
    pub(crate) parameter: usize,
    /// The result's memory otherwise.
    pub(crate) own: MemoryIndex,
    /// The result, by position.
    pub(crate) result: usize,
}

impl SegmentPlan {
    /// A number for a new plan.
    pub(crate) fn next_id() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Continues another plan for the same sizes, which this one replaces.
    pub(crate) fn take_over(&self, before: &Self) {
        self.use_so_far.take_over(&before.use_so_far);
        if before.is_hot.load(Ordering::Relaxed) {
            self.hasten();
        }
    }

    /// Marks calls with these sizes as known to take much time.
    pub(crate) fn hasten(&self) {
        self.is_hot.store(true, Ordering::Relaxed);
        if let Some(heat) = &self.heat {
            heat.hasten();
        }
    }
}

/// A plan some of whose steps have no code yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// The count of published code when it was made.
    pub(crate) since: u64,
    /// Whether compilation was requested, and not only a lookup.
    pub(crate) is_asked_for: bool,
}

/// A step with every size evaluated.
#[derive(Debug)]
pub(crate) enum StepPlan {
    /// A launch.
    Kernel(Box<KernelPlan>),
    /// A builtin.
    Builtin(Box<BuiltinPlan>),
    /// Sizes as data.
    Dims(Vec<i64>, MemoryIndex),
    /// Its operands, in the step's order: for steps that go through the host.
    Host(Vec<TensorPlace>),
    /// A loop: its operands, in the step's order, and its trip count, if it is a size.
    Loop {
        /// Trips, condition, carried values, captures.
        reads: Vec<TensorPlace>,
        /// The maximum number of iterations.
        trips: Option<i64>,
    },
    /// A kernel without code: the interpreter computes it.
    Interpreted {
        /// The operands of the ops.
        reads: Vec<TensorPlace>,
        /// The places of the results.
        writes: Vec<TensorPlace>,
        /// Until when.
        until: Until,
    },
}

/// For how long the interpreter computes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until there is code: it is on its way, or may be requested by a later call.
    Code,
    /// Until the failed compile may be retried.
    Retry(Duration),
    /// Permanently: nothing could compile it.
    Ever,
}

/// A launch with every size evaluated.
#[derive(Debug)]
pub(crate) struct KernelPlan {
    pub(crate) compiled: Arc<CompiledKernel>,
    pub(crate) schedule: Arc<Schedule>,
    pub(crate) operands: SmallVec<[OperandSlice; 6]>,
    pub(crate) numbers: Arc<LaunchNumbers>,
    /// The values of the kernel's symbols.
    pub(crate) symbols: Arc<[i64]>,
    /// A variant that alternates with it.
    pub(crate) rival: Option<Box<Rival>>,
}

/// A variant on trial, as a step launches it: with the operands of the generic kernel.
#[derive(Debug)]
pub(crate) struct Rival {
    pub(crate) variant: Arc<Variant>,
    pub(crate) trial: Arc<Trial>,
    pub(crate) numbers: Arc<LaunchNumbers>,
}

/// A builtin with every size evaluated.
#[derive(Debug)]
pub(crate) struct BuiltinPlan {
    pub(crate) builtin: Builtin,
    pub(crate) inputs: Vec<TensorPlace>,
    pub(crate) outputs: Vec<TensorPlace>,
}

/// A tensor in the memories of a run.
#[derive(Clone, Debug)]
pub(crate) struct TensorPlace {
    pub(crate) operand: OperandSlice,
    pub(crate) dtype: DType,
    pub(crate) shape: SmallVec<[usize; 6]>,
    /// The order of its axes in memory, if that differs from the order of the list.
    pub(crate) order: Option<AxisOrder>,
    /// Elements from one index to the next, if it is not contiguous: in a part of a larger tensor.
    pub(crate) apart: Option<SmallVec<[isize; 6]>>,
}

impl TensorPlace {
    /// Whether it spans a separate memory, row-major.
    pub(crate) fn fills(&self, own: &OwnMemory) -> bool {
        matches!(self.operand.memory, OperandMemory::Run(index) if index == own.index)
            && self.operand.offset == 0
            && self.operand.bytes == own.bytes
            && self.order.is_none()
            && self.apart.is_none()
    }
}

/// Why there is no launch plan.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The program was planned under facts that do not hold: another plan must run.
    Facts(Vec<PlanFact>),
    /// Nothing can run.
    Error(RuntimeError),
}

impl From<RuntimeError> for Refusal {
    fn from(error: RuntimeError) -> Self {
        Self::Error(error)
    }
}
