//! Chooses the waiting requests that are computed next: a pure function of the queue and the time, without waiting or
//! clocks.

use super::Job;
use crate::batching::Group;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// How requests are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joining {
    /// The maximum size along the batch of a joined call.
    pub(crate) max_batch: usize,
    /// How long a request waits for others to be batched with.
    pub(crate) max_delay: Duration,
}

impl Joining {
    pub(super) fn without_delay(self) -> Self {
        Self {
            max_delay: Duration::ZERO,
            ..self
        }
    }
}

/// What a thread does next.
pub(super) enum Pick {
    /// Runs these requests, which were taken out of the queue.
    Run(Vec<Job>),
    /// Waits until this moment, unless the queue changes earlier.
    WaitUntil(Instant),
    /// The queue is empty.
    Empty,
}

/// Requests of one group, by their positions in the queue.
struct Gathered {
    places: Vec<usize>,
    rows: usize,
    is_full: bool,
    due: Instant,
}

/// Decides what to run: of the requests that are due, the one that arrived first, with those that can join it. A
/// request is due when its batch is full, when it has waited for others for the maximum time, or when it runs alone.
pub(super) fn pick(jobs: &mut VecDeque<Job>, joining: Joining, now: Instant) -> Pick {
    jobs.retain(|job| !job.is_over(now));
    let gathered = gather(jobs, joining, now);
    let is_due = |found: &&Gathered| found.is_full || found.due <= now;
    if let Some(found) = gathered.iter().find(is_due) {
        // From the back, so that the remaining positions stay valid.
        let places = found.places.iter().rev();
        let mut taken: Vec<Job> = places.filter_map(|&place| jobs.remove(place)).collect();
        taken.reverse();
        return Pick::Run(taken);
    }
    match gathered.iter().map(|found| found.due).min() {
        Some(due) => Pick::WaitUntil(due),
        None => Pick::Empty,
    }
}

