//! The errors reported for an invalid kernel.

use std::fmt;

use kiln_scalar::ScalarError;
use kiln_tensor::DType;

/// An error of the kernel form.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// E0215: an id that the kernel does not have.
    #[error("expected a {kind} of this kernel, found number {index}")]
    Unknown {
        /// The kind of id.
        kind: &'static str,
        /// Its number.
        index: usize,
    },
    /// E0216: a wrong number of indices.
    #[error("expected {expected} indices of {what}, found {found}")]
    IndexCount {
        /// What is indexed.
        what: String,
        /// The number of its axes.
        expected: usize,
        /// The number of indices given.
        found: usize,
    },
    /// E0217: an operation on operands of dtypes that it does not accept.
    #[error("expected operands that `{op}` takes, found {found:?}")]
    OperandTypes {
        /// The operation.
        op: &'static str,
        /// The operands' dtypes.
        found: Vec<DType>,
    },
    /// E0218: a value of the wrong dtype.
    #[error("expected {expected} for {what}, found {found}")]
    DType {
        /// What the value is for.
        what: &'static str,
        /// The dtype it must have.
        expected: DType,
        /// The dtype it has.
        found: DType,
    },
    /// E0219: a number that a dtype cannot represent.
    #[error("expected a number that {dtype} can represent, found {value}")]
    Literal {
        /// The number.
        value: f64,
        /// The dtype.
        dtype: DType,
    },
    /// E0220: a named function does not accept these operands or parameters.
    #[error("invalid call of `{function}`: {source}")]
    Scalar {
        /// The function.
        function: &'static str,
        /// The reason.
        source: ScalarError,
    },
    /// E0221: a `carry` block inside another.
    #[error("expected the carry block to end before the next begins")]
    NestedCarry,
    /// E0222: the end of a `carry` block that did not begin.
    #[error("expected a carry block to end, found none open")]
    NoCarry,
    /// E0223: a `carry` block that did not end.
    #[error("expected the carry block to end before the kernel does")]
    OpenCarry,
    /// E0230: the same name for two entities that are in scope together.
    #[error("expected one {kind} named {name}, found two")]
    Name {
        /// The kind of entity.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// E0231: an axis over which no loop, or more than one, runs.
    #[error("expected one stage, store or block that runs over axis {axis}, found {found}")]
    AxisBinders {
        /// The axis.
        axis: String,
        /// The number of loops over it.
        found: usize,
    },
    /// E0232: an index along an axis outside of the loop over it.
    #[error("expected an axis that {place} runs over or lies within, found {axis}")]
    AxisScope {
        /// Where.
        place: String,
        /// The axis.
        axis: String,
    },
    /// E0233: a stage is read at a point at which it has no value.
    #[error("expected a stage that {place} can read with `{access}`, found {stage}: {reason}")]
    StageScope {
        /// Where.
        place: String,
        /// How it is read: as a local, `prev`, `last`.
        access: &'static str,
        /// The stage.
        stage: String,
        /// The reason.
        reason: &'static str,
    },
    /// E0234: a stage that is not computed at exactly one place.
    #[error("expected stage {stage} to be computed once, found {found} places")]
    StagePlaces {
        /// The stage.
        stage: String,
        /// The number of places.
        found: usize,
    },
    /// E0235: an extent that is not a plain size where one is required.
    #[error(
        "expected a size for the extent of axis {axis}, found a clamped value; only reduced axes and the steps of a block may have one"
    )]
    ClampedExtent {
        /// The axis.
        axis: String,
    },
    /// E0236: a reduction over no axis, or an arg-reduction over several.
    #[error("expected {expected} for stage {stage} to reduce over, found {found}")]
    ReducedAxes {
        /// The stage.
        stage: String,
        /// The required number.
        expected: &'static str,
        /// The actual number.
        found: usize,
    },
    /// E0237: a reduction of values of a dtype that it does not accept.
    #[error(
        "expected values that `{reduction}` combines in {accumulator} for stage {stage}, found {found}"
    )]
    ReducedType {
        /// The stage.
        stage: String,
        /// The reduction.
        reduction: &'static str,
        /// The accumulator's dtype.
        accumulator: DType,
        /// The dtype of the values.
        found: DType,
    },
    /// E0238: arithmetic in a half-precision dtype.
    #[error(
        "expected `{op}` in {place} to be computed in f32, found {dtype}; cast its operands and its result"
    )]
    HalfArithmetic {
        /// Where.
        place: String,
        /// The operation.
        op: &'static str,
        /// The dtype.
        dtype: DType,
    },
    /// E0239: a buffer used in a way that its role does not allow.
    #[error("expected {expected} for {place}, found %{buffer}, which is `{role}`")]
    Role {
        /// Where.
        place: String,
        /// Which roles it may have.
        expected: &'static str,
        /// The buffer.
        buffer: String,
        /// Its role.
        role: &'static str,
    },
    /// E0240: a combining store whose operation does not exist for the dtype.
    #[error("expected numbers that a store combines with `{combine}`, found {dtype} in %{buffer}")]
    CombineType {
        /// The combining operation.
        combine: &'static str,
        /// The buffer.
        buffer: String,
        /// Its dtype.
        dtype: DType,
    },
    /// E0241: strides that do not fit a buffer.
    #[error("expected {expected} of %{buffer}, found {found}")]
    Strides {
        /// The buffer.
        buffer: String,
        /// What is expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// E0242: an index of a local that may be out of bounds.
    #[error(
        "expected index {position} of stage {stage} to be proved below {extent}, found one that may not be; clamp it, or make the stage a buffer"
    )]
    LocalIndex {
        /// The stage.
        stage: String,
        /// Which index.
        position: usize,
        /// The extent of the stage's axis.
        extent: String,
    },
    /// E0243: stores that are not proved to write each element exactly once.
    #[error("expected the stores to %{buffer} to write each element once, found {reason}")]
    Coverage {
        /// The buffer.
        buffer: String,
        /// What is wrong, or not proved.
        reason: String,
    },
    /// E0244: a kernel that exceeds a limit of the verifier.
    #[error("expected at most {limit} {what}, found {given}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The actual number.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// E0245: an `init` that is missing, or not allowed.
    #[error("expected {expected} for stage {stage}")]
    Init {
        /// The stage.
        stage: String,
        /// What is expected.
        expected: &'static str,
    },
}

