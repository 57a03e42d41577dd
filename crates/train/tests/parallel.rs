//! Data-parallel steps of ranks that are threads.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod shared_batch;

use kiln::{Cache, DType, Device, Options, Tensor};
use kiln_train::parallel::{Collective, Local, LocalGroup};
use kiln_train::{Network, Sgd, Trainer};
use shared_batch::{alone, expect_close, parameters, shared, train};

/// The results of all ranks, in order.
fn on_ranks<R: Send>(count: usize, work: impl Fn(Local) -> R + Sync) -> Vec<R> {
    std::thread::scope(|threads| {
        let ranks = LocalGroup::ranks(count).into_iter();
        let work = &work;
        let spawned: Vec<_> = ranks
            .map(|rank| threads.spawn(move || work(rank)))
            .collect();
        spawned
            .into_iter()
            .map(|rank| rank.join().unwrap())
            .collect()
    })
}

#[test]
fn two_ranks_train_as_one_process_does_with_both_parts_of_each_batch() {
    let mut expected = alone();
    let losses = train(&mut expected, None);
    let run = || {
        on_ranks(2, |rank| {
            let number = rank.rank();
            let mut trainer = shared(rank);
            let losses = train(&mut trainer, Some(number));
            (losses, parameters(&trainer))
        })
    };
    let found = run();
    for (of_rank, values) in &found {
        expect_close(of_rank, &losses);
        expect_close(values, &parameters(&expected));
    }
    // The same bits on every rank, and in every run.
    assert_eq!(found[0], found[1]);
    assert_eq!(run(), found);
}

fn options() -> Options {
    Options::new()
        .cache(Cache::off())
        .device(Device::cpu())
        .threads(1)
}

#[test]
fn running_statistics_are_means_and_dropout_differs_from_rank_to_rank() {
    let network = |network: &Network, inputs: &[kiln::Var]| {
        let h = network.batch_norm("norm", &inputs[0], 3);
        let h = network.dropout(&h, 0.5);
        network.linear("out", &h, 3, 1).square().mean(..)
    };
    let found = on_ranks(3, |rank| {
        let number = rank.rank();
        let mut trainer = Trainer::new("statistics", Sgd::default())
            .input("x", DType::F32, ["B".into(), 3.into()])
            .options(options())
            .build_across(rank, network)
            .unwrap();
        let x = Tensor::full(&[4, 3], number as f32).unwrap();
        trainer.step([("x", &x)]).unwrap();
        let names: Vec<String> = trainer.parameters().map(ToOwned::to_owned).collect();
        let mean = names
            .iter()
            .find(|name| name.ends_with("running_mean"))
            .unwrap();
        trainer.parameter(mean).unwrap().to_vec::<f32>().unwrap()
    });
    // The default momentum of 0.1, and a mean of 0, 1 and 2.
    for means in &found {
        assert!(
            means.iter().all(|mean| (mean - 0.1).abs() < 1e-6),
            "{means:?}"
        );
    }
}

#[test]
fn a_rank_that_fails_is_an_error_of_all_and_the_next_step_works() {
    let found = on_ranks(2, |rank| {
        let number = rank.rank();
        let mut trainer = shared(rank);
        let wide = Tensor::full(&[2, 5 + number], 0.5_f32).unwrap();
        let y = Tensor::full(&[2, 2], 0.5_f32).unwrap();
        let before = parameters(&trainer);
        let error = trainer.step([("x", &wide), ("y", &y)]).unwrap_err();
        assert_eq!(parameters(&trainer), before);
        let losses = train(&mut trainer, Some(number));
        (error.code(), losses)
    });
    assert_eq!(found[0].0, "E0632");
    assert_ne!(found[1].0, "E0632");
    assert_eq!(found[0].1, found[1].1);
}

#[test]
fn ranks_with_different_networks_are_refused() {
    let codes = on_ranks(2, |rank| {
        let width = 1 + rank.rank();
        let built = Trainer::new("different", Sgd::default())
            .input("x", DType::F32, ["B".into(), 3.into()])
            .options(options())
            .build_across(rank, |network, inputs| {
                network
                    .linear("out", &inputs[0], 3, width)
                    .square()
                    .mean(..)
            });
        built.unwrap_err().code()
    });
    assert_eq!(codes, ["E0632", "E0632"]);
}

#[test]
fn a_checkpoint_of_rank_0_is_what_all_go_on_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("checkpoint");
    let found = on_ranks(2, |rank| {
        let number = rank.rank();
        let mut trainer = shared(rank);
        train(&mut trainer, Some(number));
        if number == 0 {
            trainer.save_checkpoint(&file).unwrap();
        }
        let steps = trainer.n_steps();
        train(&mut trainer, Some(number));
        if number == 0 {
            trainer.load_checkpoint(&file).unwrap();
        }
        trainer.synchronize().unwrap();
        assert_eq!(trainer.n_steps(), steps);
        let losses = train(&mut trainer, Some(number));
        (losses, parameters(&trainer))
    });
    assert_eq!(found[0], found[1]);
}
