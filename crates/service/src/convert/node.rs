//! A node that is being added: its operands, and its attributes, all of which must be read, each at most once.

use super::Built;
use super::attributes as read;
use crate::blueprint::{Blueprint, BlueprintNode, tensor_from_json};
use crate::error::Problem;
use kiln::internals::ir::{Constant, Dims, FieldVisitor, Indices, Integers, Op, ValueId, Word};
use kiln::internals::shape_inference::{GraphBuilder, InferError};
use kiln::internals::symbolic_shape::DimId;
use kiln::{DType, Tensor};
use serde_json::Value;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// A node that is being added to a graph.
pub(super) struct Node<'a, 'b> {
    blueprint: &'a Blueprint,
    index: usize,
    data: &'a BlueprintNode,
    pub(super) builder: &'b mut GraphBuilder,
    pub(super) operands: Vec<ValueId>,
    /// The remaining number of bytes for constants.
    constant_bytes: &'b mut usize,
    used: BTreeSet<String>,
}

impl<'a, 'b> Node<'a, 'b> {
    /// The node at `index` of a blueprint.
    pub(super) fn new(
        blueprint: &'a Blueprint,
        index: usize,
        builder: &'b mut GraphBuilder,
        operands: Vec<ValueId>,
        constant_bytes: &'b mut usize,
    ) -> Self {
        Self {
            blueprint,
            index,
            data: &blueprint.nodes[index],
            builder,
            operands,
            constant_bytes,
            used: BTreeSet::new(),
        }
    }

    /// The kind's name.
    pub(super) fn kind(&self) -> &'a str {
        &self.data.kind
    }

    /// The operand at a position that exists according to the kind's row.
    pub(super) fn operand(&self, position: usize) -> ValueId {
        self.operands[position]
    }

    /// The operand at a position, if it is given.
    pub(super) fn optional(&self, position: usize) -> Option<ValueId> {
        self.operands.get(position).copied()
    }

    fn problem(&self, code: &'static str, field: &str, message: impl Into<String>) -> Problem {
        let path = format!("nodes[{}]{field}", self.index);
        self.blueprint.placed(Problem::new(code, &path, message))
    }

    /// A problem with an attribute.
    pub(super) fn attribute_problem(&self, name: &str, message: impl Into<String>) -> Problem {
        self.problem(Problem::ATTRIBUTE, &format!(".attributes.{name}"), message)
    }

    /// An attribute, if it is given.
    pub(super) fn given(&mut self, name: &str) -> Option<&'a Value> {
        let value = self.data.attributes.get(name)?;
        self.used.insert(name.to_owned());
        Some(value)
    }

    /// A required attribute.
    fn required(&mut self, name: &str) -> Result<&'a Value, Problem> {
        let kind = self.kind();
        self.given(name).ok_or_else(|| {
            let message = format!("{kind} needs attribute {name}");
            self.problem(Problem::ATTRIBUTE, ".attributes", message)
        })
    }

    /// Reads an attribute with a reader of `attributes`.
    pub(super) fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Problem> {
        let value = self.required(name)?;
        read(value).map_err(|message| self.attribute_problem(name, message))
    }

    /// The same, with a default value.
    pub(super) fn read_or<T>(
        &mut self,
        name: &str,
        default: T,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Result<T, Problem> {
        match self.given(name) {
            None => Ok(default),
            Some(value) => read(value).map_err(|message| self.attribute_problem(name, message)),
        }
    }

    /// A size.
    pub(super) fn size(&mut self, name: &str) -> Result<DimId, Problem> {
        let size = self.read(name, read::size)?;
        self.dim(name, &size)
    }

    /// A list of sizes.
    pub(super) fn sizes(&mut self, name: &str) -> Result<Dims, Problem> {
        let sizes = self.read(name, |value| read::list(value, read::size))?;
        sizes.iter().map(|size| self.dim(name, size)).collect()
    }

    fn dim(&mut self, name: &str, size: &crate::blueprint::Size) -> Result<DimId, Problem> {
        let read = super::read_size(size, self.builder.dims_mut());
        read.map_err(|message| self.problem(Problem::SIZE, &format!(".attributes.{name}"), message))
    }

    /// An axis of an operand, from 0, or from -1 for the innermost.
    pub(super) fn axis(
        &mut self,
        name: &str,
        default: i64,
        operand: ValueId,
    ) -> Result<usize, Problem> {
        let axis = self.read_or(name, default, read::integer)?;
        let found = self.builder.axis(operand, axis);
        found.map_err(|error| self.attribute_problem(name, error.to_string()))
    }

    /// A constant tensor, within the remaining number of bytes for constants.
    fn tensor(&mut self, name: &str) -> Result<Tensor, Problem> {
        let left = *self.constant_bytes;
        let tensor = self.read(name, |value| tensor_from_json(value, left))?;
        *self.constant_bytes = left.saturating_sub(tensor.byte_len());
        Ok(tensor)
    }

    /// Converts an error of shape inference to a problem of the node.
    pub(super) fn check<T>(&self, result: Result<T, InferError>) -> Result<T, Problem> {
        result.map_err(|error| self.problem(Problem::NODE, "", error.to_string()))
    }

    /// The node as one op, whose fields are its attributes.
    pub(super) fn op(&mut self, mut op: Op) -> Built {
        let mut fields = Fields {
            node: self,
            failed: None,
        };
        op.visit_fields(&mut fields);
        if let Some(problem) = fields.failed {
            return Err(problem);
        }
        let operands = self.operands.clone();
        let results = self.builder.op(op, &operands);
        Ok(self.check(results)?.to_vec())
    }

    /// # Errors
    /// E1409 for an attribute that was given and not read.
    pub(super) fn refuse_unknown_attributes(&self) -> Result<(), Problem> {
        let mut names = self.data.attributes.keys();
        match names.find(|name| !self.used.contains(*name)) {
            None => Ok(()),
            Some(name) => {
                let message = format!("{} has no attribute `{}`", self.kind(), name.escape_debug());
                Err(self.attribute_problem(name, message))
            }
        }
    }
}