/// Every error that the verifier reports for a kernel, up to a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelErrors {
    /// The kernel's name.
    pub kernel: String,
    /// What is wrong, in the order of the kernel; at least one.
    pub errors: Vec<KernelError>,
}

impl std::error::Error for KernelErrors {}

impl fmt::Display for KernelErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kernel @{} is not valid", self.kernel)?;
        for error in &self.errors {
            write!(formatter, "\n  {}: {error}", error.code())?;
        }
        Ok(())
    }
}

impl KernelError {
    pub(crate) fn unknown(kind: &'static str, index: usize) -> Self {
        Self::Unknown { kind, index }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "E0215",
            Self::IndexCount { .. } => "E0216",
            Self::OperandTypes { .. } => "E0217",
            Self::DType { .. } => "E0218",
            Self::Literal { .. } => "E0219",
            Self::Scalar { .. } => "E0220",
            Self::NestedCarry => "E0221",
            Self::NoCarry => "E0222",
            Self::OpenCarry => "E0223",
            Self::Name { .. } => "E0230",
            Self::AxisBinders { .. } => "E0231",
            Self::AxisScope { .. } => "E0232",
            Self::StageScope { .. } => "E0233",
            Self::StagePlaces { .. } => "E0234",
            Self::ClampedExtent { .. } => "E0235",
            Self::ReducedAxes { .. } => "E0236",
            Self::ReducedType { .. } => "E0237",
            Self::HalfArithmetic { .. } => "E0238",
            Self::Role { .. } => "E0239",
            Self::CombineType { .. } => "E0240",
            Self::Strides { .. } => "E0241",
            Self::LocalIndex { .. } => "E0242",
            Self::Coverage { .. } => "E0243",
            Self::Limit { .. } => "E0244",
            Self::Init { .. } => "E0245",
        }
    }
}
