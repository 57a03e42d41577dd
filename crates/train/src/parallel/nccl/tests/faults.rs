//! Calls that fail, ranks that end, and ranks that never connect.

use super::mock::{Mock, PART_BYTES, World, fault};
use super::{on_ranks, started};
use crate::parallel::nccl::calls::Result;
use crate::parallel::nccl::ranks::Ranks;
use crate::parallel::{Collective, CollectiveError, Numbers};
use std::time::Duration;

/// The calls that can fail while ranks start, sum and broadcast.
const CALLS: [&str; 9] = [
    "connect",
    "alloc",
    "alloc_pinned",
    "copy_in",
    "all_reduce",
    "broadcast",
    "copy_out",
    "is_done",
    "asynchronous_error",
];

/// Starts a rank, sums two chunks, and broadcasts; then tries to sum again.
fn work(mock: Mock) -> (Result<()>, Option<CollectiveError>) {
    let (id, rank, size) = mock.place();
    let ranks = match Ranks::start(mock, &id, rank, size, PART_BYTES) {
        Ok(ranks) => ranks,
        Err(error) => return (Err(error), None),
    };
    let mut numbers = vec![1.5f32; PART_BYTES / 4 + 1];
    let result = ranks
        .all_reduce(Numbers::F32(&mut numbers))
        .and_then(|()| ranks.broadcast(&mut [1; 3], 0));
    let again = ranks.all_reduce(Numbers::F32(&mut [1.0]));
    (result, again.err())
}

#[test]
fn each_call_that_fails_is_an_error_of_its_rank_and_everything_is_released() {
    for call in CALLS {
        let world = World::new(2);
        let mocks = world.mocks_with(|rank| (rank == 1).then_some(call));
        let found = on_ranks(mocks, work);
        assert_eq!(found[1].0, Err(fault(call)), "{call}");
        // The other rank meets an asynchronous error, as the connection ends.
        let other = found[0].0.clone().unwrap_err().to_string();
        assert!(other.contains("found one that ended"), "{call}: {other}");
        for (_, again) in &found {
            let Some(again) = again else {
                continue;
            };
            let again = again.to_string();
            assert!(again.contains("an earlier operation failed"), "{again}");
        }
        let connected = if call == "connect" { 1 } else { 2 };
        world.expect_released(connected);
        assert_eq!(world.aborted(), connected, "{call}");
    }
}

#[test]
fn a_device_that_cannot_be_waited_for_is_released_too() {
    let world = World::new(1);
    let mocks = world.mocks_with(|_| Some("synchronize"));
    let found = on_ranks(mocks, work);
    assert_eq!(found, [(Ok(()), None)]);
    world.expect_released(1);
}

#[test]
fn a_rank_that_ends_is_an_error_of_the_others() {
    let world = World::new(3);
    let found = on_ranks(world.mocks(), |mock| {
        let ranks = started(mock);
        match ranks.rank() {
            1 => None,
            _ => ranks.all_reduce(Numbers::F64(&mut [1.0])).err(),
        }
    });
    assert!(found[0].is_some() && found[1].is_none() && found[2].is_some());
    world.expect_released(3);
    assert_eq!(world.aborted(), 2);
}

#[test]
fn a_rank_that_does_not_come_is_an_error_after_the_limit() {
    let world = World::new(1);
    let mut ranks = started(world.mocks().remove(0).late());
    ranks.wait_at_most(Duration::ZERO);
    let error = ranks.all_reduce(Numbers::F32(&mut [1.0])).unwrap_err();
    assert!(error.to_string().contains("within 0ns"), "{error}");
    drop(ranks);
    world.expect_released(1);
    assert_eq!(world.aborted(), 1);
}
