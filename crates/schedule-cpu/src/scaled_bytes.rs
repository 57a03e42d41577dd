//! Sums of products of scaled bytes: floats that are bytes times a scale, such as quantised weights and activations.
//!
//! If only the bytes vary along the innermost reduced axis, their products are summed as integers, four at a time, and
//! each sum is scaled once: `sum(x * (w - zero) * scale) = (sum(x * w) - zero * sum(x)) * scale`. Sums of integers are
//! exact, so the result is the sum of floats up to rounding.
//!
//! One factor is signed, the other unsigned and at most [`LARGEST`], so that two products fit in 16 bits: the sums are
//! the same on all levels that have products of bytes.

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::{Dependence, GuardedIndex, is_multiple};
use kiln_kernel::{
    AxisId, BufferId, Node, NodeId, Reduction, StageId, StageOperation, VerifiedKernel,
};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

/// The largest unsigned byte.
const LARGEST: u32 = 127;

/// Steps of the reduced axis that are summed at once.
const FOURS: u32 = 4;

/// A sum of products of scaled bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledBytes {
    /// The signed factor: a load, or any other value, of `i8`.
    pub signed: NodeId,
    /// The unsigned factor.
    pub unsigned: UnsignedByte,
    /// The offset of the unsigned factor, before it is scaled.
    pub offset: Option<Offset>,
    /// The floats by which a sum is multiplied.
    pub scales: Vec<NodeId>,
}

/// A float that is added to a factor, or subtracted from it, and does not vary along the reduced axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The float.
    pub value: NodeId,
    /// Whether it is subtracted.
    pub is_subtracted: bool,
}

/// A byte that is loaded, shifted and masked.
#[derive(Clone, Debug, PartialEq)]
pub struct UnsignedByte {
    /// A load of `u8`.
    pub load: NodeId,
    /// The steps applied to it, in order.
    pub steps: Vec<ByteStep>,
}

/// A step from one byte to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteStep {
    /// Only these bits remain.
    Mask(u8),
    /// Shifted right, by an integer that is the same in all lanes and at all steps of the reduced axis.
    Shift(NodeId),
}

impl ScaledBytes {
    /// The parts of a stage's sum, if it has this form, along an axis that is a multiple of four.
    pub fn of(kernel: &VerifiedKernel, dependence: &Dependence, stage: StageId) -> Option<Self> {
        let stage = kernel.stage(stage);
        let StageOperation::Reduce {
            reduction: Reduction::Add,
            accumulator: DType::F32,
            axes,
        } = &stage.operation
        else {
            return None;
        };
        let (&along, value) = (axes.last()?, stage.value);
        if !is_multiple(kernel, along, FOURS) || !GuardedIndex::below(kernel, value).is_empty() {
            return None;
        }
        let varies = |node| dependence.depends(node, along);
        let (mut signed, mut unsigned, mut scales) = (None, None, Vec::new());
        let mut pending = vec![value];
        while let Some(factor) = pending.pop() {
            if kernel.dtype(factor) != DType::F32 {
                return None;
            }
            if !varies(factor) {
                scales.push(factor);
                continue;
            }
            let (op, operands) = applied(kernel, factor)?;
            match (op, operands) {
                (ScalarOp::Mul, &[left, right]) => pending.extend([right, left]),
                (ScalarOp::Cast(DType::F32), &[byte])
                    if kernel.dtype(byte) == DType::I8 && signed.is_none() =>
                {
                    signed = Some(byte);
                }
                _ if unsigned.is_none() => {
                    unsigned = Some(offset_byte(kernel, (dependence, along), op, operands)?);
                }
                _ => return None,
            }
        }
        let (unsigned, offset) = unsigned?;
        Some(Self {
            signed: signed?,
            unsigned,
            offset,
            scales,
        })
    }

    /// The buffer of the unsigned factor.
    pub fn unsigned_buffer(&self, kernel: &VerifiedKernel) -> Option<BufferId> {
        match kernel.node(self.unsigned.load) {
            Node::Load(load) => Some(load.buffer),
            _ => None,
        }
    }
}

impl UnsignedByte {
    /// An integer derived from a byte, with its largest value.
    fn of(
        kernel: &VerifiedKernel,
        (dependence, along): (&Dependence, AxisId),
        node: NodeId,
    ) -> Option<(Self, u32)> {
        let is_shared = |node| {
            let mut outer = kernel.outer().iter();
            !dependence.depends(node, along) && !outer.any(|&axis| dependence.depends(node, axis))
        };
        let mut steps = Vec::new();
        let mut node = node;
        loop {
            if let Node::Load(load) = kernel.node(node) {
                let is_byte = kernel.dtype(node) == DType::U8 && load.guard.is_none();
                // From the load on.
                steps.reverse();
                let largest = steps.iter().fold(255, |largest, step| match *step {
                    ByteStep::Mask(mask) => u32::from(mask).min(largest),
                    ByteStep::Shift(_) => largest,
                });
                let byte = Self { load: node, steps };
                return is_byte.then_some((byte, largest));
            }
            node = match applied(kernel, node)? {
                (&ScalarOp::Cast(to), &[inner]) if keeps_bytes(to) => inner,
                (ScalarOp::BitAnd, &[left, right]) => {
                    let (mask, inner) =
                        match (literal_byte(kernel, left), literal_byte(kernel, right)) {
                            (_, Some(mask)) => (mask, left),
                            (Some(mask), None) => (mask, right),
                            (None, None) => return None,
                        };
                    steps.push(ByteStep::Mask(mask));
                    inner
                }
                (ScalarOp::Shr, &[inner, by]) if is_shared(by) => {
                    steps.push(ByteStep::Shift(by));
                    inner
                }
                _ => return None,
            };
        }
    }
}

