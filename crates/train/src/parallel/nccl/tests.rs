//! Ranks that are threads, with simulated GPUs.

mod faults;
mod mock;
mod over;
mod real_library;

use super::super::{Collective, LocalGroup, Numbers};
use super::id::UniqueId;
use super::ranks::Ranks;
use crate::{AdamW, Trainer, losses};
use kiln::{Cache, DType, Device, Options, Tensor};
use mock::{Mock, PART_BYTES, World};

/// The results of all ranks, in order.
fn on_ranks<T: Send, R: Send>(ranks: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let work = &work;
    std::thread::scope(|threads| {
        let spawned: Vec<_> = ranks
            .into_iter()
            .map(|rank| threads.spawn(move || work(rank)))
            .collect();
        let joined = spawned.into_iter().map(|rank| rank.join().unwrap());
        joined.collect()
    })
}

/// A started rank of simulated GPUs.
fn started(mock: Mock) -> Ranks<Mock> {
    let (id, rank, size) = mock.place();
    Ranks::start(mock, &id, rank, size, PART_BYTES).unwrap()
}

/// Numbers whose sums need rounding.
fn number(rank: usize, at: usize) -> f64 {
    ((rank * 37 + at * 11) % 101) as f64 / 7.0 - 5.0
}

/// Sizes around a chunk of this many elements.
fn sizes(part: usize) -> [usize; 6] {
    [0, 1, part - 1, part, part + 1, 3 * part + 2]
}

/// The bits of everything that a rank computes together with others.
fn computed(rank: &dyn Collective) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for size in sizes(PART_BYTES / 4) {
        let mut numbers: Vec<f32> = (0..size).map(|at| number(rank.rank(), at) as f32).collect();
        rank.all_reduce(Numbers::F32(&mut numbers)).unwrap();
        found.push(bytemuck::cast_slice(&numbers).to_vec());
    }
    for size in sizes(PART_BYTES / 8) {
        let mut numbers: Vec<f64> = (0..size).map(|at| number(rank.rank(), at)).collect();
        rank.all_reduce(Numbers::F64(&mut numbers)).unwrap();
        found.push(bytemuck::cast_slice(&numbers).to_vec());
    }
    for root in 0..rank.size() {
        for size in sizes(PART_BYTES) {
            let mut bytes: Vec<u8> = (0..size).map(|at| (at + 50 * rank.rank()) as u8).collect();
            rank.broadcast(&mut bytes, root).unwrap();
            found.push(bytes);
        }
    }
    found
}

#[test]
fn sums_and_broadcasts_are_those_of_a_local_group() {
    for size in [1, 2, 3] {
        let world = World::new(size);
        let found = on_ranks(world.mocks(), |mock| computed(&started(mock)));
        let expected = on_ranks(LocalGroup::ranks(size), |rank| computed(&rank));
        assert_eq!(found, expected);
        assert!(found.iter().all(|rank| *rank == found[0]));
        world.expect_released(size);
    }
}

#[test]
fn a_rank_beyond_the_group_is_refused_and_the_group_goes_on() {
    let world = World::new(1);
    let [mock] = world.mocks().try_into().ok().unwrap();
    let (id, _, _) = mock.place();
    let error = Ranks::start(mock, &id, 1, 1, PART_BYTES).unwrap_err();
    assert_eq!(error.to_string(), "expected a rank below 1, found 1");

    let world = World::new(1);
    let rank = started(world.mocks().remove(0));
    let error = rank.broadcast(&mut [0], 1).unwrap_err();
    assert_eq!(error.to_string(), "expected a rank below 1, found 1");
    rank.broadcast(&mut [0], 0).unwrap();
}

#[test]
fn an_id_is_read_back_from_its_text() {
    let mut bytes = [0; 128];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = (at * 2 + 1) as u8;
    }
    let id = UniqueId::from_bytes(bytes);
    assert_eq!(id.to_string().parse(), Ok(id.clone()));
    assert!(id.to_string().starts_with("01030507"));
    for text in ["", "0103", &"x".repeat(256), &"0".repeat(257)] {
        let error = text.parse::<UniqueId>().unwrap_err().to_string();
        assert!(error.contains("256 hexadecimal digits"), "{error}");
    }
}

/// The losses and the parameters of a few steps on a rank's part of the data.
fn trained(rank: impl Collective + 'static) -> (Vec<f64>, Vec<f64>) {
    let number = rank.rank();
    let options = Options::new()
        .cache(Cache::off())
        .device(Device::interpreter());
    let mut trainer = Trainer::new("over_nccl", AdamW::default())
        .seed(number as u64)
        .input("x", DType::F32, ["B".into(), 3.into()])
        .options(options)
        .build_across(rank, |network, inputs| {
            let y = network.linear("out", &inputs[0], 3, 40);
            losses::mean_squared_error(&y, &y.tanh())
        })
        .unwrap();
    let losses = (0..3).map(|step| {
        let values = (0..6).map(|at| self::number(number + step, at) as f32);
        let x = Tensor::from_vec(&[2, 3], values.collect()).unwrap();
        trainer.step([("x", &x)]).unwrap()
    });
    let losses = losses.collect();
    let names: Vec<String> = trainer.parameters().map(ToOwned::to_owned).collect();
    let values = names
        .iter()
        .flat_map(|name| trainer.parameter(name).unwrap().to_f64_vec().unwrap());
    (losses, values.collect())
}

#[test]
fn a_trainer_takes_the_same_steps_as_over_a_local_group() {
    let world = World::new(2);
    let found = on_ranks(world.mocks(), |mock| trained(started(mock)));
    let expected = on_ranks(LocalGroup::ranks(2), trained);
    assert_eq!(found, expected);
    world.expect_released(2);
}
