//! Kiln's reference interpreter: defines the meaning of every operation; slow and obviously correct.
//!
//! Compiled code is tested against it. [`interpret`] runs a verified graph on tensors; [`evaluate_op`] computes one op,
//! for constant folding; [`bind_symbols`] binds symbols to the shapes of inputs and checks every fact about them.
//!
//! Two modes (`kiln_scalar::Mode`): *declared* rounds each op's result once to its dtype, *promoted* keeps every float in
//! `f64`. Products, convolutions, reductions and resamplings of floats accumulate in `f64` in both; integers wrap. An error
//! such as an index out of range or a division by zero is a typed fault that names the op and its operands.
//!
//! ```
//! use kiln_interpreter::{InterpretOptions, interpret};
//! use kiln_ir::{Graph, NewOp, Op, Type};
//! use kiln_tensor::{DType, Tensor};
//!
//! let mut graph = Graph::new("double");
//! let n = graph.dims_mut().symbol("N")?;
//! let x = graph.add_input("x", Type::tensor(DType::F32, [n]));
//! let add = Op::map(kiln_scalar::Function::by_name("add").ok_or("no add")?);
//! let op = graph.append(graph.body(), NewOp::new(add, [x, x], [Type::tensor(DType::F32, [n])]));
//! graph.set_outputs([("y", graph.op(op).results[0])]);
//!
//! let x = Tensor::from_slice(&[3], &[1.0f32, 2.0, 3.0])?;
//! let outputs = interpret(&graph, &[x], &InterpretOptions::default())?;
//! assert_eq!(outputs[0].to_vec::<f32>()?, [2.0, 4.0, 6.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod fault;
mod options;

mod bind;
mod constant_value;
mod context;
mod evaluate;
mod interpret;
mod interrupt;

mod liveness;
mod ops;
mod requirements;
mod temporaries;
mod windows;

mod buffer;
mod element;

pub use bind::{PlanFactValue, bind_symbols, plan_facts_hold};
pub use constant_value::constant_value;
pub use context::EvaluateContext;
pub use error::{InputAxis, InterpretError, OpSite};
pub use evaluate::evaluate_op;
pub use fault::{OpFault, OperandDescription};
pub use interpret::{interpret, interpret_loop};
pub use options::{CustomOp, CustomOps, InterpretLimits, InterpretOptions, TraceEvent};
pub use requirements::check_requirements;
pub use windows::check_window_elements;