/// The parts of a stage's sum of products of scaled bytes, at a level that sums them as integers.
pub(crate) fn sums_scaled_fours(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    level: IsaLevel,
    stage: StageId,
) -> Option<ScaledBytes> {
    let is_suitable = level.multiplies_fours() || level.multiplies_byte_pairs();
    is_suitable.then(|| ScaledBytes::of(kernel, dependence, stage))?
}

/// An operation and its operands.
fn applied(kernel: &VerifiedKernel, node: NodeId) -> Option<(&ScalarOp, &[NodeId])> {
    match kernel.node(node) {
        Node::Apply { op, operands } => Some((op, operands.as_slice())),
        _ => None,
    }
}

/// A byte as a float, with the float that is added to it or subtracted from it.
fn offset_byte(
    kernel: &VerifiedKernel,
    (dependence, along): (&Dependence, AxisId),
    op: &ScalarOp,
    operands: &[NodeId],
) -> Option<(UnsignedByte, Option<Offset>)> {
    let byte = |node| {
        let (byte, largest) = UnsignedByte::of(kernel, (dependence, along), node)?;
        (largest <= LARGEST).then_some(byte)
    };
    let float = |node| match applied(kernel, node)? {
        (ScalarOp::Cast(DType::F32), &[inner]) => byte(inner),
        _ => None,
    };
    let offset = |value, is_subtracted| {
        let offset = Offset {
            value,
            is_subtracted,
        };
        (!dependence.depends(value, along)).then_some(Some(offset))
    };
    match (op, operands) {
        (ScalarOp::Cast(DType::F32), &[inner]) => Some((byte(inner)?, None)),
        (ScalarOp::Sub, &[left, right]) => Some((float(left)?, offset(right, true)?)),
        (ScalarOp::Add, &[left, right]) => match float(left) {
            Some(byte) => Some((byte, offset(right, false)?)),
            None => Some((float(right)?, offset(left, false)?)),
        },
        _ => None,
    }
}

/// Whether an integer type has every number from 0 to 127, so that bytes in this range keep their value in it.
fn keeps_bytes(dtype: DType) -> bool {
    dtype == DType::U8 || dtype.is_integer() && dtype.bits() > 8
}

/// An integer literal that is a mask of bits of a byte.
fn literal_byte(kernel: &VerifiedKernel, node: NodeId) -> Option<u8> {
    match kernel.node(node) {
        &Node::Literal(value) if kernel.dtype(node).is_integer() => {
            let number = value.to_f64();
            let byte = number as u8;
            (ScalarValue::from_number(f64::from(byte), value.dtype()) == Some(value))
                .then_some(byte)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::kernel as verified;

    /// A product of bytes with four-bit weights in groups; `factor` is what a weight is.
    fn bytes(x: &str, factor: &str) -> Option<ScaledBytes> {
        let text = format!(
            "kernel @k(%x: in {x}[M, G, 2, 16], %w: const u8[G, 16, N], %h: const i32[2], %s: const f32[G, N],
               %z: const u8[G, N], %y: out f32[M, N]) {{
               outer m < M, n < N
               a = reduce add[g < G, h < 2, k < 16] f32(%x[m, g, h, k]) * {factor}
               store %y[m, n] = a
             }}"
        );
        let kernel = verified(&text);
        let stage = kernel.stages().keys().next()?;
        let dependence = Dependence::of(&kernel);
        let found = ScaledBytes::of(&kernel, &dependence, stage);
        let level = IsaLevel::Avx2Fma;
        assert_eq!(sums_scaled_fours(&kernel, &dependence, level, stage), found);
        found
    }

    const CODE: &str = "f32(bit_and(shr(i32(%w[g, k, n]), %h[h]), i32(15)))";

    #[test]
    fn nibbles_with_zero_points_and_scales_are_bytes() {
        let found = bytes("i8", &format!("(({CODE} - 8.0) * %s[g, n])")).unwrap();
        assert_eq!((found.scales.len(), found.unsigned.steps.len()), (1, 2));
        assert_eq!(found.unsigned.steps[1], ByteStep::Mask(15));
        assert!(found.offset.unwrap().is_subtracted);
        let found = bytes("i8", &format!("(({CODE} - f32(%z[g, n])) * %s[g, n])")).unwrap();
        assert!(found.offset.is_some());
        let found = bytes("i8", CODE).unwrap();
        assert!(found.offset.is_none() && found.scales.is_empty());
    }

    #[test]
    fn other_products_are_summed_as_floats() {
        // The other factor is not a byte.
        assert_eq!(bytes("f32", CODE), None);
        // Two products of bytes above 127 may not fit 16 bits.
        assert_eq!(bytes("i8", "f32(%w[g, k, n])"), None);
        // A scale that varies from step to step.
        assert_eq!(bytes("i8", &format!("({CODE} * f32(k))")), None);
        // A shift that differs between lanes.
        let shifted = "f32(bit_and(shr(i32(%w[g, k, n]), i32(n)), i32(15)))";
        assert_eq!(bytes("i8", shifted), None);
    }
}