/// Fills in the fields of an op.
struct Fields<'n, 'a, 'b> {
    node: &'n mut Node<'a, 'b>,
    failed: Option<Problem>,
}

impl Fields<'_, '_, '_> {
    fn set<T>(&mut self, value: &mut T, read: Result<T, Problem>) {
        match read {
            Ok(read) => *value = read,
            Err(problem) => self.failed = self.failed.take().or(Some(problem)),
        }
    }
}

impl FieldVisitor for Fields<'_, '_, '_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        let read = self.node.read_or(name, false, read::flag);
        self.set(value, read);
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        let read = self.node.read(name, read::index);
        self.set(value, read);
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        let read = self.node.read(name, |value| read::list(value, read::index));
        self.set(value, read.map(Indices::from_vec));
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        let read = self
            .node
            .read(name, |value| read::list(value, read::integer));
        self.set(value, read.map(Integers::from_vec));
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        // The parameters of scalar functions have defaults, and so do all other numbers.
        let read = self.node.read_or(name, *value, read::number);
        self.set(value, read);
    }

    fn floats(&mut self, name: &'static str, value: &mut SmallVec<[f64; 4]>) {
        let read = self
            .node
            .read(name, |value| read::list(value, read::number));
        self.set(value, read.map(SmallVec::from_vec));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        let read = self.node.size(name);
        self.set(value, read);
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        let read = self.node.sizes(name);
        self.set(value, read);
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        let read = self.node.read(name, read::dtype);
        self.set(value, read);
    }

    fn result_dtype(&mut self, name: &'static str, value: &mut DType) {
        let read = self.node.read_or(name, *value, read::dtype);
        self.set(value, read);
    }

    fn word(&mut self, name: &'static str, value: &mut dyn Word) {
        match self.node.read(name, read::text) {
            Ok(word) if value.set_word(&word) => {}
            Ok(word) => {
                let (words, word) = (value.words().join(", "), word.escape_debug());
                let message = format!("expected one of {words}, found `{word}`");
                let problem = self.node.attribute_problem(name, message);
                self.failed = self.failed.take().or(Some(problem));
            }
            Err(problem) => self.failed = self.failed.take().or(Some(problem)),
        }
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        let read = self.node.read(name, read::text);
        self.set(value, read);
    }

    fn constant(&mut self, name: &'static str, value: &mut Constant) {
        let read = self.node.tensor(name).and_then(|tensor| {
            let constant = Constant::new(tensor);
            constant.map_err(|error| self.node.attribute_problem(name, error.to_string()))
        });
        self.set(value, read);
    }
}
