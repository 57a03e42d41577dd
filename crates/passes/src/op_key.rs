//! The key of an op: its attributes and operands as bytes, which are equal exactly if the computation is.
//!
//! Floats go in by their bits, so 0.0 and -0.0 differ and a NaN equals itself; constants by digest.

use kiln_ir::{Constant, Dims, FieldVisitor, Indices, Integers, Op, ValueId, Word};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;
use smallvec::SmallVec;

/// An op with its operands, comparable and hashable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpKey {
    mnemonic: &'static str,
    fields: SmallVec<[u8; 64]>,
    operands: SmallVec<[ValueId; 4]>,
}

impl OpKey {
    /// The key of an op that reads `operands`.
    pub(crate) fn new(op: &Op, operands: &[ValueId]) -> Self {
        let mut fields = Fields(SmallVec::new());
        // Visitors may write, so the visit works on a copy.
        op.clone().visit_fields(&mut fields);
        Self {
            mnemonic: op.mnemonic(),
            fields: fields.0,
            operands: operands.into(),
        }
    }
}

/// The fields one after another; an op's fields have a fixed order, and lists include their length.
struct Fields(SmallVec<[u8; 64]>);

impl Fields {
    fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn list(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.number(values.len() as u64);
        values.for_each(|value| self.number(value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

impl FieldVisitor for Fields {
    fn flag(&mut self, _name: &'static str, value: &mut bool) {
        self.0.push(u8::from(*value));
    }

    fn index(&mut self, _name: &'static str, value: &mut usize) {
        self.number(*value as u64);
    }

    fn indices(&mut self, _name: &'static str, value: &mut Indices) {
        self.list(value.iter().map(|&index| index as u64));
    }

    fn integers(&mut self, _name: &'static str, value: &mut Integers) {
        self.list(value.iter().map(|&integer| integer.cast_unsigned()));
    }

    fn float(&mut self, _name: &'static str, value: &mut f64) {
        self.number(value.to_bits());
    }

    fn floats(&mut self, _name: &'static str, value: &mut SmallVec<[f64; 4]>) {
        self.list(value.iter().map(|float| float.to_bits()));
    }

    fn dim(&mut self, _name: &'static str, value: &mut DimId) {
        self.number(u64::from(value.as_u32()));
    }

    fn dims(&mut self, _name: &'static str, value: &mut Dims) {
        self.list(value.iter().map(|dim| u64::from(dim.as_u32())));
    }

    fn dtype(&mut self, _name: &'static str, value: &mut DType) {
        self.bytes(value.name().as_bytes());
    }

    fn word(&mut self, _name: &'static str, value: &mut dyn Word) {
        self.bytes(value.as_word().as_bytes());
    }

    fn text(&mut self, _name: &'static str, value: &mut String) {
        self.bytes(value.as_bytes());
    }

    fn constant(&mut self, _name: &'static str, value: &mut Constant) {
        self.0.extend_from_slice(value.digest().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_scalar::Function;

    fn leaky_relu(alpha: f64) -> OpKey {
        let function = Function::by_name("leaky_relu").unwrap();
        OpKey::new(
            &Op::Map {
                function,
                parameters: [alpha].into_iter().collect(),
            },
            &[],
        )
    }

    #[test]
    fn op_keys_distinguish_signed_zeros_and_equate_nan() {
        assert_ne!(leaky_relu(0.0), leaky_relu(-0.0));
        assert_eq!(leaky_relu(f64::NAN), leaky_relu(f64::NAN));
    }

    #[test]
    fn op_keys_distinguish_adjacent_lists() {
        let key = |permutation: &[usize]| {
            OpKey::new(
                &Op::Transpose {
                    permutation: permutation.into(),
                },
                &[],
            )
        };
        assert_ne!(key(&[0, 1]), key(&[0, 1, 2]));
        assert_eq!(key(&[1, 0]), key(&[1, 0]));
    }
}
