//! How a kernel is arranged: the strategies' choices, with a text, and which ones are offered for a kernel.

use std::fmt;

use kiln_backend::{FALLBACK_SCHEDULE, Schedule};
use kiln_kernel::analysis::{Dependence, accesses};
use kiln_kernel::{AxisId, Class, VerifiedKernel};
use kiln_symbolic_shape::DimId;

use crate::error::CudaError;

/// How a kernel is arranged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// One thread per point.
    Fallback,
    /// Lanes along an outer axis.
    Map(MapPlan),
    /// A group of threads per point.
    Row(RowPlan),
}

/// The choices of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapPlan {
    /// The axis along which a thread's points are, by number.
    pub(crate) axis: u32,
    /// The points of a thread.
    pub(crate) lanes: u32,
}

/// The choices of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowPlan {
    /// Threads of a group: 32, or those of a block.
    pub(crate) threads: u32,
    /// Consecutive elements of a thread.
    pub(crate) lanes: u32,
}

impl Plan {
    /// The name of its strategy.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Plan::Fallback => FALLBACK_SCHEDULE,
            Plan::Map(_) => "map",
            Plan::Row(_) => "row",
        }
    }

    /// The schedule.
    pub(crate) fn schedule(&self) -> Schedule {
        let schedule = Schedule::new(self.name());
        match self {
            Plan::Fallback => schedule,
            plan => schedule.with_text(plan.to_string()),
        }
    }

    /// The plan of a schedule.
    ///
    /// # Errors
    /// If its text is not a plan's.
    pub(crate) fn of(schedule: &Schedule) -> Result<Self, CudaError> {
        let unknown = || CudaError::Schedule {
            text: format!("{} `{}`", schedule.name, schedule.text),
        };
        if schedule.is_fallback() {
            return Ok(Plan::Fallback);
        }
        let words: Vec<&str> = schedule.text.split_whitespace().collect();
        let number = |text: &str| text.parse::<u32>().ok();
        match words.as_slice() {
            ["map", "axis", axis, "lanes", lanes] => {
                let plan = number(axis).zip(number(lanes));
                let plan = plan.filter(|(_, lanes)| [1, 2, 4, 8].contains(lanes));
                let (axis, lanes) = plan.ok_or_else(unknown)?;
                Ok(Plan::Map(MapPlan { axis, lanes }))
            }
            ["row", "threads", threads, "lanes", lanes] => {
                let plan = number(threads).zip(number(lanes));
                let plan = plan.filter(|(threads, lanes)| {
                    [32, 64, 128, 256, 512, 1024].contains(threads) && [1, 2, 4, 8].contains(lanes)
                });
                let (threads, lanes) = plan.ok_or_else(unknown)?;
                Ok(Plan::Row(RowPlan { threads, lanes }))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Fallback => formatter.write_str(FALLBACK_SCHEDULE),
            Plan::Map(MapPlan { axis, lanes }) => {
                write!(formatter, "map axis {axis} lanes {lanes}")
            }
            Plan::Row(RowPlan { threads, lanes }) => {
                write!(formatter, "row threads {threads} lanes {lanes}")
            }
        }
    }
}

/// The plans offered for a kernel, best first; the last one is the fallback.
pub(crate) fn propose(kernel: &VerifiedKernel) -> Vec<Plan> {
    let dependence = Dependence::of(kernel);
    let mut plans = Vec::new();
    let reduces_inside = reduces_along_inner(kernel, &dependence);
    let map = map_plan(kernel, &dependence);
    let row = row_plan(kernel).filter(|_| kernel.classification().class != Class::Map);
    let (first, second) = match reduces_inside {
        true => (row, map),
        false => (map, row.filter(|_| super::items::has_arrays(kernel))),
    };
    plans.extend(first);
    plans.extend(second);
    plans.push(Plan::Fallback);
    plans
}

/// Whether what is reduced or stored is consecutive along an inner axis.
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
    access: &kiln_kernel::analysis::Access<'_>,
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
fn map_plan(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<Plan> {
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
    let narrowest = all
        .iter()
        .filter(|access| is_consecutive(kernel, dependence, access, axis))
        .map(|access| kernel.buffer(access.buffer).dtype.size_in_bytes())
        .min();
    let lanes = match narrowest {
        Some(bytes) => (16 / bytes.max(2)).min(8) as u32,
        None => 1,
    };
    Some(Plan::Map(MapPlan {
        axis: axis.as_u32(),
        lanes,
    }))
}

/// Rows: a warp each where they are known to be short, else a block each.
fn row_plan(kernel: &VerifiedKernel) -> Option<Plan> {
    if !super::row::serves(kernel) {
        return None;
    }
    let inner = kernel.axes().iter();
    let inner = inner.filter(|(axis, _)| !kernel.outer().contains(axis));
    let size = |dim: DimId| kernel.dims().as_constant(dim);
    let longest = inner.map(|(_, axis)| size(axis.extent.bound())).max()?;
    let narrowest = kernel
        .buffers()
        .values()
        .map(|buffer| buffer.dtype.size_in_bytes())
        .min()?;
    let threads = match longest {
        Some(..=1024) => 32,
        _ => 256,
    };
    Some(Plan::Row(RowPlan {
        threads,
        lanes: (16 / narrowest.max(2)).min(8) as u32,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip_through_schedules() {
        let plans = [
            Plan::Fallback,
            Plan::Map(MapPlan { axis: 2, lanes: 8 }),
            Plan::Row(RowPlan {
                threads: 256,
                lanes: 4,
            }),
        ];
        for plan in plans {
            assert_eq!(Plan::of(&plan.schedule()).unwrap(), plan);
        }
    }

    #[test]
    fn other_texts_are_not_plans() {
        for text in [
            "",
            "map",
            "map axis 0 lanes 3",
            "row threads 31 lanes 4",
            "row threads",
        ] {
            let schedule = Schedule::new("map").with_text(text);
            let error = Plan::of(&schedule).unwrap_err();
            assert_eq!(error.code(), "E0552", "{text}");
        }
    }
}
