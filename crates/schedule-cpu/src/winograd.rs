//! Windows of three by three that are summed with fewer products: Winograd's F(2x2, 3x3) and F(4x4, 3x3).
//!
//! Two by two neighbouring sums of nine products each are 36 products for every channel. From sixteen differences of the
//! sixteen elements that the four windows cover, and as many sums of the nine weights, it takes sixteen (Lavin, Gray:
//! "Fast algorithms for convolutional neural networks", 2015): for each *plane*, one of the sixteen, a product of matrices.
//! Here is which kernels these are, and what they take; what elements and weights become is the emitter's matter.

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

/// The fewest tiles in a strip: with as many, a plane's weights are not read too often, and its elements still fit the
/// level-1 cache beside them.
const STRIP: u32 = 16;

/// Sums along each axis of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transform {
    /// Sixteen products instead of 36, at the same error.
    #[default]
    TwoByTwo,
    /// 36 products instead of 144, at a larger error.
    FourByFour,
}

impl Transform {
    /// The transform with `sums` sums along an axis.
    pub(crate) fn of_sums(sums: u32) -> Option<Self> {
        Self::FourByFour
            .and_smaller()
            .find(|transform| transform.sums() == sums)
    }

    /// This, and those with fewer sums.
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

/// An axis of the image, and that of the window along it.
#[derive(Clone, Copy, Debug)]
pub struct Along {
    /// That of the image.
    pub image: AxisId,
    /// That of the window.
    pub taps: AxisId,
}

/// The sum that a kernel begins with, over a window of three by three and channels, for each feature.
#[derive(Clone, Copy, Debug)]
pub struct Winograd {
    /// The stage that sums.
    pub stage: StageId,
    /// What is summed: this element of an image,
    pub element: NodeId,
    /// times this constant.
    pub weight: NodeId,
    /// Lines of the image: those of an axis of which a tile has no rows.
    pub lines: Along,
    /// Its columns, which are the rows of tiles.
    pub columns: Along,
    /// What is summed besides the window.
    pub channels: AxisId,
    /// What vectors of results run along.
    pub features: AxisId,
    /// How many sums a tile has.
    pub transform: Transform,
}

impl Winograd {
    /// Of a kernel with a tile whose rows are along the image, and whose vectors are along the features. Channels and
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
            // Strips are done in any order.
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

    /// Bytes of the sums of weights, which all tasks share.
    pub(crate) fn shared_bytes(&self, kernel: &VerifiedKernel) -> Quantity {
        let of_plane = bound(kernel, self.channels) * bound(kernel, self.features);
        of_plane * Quantity::constant(self.plane_elements_bytes())
    }

    /// Bytes of one element in each plane.
    fn plane_elements_bytes(&self) -> i64 {
        i64::from(self.transform.planes()) * ELEMENT.size_in_bytes() as i64
    }

    /// Bytes that a strip reads again and again: its differences, and the weights of a tile's features.
    pub(crate) fn near_bytes(&self, tile: &Tile) -> Size {
        let rows = tile.rows.map_or(1, |(_, rows)| rows);
        let of_channel = strip_length(rows) + tile.lanes * tile.vectors;
        let bytes = self.plane_elements_bytes() * i64::from(of_channel);
        Size::product(bytes, [Factor::Axis(self.channels)])
    }
}

/// The axes of a sum of products over three of them, and the factors.
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

/// Whether a value is the same at one more point of an axis as at one more of another.
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
                // What is there instead, outside of the image, must move as the image does.
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

/// The points of an axis, where they are known.
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
