//! Building expressions node by node.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::{Expr, ExprNode, NodeId, dangling};
use crate::{Function, ScalarError, ScalarOp, ScalarValue};

/// Builds an [`Expr`]; equal nodes are shared.
///
/// Mistakes (a wrong number of operands, an id of another builder) do not interrupt: the first one
/// is kept and [`ExprBuilder::finish`] reports it. Dtypes are checked later, by
/// [`Expr::result_type`].
///
/// ```
/// use kiln_scalar::ExprBuilder;
///
/// let mut b = ExprBuilder::new(2);
/// let (x, y) = (b.input(0), b.input(1));
/// let product = b.mul(x, y);
/// let one = b.literal(1.0, x);
/// let sum = b.add(product, one);
/// assert_eq!(b.finish(sum)?.to_string(), "add(mul(x0, x1), 1.0)");
/// # Ok::<(), kiln_scalar::ScalarError>(())
/// ```
#[derive(Debug)]
pub struct ExprBuilder {
    n_inputs: usize,
    nodes: Vec<ExprNode>,
    known: HashMap<ExprNode, NodeId>,
    error: Option<ScalarError>,
}

impl ExprBuilder {
    /// Starts an expression with this number of inputs.
    pub fn new(n_inputs: usize) -> ExprBuilder {
        ExprBuilder {
            n_inputs,
            nodes: Vec::new(),
            known: HashMap::new(),
            error: None,
        }
    }

    /// An input.
    pub fn input(&mut self, input: usize) -> NodeId {
        if input >= self.n_inputs {
            let n_inputs = self.n_inputs;
            return self.fail(ScalarError::InputOutOfRange { input, n_inputs });
        }
        self.push(ExprNode::Input(input))
    }

    /// All inputs, in order.
    pub fn inputs(&mut self) -> Vec<NodeId> {
        (0..self.n_inputs).map(|input| self.input(input)).collect()
    }

    /// A value with its own dtype.
    pub fn constant(&mut self, value: impl Into<ScalarValue>) -> NodeId {
        self.push(ExprNode::Constant(value.into()))
    }

    /// A number in the dtype of `like`.
    pub fn literal(&mut self, number: f64, like: NodeId) -> NodeId {
        // A literal is not itself a model; its model is used instead.
        let like = match self.nodes.get(like.index()) {
            Some(ExprNode::Literal { like, .. }) => *like,
            _ => like,
        };
        self.push(ExprNode::Literal { number, like })
    }

    /// A primitive operation; there is a method for each, too.
    pub fn apply(&mut self, op: ScalarOp, operands: &[NodeId]) -> NodeId {
        if operands.len() != op.arity() {
            let (expected, found) = (op.arity(), operands.len());
            return self.fail(ScalarError::Arity {
                name: op.name(),
                expected,
                found,
            });
        }
        self.push(ExprNode::Apply {
            op,
            operands: SmallVec::from_slice(operands),
        })
    }

    /// Conversion to a dtype.
    pub fn cast(&mut self, to: kiln_tensor::DType, a: NodeId) -> NodeId {
        self.apply(ScalarOp::Cast(to), &[a])
    }

    /// A named function; missing parameters take their defaults.
    pub fn call(&mut self, function: Function, operands: &[NodeId], parameters: &[f64]) -> NodeId {
        match function.define(self, operands, parameters) {
            Ok(result) => result,
            Err(error) => self.fail(error),
        }
    }

    /// A copy of another expression, with nodes of this one as its inputs.
    pub fn inline(&mut self, expr: &Expr, inputs: &[NodeId]) -> NodeId {
        let copied = self.inline_nodes(expr, inputs);
        match copied.get(expr.result().index()) {
            Some(&result) => result,
            None => self.fail(dangling(expr.nodes().len(), expr.result())),
        }
    }

