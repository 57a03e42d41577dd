//! Scalar functions: the meaning of element-wise operations on one element.
//!
//! Everything Kiln computes element by element is defined here, once: the interpreter, the code generators and
//! automatic differentiation all use the same definitions.
//!
//! - [`ScalarOp`]: the primitive operations, each with its behaviour on every input, including edge cases. A code generator
//!   implements these and nothing else.
//! - [`Expr`]: an expression over them, built with an [`ExprBuilder`], generic over dtypes until [`Expr::result_type`] is
//!   queried. There is no implicit promotion.
//! - [`Function`]: the named functions (`relu`, `gelu`, … and every primitive), from one table.
//! - [`differentiate`] and [`Function::derivative`]: derivatives, which are expressions too.
//! - [`evaluate`] and [`BlockEvaluator`]: the value of an expression, for one element or many.
//!
//! ```
//! use kiln_scalar::{Function, Mode, ScalarValue, evaluate};
//! use kiln_tensor::DType;
//!
//! let silu = Function::by_name("silu").ok_or("not there")?;
//! let expr = silu.expression(&[])?;
//! assert_eq!(expr.to_string(), "mul(x0, sigmoid(x0))");
//! assert_eq!(expr.result_type(&[DType::F32])?, DType::F32);
//! let y = evaluate(&expr, &[ScalarValue::F32(2.0)], Mode::Declared)?;
//! assert_eq!(y, ScalarValue::F32(1.7615942));
//! let slope = silu.derivative(&[], 0)?.ok_or("not differentiable")?;
//! assert_eq!(slope.n_inputs(), 2); // x, and the derivative with respect to the result
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[macro_use]
mod op;
mod error;
mod rounding;
mod value;

mod expr;

mod differentiate;
mod function;

mod block;
mod evaluate;
mod primitive;

pub use block::{Block, BlockMut};
pub use differentiate::differentiate;
pub use error::{ScalarError, ScalarFault};
pub use evaluate::{BlockEvaluator, Mode, evaluate, evaluate_op};
pub use expr::{Expr, ExprBuilder, ExprNode, NodeId};
pub use function::{Function, Parameter};
pub use op::{ScalarOp, Signature};
pub use value::ScalarValue;
