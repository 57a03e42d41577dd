//! The candidate schedules of a kernel: the loops that the strategies propose, and the fallback.
//!
//! A [`Schedule`] is the text of a kernel's [`Loops`]. Its name consists of the strategies that proposed them, and the
//! rows, vectors and lanes of the last nest's tile.

use kiln_backend::{Candidate, FALLBACK_SCHEDULE, IsaLevel, Schedule};
use kiln_kernel::VerifiedKernel;

use crate::loops::{self, Loops};
use crate::strategies::{self, Problem};
use crate::winograd::Transform;
use crate::{cost, preferred_layout};

/// The schedules for a kernel, best first; the last one is the fallback. Winograd convolutions use up to the given
/// transform.
pub fn candidates(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    if let Some(problem) = Problem::new(kernel, level, transform) {
        candidates.push(Candidate {
            schedule: proposed(&problem),
            predicate: Vec::new(),
            layouts: preferred_layout::preferred(kernel, problem.lanes()),
            cost: cost::nanoseconds(kernel, false),
        });
    }
    candidates.push(Candidate {
        schedule: schedule(kernel, FALLBACK_SCHEDULE, &fallback(kernel)),
        predicate: Vec::new(),
        layouts: Vec::new(),
        cost: cost::nanoseconds(kernel, true),
    });
    candidates
}

/// The schedule with a third fewer rows in its usual tile, for code that spills; `None` if the tile cannot be reduced.
pub fn smaller_tile(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
    schedule: &Schedule,
) -> Option<Schedule> {
    let loops = loops::read(kernel, &schedule.text).ok()?;
    let tile = strategies::usual_tile(&loops)?;
    let (_, rows) = tile.rows.filter(|&(_, rows)| rows > 1)?;
    with_tile(kernel, level, transform, (rows * 2 / 3, tile.vectors))
}

/// The schedule with the usual tile of a more general kernel; `None` if the kernel has that tile anyway, or no rows.
pub fn adapted(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
    general: &Schedule,
) -> Option<Schedule> {
    let tile_of = |schedule: &Schedule| {
        let loops = loops::read(kernel, &schedule.text).ok()?;
        let tile = strategies::usual_tile(&loops)?;
        Some((tile.rows.map(|(_, rows)| rows)?, tile.vectors))
    };
    let tile = tile_of(general)?;
    let own = proposed(&Problem::new(kernel, level, transform)?);
    match tile_of(&own) {
        Some(own) if own != tile => with_tile(kernel, level, transform, tile),
        _ => None,
    }
}

/// The schedule with a usual tile of the given rows and vectors, for measuring them; `None` for a kernel whose tile has no
/// rows.
pub fn with_tile(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
    (rows, vectors): (u32, u32),
) -> Option<Schedule> {
    let problem = Problem::new(kernel, level, transform)?;
    problem
        .has_rows()
        .then(|| proposed(&problem.with_tile(rows, vectors)))
}

/// The loops of the fallback.
pub(crate) fn fallback(kernel: &VerifiedKernel) -> Loops {
    strategies::loops(&Problem::scalar(kernel))
}

fn proposed(problem: &Problem<'_>) -> Schedule {
    let loops = strategies::loops(problem);
    let mut names: Vec<&str> = Vec::new();
    for nest in &loops.nests {
        if !names.contains(&nest.strategy.as_str()) {
            names.push(&nest.strategy);
        }
    }
    let tile = loops.nests.last().map(|nest| nest.tile).unwrap_or_default();
    let rows = tile.rows.map_or(1, |(_, rows)| rows);
    let (vectors, lanes) = (tile.vectors, tile.lanes);
    let name = format!("{} {rows}x{vectors}x{lanes}", names.join("+"));
    schedule(problem.kernel, &name, &loops)
}

fn schedule(kernel: &VerifiedKernel, name: &str, loops: &Loops) -> Schedule {
    Schedule::new(name).with_text(loops.print(kernel))
}
