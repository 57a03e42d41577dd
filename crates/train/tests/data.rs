//! Loaders: every sample once per epoch, in an order determined by the seed, on the caller's thread or on another one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Cache, DType, Device, Options, Tensor};
use kiln_train::data::{Batch, Dataset, Loader, Samples, Tensors, ahead, batches_of, stacked};
use kiln_train::{Sgd, TrainError, Trainer, losses};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The numbers `0..len`, in batches that are lists of numbers.
fn numbers(len: usize) -> impl Dataset<Batch = Vec<usize>> {
    Samples::new(len, Ok, Ok::<Vec<usize>, TrainError>)
}

fn epoch<D: Dataset<Batch = Vec<usize>> + 'static>(
    loader: &Loader<D>,
    number: u64,
) -> Vec<Vec<usize>> {
    loader.epoch(number).collect::<Result<_, _>>().unwrap()
}

#[test]
fn an_epoch_has_every_sample_once() {
    for len in [0, 1, 5, 6, 7, 100] {
        for ahead in [0, 1, 3] {
            let loader = Loader::of_sizes(numbers(len), &[2, 4]).unwrap();
            let loader = loader.shuffled(9).ahead(ahead);
            let batches = epoch(&loader, 3);
            assert_eq!(batches.len(), loader.n_batches());
            assert_eq!(
                loader.epoch(3).size_hint(),
                (batches.len(), Some(batches.len()))
            );
            let last = batches.len().saturating_sub(1);
            for (batch, size) in batches[..last].iter().zip([2, 4].into_iter().cycle()) {
                assert_eq!(batch.len(), size);
            }
            let mut all = batches.concat();
            all.sort_unstable();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }
    let whole = Loader::new(numbers(7), 3).unwrap().without_partial();
    assert_eq!(epoch(&whole, 0), [[0, 1, 2], [3, 4, 5]]);
    assert!(whole.data().len() == 7 && !whole.data().is_empty());
}

#[test]
fn the_order_depends_on_the_seed_and_the_epoch_alone() {
    let order = |seed: u64, number: u64, ahead: usize| {
        let loader = Loader::new(numbers(20), 20).unwrap();
        epoch(&loader.shuffled(seed).ahead(ahead), number).concat()
    };
    assert_eq!(order(1, 0, 0), order(1, 0, 2));
    assert_ne!(order(1, 0, 0), order(1, 1, 0));
    assert_ne!(order(1, 0, 0), order(2, 0, 0));
    // The recorded order, which must not change, since checkpoints of training runs depend on it.
    let loader = Loader::new(numbers(6), 6).unwrap().shuffled(1);
    let first = epoch(&loader, 0).concat();
    assert_eq!(first, order_of_six());
}

/// The order of six samples for seed 1 in epoch 0.
fn order_of_six() -> [usize; 6] {
    [1, 3, 4, 5, 0, 2]
}

#[test]
fn tensors_are_read_by_rows() {
    let x = Tensor::from_slice(&[3, 2], &[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let none = Tensor::from_slice(&[3, 0], &[0_u8; 0]).unwrap();
    let labels = Tensor::from_slice(&[3], &[7_i64, 8, 9]).unwrap();
    let data = Tensors::new([("x", x.clone()), ("none", none), ("labels", labels)]).unwrap();
    let batch = data.batch(&[2, 0]).unwrap();
    assert_eq!(
        batch.get("x").unwrap().to_vec::<f32>().unwrap(),
        [4.0, 5.0, 0.0, 1.0]
    );
    assert_eq!(batch.get("none").unwrap().shape(), [2, 0]);
    assert_eq!(
        batch.get("labels").unwrap().to_vec::<i64>().unwrap(),
        [9, 7]
    );
    assert_eq!(data.batch(&[]).unwrap().get("x").unwrap().shape(), [0, 2]);

    let code = |error: TrainError| (error.code(), error.to_string());
    let (missing, message) = code(batch.get("y").unwrap_err());
    assert!(
        missing == "E0622" && message.contains("labels"),
        "{message}"
    );
    let (beyond, message) = code(data.batch(&[3]).unwrap_err());
    assert!(
        beyond == "E0628" && message.contains("below 3"),
        "{message}"
    );
    let two = Tensor::from_slice(&[2], &[0_i64; 2]).unwrap();
    let (other, message) = code(Tensors::new([("x", x), ("y", two)]).unwrap_err());
    assert!(
        other == "E0628" && message.contains("3 samples"),
        "{message}"
    );
    let scalar = Tensors::new([("x", Tensor::scalar(1.0f32))]);
    assert_eq!(scalar.unwrap_err().code(), "E0628");
    let nothing: [(&str, Tensor); 0] = [];
    assert_eq!(Tensors::new(nothing).unwrap_err().code(), "E0628");
    assert_eq!(
        Loader::of_sizes(numbers(3), &[1, 0]).unwrap_err().code(),
        "E0629"
    );
    assert_eq!(
        Loader::of_sizes(numbers(3), &[]).unwrap_err().code(),
        "E0629"
    );
}

#[test]
fn samples_are_collated_and_batches_mapped() {
    let squares = Samples::new(
        4,
        |index| match index {
            3 => Err(TrainError::data("sample 3 is damaged")),
            _ => Ok(Tensor::scalar((index * index) as f32)),
        },
        |samples: Vec<Tensor>| stacked(&samples),
    );
    let sums = squares.map(|batch| Ok(batch.to_vec::<f32>()?.into_iter().sum::<f32>()));
    let loader = Loader::new(sums, 1).unwrap().ahead(2);
    let found: Vec<Result<f32, &str>> = loader
        .epoch(0)
        .map(|batch| batch.map_err(|error| error.code()))
        .collect();
    assert_eq!(found, [Ok(0.0), Ok(1.0), Ok(4.0), Err("E0631")]);
    let pair = [Tensor::scalar(1.0f32), Tensor::scalar(1_i64)];
    assert!(stacked(&pair).is_err());
}

#[test]
fn iterators_become_batches() {
    let batches = batches_of(0..5, 2, Ok::<Vec<i32>, TrainError>).unwrap();
    let batches: Vec<Vec<i32>> = batches.collect::<Result<_, _>>().unwrap();
    assert_eq!(batches, [vec![0, 1], vec![2, 3], vec![4]]);
    let refused = batches_of(0..5, 0, Ok::<Vec<i32>, TrainError>);
    assert_eq!(refused.err().map(|error| error.code()), Some("E0629"));
}

#[test]
fn a_thread_ends_with_its_iterator() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let endless = (0..).inspect(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let mut items = ahead(endless, 2).unwrap();
    assert_eq!(
        items.by_ref().take(10).collect::<Vec<i32>>(),
        (0..10).collect::<Vec<_>>()
    );
    drop(items);
    // The thread is gone: its closure was dropped.
    assert_eq!(Arc::strong_count(&made), 1);
    assert!((10..=14).contains(&made.load(Ordering::Relaxed)));
}

#[test]
fn a_panic_of_a_dataset_reaches_its_reader() {
    let samples = Samples::new(
        3,
        |index| {
            assert_ne!(index, 1, "broken");
            Ok(())
        },
        Ok::<Vec<()>, TrainError>,
    );
    let loader = Loader::new(samples, 1).unwrap().ahead(1);
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.epoch(0).count()));
    assert!(read.is_err());
    // If nothing reads the batch that panics, the panic has no effect.
    let mut batches = loader.epoch(0);
    assert!(batches.next().unwrap().is_ok());
    drop(batches);
}

#[test]
fn a_trainer_takes_batches_of_every_size_and_compiles_once() {
    let x: Vec<f32> = (0..22).map(|index| (index % 7) as f32 / 7.0).collect();
    let y: Vec<f32> = x.chunks(2).map(|x| 2.0 * x[0] - x[1]).collect();
    let data = Tensors::new([
        ("x", Tensor::from_slice(&[11, 2], &x).unwrap()),
        ("y", Tensor::from_slice(&[11, 1], &y).unwrap()),
    ]);
    let loader = Loader::new(data.unwrap(), 4).unwrap().shuffled(5).ahead(2);
    let mut trainer = Trainer::new("fit", Sgd::with_momentum(0.9))
        .learning_rate(0.1)
        .input("x", DType::F32, ["B".into(), 2.into()])
        .input("y", DType::F32, ["B".into(), 1.into()])
        .options(Options::new().cache(Cache::off()).device(Device::cpu()))
        .build(|network, inputs| {
            losses::mean_squared_error(&network.linear("out", &inputs[0], 2, 1), &inputs[1])
        })
        .unwrap();
    let mut loss = f64::NAN;
    let mut compiled = Vec::new();
    for number in 0..60 {
        for batch in loader.epoch(number) {
            let batch: Batch = batch.unwrap();
            loss = trainer.step(&batch).unwrap();
        }
        compiled.push(trainer.session().model().compilation_stats().compilations);
    }
    assert!(loss < 1e-4, "{loss}");
    assert_eq!(compiled[0], compiled[59]);
}
