//! The size-dependent numbers of a launch, evaluated once per combination of sizes: [`LaunchNumbers`].

use crate::artifact::{Artifact, ArtifactParts, Phase};
use crate::condition::Condition;
use crate::quantity::{LaunchContext, Quantities, Quantity, QuantityError};

/// The size-dependent numbers of a launch of an artifact. Only [`Artifact::numbers`] makes them, so they are derived from
/// its parts for sizes that satisfy its contract.
///
/// ```compile_fail,E0451
/// fn shorter(numbers: kiln_backend::LaunchNumbers) -> kiln_backend::LaunchNumbers {
///     kiln_backend::LaunchNumbers { bytes: Vec::new(), ..numbers }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct LaunchNumbers {
    artifact: Artifact,
    bytes: Vec<usize>,
    arguments: Vec<i64>,
    phases: Vec<PhaseNumbers>,
    shared_scratch: usize,
}

/// The numbers of one phase of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseNumbers {
    /// The number of tasks.
    pub tasks: u64,
    /// Bytes of scratch per task.
    pub scratch: usize,
}

/// Why a launch's numbers could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumbersError {
    /// A number has no value.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// E0228: the sizes violate the artifact's contract.
    #[error("expected sizes that the code was compiled for, with {condition}, found {found}")]
    Contract {
        /// The violated condition, over the kernel's symbols `n0`, `n1`, ….
        condition: String,
        /// The value of its number.
        found: i64,
    },
}

impl NumbersError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Quantity(error) => error.code(),
            Self::Contract { .. } => "E0228",
        }
    }
}

impl LaunchNumbers {
    /// The artifact that they belong to.
    #[inline]
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Bytes that the code may access from each buffer's start, in the kernel's order.
    #[inline]
    pub fn bytes(&self) -> &[usize] {
        &self.bytes
    }

    /// The artifact's `arguments`.
    #[inline]
    pub fn arguments(&self) -> &[i64] {
        &self.arguments
    }

    /// The numbers of the artifact's phases.
    #[inline]
    pub fn phases(&self) -> &[PhaseNumbers] {
        &self.phases
    }

    /// Bytes of scratch shared by all tasks.
    #[inline]
    pub fn shared_scratch(&self) -> usize {
        self.shared_scratch
    }

    /// Evaluates an artifact's quantities, which were combined as `together` if none is damaged.
    pub(crate) fn of(
        artifact: &Artifact,
        together: Option<&Quantities>,
        context: &LaunchContext<'_>,
    ) -> Result<Self, NumbersError> {
        let values = together.and_then(|together| together.evaluate(context));
        let values = match values {
            Some(values) => values,
            // They are evaluated one by one, to report which has no value.
            None => quantities(artifact)
                .map(|quantity| quantity.evaluate(context))
                .collect::<Result<_, _>>()?,
        };
        let mut values = values.into_iter();
        let mut next = || values.next().ok_or(QuantityError::Malformed);
        for condition in &artifact.contract {
            let found = next()?;
            if !condition.holds(found) {
                return Err(NumbersError::Contract {
                    condition: condition.to_string(),
                    found,
                });
            }
        }
        let arguments = artifact
            .arguments
            .iter()
            .map(|_| next())
            .collect::<Result<_, _>>()?;
        // A negative number of bytes or tasks means that there is nothing to do.
        let mut size =
            || Ok::<_, QuantityError>(usize::try_from(next()?.max(0)).unwrap_or(usize::MAX));
        let bytes = artifact
            .buffers
            .iter()
            .map(|_| size())
            .collect::<Result<_, _>>()?;
        let phases = artifact.phases.iter().map(|_| {
            Ok::<_, QuantityError>(PhaseNumbers {
                tasks: size()? as u64,
                scratch: size()?,
            })
        });
        let phases = phases.collect::<Result<_, _>>()?;
        Ok(Self {
            artifact: artifact.clone(),
            bytes,
            arguments,
            phases,
            shared_scratch: size()?,
        })
    }
}

/// Every quantity of an artifact, in the order in which [`LaunchNumbers::of`] splits their values.
pub(crate) fn quantities(parts: &ArtifactParts) -> impl Iterator<Item = &Quantity> {
    let conditions = parts.contract.iter().map(Condition::quantity);
    let bytes = parts.buffers.iter().map(|buffer| &buffer.bytes);
    let phases = parts.phases.iter();
    let phases = phases.flat_map(|Phase { tasks, scratch, .. }| [tasks, scratch]);
    let shared = std::iter::once(&parts.shared_scratch);
    let arguments = parts.arguments.iter();
    conditions
        .chain(arguments)
        .chain(bytes)
        .chain(phases)
        .chain(shared)
}
