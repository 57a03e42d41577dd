//! The trip count of a loop, as represented in a program.

use kiln_ir::{LoopCourse, LoopTrips, OpId};

use super::Builder;
use crate::step::Course;

/// What is known of a loop before it runs.
pub(super) fn course_of(program: &mut Builder<'_>, id: OpId) -> Course {
    let LoopCourse {
        trips,
        begins,
        goes_on,
    } = LoopCourse::of(&program.graph, id);
    let trips = trips.map(|trips| match trips {
        LoopTrips::Size(size) => size,
        LoopTrips::Count(count) => program.graph.dims_mut().constant(count),
    });
    Course {
        trips: trips.map(|trips| program.sizes.intern(trips)),
        begins,
        goes_on,
    }
}
