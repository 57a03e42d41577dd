//! The steps of a program, in order of execution.

use kiln_backend::Builtin;
use kiln_ir::{OpId, ValueId};
use kiln_symbolic_shape::SymbolId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::ids::{BlockId, BufferId, KernelId, SizeId};

/// A step, with its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// A readable name, from the ops in it: `matmul_bias_relu`.
    pub name: String,
    /// The ops of the graph that it computes.
    #[serde(with = "crate::entity::list")]
    pub ops: Vec<OpId>,
    /// The action.
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// Launches a kernel.
    Kernel(KernelLaunch),
    /// A builtin that the executor runs, on row-major tensors.
    Builtin {
        /// The builtin.
        builtin: Builtin,
        /// Its operands.
        inputs: SmallVec<[BufferId; 2]>,
        /// Its results.
        outputs: SmallVec<[BufferId; 2]>,
    },
    /// Writes sizes as data: `i64[len(sizes)]`.
    Dims {
        /// The sizes.
        sizes: Vec<SizeId>,
        /// The result.
        output: BufferId,
    },
    /// Binds symbols to the elements of an integer tensor.
    Bind {
        /// The tensor.
        data: BufferId,
        /// The symbols, in the order of its elements.
        #[serde(with = "crate::entity::list")]
        symbols: Vec<SymbolId>,
    },
    /// Runs one of two blocks on the captures.
    If {
        /// `bool[]`.
        condition: BufferId,
        /// The parameters of either block.
        captures: Vec<BufferId>,
        /// The block to run if the condition holds.
        then: BlockId,
        /// The block to run otherwise.
        otherwise: BlockId,
        /// The results.
        results: Vec<BufferId>,
        /// Symbols bound to the sizes of the results.
        #[serde(with = "crate::entity::list")]
        symbols: Vec<SymbolId>,
    },
    /// Runs a block repeatedly, as the graph's `loop`.
    Loop {
        /// `i64[]`: the maximum number of iterations.
        trips: BufferId,
        /// `bool[]`: whether to begin.
        condition: BufferId,
        /// The trip count, as far as it is known before anything runs.
        course: Course,
        /// The initial carried values.
        carried: Vec<BufferId>,
        /// Passed to each iteration unchanged.
        captures: Vec<BufferId>,
        /// The block: `iteration, carried.., captures.. -> condition, carried.., stacked..`.
        body: BlockId,
        /// The last carried values, then the stacked ones.
        results: Vec<BufferId>,
        /// Symbols bound to the sizes of the results.
        #[serde(with = "crate::entity::list")]
        symbols: Vec<SymbolId>,
    },
    /// Ops computed by the interpreter; counted.
    Interpret {
        /// The operands.
        #[serde(with = "crate::entity::pairs")]
        inputs: Vec<(ValueId, BufferId)>,
        /// The results.
        #[serde(with = "crate::entity::pairs")]
        outputs: Vec<(ValueId, BufferId)>,
        /// Why it is not a kernel.
        reason: String,
        /// Symbols bound to the sizes of the results.
        #[serde(with = "crate::entity::list")]
        symbols: Vec<SymbolId>,
    },
}

/// A loop's trip count, as far as it is known before anything runs: what is known need not be read from a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// The trip count, if it is a size.
    pub trips: Option<SizeId>,
    /// Whether the loop begins, if its condition is a constant.
    pub begins: Option<bool>,
    /// Whether every iteration yields a constant true, so that the trip count alone ends the loop.
    pub goes_on: bool,
}

/// A launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// The kernel.
    pub kernel: KernelId,
    /// The buffers, in the kernel's order.
    pub operands: SmallVec<[BufferId; 6]>,
    /// The graph's value in each buffer, in the same order: its name in the ops of the step.
    #[serde(with = "crate::entity::list")]
    pub values: SmallVec<[ValueId; 6]>,
    /// The values of the kernel's symbols, in the order of its table.
    pub symbols: Vec<SizeId>,
}

impl Action {
    /// The display name of the kind of step.
    pub fn as_word(&self) -> &'static str {
        match self {
            Action::Kernel(_) => "kernel",
            Action::Builtin { .. } => "builtin",
            Action::Dims { .. } => "dims",
            Action::Bind { .. } => "bind",
            Action::If { .. } => "if",
            Action::Loop { .. } => "loop",
            Action::Interpret { .. } => "interpret",
        }
    }

    /// The buffers it reads, in a fixed order; an `inout` operand of a kernel is among the written ones.
    pub fn reads(&self, is_written: impl Fn(KernelId, usize) -> bool) -> Vec<BufferId> {
        match self {
            Action::Kernel(launch) => {
                let operands = launch.operands.iter().enumerate();
                operands
                    .filter(|(position, _)| !is_written(launch.kernel, *position))
                    .map(|(_, &buffer)| buffer)
                    .collect()
            }
            Action::Builtin { inputs, .. } => inputs.to_vec(),
            Action::Dims { .. } => Vec::new(),
            Action::Bind { data, .. } => vec![*data],
            Action::If {
                condition,
                captures,
                ..
            } => [*condition].iter().chain(captures).copied().collect(),
            Action::Loop {
                trips,
                condition,
                carried,
                captures,
                ..
            } => [*trips, *condition]
                .iter()
                .chain(carried)
                .chain(captures)
                .copied()
                .collect(),
            Action::Interpret { inputs, .. } => inputs.iter().map(|&(_, buffer)| buffer).collect(),
        }
    }

    /// The buffers it writes or provides, in a fixed order.
    pub fn writes(&self, is_written: impl Fn(KernelId, usize) -> bool) -> Vec<BufferId> {
        match self {
            Action::Kernel(launch) => {
                let operands = launch.operands.iter().enumerate();
                operands
                    .filter(|(position, _)| is_written(launch.kernel, *position))
                    .map(|(_, &buffer)| buffer)
                    .collect()
            }
            Action::Builtin { outputs, .. } => outputs.to_vec(),
            Action::Dims { output, .. } => vec![*output],
            Action::Bind { .. } => Vec::new(),
            Action::If { results, .. } | Action::Loop { results, .. } => results.clone(),
            Action::Interpret { outputs, .. } => {
                outputs.iter().map(|&(_, buffer)| buffer).collect()
            }
        }
    }

    /// Whether it makes sizes known, so that a segment ends with it.
    pub fn ends_segment(&self) -> bool {
        match self {
            Action::Bind { .. } => true,
            Action::If { symbols, .. }
            | Action::Loop { symbols, .. }
            | Action::Interpret { symbols, .. } => !symbols.is_empty(),
            Action::Kernel(_) | Action::Builtin { .. } | Action::Dims { .. } => false,
        }
    }
}
