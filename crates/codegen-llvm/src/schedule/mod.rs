//! Which tile suits a kernel: the schedules, by class, and their text form.
//!
//! A [`Schedule`] names a class's file and carries the numbers of its [`Plan`]; code is generated from the plan alone, so
//! what a schedule's text says is what was compiled. Axes are named by their position among the outer axes.

mod cost;
mod edges;
mod fallback;
mod layout;
mod order;
mod pack;
mod plan;
mod regime;
mod rows;
mod scan;
mod tile_costs;
mod tiled;
mod tiles;
pub(crate) mod work;

use kiln_backend::{Candidate, FALLBACK_SCHEDULE, Schedule};
use kiln_kernel::{Class, VerifiedKernel};

pub(crate) use edges::edges;
pub(crate) use order::columns_first;
pub(crate) use plan::Plan;
pub(crate) use regime::{Regime, of_plan as regimes};
pub use tiles::{TILED_VECTORS, contraction_tiles};

use crate::error::LlvmError;
use crate::lower::Transform;
use kiln_backend::IsaLevel;

/// The schedules for a kernel, best first; the last one is the fallback. Windows of three by three have tiles of as many
/// sums as the transform has.
pub(crate) fn candidates(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
) -> Vec<Candidate> {
    let mut plans = Vec::new();
    let class = kernel.classification().class;
    match class {
        Class::Scan => plans.push(scan::plan(kernel, level)),
        _ if scan::is_serial(kernel) => plans.push(scan::plan(kernel, level)),
        _ => plans.extend(tiled::plan(kernel, level, transform)),
    }
    let mut candidates: Vec<Candidate> = plans
        .into_iter()
        .map(|plan| candidate(kernel, plan.to_schedule(class.as_word())))
        .collect();
    candidates.push(candidate(
        kernel,
        fallback::plan().to_schedule(FALLBACK_SCHEDULE),
    ));
    candidates
}

fn candidate(kernel: &VerifiedKernel, schedule: Schedule) -> Candidate {
    let cost = cost::nanoseconds(kernel, schedule.is_fallback());
    let layouts = match schedule.get("lanes") {
        Some(lanes) => layout::preferred(kernel, lanes as u32),
        None => Vec::new(),
    };
    Candidate {
        schedule,
        predicate: Vec::new(),
        layouts,
        cost,
    }
}

/// The schedule with a smaller tile, for code that does not fit the registers; nothing if there is none.
pub(crate) fn smaller(kernel: &VerifiedKernel, schedule: &Schedule) -> Option<Schedule> {
    let plan = Plan::from_schedule(kernel, schedule).ok()?.smaller()?;
    Some(plan.to_schedule(&schedule.name))
}

/// The plan that a schedule stands for.
///
/// # Errors
/// If the schedule is not one of this backend's for this kernel.
pub(crate) fn plan_of(kernel: &VerifiedKernel, schedule: &Schedule) -> Result<Plan, LlvmError> {
    Plan::from_schedule(kernel, schedule)
}
