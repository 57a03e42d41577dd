//! Values of nodes as C variables: each node is computed once per scope and lane.
//!
//! As the kernel IR specifies, every node of an expression is computed, whichever operand a select picks; only a load
//! whose condition is false is skipped.

use kiln_kernel::{Node, NodeId, StageId};
use kiln_scalar::{ExprNode, Function, ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::c_type::{c_type, literal};
use super::lowering::Lowering;
use super::scope::{Place, Scope, When};

impl Lowering<'_> {
    /// Whether a node differs between the lanes of a scope.
    pub(super) fn varies(&self, scope: &Scope, node: NodeId) -> bool {
        scope
            .lanes
            .is_some_and(|lanes| self.dependence.depends(node, lanes.axis))
    }

    /// The lane whose variable has a node's value in a lane.
    fn lane_of(&self, scope: &Scope, node: NodeId, lane: u32) -> u32 {
        if self.varies(scope, node) { lane } else { 0 }
    }

    /// The variable with the value of a node in a lane. The value is computed here if it is not yet known.
    pub(super) fn value(&self, scope: &mut Scope, root: NodeId, lane: u32) -> String {
        let mut pending = vec![root];
        let mut wanted = Vec::new();
        while let Some(node) = pending.pop() {
            if scope.known(node, self.lane_of(scope, node, lane)).is_some() {
                continue;
            }
            wanted.push(node);
            let operands = &mut |operand| pending.push(operand);
            self.kernel.node(node).for_each_operand(operands);
        }
        // Operands come before their users.
        wanted.sort_unstable();
        wanted.dedup();
        for node in wanted {
            let lane = self.lane_of(scope, node, lane);
            if scope.known(node, lane).is_none() {
                let name = self.compute(scope, node, lane);
                scope.learn(node, lane, name);
            }
        }
        self.known(scope, root, lane)
    }

    /// The variable of a node that was computed.
    pub(super) fn known(&self, scope: &Scope, node: NodeId, lane: u32) -> String {
        match scope.known(node, self.lane_of(scope, node, lane)) {
            Some(name) => name.clone(),
            None => unreachable!("a node is computed after its operands"),
        }
    }

    /// Computes a node whose operands are known.
    fn compute(&self, scope: &mut Scope, id: NodeId, lane: u32) -> String {
        let ty = c_type(self.kernel.dtype(id));
        match self.kernel.node(id) {
            Node::Literal(value) => self.declare(ty, literal(*value)),
            Node::Size(dim) => self.size(*dim),
            Node::Axis(axis) => {
                let first = scope.axis(*axis).to_owned();
                match lane {
                    0 => first,
                    lane => self.declare(ty, format_args!("{first} + {lane}")),
                }
            }
            Node::Load(load) => self.load(scope, id, load, lane),
            Node::Local { stage, indices } => {
                self.local(scope, (*stage, When::Current), id, indices, lane)
            }
            Node::Previous { stage, indices } => {
                self.local(scope, (*stage, When::Previous), id, indices, lane)
            }
            Node::Last { stage, indices } => {
                self.local(scope, (*stage, When::Last), id, indices, lane)
            }
            Node::Apply { op, operands } => {
                let dtypes: Vec<DType> = operands.iter().map(|&id| self.kernel.dtype(id)).collect();
                let values: Vec<String> = operands
                    .iter()
                    .map(|&operand| self.known(scope, operand, lane))
                    .collect();
                let divisor = operands.get(1).map(|&divisor| self.kernel.node(divisor));
                let divides_by_zero = match divisor {
                    Some(Node::Literal(value)) => *value == ScalarValue::zero(value.dtype()),
                    _ => true,
                };
                self.apply(*op, &dtypes, &values, divides_by_zero)
            }
            Node::Call {
                function,
                parameters,
                operands,
            } => {
                let dtypes: Vec<DType> = operands.iter().map(|&id| self.kernel.dtype(id)).collect();
                let values: Vec<String> = operands
                    .iter()
                    .map(|&operand| self.known(scope, operand, lane))
                    .collect();
                self.call(*function, parameters, &dtypes, &values)
            }
        }
    }

    /// An operation on values; `may_divide_by_zero` is false if the divisor is known not to be zero.
    fn apply(
        &self,
        op: ScalarOp,
        dtypes: &[DType],
        values: &[String],
        may_divide_by_zero: bool,
    ) -> String {
        let is_integer = dtypes.first().is_some_and(|dtype| dtype.is_integer());
        let divides = matches!(
            op,
            ScalarOp::Div | ScalarOp::FloorDiv | ScalarOp::Rem | ScalarOp::FloorMod
        );
        if is_integer && divides && may_divide_by_zero {
            if let Some(divisor) = values.get(1) {
                self.report_division(&format!("{divisor} == 0"), op.name());
            }
        } else if is_integer && op == ScalarOp::Pow {
            self.report_division(&format!("k_pow_faults({})", values.join(", ")), op.name());
        }
        let ty = match op.signature().result_type(dtypes) {
            Some(dtype) => c_type(dtype),
            None => unreachable!("the verifier typed the operation"),
        };
        let values = values.join(", ");
        match op {
            ScalarOp::Cast(_) => self.declare(ty, format_args!("k_cast<{ty}>({values})")),
            op => self.declare(ty, format_args!("k_{}({values})", op.name())),
        }
    }

    /// The definition of a function.
    fn call(
        &self,
        function: Function,
        parameters: &[f64],
        dtypes: &[DType],
        operands: &[String],
    ) -> String {
        let typed = function.expression(parameters).and_then(|expression| {
            let types = expression.node_types(dtypes)?;
            Ok((expression, types))
        });
        let Ok((expression, types)) = typed else {
            unreachable!("the verifier typed the call")
        };
        let mut values: Vec<String> = Vec::with_capacity(types.len());
        for (node, &dtype) in expression.nodes().iter().zip(&types) {
            let value = match node {
                ExprNode::Input(position) => operands.get(*position).cloned(),
                ExprNode::Constant(value) => Some(self.declare(c_type(dtype), literal(*value))),
                ExprNode::Literal { number, .. } => ScalarValue::from_number(*number, dtype)
                    .map(|value| self.declare(c_type(dtype), literal(value))),
                ExprNode::Apply { op, operands } => {
                    let picked: Vec<String> = operands
                        .iter()
                        .filter_map(|id| values.get(id.index()).cloned())
                        .collect();
                    let dtypes: Vec<DType> = operands
                        .iter()
                        .filter_map(|id| types.get(id.index()).copied())
                        .collect();
                    Some(self.apply(*op, &dtypes, &picked, true))
                }
                _ => None,
            };
            match value {
                Some(value) => values.push(value),
                None => {
                    unreachable!("a typed expression consists of inputs, numbers and operations")
                }
            }
        }
        match values.get(expression.result().index()) {
            Some(value) => value.clone(),
            None => unreachable!("an expression's result is one of its nodes"),
        }
    }

    /// The value of a stage at known indices.
    fn local(
        &self,
        scope: &mut Scope,
        (stage, when): (StageId, When),
        id: NodeId,
        indices: &[NodeId],
        lane: u32,
    ) -> String {
        let ty = c_type(self.kernel.dtype(id));
        let array = match scope.place_of(stage, when) {
            Place::Values(values) => {
                let lane = if values.len() > 1 { lane as usize } else { 0 };
                let Some(value) = values.get(lane) else {
                    unreachable!("a value per lane, or one")
                };
                // The variable of a previous step changes at the end of this one.
                return match when {
                    When::Previous => self.declare(ty, value),
                    When::Current | When::Last => value.clone(),
                };
            }
            Place::Array(array) => array.clone(),
        };
        if let Some(value) = self.local_vector(scope, (stage, id), &array, indices, lane) {
            return value;
        }
        let names: Vec<String> = indices
            .iter()
            .map(|&index| self.known(scope, index, lane))
            .collect();
        let inside = self.check_local(stage, indices, &names);
        let offset = array.offset(&names);
        let element = format!("{}[{offset}]", array.base);
        match inside {
            Some(inside) => self.declare(ty, format_args!("{inside} ? {element} : {ty}()")),
            None => self.declare(ty, element),
        }
    }

    /// Consecutive elements of an array along the lanes by one access; each lane's value is recorded.
    fn local_vector(
        &self,
        scope: &mut Scope,
        (stage, id): (StageId, NodeId),
        array: &super::scope::Array,
        indices: &[NodeId],
        lane: u32,
    ) -> Option<String> {
        let lanes = scope.lanes?;
        let (&last, outer) = indices.split_last()?;
        let step = |index| self.dependence.step_along(self.kernel, index, lanes.axis);
        let is_consecutive =
            step(last) == Some(1) && outer.iter().all(|&index| step(index) == Some(0));
        let axes = &self.kernel.stage(stage).axes;
        let mut pairs = indices.iter().zip(axes);
        let is_inside = pairs.all(|(&index, &axis)| self.is_index_of(index, axis));
        if array.step.is_some() || !is_consecutive || !is_inside {
            return None;
        }
        let ty = c_type(self.kernel.dtype(id));
        let first: Vec<String> = indices
            .iter()
            .map(|&index| self.value(scope, index, 0))
            .collect();
        let (vector, count) = (self.fresh("x"), lanes.count);
        let (base, offset) = (&array.base, array.offset(&first));
        self.line(format_args!(
            "const k_vector<{ty}, {count}> {vector} = k_load_vector<{ty}, {count}>({base} + ({offset}));"
        ));
        for lane in 0..count {
            scope.learn(id, lane, format!("{vector}.at[{lane}]"));
        }
        Some(format!("{vector}.at[{lane}]"))
    }

    /// Whether an index is an axis with the bound of this one, so that it is in bounds.
    fn is_index_of(&self, index: NodeId, axis: kiln_kernel::AxisId) -> bool {
        let bound = |axis| self.kernel.axis(axis).extent.bound();
        match self.kernel.node(index) {
            Node::Axis(other) => bound(*other) == bound(axis),
            _ => false,
        }
    }

    /// Tests indices of a local that are not the axes of its stage, and reports one out of bounds.
    fn check_local(&self, stage: StageId, indices: &[NodeId], names: &[String]) -> Option<String> {
        let axes = &self.kernel.stage(stage).axes;
        let mut tests = Vec::new();
        for ((&index, &axis), name) in indices.iter().zip(axes).zip(names) {
            if !self.is_index_of(index, axis) {
                let size = self.size(self.kernel.axis(axis).extent.bound());
                tests.push(format!("((k_u64){name} < (k_u64){size})"));
            }
        }
        if tests.is_empty() {
            return None;
        }
        let inside = self.declare("bool", tests.join(" && "));
        let name = &self.kernel.stage(stage).name;
        self.report_index(&format!("!{inside}"), format!("index of `{name}`"));
        Some(inside)
    }
}

impl super::scope::Array {
    /// The position of an element, in elements from the base.
    pub(super) fn offset(&self, indices: &[String]) -> String {
        let mut indices = indices.iter();
        let Some(first) = indices.next() else {
            return "0".to_owned();
        };
        let joined = indices
            .zip(&self.extents)
            .fold(first.clone(), |sum, (index, extent)| {
                format!("({sum}) * {extent} + {index}")
            });
        match &self.step {
            Some(step) => format!("({joined}) * {step}"),
            None => joined,
        }
    }
}
