//! The elements of values that are known at compile time: sizes that are computed as data.
//!
//! Small integer and bool tensors are known as expressions (a bool is 0 or 1), so that ONNX's
//! `Shape -> Gather -> Concat -> Reshape` vanishes. Floats are known as ratios where exporters round
//! sizes through them (`floor(cast(H) * 0.5)`).
//!
//! Invariant: a known element equals what the op computes on every call that satisfies the contract facts; where that could
//! not be shown, the element is unknown.

use kiln_symbolic_shape::DimId;
use smallvec::SmallVec;

/// The maximum number of elements of a tensor that are tracked.
pub const KNOWN_LIMIT: usize = 256;

/// What is known about one element.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Element {
    /// The element is unknown.
    #[default]
    Unknown,
    /// An integer or bool.
    Dim(DimId),
    /// A float.
    Ratio(Ratio),
}

impl Element {
    /// The integer, if it is known.
    pub fn as_dim(&self) -> Option<DimId> {
        match self {
            Self::Dim(dim) => Some(*dim),
            Self::Unknown | Self::Ratio(_) => None,
        }
    }
}

/// A float that is the quotient of integers, rounded at most once.
///
/// It equals the computed float as long as every entry of `exact` is an integer that the float's dtype represents exactly;
/// the code that converts it back into an integer ensures that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// The numerator.
    pub numerator: DimId,
    /// The denominator, positive.
    pub denominator: i64,
    /// Integers that must be exact in the dtype: the numerators of all steps.
    pub exact: SmallVec<[DimId; 2]>,
}

/// What is known about a tensor's elements, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownValue {
    /// Every element, as an integer or bool.
    Dims(Vec<DimId>),
    /// Some elements, or floats.
    Partial(Vec<Element>),
}

impl KnownValue {
    /// Wraps elements; `None` when there are too many or all are unknown.
    pub fn new(elements: Vec<Element>) -> Option<Self> {
        if elements.len() > KNOWN_LIMIT {
            return None;
        }
        if let Some(dims) = elements.iter().map(Element::as_dim).collect() {
            return Some(Self::Dims(dims));
        }
        let known = elements.iter().any(|element| *element != Element::Unknown);
        known.then_some(Self::Partial(elements))
    }

    /// The elements as integers, if all are known.
    pub fn as_dims(&self) -> Option<&[DimId]> {
        match self {
            Self::Dims(dims) => Some(dims),
            Self::Partial(_) => None,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Dims(dims) => dims.len(),
            Self::Partial(elements) => elements.len(),
        }
    }

    /// Whether the tensor has no elements, in which case there is nothing to know.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a row-major index; unknown beyond the end.
    pub fn element(&self, index: usize) -> Element {
        match self {
            Self::Dims(dims) => dims
                .get(index)
                .map_or(Element::Unknown, |&dim| Element::Dim(dim)),
            Self::Partial(elements) => elements.get(index).cloned().unwrap_or_default(),
        }
    }

    /// The elements.
    pub fn elements(&self) -> impl Iterator<Item = Element> + '_ {
        (0..self.len()).map(|index| self.element(index))
    }
}
