//! What a rule may query and record: types, known elements, sizes and facts of the graph being inferred.
//!
//! If two sizes of a broadcast are not proved compatible, a plan fact is recorded; if sizes must be equal and are not
//! proved so, a contract fact, which is checked at run time. Inside nested regions, which may never run, nothing is
//! recorded and the op checks its operands itself.

use crate::error::{InferError, InferErrorKind};
use crate::known::KnownValue;
use crate::node::OpView;
use crate::rule::Inferred;
use crate::state::InferenceState;
use kiln_ir::{Dims, Graph, OpId, TensorType, Type, ValueId};
use kiln_symbolic_shape::{
    ContractFact, DimError, DimId, DimTable, FactOrigin, PlanFact, Predicate, Proof,
};

/// How to handle a stated type that is not proved to equal the inferred one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It is an error.
    #[default]
    Strict,
    /// The stated type is ignored, and listed.
    Lenient,
}

/// The view that rules have of the graph being inferred.
#[derive(Debug)]
pub struct InferenceContext<'g> {
    graph: &'g mut Graph,
    state: &'g mut InferenceState,
}

/// Whether two types are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// On every call.
    Same,
    /// Not on any call.
    Different,
    /// Unknown.
    Unproved,
}

impl<'g> InferenceContext<'g> {
    /// A context over a graph and the results inferred for it so far.
    pub fn new(graph: &'g mut Graph, state: &'g mut InferenceState) -> Self {
        Self { graph, state }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// The graph's sizes and facts.
    pub fn dims(&self) -> &DimTable {
        self.graph.dims()
    }

    /// The graph's sizes and facts, to add to.
    pub fn dims_mut(&mut self) -> &mut DimTable {
        self.graph.dims_mut()
    }

    /// Whether the op is in a nested region, which may never run.
    pub fn is_nested(&self) -> bool {
        self.state.depth > 0
    }

    /// The results inferred earlier for an op.
    pub fn inferred(&self, op: OpId) -> Option<&Inferred> {
        self.state.inferred(op)
    }

    /// What is known about a value's elements.
    pub fn known(&self, value: ValueId) -> Option<&KnownValue> {
        self.state.known(self.graph, value)
    }

    /// The type of a value.
    pub fn ty(&self, value: ValueId) -> &Type {
        self.graph.ty(value)
    }

    /// The tensor type of operand `index`.
    ///
    /// # Errors
    /// When there is no such operand, or it is not a tensor.
    pub fn tensor(&self, node: &OpView<'_>, index: usize) -> Result<TensorType, InferError> {
        let value = node.operand(index)?;
        match self.ty(value) {
            Type::Tensor(tensor) => Ok(tensor.clone()),
            ty => {
                let found = ty.display(self.dims()).to_string();
                let expected = "a tensor".to_owned();
                Err(node.error(InferErrorKind::Operand {
                    index,
                    expected,
                    found,
                }))
            }
        }
    }

    /// Checks that two operands have the same dtype.
    ///
    /// # Errors
    /// When they differ.
    pub fn same_dtype(
        &self,
        node: &OpView<'_>,
        first: usize,
        second: usize,
    ) -> Result<(), InferError> {
        let (expected, found) = (
            self.tensor(node, first)?.dtype,
            self.tensor(node, second)?.dtype,
        );
        if expected == found {
            return Ok(());
        }
        Err(node.error(InferErrorKind::Operand {
            index: second,
            expected: format!("a tensor of {expected}, as operand {first}"),
            found: format!("a tensor of {found}"),
        }))
    }

    /// A value with its type, as shown in messages: `%x: f32[B, 128]`. Safe to print.
    pub fn describe(&self, value: ValueId) -> String {
        let ty = self.ty(value).display(self.dims());
        match self.graph.value(value).name.as_deref() {
            Some(name) => format!("%{}: {ty}", name.escape_debug()),
            None => format!("{value}: {ty}"),
        }
    }

    /// A size as shown in messages.
    pub fn show(&self, dim: DimId) -> String {
        self.dims().display(dim).to_string()
    }

    /// Whether the size is proved to be at least 0.
    pub fn is_non_negative(&self, dim: DimId) -> bool {
        self.dims().range(dim).min.is_some_and(|min| min >= 0)
    }

    /// Queries the prover.
    pub fn prove(&self, predicate: &Predicate) -> Proof {
        self.dims().prove(predicate)
    }

    /// Proves a predicate, or records it as a fact that the run time checks. False when it never holds.
    ///
    /// # Errors
    /// When the table of facts is full.
    pub fn require(
        &mut self,
        node: &OpView<'_>,
        predicate: Predicate,
        what: &str,
    ) -> Result<bool, InferError> {
        match self.prove(&predicate) {
            Proof::Proved => Ok(true),
            Proof::Disproved => Ok(false),
            Proof::Unknown if self.is_nested() => Ok(true),
            Proof::Unknown => {
                let origin = FactOrigin::Required(format!("{}: {what}", node.label()));
                match self.dims_mut().assume(ContractFact { predicate, origin }) {
                    Ok(()) => Ok(true),
                    Err(DimError::Contradiction { .. }) => Ok(false),
                    Err(cause) => Err(node.error(InferErrorKind::Size(cause))),
                }
            }
        }
    }

    /// Requires two sizes, of two operands, to be equal.
    ///
    /// # Errors
    /// When they never are.
    pub fn require_equal(
        &mut self,
        node: &OpView<'_>,
        what: &str,
        (left, expected): (usize, DimId),
        (right, found): (usize, DimId),
    ) -> Result<(), InferError> {
        if expected == found || self.require(node, Predicate::Equal(expected, found), what)? {
            return Ok(());
        }
        Err(node.error(InferErrorKind::SizeConflict {
            what: what.to_owned(),
            left: self.describe(node.operand(left)?),
            right: self.describe(node.operand(right)?),
            expected: self.show(expected),
            found: self.show(found),
        }))
    }

    /// Rejects a size that is negative on every call; one that may be negative is left to the run time.
    ///
    /// # Errors
    /// When it always is.
    pub fn check_size(
        &self,
        node: &OpView<'_>,
        what: &str,
        dim: DimId,
    ) -> Result<DimId, InferError> {
        if self.dims().range(dim).max.is_none_or(|max| max >= 0) {
            return Ok(dim);
        }
        let (what, found) = (what.to_owned(), self.show(dim));
        Err(node.error(InferErrorKind::NegativeSize { what, found }))
    }

    /// The sizes to which operands `left` and `right` broadcast, aligned at the innermost axis.
    ///
    /// # Errors
    /// When they never do.
    pub fn broadcast(
        &mut self,
        node: &OpView<'_>,
        (left, left_dims): (usize, &[DimId]),
        (right, right_dims): (usize, &[DimId]),
    ) -> Result<Dims, InferError> {
        let rank = left_dims.len().max(right_dims.len());
        let mut dims = Dims::with_capacity(rank);
        for axis in 0..rank {
            let of = |dims: &[DimId]| {
                (axis + dims.len())
                    .checked_sub(rank)
                    .and_then(|axis| dims.get(axis).copied())
            };
            dims.push(match (of(left_dims), of(right_dims)) {
                (Some(a), Some(b)) => self.broadcast_dim(node, (left, a), (right, b))?,
                (Some(dim), None) | (None, Some(dim)) => dim,
                (None, None) => unreachable!("an axis below the larger rank is one operand's"),
            });
        }
        Ok(dims)
    }

    fn broadcast_dim(
        &mut self,
        node: &OpView<'_>,
        (left, a): (usize, DimId),
        (right, b): (usize, DimId),
    ) -> Result<DimId, InferError> {
        match self.join_sizes(a, b, || node.label()) {
            Err(DimError::Broadcast { .. }) => Err(node.error(InferErrorKind::Broadcast {
                left: self.describe(node.operand(left)?),
                right: self.describe(node.operand(right)?),
                left_size: self.show(a),
                right_size: self.show(b),
            })),
            other => node.size(other),
        }
    }

    /// The size to which two sizes broadcast; in the body, records a plan fact if their equality is unproved.
    pub(crate) fn join_sizes(
        &mut self,
        a: DimId,
        b: DimId,
        origin: impl FnOnce() -> String,
    ) -> Result<DimId, DimError> {
        match (self.dims().as_constant(a), self.dims().as_constant(b)) {
            _ if a == b => Ok(a),
            (Some(1), _) => Ok(b),
            (_, Some(1)) => Ok(a),
            _ if self.is_nested() => self.join_sizes_unrecorded(a, b),
            _ => self.dims_mut().broadcast_dim(a, b, &origin()),
        }
    }

    /// As `DimTable::broadcast_dim`, without a plan fact: symbols of a region have no value when plans are made.
    fn join_sizes_unrecorded(&mut self, a: DimId, b: DimId) -> Result<DimId, DimError> {
        let dims = self.dims_mut();
        match (dims.as_constant(a), dims.as_constant(b)) {
            (Some(_), None) if dims.bcast(a, b).is_ok() => Ok(a),
            (None, Some(_)) if dims.bcast(a, b).is_ok() => Ok(b),
            _ => dims.bcast(a, b),
        }
    }

    /// Expects two sizes to be equal that need not be: records a plan fact.
    pub fn expect_equal(&mut self, node: &OpView<'_>, left: DimId, right: DimId) {
        if !self.is_nested() && self.dims().equal(left, right) == Proof::Unknown {
            let origin = node.label();
            self.dims_mut().expect(PlanFact {
                left,
                right,
                origin,
            });
        }
    }

    /// Whether two types are equal, by proof.
    pub fn compare(&self, left: &Type, right: &Type) -> Agreement {
        let (mut left, mut right) = (left, right);
        loop {
            match (left, right) {
                (Type::Sequence(l), Type::Sequence(r)) | (Type::Optional(l), Type::Optional(r)) => {
                    (left, right) = (l, r)
                }
                (Type::Tensor(l), Type::Tensor(r)) => return self.compare_tensors(l, r),
                _ => return Agreement::Different,
            }
        }
    }

    fn compare_tensors(&self, left: &TensorType, right: &TensorType) -> Agreement {
        if left.dtype != right.dtype || left.rank() != right.rank() {
            return Agreement::Different;
        }
        let mut agreement = Agreement::Same;
        for (&l, &r) in left.dims.iter().zip(&right.dims) {
            if l == r {
                continue;
            }
            match self.dims().equal(l, r) {
                Proof::Proved => {}
                Proof::Disproved => return Agreement::Different,
                Proof::Unknown => agreement = Agreement::Unproved,
            }
        }
        agreement
    }

    /// Checks stated types against inferred ones, by proof.
    ///
    /// # Errors
    /// When they differ, or when they are not proved to be equal.
    pub fn check_types(
        &self,
        node: &OpView<'_>,
        inferred: &[Type],
        stated: &[Type],
    ) -> Result<(), InferError> {
        if inferred.len() != stated.len() {
            let what = "the results".to_owned();
            let count = |types: &[Type]| format!("{} results", types.len());
            return Err(node.error(InferErrorKind::Annotation {
                what,
                expected: count(inferred),
                found: count(stated),
                disproved: true,
            }));
        }
        for (index, (inferred, stated)) in inferred.iter().zip(stated).enumerate() {
            self.check_type(node, &format!("result {index}"), inferred, stated)?;
        }
        Ok(())
    }

    /// Checks one stated type against an inferred one, by proof.
    ///
    /// # Errors
    /// When they differ, or when they are not proved to be equal.
    pub fn check_type(
        &self,
        node: &OpView<'_>,
        what: &str,
        inferred: &Type,
        stated: &Type,
    ) -> Result<(), InferError> {
        let agreement = self.compare(inferred, stated);
        if agreement == Agreement::Same {
            return Ok(());
        }
        Err(node.error(InferErrorKind::Annotation {
            what: what.to_owned(),
            expected: inferred.display(self.dims()).to_string(),
            found: stated.display(self.dims()).to_string(),
            disproved: agreement == Agreement::Different,
        }))
    }
}
