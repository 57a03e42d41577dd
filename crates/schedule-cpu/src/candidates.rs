//! The schedules for a kernel, by class.
//!
//! A [`Schedule`] names a class's file and carries the numbers of its [`Plan`]. Axes are named by their position among the
//! outer axes.

use kiln_backend::{Candidate, FALLBACK_SCHEDULE, IsaLevel, Schedule};
use kiln_kernel::{Class, VerifiedKernel};

use super::plan::Plan;
use super::winograd::Transform;
use super::{cost, fallback, preferred_layout, scan, tiled};

/// The schedules for a kernel, best first; the last one is the fallback. 3 x 3 windows have tiles of as many sums as the
/// transform has.
pub fn candidates(
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
        Some(lanes) => preferred_layout::preferred(kernel, lanes as u32),
        None => Vec::new(),
    };
    Candidate {
        schedule,
        predicate: Vec::new(),
        layouts,
        cost,
    }
}

/// The schedule with a smaller tile, for code that spills; `None` if there is none.
pub fn smaller_tile(kernel: &VerifiedKernel, schedule: &Schedule) -> Option<Schedule> {
    let plan = Plan::from_schedule(kernel, schedule).ok()?.smaller()?;
    Some(plan.to_schedule(&schedule.name))
}
