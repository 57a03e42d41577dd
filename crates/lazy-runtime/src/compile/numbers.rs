//! The numbers of a launch, evaluated once per combination of sizes.

use kiln_backend::{Artifact, LaunchContext, PhaseLaunch, Quantities, Quantity, QuantityError};

use super::CompiledKernel;
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
    /// Evaluates the quantities of a kernel's artifact.
    pub(crate) fn of(
        compiled: &CompiledKernel,
        ctx: &LaunchContext<'_>,
    ) -> Result<Self, RuntimeError> {
        let together = compiled
            .quantities
            .get_or_init(|| Quantities::new(quantities(&compiled.artifact)));
        let values = together
            .as_ref()
            .and_then(|together| together.evaluate(ctx));
        let numbers = values.and_then(|values| Self::of_values(&compiled.artifact, &values));
        match numbers {
            Some(numbers) => Ok(numbers),
            None => Self::one_by_one(&compiled.artifact, ctx),
        }
    }

    /// From the values of the artifact's quantities, in their order.
    fn of_values(artifact: &Artifact, values: &[i64]) -> Option<Self> {
        let (arguments, sizes) = values.split_at_checked(artifact.arguments.len())?;
        // A number of bytes or tasks below 0 stands for nothing to do.
        let mut sizes = sizes.iter().map(|&value| value.max(0));
        let size = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        let bytes = sizes
            .by_ref()
            .take(artifact.buffers.len())
            .map(size)
            .collect();
        let phases = artifact.phases.iter().map(|_| {
            Some(PhaseLaunch {
                tasks: sizes.next()?.unsigned_abs(),
                scratch: size(sizes.next()?),
            })
        });
        let phases = phases.collect::<Option<_>>()?;
        let shared_scratch = size(sizes.next()?);
        Some(Self {
            bytes,
            arguments: arguments.to_vec(),
            phases,
            shared_scratch,
        })
    }

    /// As [`of`](Self::of), saying what has no value.
    fn one_by_one(artifact: &Artifact, ctx: &LaunchContext<'_>) -> Result<Self, RuntimeError> {
        let failed = |error| RuntimeError::Launch {
            kernel: format!("kernel @{}", artifact.kernel),
            error,
        };
        let value = |quantity: &Quantity| quantity.evaluate(ctx);
        // A number of bytes or tasks below 0 stands for nothing to do.
        let size = |quantity: &Quantity| -> Result<usize, QuantityError> {
            Ok(usize::try_from(value(quantity)?.max(0)).unwrap_or(usize::MAX))
        };
        let phase = |phase: &kiln_backend::Phase| {
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

/// Every quantity of an artifact, in the order in which their values are taken apart again.
fn quantities(artifact: &Artifact) -> impl Iterator<Item = &Quantity> {
    let bytes = artifact.buffers.iter().map(|buffer| &buffer.bytes);
    let phases = artifact.phases.iter();
    let phases = phases.flat_map(|phase| [&phase.tasks, &phase.scratch]);
    let shared = std::iter::once(&artifact.shared_scratch);
    artifact
        .arguments
        .iter()
        .chain(bytes)
        .chain(phases)
        .chain(shared)
}
