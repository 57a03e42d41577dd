//! One description of each op's attributes, from which printing, reading, remapping and hashing follow.
//!
//! An op lists its fields once, in [`Op::visit_fields`](super::Op::visit_fields); a [`FieldVisitor`] reads or
//! writes them. Invariant: an op visits the same fields in the same order whatever their values.

use super::attributes::{Indices, Integers, Word};
use crate::constant::Constant;
use crate::ty::Dims;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

/// Reads or writes the fields of an op, one call per field, with the names of the text form.
///
/// The methods with a default body do nothing, so that a visitor implements only the kinds it needs.
pub trait FieldVisitor {
    /// A switch that is off unless named.
    fn flag(&mut self, _name: &'static str, _value: &mut bool) {}
    /// An axis or a count.
    fn index(&mut self, _name: &'static str, _value: &mut usize) {}
    /// A list of axes.
    fn indices(&mut self, _name: &'static str, _value: &mut Indices) {}
    /// A list of integers known at compile time, such as strides.
    fn integers(&mut self, _name: &'static str, _value: &mut Integers) {}
    /// A number.
    fn float(&mut self, _name: &'static str, _value: &mut f64) {}
    /// A list of numbers.
    fn floats(&mut self, _name: &'static str, _value: &mut smallvec::SmallVec<[f64; 4]>) {}
    /// A size.
    fn dim(&mut self, _name: &'static str, _value: &mut DimId) {}
    /// A list of sizes.
    fn dims(&mut self, _name: &'static str, _value: &mut Dims) {}
    /// An element type.
    fn dtype(&mut self, _name: &'static str, _value: &mut DType) {}
    /// The result's element type; the text may omit it if it is that of the first operand.
    fn result_dtype(&mut self, _name: &'static str, _value: &mut DType) {}
    /// One of a few words.
    fn word(&mut self, _name: &'static str, _value: &mut dyn Word) {}
    /// Free text.
    fn text(&mut self, _name: &'static str, _value: &mut String) {}
    /// A constant tensor.
    fn constant(&mut self, _name: &'static str, _value: &mut Constant) {}
}
