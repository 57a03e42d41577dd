//! Winograd convolution of 3 x 3 windows: F(2x2, 3x3) and F(4x4, 3x3).
//!
//! Computed directly, a tile of 2 x 2 results takes 36 products per channel. From sixteen differences of the sixteen
//! elements that the four windows cover, and sixteen sums of the nine weights, it takes sixteen (Lavin, Gray: "Fast
//! algorithms for convolutional neural networks", 2015): one matrix product for each of sixteen *planes*. This module
//! decides which kernels qualify, and their sizes; the transforms are in the code generator.

use std::collections::BTreeSet;

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, is_multiple};
use kiln_kernel::{
    AxisId, Extent, Item, Node, NodeId, Reduction, Role, StageId, StageOperation, VerifiedKernel,
};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use crate::loops::{Factor, Size};
use crate::strides::bound;
use crate::tile::{Tile, VectorAxis};

/// Taps along an axis of the window.
pub const TAPS: usize = 3;

/// The dtype of images, weights and sums.
pub const ELEMENT: DType = DType::F32;

/// The minimum number of tiles in a strip: enough to amortise reading a plane's weights, and few enough for its
/// elements to fit the level-1 cache together with them.
const STRIP: u32 = 16;

/// Which Winograd transform: the sums along each axis of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transform {
    /// F(2x2, 3x3): sixteen products instead of 36, with the same error.
    #[default]
    TwoByTwo,
    /// F(4x4, 3x3): 36 products instead of 144, with a larger error.
    FourByFour,
}

impl Transform {
    /// The transform with `sums` sums along an axis.
    pub(crate) fn of_sums(sums: u32) -> Option<Self> {
        Self::FourByFour
            .and_smaller()
            .find(|transform| transform.sums() == sums)
    }

    /// This transform and the smaller ones.
    pub(crate) fn and_smaller(self) -> impl Iterator<Item = Self> {
        let all = [Self::FourByFour, Self::TwoByTwo].into_iter();
        all.filter(move |other| other.sums() <= self.sums())
    }

    /// Sums along an axis of a tile.
    pub const fn sums(self) -> u32 {
        match self {
            Self::TwoByTwo => 2,
            Self::FourByFour => 4,
        }
    }

    /// Elements along an axis that a tile reads.
    pub const fn side(self) -> u32 {
        self.sums() + TAPS as u32 - 1
    }

    /// Products of a tile for each channel.
    pub const fn planes(self) -> u32 {
        self.side() * self.side()
    }
}

/// An axis of the image, and the window's axis along it.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    /// The image's axis.
    pub image: AxisId,
    /// The window's axis.
    pub taps: AxisId,
}

/// The contraction that a kernel starts with: over a 3 x 3 window and channels, for each feature.
#[derive(Clone, Copy, Debug)]
pub struct Winograd {
    /// The stage that sums.
    pub stage: StageId,
    /// The image operand: this element,
    pub element: NodeId,
    /// times this constant.
    pub weight: NodeId,
    /// Lines of the image: the axis along which a tile has no rows.
    pub lines: Along,
    /// Columns of the image, which are the rows of tiles.
    pub columns: Along,
    /// The reduced axis other than those of the window.
    pub channels: AxisId,
    /// The vectorised axis of results.
    pub features: AxisId,
    /// The transform.
    pub transform: Transform,
}

impl Winograd {
    /// The convolution of a kernel whose tile has rows along the image, and vectors along the features. Channels and
    /// features are whole vectors.
    pub(crate) fn of(kernel: &VerifiedKernel, tile: &Tile, transform: Transform) -> Option<Self> {
        let (VectorAxis::Outer(features), Some((columns, _)), false) =
            (tile.vector, tile.rows, tile.spread)
        else {
            return None;
        };
        let Some(&Item::Stage(stage)) = kernel.items().first() else {
            return None;
        };
        let mut stores = kernel.info().stores.iter();
        if stores.any(|store| !store.serial.is_empty()) {
            // Strips are computed in any order.
            return None;
        }
        let (axes, factors) = products_of(kernel, stage)?;
        let dependence = Dependence::of(kernel);
        let is_weight = |node: NodeId| match kernel.node(node) {
            Node::Load(load) => {
                let mut outer = kernel.outer().iter();
                let is_of_feature =
                    |&axis: &AxisId| dependence.depends(node, axis) == (axis == features);
                kernel.buffer(load.buffer).role == Role::Const && outer.all(is_of_feature)
            }
            _ => false,
        };
        let (element, weight) = match factors.map(is_weight) {
            [false, true] => (factors[0], factors[1]),
            [true, false] => (factors[1], factors[0]),
            _ => return None,
        };
        let along = |image: AxisId| {
            let mut taps = axes.iter().copied().filter(|&axis| {
                size(kernel, axis) == Some(TAPS as i64) && dependence.depends(element, axis)
            });
            taps.find(|&taps| moves_alike(kernel, &dependence, element, [image, taps]))
                .map(|taps| Along { image, taps })
        };
        let columns = along(columns)?;
        let mut others = kernel.outer().iter().copied();
        let lines = others.find_map(|axis| {
            along(axis).filter(|lines| axis != columns.image && lines.taps != columns.taps)
        })?;
        let mut rest = axes.iter().copied();
        let channels = rest.find(|&axis| axis != lines.taps && axis != columns.taps)?;
        let is_shared = !dependence.depends(element, features);
        let is_whole = [channels, features].map(|axis| is_multiple(kernel, axis, tile.lanes));
        (is_shared && is_whole == [true; 2]).then_some(Self {
            stage,
            element,
            weight,
            lines,
            columns,
            channels,
            features,
            transform,
        })
    }

