//! Running a program: bind, look up the launch plan, walk its steps.
//!
//! No lock is held while anything runs. Recursion is only over nested control steps, whose depth the graph's verifier
//! bounds.

mod bind;
mod body;
mod control;
mod donation;
mod download;
mod host;
mod inputs;
mod launch;
mod loops;
mod outputs;
mod stack;
mod state;
mod states;
mod strided;
mod turns;
mod walk;

pub(crate) use bind::site_of;
pub(crate) use body::{Call, run_program};
pub(crate) use donation::Inputs;
pub(crate) use host::fault_of;
pub(crate) use states::States;
pub(crate) use walk::Run;

use kiln_backend::Memory;
use kiln_symbolic_shape::PlanFact;
use kiln_tensor::DType;
use smallvec::SmallVec;

use crate::error::RuntimeError;
use crate::plan::{AxisOrder, PlacedTensor};

/// A row-major tensor in a device's memory.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) memory: Memory,
    /// Bytes from the memory's start.
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: SmallVec<[usize; 6]>,
    /// The order of its axes in memory, if that differs from the order of the list.
    pub(crate) order: Option<AxisOrder>,
    /// Elements from one index to the next, if it is not contiguous.
    pub(crate) apart: Option<SmallVec<[isize; 6]>>,
}

impl Value {
    pub(crate) fn placed(&self) -> PlacedTensor<'_> {
        PlacedTensor {
            memory: &self.memory,
            offset: self.offset,
            dtype: self.dtype,
            shape: &self.shape,
            order: self.order.as_ref(),
            apart: self.apart.as_deref(),
        }
    }
}

/// How a block is entered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    /// Whether the memories of its results are in the frame already.
    pub(crate) has_results: bool,
    /// Whether its launches may still run when it ends.
    pub(crate) runs_behind: bool,
}

/// Why a run ended early. Boxed, because the result of a run is passed through many levels, and is mostly `Ok`.
#[derive(Debug)]
pub(crate) struct Stop(pub(crate) Box<Why>);

/// Why a run ended.
#[derive(Debug)]
pub(crate) enum Why {
    /// The plan's facts do not hold: another plan must run.
    Facts(Vec<PlanFact>),
    /// It failed.
    Error(RuntimeError),
}

impl<E: Into<RuntimeError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self(Box::new(Why::Error(error.into())))
    }
}
