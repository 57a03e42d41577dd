//! Proposes plans for a kernel.

use kiln_kernel::analysis::{Access, Dependence, accesses};
use kiln_kernel::{AxisId, Node, VerifiedKernel};

use super::plan::{ContractionPlan, MapPlan, Plan, RowPlan, SplitPlan, Team, TilePlan};
use super::unit::Unit;
use crate::arch::CudaArch;

/// Bytes of shared memory of the largest tile's ring buffer, with room for the system's share.
const LARGEST_TILE_BYTES: u32 = 220 << 10;

/// The properties of the machine on which the choice of plans depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    /// Whether there is cuBLASLt.
    pub(crate) has_library: bool,
    /// Bytes of shared memory that a block can have.
    pub(crate) shared_bytes: u32,
    /// Whether groups of warps multiply matrices in shared memory.
    pub(crate) has_warp_groups: bool,
}

impl Machine {
    /// A device of an architecture.
    pub(crate) fn of(arch: CudaArch, has_library: bool) -> Self {
        Self {
            has_library,
            shared_bytes: arch.shared_bytes(),
            has_warp_groups: arch.has_warp_groups(),
        }
    }
}

/// The plans offered for a kernel, best first; the last one is the fallback.
pub(crate) fn propose(kernel: &VerifiedKernel, machine: Machine) -> Vec<Plan> {
    let dependence = Dependence::of(kernel);
    let mut plans = Vec::new();
    if machine.has_library && super::gemm::serves(kernel, &dependence) {
        plans.push(Plan::Gemm);
    }
    plans.extend(contraction_plans(kernel, &dependence, machine));
    let attention = super::attention::plans(kernel, &dependence, machine.shared_bytes);
    plans.extend(attention.into_iter().map(Plan::Attention));
    let map = map_plan(kernel, &dependence);
    let row = row_plan(kernel, &dependence);
    let is_split = super::split::single_reduction(kernel).is_some();
    let split = |plan: SplitPlan| is_split.then_some(Plan::Split(plan));
    match (reduces_along_inner(kernel, &dependence), row, map) {
        (true, Some(row), map) => {
            plans.extend(split(SplitPlan::Rows(row)));
            plans.push(Plan::Row(row));
            plans.extend(map.map(Plan::Map));
        }
        (_, row, Some(map)) => {
            plans.extend(split(SplitPlan::Columns(map)));
            plans.push(Plan::Map(map));
            plans.extend(row.filter(|_| is_split).map(Plan::Row));
        }
        (_, row, None) => plans.extend(row.map(Plan::Row)),
    }
    plans.push(Plan::Fallback);
    plans
}

/// Whether the reduced or stored elements are consecutive along an inner axis.
fn reduces_along_inner(kernel: &VerifiedKernel, dependence: &Dependence) -> bool {
    let mut all = accesses(kernel).into_iter();
    all.any(|access| {
        let is_along = |&axis: &AxisId| is_consecutive(kernel, dependence, &access, axis);
        access.axes.iter().any(is_along)
    })
}

fn is_consecutive(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    access: &Access<'_>,
    axis: AxisId,
) -> bool {
    let (Some(&last), buffer) = (access.indices.last(), kernel.buffer(access.buffer)) else {
        return false;
    };
    let is_dense = match &buffer.strides {
        None => true,
        Some(strides) => strides
            .last()
            .is_some_and(|&stride| kernel.dims().as_constant(stride) == Some(1)),
    };
    is_dense && dependence.step_along(kernel, last, axis) == Some(1)
}

