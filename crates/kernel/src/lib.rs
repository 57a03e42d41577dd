//! The kernel form between fusion and the backends: what one fused loop nest computes, never how.
//!
//! Fusion makes kernels and backends compile them; neither sees the other. A kernel is
//!
//! - sizes, as expressions over symbols, with what is known of them; buffers `in`, `out`, `inout` or `const`;
//! - outer axes, whose points are independent, and at each point *stages* (a scalar expression mapped or reduced over inner
//!   axes, into a local), *stores*, and `carry` blocks that run such items step by step;
//! - one scalar language, in which axes and sizes are integers, so an index is any integer expression.
//!
//! [`text`] prints and reads it, and is the reference of its grammar. [`evaluate()`] is its meaning, slow and plain.
//! [`verify()`] accepts meaningful kernels: it proves that plain stores write each element once, determines how each index
//! stays in bounds ([`IndexClass`]), and names the [`Class`] of the loop nest with the role of each axis. Backends accept
//! only a [`VerifiedKernel`], so none of them can fail on a kernel's structure. [`canonicalize()`] gives kernels of equal
//! structure equal texts. [`analysis`] has the queries that more than one backend needs.
//!
//! Nothing here compiles or runs a kernel, waits, or reads the environment: the interfaces of compilers and devices are in
//! `kiln-backend`.
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
//! *Invariants.* Nothing here is specific to one backend. Nothing recurses over structures that users can make deep. What
//! is not proved is never assumed: an index is tested where it is not known to be in bounds.

#![forbid(unsafe_code)]

mod form;

pub mod analysis;
mod canonicalize;
mod classify;
mod error;
mod evaluate;
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
