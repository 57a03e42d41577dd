//! Generates CUDA C from kernels, without includes; instructions that C lacks are wrapped in functions of the prelude.
//!
//! A [`Plan`] describes how a kernel is mapped to the GPU; its text is the schedule's text, and code is generated from
//! it alone. Each strategy is one file, which writes one function per phase with shared components: values of nodes
//! ([`expression`]), accesses ([`access`]), reductions ([`reduce`]), and items computed by one thread ([`items`]).
//!
//! *Invariants.* Sizes decide which tile or thread group serves a call, by giving its phases tasks and the others none;
//! results do not depend on how many blocks run at a time, and no float is added atomically. Device-only operations are
//! wrapped in the functions of `prelude/device.cuh`.

mod access;
mod attention;
mod c_type;
mod contraction;
mod expression;
mod fallback;
mod function;
mod gemm;
mod index_width;
mod items;
mod launch;
mod lowering;
mod map;
mod plan;
mod propose;
mod reduce;
mod row;
mod scope;
mod source;
mod split;
mod tile;
mod unit;
mod writer;

use kiln_backend::Quantity;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Kernel, VerifiedKernel};

use index_width::narrow_where_possible;
use lowering::Lowering;
use scope::Scope;

pub(crate) use lowering::strides;
pub(crate) use plan::Plan;
pub(crate) use propose::{Machine, propose};
pub(crate) use source::{Source, for_device, prelude};

use crate::error::CudaError;

/// Writes a kernel with a plan.
///
/// # Errors
/// If the plan does not apply to this kernel, or the kernel has more buffers and sizes than a launch can pass.
pub(crate) fn generate(kernel: &VerifiedKernel, plan: &Plan) -> Result<Source, CudaError> {
    let dependence = Dependence::of(kernel);
    let lowering = Lowering::new(kernel, &dependence);
    let functions = match plan {
        Plan::Fallback => fallback::generate(&lowering),
        Plan::Map(plan) => map::generate(&lowering, plan)?,
        Plan::Row(plan) => row::generate(&lowering, plan)?,
        Plan::Gemm => gemm::generate(&lowering)?,
        Plan::Split(plan) => split::generate(&lowering, plan)?,
        Plan::Contraction(plan) => contraction::generate(&lowering, plan)?,
        Plan::Attention(plan) => attention::generate(&lowering, plan)?,
    };
    // Tiles of products hide offsets behind arithmetic, and take long to compile.
    let functions = match plan {
        Plan::Map(_) | Plan::Row(_) | Plan::Split(_) => narrow_where_possible(kernel, functions),
        _ => functions,
    };
    source::assemble(&lowering, functions)
}

/// The number of points of axes whose extents are sizes.
fn points(kernel: &Kernel, axes: &[AxisId]) -> Quantity {
    let sizes = axes
        .iter()
        .map(|&axis| Quantity::of(kernel.dims(), kernel.axis(axis).extent.bound()));
    sizes.fold(Quantity::constant(1), |product, size| product * size)
}

/// Declares the indices of axes from the number of a point, the last axis fastest.
fn split_points(lowering: &Lowering<'_>, scope: &mut Scope, point: &str, axes: &[AxisId]) {
    let mut rest = point.to_owned();
    for (place, &axis) in axes.iter().enumerate().rev() {
        if place == 0 {
            scope.set_axis(axis, rest.clone());
            break;
        }
        let extent = lowering.size(lowering.kernel.axis(axis).extent.bound());
        let index = lowering.fresh("a");
        lowering.line(format_args!("k_i64 {index};"));
        rest = lowering.declare(
            "k_i64",
            format_args!("k_split<k_index>({rest}, {extent}, {index})"),
        );
        scope.set_axis(axis, index);
    }
}