    /// [`ExprBuilder::inline`], giving the copy of each node.
    pub(crate) fn inline_nodes(&mut self, expr: &Expr, inputs: &[NodeId]) -> Vec<NodeId> {
        if inputs.len() != expr.n_inputs() {
            let (expected, found) = (expr.n_inputs(), inputs.len());
            self.fail(ScalarError::InputCount { expected, found });
            return Vec::new();
        }
        let mut copies: Vec<NodeId> = Vec::with_capacity(expr.nodes().len());
        for node in expr.nodes() {
            // References of a finished expression lead backwards, so the copy is there.
            let copy_of = |id: &NodeId| copies.get(id.index()).copied().unwrap_or(*id);
            let copy = match node {
                ExprNode::Input(input) => match inputs.get(*input) {
                    Some(&given) => given,
                    None => self.input(*input),
                },
                ExprNode::Constant(value) => self.constant(*value),
                ExprNode::Literal { number, like } => self.literal(*number, copy_of(like)),
                ExprNode::Apply { op, operands } => {
                    let operands: SmallVec<[NodeId; 3]> = operands.iter().map(copy_of).collect();
                    self.apply(*op, &operands)
                }
            };
            copies.push(copy);
        }
        copies
    }

    /// The expression whose value is `result`, or the first mistake made.
    pub fn finish(self, result: NodeId) -> Result<Expr, ScalarError> {
        match self.error {
            Some(error) => Err(error),
            None if result.index() >= self.nodes.len() => Err(dangling(self.nodes.len(), result)),
            None => Ok(Expr {
                n_inputs: self.n_inputs,
                nodes: self.nodes,
                result,
            }),
        }
    }

    fn push(&mut self, node: ExprNode) -> NodeId {
        let position = self.nodes.len();
        if let Some(&unknown) = node.references().iter().find(|id| id.index() >= position) {
            return self.fail(dangling(position, unknown));
        }
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        let Ok(number) = u32::try_from(position) else {
            return self.fail(ScalarError::TooLarge {
                limit: u32::MAX as usize,
            });
        };
        self.nodes.push(node.clone());
        self.known.insert(node, NodeId(number));
        NodeId(number)
    }

    /// Keeps the first mistake; the returned id only lets the caller continue.
    fn fail(&mut self, error: ScalarError) -> NodeId {
        self.error.get_or_insert(error);
        NodeId(0)
    }
}

/// One method for each primitive, with its number of operands.
macro_rules! builder_methods {
    ($($variant:ident $name:ident $signature:ident $meaning:literal;)*) => {
        /// # Primitive operations
        #[allow(clippy::should_implement_trait, reason = "they take the builder, not operands")]
        impl ExprBuilder {
            $(builder_methods!(@ $signature $variant $name $meaning);)*
        }
    };
    (@ Select $variant:ident $name:ident $meaning:literal) => {
        #[doc = $meaning]
        pub fn $name(&mut self, a: NodeId, b: NodeId, c: NodeId) -> NodeId {
            self.apply(ScalarOp::$variant, &[a, b, c])
        }
    };
    (@ Numeric2 $($rest:tt)*) => { builder_methods!(@two $($rest)*); };
    (@ Float2 $($rest:tt)*) => { builder_methods!(@two $($rest)*); };
    (@ Compare $($rest:tt)*) => { builder_methods!(@two $($rest)*); };
    (@ Logical2 $($rest:tt)*) => { builder_methods!(@two $($rest)*); };
    (@ Bits2 $($rest:tt)*) => { builder_methods!(@two $($rest)*); };
    (@two $variant:ident $name:ident $meaning:literal) => {
        #[doc = $meaning]
        pub fn $name(&mut self, a: NodeId, b: NodeId) -> NodeId {
            self.apply(ScalarOp::$variant, &[a, b])
        }
    };
    (@ $unary:ident $variant:ident $name:ident $meaning:literal) => {
        #[doc = $meaning]
        pub fn $name(&mut self, a: NodeId) -> NodeId {
            self.apply(ScalarOp::$variant, &[a])
        }
    };
}

for_each_scalar_op!(builder_methods);
