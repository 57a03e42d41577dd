//! The kernel IR, between fusion and the backends: what one fused loop nest computes, never how.
//!
//! Fusion produces kernels and backends compile them; neither depends on the other. A kernel consists of
//!
//! - sizes, as expressions over symbols, with the facts known about them; buffers `in`, `out`, `inout` or `const`;
//! - outer axes, whose points are independent, and at each point *stages* (a scalar expression mapped or reduced over
//!   inner axes, into a local), *stores*, and `carry` blocks that run such items sequentially;
//! - one scalar language, in which axes and sizes are integers, so an index can be any integer expression.
//!
//! [`text`] prints and reads kernels, and documents the grammar. [`evaluate()`] defines the meaning of a kernel, and is
//! slow and simple. [`verify()`] accepts well-formed kernels: it proves that plain stores write each element once,
//! determines how each index stays in bounds ([`IndexClass`]), and finds the [`Class`] of the loop nest and the role of
//! each axis. Backends accept only a [`VerifiedKernel`], so none of them can fail on a kernel's structure.
//! [`canonicalize()`] gives structurally equal kernels the same text. [`analysis`] has the queries shared by several
//! backends.
//!
//! Nothing here compiles or runs a kernel, waits, or reads the environment: the interfaces for compilers and devices
//! are in `kiln-backend`.
//!
//! ```
//! use kiln_kernel::{Class, IndexClass, text, verify};
//!
//! let kernel = text::read(
//!     "kernel @linear(%x: in f32[M, K], %w: const f32[K, N], %y: out f32[M, N]) {
//!        outer m < M, n < N
//!        acc = reduce add[k < K] %x[m, k] * %w[k, n]
//!        store %y[m, n] = relu(acc)
//!      }",
//! )
//! .expect("the text of a kernel");
//! let kernel = verify(kernel)?;
//! assert_eq!(kernel.classification().class, Class::Contraction);
//! assert_eq!(kernel.info().stores[0].indices, [IndexClass::Proved; 2]);
//! # Ok::<(), kiln_kernel::KernelErrors>(())
//! ```
//!
//! *Invariants.* Nothing here is specific to one backend. Nothing recurses over structures that users can make deep.
//! Nothing is assumed without proof: an index that is not proved in bounds is guarded or checked.

#![forbid(unsafe_code)]

mod form;

pub mod analysis;
mod canonicalize;
mod classify;
mod error;
mod evaluate;
mod fold_selections;
pub mod seeded;
mod specialize;
pub mod text;
mod verified;
mod verify;

pub use canonicalize::{CanonicalKernel, CanonicalPolicy, canonicalize, canonicalize_with};
pub use classify::{AxisRole, Class, Classification, Contraction};
pub use error::{KernelError, KernelErrors};
pub use evaluate::{EvaluateError, evaluate};
pub use form::{
    Axes, Axis, AxisId, Buffer, BufferId, Carry, Combine, Dims, Extent, Item, Kernel,
    KernelBuilder, Load, LoadGuard, Node, NodeData, NodeId, Nodes, Reduction, Role, Stage, StageId,
    StageOperation, Store,
};
pub use specialize::specialize;
pub use verified::{IndexClass, KernelInfo, StoreInfo, VerifiedKernel};
pub use verify::verify;