/// The batches that the queue would make now, in the order of their first requests.
fn gather(jobs: &VecDeque<Job>, joining: Joining, now: Instant) -> Vec<Gathered> {
    let mut gathered: Vec<Gathered> = Vec::new();
    // The batch that still has room, by the sizes that its requests have in common.
    let mut open: HashMap<&Group, usize> = HashMap::new();
    for (place, job) in jobs.iter().enumerate() {
        let first = |is_full, rows, due| Gathered {
            places: vec![place],
            rows,
            is_full,
            due,
        };
        let Some((group, rows)) = &job.group else {
            gathered.push(first(true, 1, job.arrived));
            continue;
        };
        if let Some(&index) = open.get(group) {
            let found = &mut gathered[index];
            if found.rows.saturating_add(*rows) <= joining.max_batch {
                found.places.push(place);
                found.rows += rows;
                found.is_full = found.rows == joining.max_batch;
                continue;
            }
            // A request that does not fit begins the next batch.
            found.is_full = true;
        }
        open.insert(group, gathered.len());
        let due = job.arrived.checked_add(joining.max_delay).unwrap_or(now);
        gathered.push(first(*rows >= joining.max_batch, *rows, due));
    }
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batching::BatchPlan;
    use kiln::{Cancellation, DType, Tensor};
    use proptest::prelude::*;
    use tokio::sync::oneshot;

    const JOINING: Joining = Joining {
        max_batch: 4,
        max_delay: Duration::from_millis(10),
    };

    fn plan() -> BatchPlan {
        BatchPlan {
            symbol: "B".to_owned(),
            inputs: vec![0],
            outputs: vec![0],
            max: None,
        }
    }

    /// A request with `rows` of the batch and another size, that arrived at `at` ms; alone if `rows` is 0.
    fn job(start: Instant, at: u64, rows: usize, width: usize) -> Job {
        let inputs = vec![Tensor::zeros(DType::F32, &[rows, width]).unwrap()];
        Job {
            group: (rows > 0).then(|| Group::of(&plan(), &inputs).unwrap()),
            inputs,
            request: tracing::Span::none(),
            waiting: tracing::Span::none(),
            arrived: start + Duration::from_millis(at),
            deadline: start + Duration::from_secs(60),
            cancellation: Cancellation::new(),
            reply: oneshot::channel().0,
        }
    }

    /// The first sizes of the requests that are run, or the milliseconds until something is due.
    fn seen(jobs: &mut VecDeque<Job>, start: Instant, at: u64) -> Result<Vec<usize>, Option<u64>> {
        match pick(jobs, JOINING, start + Duration::from_millis(at)) {
            Pick::Run(jobs) => Ok(jobs.iter().map(|job| job.inputs[0].shape()[0]).collect()),
            Pick::WaitUntil(time) => Err(Some((time - start).as_millis() as u64)),
            Pick::Empty => Err(None),
        }
    }

    #[test]
    fn requests_wait_for_others_until_their_batch_is_full_or_their_time_is_up() {
        let start = Instant::now();
        let mut jobs = VecDeque::from([job(start, 0, 1, 3), job(start, 1, 2, 3)]);
        assert_eq!(seen(&mut jobs, start, 2), Err(Some(10)));
        jobs.push_back(job(start, 3, 1, 3));
        assert_eq!(seen(&mut jobs, start, 3), Ok(vec![1, 2, 1]));
        assert_eq!(seen(&mut jobs, start, 3), Err(None));
        jobs.push_back(job(start, 4, 1, 3));
        assert_eq!(seen(&mut jobs, start, 13), Err(Some(14)));
        assert_eq!(seen(&mut jobs, start, 14), Ok(vec![1]));
    }

    #[test]
    fn requests_of_other_sizes_are_not_joined_and_do_not_wait_for_each_other() {
        let start = Instant::now();
        let mut jobs = VecDeque::from([
            job(start, 0, 1, 3),
            job(start, 1, 2, 5),
            job(start, 2, 2, 5),
        ]);
        assert_eq!(seen(&mut jobs, start, 3), Ok(vec![2, 2]));
        assert_eq!(seen(&mut jobs, start, 3), Err(Some(10)));
    }

    #[test]
    fn a_request_that_does_not_fit_begins_the_next_batch() {
        let start = Instant::now();
        let mut jobs = VecDeque::from([job(start, 0, 3, 3), job(start, 1, 2, 3)]);
        assert_eq!(seen(&mut jobs, start, 2), Ok(vec![3]));
        assert_eq!(seen(&mut jobs, start, 2), Err(Some(11)));
        jobs.push_back(job(start, 3, 9, 3));
        assert_eq!(seen(&mut jobs, start, 4), Ok(vec![2]));
        assert_eq!(seen(&mut jobs, start, 4), Ok(vec![9]));
    }

    #[test]
    fn requests_that_are_over_are_dropped() {
        let start = Instant::now();
        let left = job(start, 0, 1, 3);
        left.cancellation.cancel();
        let late = Job {
            deadline: start + Duration::from_millis(5),
            ..job(start, 0, 1, 3)
        };
        let mut jobs = VecDeque::from([left, late, job(start, 1, 0, 3)]);
        assert_eq!(seen(&mut jobs, start, 5), Ok(vec![0]));
        assert!(jobs.is_empty());
    }

    proptest! {
        /// Every request is run once, in batches that fit, of equal other sizes, and in order within its group.
        #[test]
        fn every_request_is_run_once_in_batches_that_fit(
            requests in prop::collection::vec((0u64..30, 0usize..7, 1usize..3), 0..40),
        ) {
            let start = Instant::now();
            let mut requests = requests;
            requests.sort_by_key(|(at, ..)| *at);
            let mut jobs: VecDeque<Job> =
                requests.iter().map(|&(at, rows, width)| job(start, at, rows, width)).collect();
            let mut ran = 0;
            let mut last: HashMap<Vec<usize>, Instant> = HashMap::new();
            loop {
                match pick(&mut jobs, JOINING, start + Duration::from_millis(100)) {
                    Pick::Run(batch) => {
                        ran += batch.len();
                        let rows: usize = batch.iter().map(|job| job.inputs[0].shape()[0]).sum();
                        prop_assert!(batch.len() == 1 || rows <= JOINING.max_batch);
                        for job in &batch {
                            prop_assert_eq!(&job.group.as_ref().map(|group| &group.0), &batch[0].group.as_ref().map(|group| &group.0));
                            let key = job.inputs[0].shape()[1..].to_vec();
                            if job.group.is_some() {
                                let before = last.insert(key, job.arrived);
                                prop_assert!(before.is_none_or(|before| before <= job.arrived));
                            }
                        }
                    }
                    Pick::Empty => break,
                    Pick::WaitUntil(_) => prop_assert!(false, "everything is due"),
                }
            }
            prop_assert_eq!(ran, requests.len());
        }
    }
}