    /// The axes of the image.
    pub fn image(&self) -> [AxisId; 2] {
        [self.lines.image, self.columns.image]
    }

    /// Bytes of the transformed weights, which all tasks share.
    pub(crate) fn shared_bytes(&self, kernel: &VerifiedKernel) -> Quantity {
        let of_plane = bound(kernel, self.channels) * bound(kernel, self.features);
        of_plane * Quantity::constant(self.plane_elements_bytes())
    }

    /// Bytes of one element in each plane.
    fn plane_elements_bytes(&self) -> i64 {
        i64::from(self.transform.planes()) * ELEMENT.size_in_bytes() as i64
    }

    /// Bytes that a strip reads repeatedly: its transformed elements, and the weights of a tile's features.
    pub(crate) fn near_bytes(&self, tile: &Tile) -> Size {
        let rows = tile.rows.map_or(1, |(_, rows)| rows);
        let of_channel = strip_length(rows) + tile.lanes * tile.vectors;
        let bytes = self.plane_elements_bytes() * i64::from(of_channel);
        Size::product(bytes, [Factor::Axis(self.channels)])
    }
}

/// The three axes of a sum of products, and the factors.
fn products_of(kernel: &VerifiedKernel, stage: StageId) -> Option<(&[AxisId], [NodeId; 2])> {
    let stage = kernel.stage(stage);
    let (
        StageOperation::Reduce {
            reduction: Reduction::Add,
            axes,
            accumulator: ELEMENT,
        },
        Node::Apply {
            op: ScalarOp::Mul,
            operands,
        },
    ) = (&stage.operation, kernel.node(stage.value))
    else {
        return None;
    };
    let factors = <[NodeId; 2]>::try_from(operands.as_slice()).ok()?;
    let is_plain = stage.axes.is_empty() && kernel.dtype(stage.value) == ELEMENT;
    (is_plain && axes.len() == TAPS).then_some((axes.as_slice(), factors))
}

/// Whether a value changes equally with one step along either of two axes.
fn moves_alike(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    value: NodeId,
    axes: [AxisId; 2],
) -> bool {
    let mut pending = vec![value];
    let mut seen = BTreeSet::new();
    while let Some(node) = pending.pop() {
        let depends = axes.map(|axis| dependence.depends(node, axis));
        if depends == [false; 2] || !seen.insert(node) {
            continue;
        }
        match kernel.node(node) {
            Node::Load(load) => {
                // The alternative value outside the image must move as the image does.
                pending.extend(load.guard.as_ref().map(|guard| guard.otherwise));
                let is_choosy = load
                    .guard
                    .as_ref()
                    .is_some_and(|guard| guard.when.is_some());
                let mut indices = load.indices.iter();
                let is_alike = indices.all(|&index| {
                    let [one, other] = axes.map(|axis| dependence.step_along(kernel, index, axis));
                    one.is_some() && one == other
                });
                if is_choosy || !is_alike {
                    return false;
                }
            }
            Node::Apply { operands, .. } | Node::Call { operands, .. } => {
                pending.extend(operands.iter().copied());
            }
            _ => return false,
        }
    }
    true
}

/// The points of an axis, if they are constant.
fn size(kernel: &VerifiedKernel, axis: AxisId) -> Option<i64> {
    match kernel.axis(axis).extent {
        Extent::Size(size) => kernel.dims().as_constant(size),
        Extent::Clamped { .. } => None,
    }
}

/// Tiles in a strip: whole register tiles of `rows`.
pub const fn strip_length(rows: u32) -> u32 {
    STRIP.next_multiple_of(rows)
}
