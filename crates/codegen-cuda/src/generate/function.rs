//! A function of the generated source: the code of one phase.

use kiln_backend::Quantity;

use super::index_width::IndexWidth;
use super::lowering::Lowering;
use crate::container::GemmEntry;

/// A phase's code, with the numbers of its launch.
#[derive(Clone, Debug)]
pub(super) struct Function {
    /// The statements for task `t`, which a loop over tasks encloses.
    pub(super) body: String,
    /// Threads of a block.
    pub(super) threads: u32,
    /// The number of tasks, one per block.
    pub(super) tasks: Quantity,
    /// Bytes of dynamic shared memory of a block.
    pub(super) shared: Quantity,
    /// Bytes of scratch that all blocks share.
    pub(super) scratch: Quantity,
    /// The library call that replaces it, if there is one.
    pub(super) gemm: Option<GemmEntry>,
    /// The type in which it computes offsets.
    pub(super) index: IndexWidth,
}

impl Function {
    /// A call of a library, made if `tasks` is not 0.
    pub(super) fn of_library(gemm: GemmEntry, tasks: Quantity) -> Self {
        Self {
            body: String::new(),
            threads: 1,
            tasks,
            shared: Quantity::constant(0),
            scratch: Quantity::constant(0),
            gemm: Some(gemm),
            index: IndexWidth::Wide,
        }
    }

    /// The same with tasks and scratch only if a number is 1, and not if it is 0.
    pub(super) fn only_when(self, condition: &Quantity) -> Self {
        Self {
            tasks: self.tasks * condition.clone(),
            scratch: self.scratch * condition.clone(),
            ..self
        }
    }
}

/// A function before its body is complete.
#[derive(Clone, Debug)]
pub(super) struct FunctionParts {
    threads: u32,
    tasks: Quantity,
    shared: Quantity,
    scratch: Quantity,
}

impl FunctionParts {
    /// A function without memory of its own.
    pub(super) fn new(threads: u32, tasks: Quantity) -> Self {
        Self {
            threads,
            tasks,
            shared: Quantity::constant(0),
            scratch: Quantity::constant(0),
        }
    }

    /// The same with shared memory per block, in bytes.
    pub(super) fn with_shared(self, shared: Quantity) -> Self {
        Self { shared, ..self }
    }

    /// The same with scratch that all blocks share, in bytes.
    pub(super) fn with_shared_scratch(self, scratch: Quantity) -> Self {
        Self { scratch, ..self }
    }

    /// Makes a function from the text written since the last one.
    pub(super) fn finish(self, lowering: &Lowering<'_>) -> Function {
        Function {
            body: lowering.take(),
            threads: self.threads,
            tasks: self.tasks,
            shared: self.shared,
            scratch: self.scratch,
            gemm: None,
            index: IndexWidth::Wide,
        }
    }
}
