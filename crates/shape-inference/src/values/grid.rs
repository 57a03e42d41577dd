//! A small tensor of elements, with its concrete shape.

use crate::context::InferenceContext;
use crate::known::{Element, KNOWN_LIMIT, KnownValue};
use crate::node::OpView;
use kiln_ir::{TensorType, ValueId};
use smallvec::SmallVec;

/// Sizes of a small tensor.
pub(super) type GridShape = SmallVec<[usize; 4]>;

/// A tensor of known sizes and at most [`KNOWN_LIMIT`] elements, each known or not.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) sizes: GridShape,
    elements: Option<KnownValue>,
}

impl Grid {
    /// Operand `index`, if its sizes are known and small.
    pub(super) fn of_operand(
        ctx: &InferenceContext<'_>,
        node: &OpView<'_>,
        index: usize,
    ) -> Option<Self> {
        let value: ValueId = *node.operands.get(index)?;
        let elements = ctx.known(value).cloned();
        let sizes = small_sizes(ctx, ctx.ty(value).as_tensor()?)?;
        Some(Self { sizes, elements })
    }

    /// Whether any element is known.
    pub(super) fn is_known(&self) -> bool {
        self.elements.is_some()
    }

    /// The element at a position, one index per axis.
    pub(super) fn at(&self, position: &[usize]) -> Element {
        let flat = self
            .sizes
            .iter()
            .zip(position)
            .fold(0, |flat, (size, index)| flat * size + index);
        self.elements
            .as_ref()
            .map_or(Element::Unknown, |elements| elements.element(flat))
    }

    /// The element at `position` of a larger shape when this one is broadcast to it.
    pub(super) fn broadcast_at(&self, position: &[usize]) -> Element {
        let skipped = position.len().saturating_sub(self.sizes.len());
        let own = position.iter().skip(skipped).zip(&self.sizes);
        let own: GridShape = own
            .map(|(&index, &size)| if size == 1 { 0 } else { index })
            .collect();
        self.at(&own)
    }
}

/// The sizes of a type, if they are constants with at most [`KNOWN_LIMIT`] elements.
pub(super) fn small_sizes(ctx: &InferenceContext<'_>, ty: &TensorType) -> Option<GridShape> {
    let mut sizes = GridShape::with_capacity(ty.rank());
    let mut elements = 1_usize;
    for &dim in &ty.dims {
        let size = usize::try_from(ctx.dims().as_constant(dim)?).ok()?;
        elements = elements.checked_mul(size)?;
        sizes.push(size);
    }
    (elements <= KNOWN_LIMIT).then_some(sizes)
}

/// The elements computed by `element` for every position of `sizes`, in row-major order.
pub(super) fn tabulate(
    sizes: &[usize],
    mut element: impl FnMut(&[usize]) -> Element,
) -> Option<KnownValue> {
    let count: usize = sizes.iter().product();
    let mut elements = Vec::with_capacity(count);
    let mut position: GridShape = sizes.iter().map(|_| 0).collect();
    for _ in 0..count {
        elements.push(element(&position));
        for (index, &size) in position.iter_mut().zip(sizes).rev() {
            *index += 1;
            if *index < size {
                break;
            }
            *index = 0;
        }
    }
    KnownValue::new(elements)
}
