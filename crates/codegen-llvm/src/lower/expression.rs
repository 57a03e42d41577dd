//! Node values at a point of the tile.
//!
//! Each node is computed once per point that it depends on, and as a scalar where it is uniform across lanes.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{is_clamped_to, is_never_positive};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{Node, NodeId};
use kiln_scalar::{ExprNode as FunctionNode, Function, ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope, StageValue};
use crate::abi::FaultCause;
use crate::emit::{Elem, Value, lanes};
use crate::error::LlvmError;
use crate::{math, scalar_ops};

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The value of a node at a point of the tile.
    pub(crate) fn value(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        form: Form,
    ) -> Result<Value<'ctx>, LlvmError> {
        // Arithmetic of any length is walked iteratively; only indices within indices recurse.
        let mut pending = vec![node];
        let mut wanted = Vec::new();
        while let Some(next) = pending.pop() {
            if self.known(scope, next, at, form).is_some() || wanted.contains(&next) {
                continue;
            }
            wanted.push(next);
            if self.is_tabulated(next) {
                continue;
            }
            if let Some(chosen) = self.chosen(scope, next) {
                pending.push(chosen);
            } else if let Node::Apply { operands, .. } | Node::Call { operands, .. } =
                self.kernel.node(next)
            {
                pending.extend(operands.iter().copied());
            }
        }
        wanted.sort_unstable();
        for next in wanted {
            let value = self.compute(scope, next, at, form)?;
            let key = self.key(scope, next, at, form);
            scope.known.borrow_mut().insert(key, value);
        }
        match self.known(scope, node, at, form) {
            Some(value) => Ok(value),
            None => unreachable!("a node is computed after its operands"),
        }
    }

    /// A scalar, broadcast to the vectors in use.
    pub(crate) fn widened(&self, scope: &Scope<'ctx>, value: Value<'ctx>) -> Value<'ctx> {
        match scope.vectors {
            Some(vectors) if lanes(value) != vectors.lanes => self.emit.splat(value, vectors.lanes),
            _ => value,
        }
    }

    /// Whether a node differs between the lanes of the vectors in use.
    pub(crate) fn varies(&self, scope: &Scope<'ctx>, node: NodeId) -> bool {
        scope
            .vectors
            .is_some_and(|vectors| self.dependence.depends(node, vectors.axis))
    }

    fn known(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        form: Form,
    ) -> Option<Value<'ctx>> {
        let key = self.key(scope, node, at, form);
        scope.known.borrow().get(&key).copied()
    }

    /// Records a value for a node at a point.
    pub(super) fn assume(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        value: Value<'ctx>,
    ) {
        let key = self.key(scope, node, at, Form::Lanes);
        scope.known.borrow_mut().insert(key, value);
    }

    /// A node with the part of the point on which it depends.
    pub(super) fn key(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        form: Form,
    ) -> (NodeId, Coordinate, Form) {
        let rows = scope
            .rows
            .is_some_and(|rows| self.dependence.depends(node, rows.axis));
        let varies = self.varies(scope, node);
        let at = Coordinate {
            row: if rows { at.row } else { 0 },
            vector: if varies { at.vector } else { 0 },
        };
        (node, at, if varies { form } else { Form::First })
    }

    fn compute(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        form: Form,
    ) -> Result<Value<'ctx>, LlvmError> {
        if let Some(chosen) = self.chosen(scope, node) {
            return self.value(scope, chosen, at, form);
        }
        if let Some(value) = self.tabulated(scope, node, at, form) {
            return Ok(value);
        }
        match self.kernel.node(node) {
            Node::Literal(value) => Ok(self.literal(*value)),
            Node::Size(dim) => Ok(self.dim(*dim)),
            Node::Axis(axis) => Ok(self.axis_value(scope, *axis, at, form)),
            Node::Load(load) => self.load(scope, node, load, at, form),
            Node::Local { stage, indices } => {
                self.local(scope, *stage, StageValue::Current, indices, at, form)
            }
            Node::Previous { stage, indices } => {
                self.local(scope, *stage, StageValue::Previous, indices, at, form)
            }
            Node::Last { stage, indices } => {
                self.local(scope, *stage, StageValue::Last, indices, at, form)
            }
            Node::Apply { op, operands } => {
                let wide = form == Form::Lanes && self.varies(scope, node);
                let (mut dtypes, mut values) = (Vec::new(), Vec::new());
                for &operand in operands {
                    let value = self.value(scope, operand, at, form)?;
                    values.push(if wide {
                        self.widened(scope, value)
                    } else {
                        value
                    });
                    dtypes.push(self.kernel.dtype(operand));
                }
                match (op, operands.as_slice(), values.as_slice()) {
                    (ScalarOp::Exp, &[x], &[value])
                        if is_never_positive(self.kernel, self.dependence, x) =>
                    {
                        Ok(math::exp_of_non_positive(&self.emit, value))
                    }
                    (ScalarOp::Cast(to), &[x], &[value])
                        if matches!(self.kernel.dtype(x), DType::F32 | DType::F64)
                            && is_clamped_to(self.kernel, x, *to) =>
                    {
                        Ok(scalar_ops::to_integer_in_range(&self.emit, value, *to))
                    }
                    _ => self.apply((scope, at), *op, &dtypes, &values),
                }
            }
            Node::Call {
                function,
                parameters,
                operands,
            } => {
                let wide = form == Form::Lanes && self.varies(scope, node);
                let (mut dtypes, mut values) = (Vec::new(), Vec::new());
                for &operand in operands {
                    values.push(self.value(scope, operand, at, form)?);
                    dtypes.push(self.kernel.dtype(operand));
                }
                let value = self.call((scope, at), *function, parameters, &dtypes, &values)?;
                Ok(if wide {
                    self.widened(scope, value)
                } else {
                    value
                })
            }
        }
    }

    /// A literal as a scalar.
    pub(crate) fn literal(&self, value: ScalarValue) -> Value<'ctx> {
        let emit = &self.emit;
        match value {
            ScalarValue::F64(value) => emit.float_of(Elem::F64, 1, value),
            ScalarValue::F32(value) => {
                // By its bits: a NaN keeps its payload, and nothing is rounded twice.
                emit.bitcast(
                    emit.int_of(Elem::I32, 1, i64::from(value.to_bits())),
                    Elem::F32,
                )
            }
            ScalarValue::F16(value) => emit.int_of(Elem::I16, 1, i64::from(value.to_bits())),
            ScalarValue::BF16(value) => emit.int_of(Elem::I16, 1, i64::from(value.to_bits())),
            ScalarValue::I64(value) => emit.i64(value),
            ScalarValue::I32(value) => emit.int_of(Elem::I32, 1, i64::from(value)),
            ScalarValue::I16(value) => emit.int_of(Elem::I16, 1, i64::from(value)),
            ScalarValue::I8(value) => emit.int_of(Elem::I8, 1, i64::from(value)),
            ScalarValue::U64(value) => emit.i64(value as i64),
            ScalarValue::U32(value) => emit.int_of(Elem::I32, 1, i64::from(value)),
            ScalarValue::U16(value) => emit.int_of(Elem::I16, 1, i64::from(value)),
            ScalarValue::U8(value) => emit.int_of(Elem::I8, 1, i64::from(value)),
            ScalarValue::Bool(value) => emit.bool_of(1, value),
            other => unreachable!("no literal has the dtype {}", other.dtype()),
        }
    }

    pub(super) fn axis_value(
        &self,
        scope: &Scope<'ctx>,
        axis: kiln_kernel::AxisId,
        at: Coordinate,
        form: Form,
    ) -> Value<'ctx> {
        let emit = &self.emit;
        if let Some(rows) = scope.rows.filter(|rows| rows.axis == axis) {
            let row = if is_on(Fault::MissingRowOffset) {
                0
            } else {
                at.row
            };
            if let Some(distance) = self.repeated(Some(rows), row) {
                return emit.iadd(rows.base, distance);
            }
            let step = Quantity::constant(i64::from(row)) * self.row_step(&rows);
            return emit.iadd(rows.base, self.quantity(&step));
        }
        if let Some(vectors) = scope.vectors.filter(|vectors| vectors.axis == axis) {
            let start = emit.i64(i64::from(at.vector) * i64::from(vectors.lanes));
            return match form {
                Form::First => emit.iadd(vectors.base, start),
                Form::Lanes => {
                    // One splat plus constants, so that LLVM sees what several vectors share.
                    let numbers = emit.lane_numbers(Elem::I64, vectors.lanes);
                    let numbers = emit.iadd(emit.splat(start, vectors.lanes), numbers);
                    emit.iadd(emit.splat(vectors.base, vectors.lanes), numbers)
                }
            };
        }
        match scope.axis(axis) {
            Some(index) => index,
            None => unreachable!("the verifier accepts axes in scope alone"),
        }
    }

    fn apply(
        &self,
        (scope, at): (&Scope<'ctx>, Coordinate),
        op: ScalarOp,
        dtypes: &[DType],
        values: &[Value<'ctx>],
    ) -> Result<Value<'ctx>, LlvmError> {
        let outcome = scalar_ops::emit(&self.emit, op, dtypes, values)?;
        if let Some(fault) = outcome.fault {
            self.report(scope, at, fault, FaultCause::DivisionByZero, || {
                format!("`{}` divides by zero", op.name())
            });
        }
        Ok(outcome.value)
    }

    /// The definition of a function; steps with uniform operands are computed as scalars.
    fn call(
        &self,
        (scope, at): (&Scope<'ctx>, Coordinate),
        function: Function,
        parameters: &[f64],
        dtypes: &[DType],
        operands: &[Value<'ctx>],
    ) -> Result<Value<'ctx>, LlvmError> {
        let refused = |_| LlvmError::Unsupported {
            what: format!("`{}` on {dtypes:?}", function.name()),
        };
        let expression = function.expression(parameters).map_err(refused)?;
        let types = expression.node_types(dtypes).map_err(refused)?;
        let mut values: Vec<Value<'ctx>> = Vec::with_capacity(types.len());
        for (node, &dtype) in expression.nodes().iter().zip(&types) {
            let value = match node {
                FunctionNode::Input(position) => match operands.get(*position) {
                    Some(&operand) => operand,
                    None => unreachable!("a call has as many operands as its function"),
                },
                FunctionNode::Constant(value) => self.literal(*value),
                FunctionNode::Literal { number, .. } => {
                    match ScalarValue::from_number(*number, dtype) {
                        Some(value) => self.literal(value),
                        None => unreachable!("typing refused numbers that the dtype lacks"),
                    }
                }
                FunctionNode::Apply { op, operands } => {
                    let mut picked: Vec<_> = operands.iter().map(|id| values[id.index()]).collect();
                    let n_lanes = picked.iter().map(|&value| lanes(value)).max().unwrap_or(1);
                    for value in picked.iter_mut().filter(|value| lanes(**value) < n_lanes) {
                        *value = self.emit.splat(*value, n_lanes);
                    }
                    let dtypes: Vec<_> = operands.iter().map(|id| types[id.index()]).collect();
                    self.apply((scope, at), *op, &dtypes, &picked)?
                }
                _ => {
                    return Err(LlvmError::Unsupported {
                        what: format!("`{}`", function.name()),
                    });
                }
            };
            values.push(value);
        }
        match values.get(expression.result().index()) {
            Some(&value) => Ok(value),
            None => unreachable!("an expression's result is one of its nodes"),
        }
    }

    /// Reports a fault in the lanes that are true and in range.
    pub(crate) fn report(
        &self,
        scope: &Scope<'ctx>,
        at: Coordinate,
        fault: Value<'ctx>,
        cause: FaultCause,
        site: impl FnOnce() -> String,
    ) {
        if is_on(Fault::DroppedReport) {
            return;
        }
        let emit = &self.emit;
        let fault = match self.mask(scope, at) {
            Some(mask) if lanes(fault) == lanes(mask) => emit.and(fault, mask),
            _ => fault,
        };
        let any = if lanes(fault) > 1 {
            emit.any(fault)
        } else {
            fault
        };
        self.fault_if(any, site(), cause);
    }
}
