//! The numbers of a launch, evaluated once per combination of sizes.

use kiln_kernel::{Artifact, LaunchContext, PhaseLaunch, Quantity, QuantityError};

use crate::error::RuntimeError;

/// What a launch of an artifact needs beside its buffers.
#[derive(Clone, Debug)]
pub(crate) struct LaunchNumbers {
    /// Bytes that the code may touch of each buffer.
    pub(crate) bytes: Vec<usize>,
    pub(crate) arguments: Vec<i64>,
    pub(crate) phases: Vec<PhaseLaunch>,
    pub(crate) shared_scratch: usize,
}

impl LaunchNumbers {
    /// Evaluates an artifact's quantities.
    pub(crate) fn of(artifact: &Artifact, ctx: &LaunchContext<'_>) -> Result<Self, RuntimeError> {
        let failed = |error| RuntimeError::Launch {
            kernel: format!("kernel @{}", artifact.kernel),
            error,
        };
        let value = |quantity: &Quantity| quantity.evaluate(ctx);
        // A number of bytes or tasks below 0 stands for nothing to do.
        let size = |quantity: &Quantity| -> Result<usize, QuantityError> {
            Ok(usize::try_from(value(quantity)?.max(0)).unwrap_or(usize::MAX))
        };
        let phase = |phase: &kiln_kernel::Phase| {
            Ok(PhaseLaunch {
                tasks: value(&phase.tasks)?.max(0).unsigned_abs(),
                scratch: size(&phase.scratch)?,
            })
        };
        let numbers = || {
            Ok(Self {
                bytes: artifact
                    .buffers
                    .iter()
                    .map(|buffer| size(&buffer.bytes))
                    .collect::<Result<_, _>>()?,
                arguments: artifact
                    .arguments
                    .iter()
                    .map(value)
                    .collect::<Result<_, _>>()?,
                phases: artifact
                    .phases
                    .iter()
                    .map(phase)
                    .collect::<Result<_, _>>()?,
                shared_scratch: size(&artifact.shared_scratch)?,
            })
        };
        numbers().map_err(failed)
    }
}
