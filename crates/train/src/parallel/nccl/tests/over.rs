//! Ranks that are started through another group.

use super::mock::{Mock, PART_BYTES, World, fault};
use super::{computed, on_ranks};
use crate::parallel::nccl::agree;
use crate::parallel::nccl::calls::Result;
use crate::parallel::{Local, LocalGroup};
use std::sync::Arc;

/// The ranks of a group, and their calls.
fn pairs(world: &Arc<World>, planted: Option<&'static str>, on: usize) -> Vec<(Local, Mock)> {
    let mocks = world.mocks_with(|rank| planted.filter(|_| rank == on));
    let ranks = LocalGroup::ranks(mocks.len());
    ranks.into_iter().zip(mocks).collect()
}

#[test]
fn ranks_of_another_group_are_started_with_the_id_of_rank_0() {
    let world = World::new(3);
    let found = on_ranks(pairs(&world, None, 0), |(local, mock)| {
        let ranks = agree::start_over(&local, Ok(mock), PART_BYTES).unwrap();
        drop(local);
        computed(&ranks)
    });
    let expected = on_ranks(LocalGroup::ranks(3), |rank| computed(&rank));
    assert_eq!(found, expected);
    world.expect_released(3);
}

#[test]
fn a_rank_that_does_not_start_is_an_error_of_all() {
    for (call, rank) in [("open", 1), ("unique_id", 0), ("connect", 1), ("alloc", 0)] {
        let world = World::new(2);
        let planted = pairs(&world, Some(call), rank);
        let found = on_ranks(planted, |(local, mock)| {
            let is_open = call != "open" || mock.place().1 != rank;
            let calls: Result<Mock> = if is_open { Ok(mock) } else { Err(fault(call)) };
            agree::start_over(&local, calls, PART_BYTES).unwrap_err()
        });
        assert_eq!(found[rank], fault(call));
        let other = found[1 - rank].to_string();
        assert!(other.contains("found 1 of 2 that failed"), "{other}");
        world.expect_released(match call {
            "open" | "unique_id" => 0,
            "connect" => 1,
            _ => 2,
        });
    }
}