/// A map along the outer axis with the most consecutive accesses.
fn map_plan(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<MapPlan> {
    let all = accesses(kernel);
    let score = |axis: AxisId| {
        let mut score = 0;
        for access in &all {
            if is_consecutive(kernel, dependence, access, axis) {
                score += if access.load.is_none() { 3 } else { 2 };
            }
        }
        score
    };
    let outer = kernel.outer().iter().copied();
    let servable = outer.filter(|&axis| super::map::serves(kernel, dependence, axis));
    let axis = servable.max_by_key(|&axis| score(axis))?;
    Some(MapPlan {
        axis: axis.as_u32(),
        lanes: lanes_along(kernel, dependence, &[axis]),
    })
}

/// The lanes along axes: 16 bytes of the narrowest elements that are consecutive there, or 32 bytes if they are
/// computed with, at most eight elements. Measured on an H200: with 16 bytes per thread a copy of f32 is 9 % faster,
/// gelu 8 % slower.
fn lanes_along(kernel: &VerifiedKernel, dependence: &Dependence, axes: &[AxisId]) -> u32 {
    let all = accesses(kernel).into_iter();
    let consecutive = all.filter(|access| {
        let mut axes = axes.iter();
        axes.any(|&axis| is_consecutive(kernel, dependence, access, axis))
    });
    let widths = consecutive.map(|access| kernel.buffer(access.buffer).dtype.size_in_bytes());
    let computes = kernel.nodes().values().any(|data| {
        let is_operation = matches!(data.node, Node::Apply { .. } | Node::Call { .. });
        is_operation && data.dtype.is_float()
    });
    let bytes_at_once = if computes { 32 } else { 16 };
    match widths.min() {
        Some(bytes) => (bytes_at_once / bytes.max(1)).min(8) as u32,
        None => 1,
    }
}

/// Row plans, if a kernel has inner axes.
fn row_plan(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<RowPlan> {
    let axes = kernel.axes().keys();
    let inner: Vec<AxisId> = axes.filter(|axis| !kernel.outer().contains(axis)).collect();
    if inner.is_empty() || !super::row::serves(kernel) {
        return None;
    }
    Some(RowPlan {
        threads: 0,
        lanes: lanes_along(kernel, dependence, &inner).min(8),
    })
}

/// Plans for products: large tiles, then small ones.
fn contraction_plans(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    machine: Machine,
) -> Vec<Plan> {
    let Some(product) = super::contraction::Product::of(kernel, dependence) else {
        return Vec::new();
    };
    let unit = product.unit;
    let tile = |tile, warps| TilePlan {
        tile,
        team: Team::Warps(warps),
    };
    let (large, small) = match unit {
        Unit::F32 | Unit::I32 => (tile([128, 128, 16], [1, 1]), tile([64, 64, 16], [1, 1])),
        // Sums take two registers each.
        Unit::F64 | Unit::I64 => (tile([128, 64, 8], [1, 1]), tile([64, 64, 8], [1, 1])),
        Unit::I8 => (tile([128, 128, 32], [1, 1]), tile([64, 64, 32], [1, 1])),
        Unit::Bf16 | Unit::F16 => (tile([128, 128, 32], [2, 2]), tile([64, 64, 32], [2, 2])),
    };
    // Measured on an H200 at 8192^3: 277 TFLOP/s, compared with 259 for the next smaller tile. Reads of single
    // elements, such as those of windows, would take longer than its products, and more registers than are available.
    let largest = tile([256, 128, 64], [4, 2]);
    let has_room = unit.has_tensor_cores()
        && product.reads_vectors()
        && machine.shared_bytes >= LARGEST_TILE_BYTES;
    // A warp group adds m64n128k16 at a time, so its instructions read the right factor twice: still less than the rate of
    // shared memory, and ptxas takes half the time that it takes for n256.
    let in_groups = TilePlan {
        team: Team::WarpGroups(2),
        ..largest
    };
    let in_groups = (has_room && machine.has_warp_groups).then_some(in_groups);
    let largest = has_room.then_some(largest);
    let tiles = in_groups.into_iter().chain(largest).chain([large]);
    let plans = tiles.map(|tile| {
        Plan::Contraction(ContractionPlan {
            unit,
            tile,
            few: Some(small),
        })
    });
    plans.collect()
}
