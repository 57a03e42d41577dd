//! The account compared with one that divides every nanosecond explicitly, for any number of threads.

use proptest::prelude::*;

use super::*;

/// What one of a few threads does next, after this much time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin {
        thread: usize,
        event: u32,
        kind: Kind,
    },
    End {
        thread: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let kind = prop_oneof![3 => Just(Kind::Work), 1 => Just(Kind::Wait), 1 => Just(Kind::Scope)];
    let step = prop_oneof![
        (0..3_usize, 0..4_u32, kind).prop_map(|(thread, event, kind)| Step::Begin {
            thread,
            event,
            kind
        }),
        (0..3_usize).prop_map(|thread| Step::End { thread }),
    ];
    prop::collection::vec((0..40_u64, step), 0..60)
}

/// Shares, divided nanosecond by nanosecond.
#[derive(Default)]
struct ByHand {
    wall: u64,
    unattributed: u64,
    events: [f64; 4],
}

impl ByHand {
    fn advance(&mut self, elapsed: u64, stacks: &[Vec<Frame>; 3]) {
        for _ in 0..elapsed {
            let innermost: Vec<&Frame> = stacks.iter().filter_map(|stack| stack.last()).collect();
            if innermost.is_empty() {
                continue;
            }
            self.wall += 1;
            let of = |kind| innermost.iter().filter(move |frame| frame.kind == kind);
            let kind = [Kind::Work, Kind::Wait]
                .into_iter()
                .find(|&kind| of(kind).count() > 0);
            match kind {
                None => self.unattributed += 1,
                Some(kind) => {
                    for frame in of(kind) {
                        self.events[frame.event as usize] += 1.0 / of(kind).count() as f64;
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn every_moment_is_attributed_and_shares_are_equal(steps in steps()) {
        let mut account = Account::default();
        let mut by_hand = ByHand::default();
        let mut stacks: [Vec<Frame>; 3] = Default::default();
        let mut now = 5;
        for (elapsed, step) in steps {
            by_hand.advance(elapsed, &stacks);
            now += elapsed;
            match step {
                Step::Begin { thread, event, kind } => {
                    let stack = &mut stacks[thread];
                    let frame = account.begin(now, stack.last_mut(), event, kind);
                    stack.push(frame);
                }
                Step::End { thread } => {
                    let stack = &mut stacks[thread];
                    if let Some(frame) = stack.pop() {
                        let is_inner = stack.iter().any(|outer| outer.event == frame.event);
                        account.end(now, frame, stack.last_mut(), is_inner);
                    }
                }
            }
            let balance = account.balance(now);
            let closed: u64 = balance.tallies.iter().map(Tally::wall).sum();
            let sum = closed + balance.open + balance.unattributed;
            prop_assert_eq!((balance.wall, balance.unattributed), (by_hand.wall, by_hand.unattributed));
            prop_assert!(sum.abs_diff(balance.wall) <= 3, "{} of {}", sum, balance.wall);
        }
        for stack in &mut stacks {
            while let Some(frame) = stack.pop() {
                account.end(now, frame, stack.last_mut(), false);
            }
        }
        let balance = account.balance(now);
        prop_assert_eq!(balance.open, 0);
        for (tally, by_hand) in balance.tallies.iter().zip(by_hand.events) {
            prop_assert!((tally.wall() as f64 - by_hand).abs() <= 1.0, "{} {}", tally.wall(), by_hand);
        }
    }
}

#[test]
fn waiting_time_is_attributed_to_working_threads() {
    let mut account = Account::default();
    let mut run = account.begin(0, None, 0, Kind::Work);
    let wait = account.begin(10, Some(&mut run), 1, Kind::Wait);
    let left = account.begin(20, None, 2, Kind::Work);
    let right = account.begin(20, None, 3, Kind::Work);
    account.end(60, left, None, false);
    account.end(80, right, None, false);
    account.end(90, wait, Some(&mut run), false);
    account.end(100, run, None, false);
    let balance = account.balance(150);
    let walls: Vec<u64> = balance.tallies.iter().map(Tally::wall).collect();
    assert_eq!((balance.wall, walls), (100, vec![20, 20, 20, 40]));
    let work: Vec<(u64, u64)> = balance
        .tallies
        .iter()
        .map(|tally| (tally.work, tally.waited))
        .collect();
    assert_eq!(work, [(20, 0), (0, 80), (40, 0), (60, 0)]);
    assert_eq!(balance.tallies[0].total, 100);
    assert_eq!((balance.most_threads, balance.open), (2, 0));
}

#[test]
fn a_recursive_event_counts_once_in_the_total() {
    let mut account = Account::default();
    let mut outer = account.begin(0, None, 0, Kind::Work);
    let inner = account.begin(10, Some(&mut outer), 0, Kind::Work);
    account.end(30, inner, Some(&mut outer), true);
    account.end(40, outer, None, false);
    let tally = account.balance(40).tallies[0];
    assert_eq!(
        (tally.count, tally.total, tally.work, tally.longest),
        (2, 40, 40, 40)
    );
}

#[test]
fn a_clock_that_goes_back_subtracts_nothing() {
    let mut account = Account::default();
    let frame = account.begin(100, None, 0, Kind::Work);
    assert_eq!(account.balance(150).open, 50);
    assert_eq!(account.end(20, frame, None, false), 0);
    account.add_device(1, 7);
    let balance = account.balance(30);
    assert_eq!(
        (
            balance.wall,
            balance.tallies[0].wall(),
            balance.tallies[1].device
        ),
        (50, 50, 7)
    );
}
