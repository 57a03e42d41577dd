//! Outputs that stay on a device with its own memory: transfers to and from the host, ownership of memory, and tensors
//! that outlive their device, runtime or program.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::Arc;

use kiln_backend::{KernelCompiler, KernelExecutor, Resident};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_lazy_runtime::{
    CallOptions, Cancellation, CompiledProgram, DonationFate, Donations, OutputPlacement, Runtime,
    RuntimeOptions,
};
use kiln_tensor::{DType, Tensor, TensorError};
use kiln_testkit::oracle::{Tolerance, compare_all};
use support::{Broken, FakeCompiler, FakeDevice, compiled, graph, ramp};

/// Two launches, so that there is an arena in addition to the result.
const STEP: &str = "graph @step(%x: f32[N, 3]) -> f32[N, 3] {
  %a = relu %x
  %b = exp %a
  return %b
}";

const SUM: &str = "graph @sum(%x: f32[N, 3], %y: f32[N, 3]) -> f32[N, 3] {
  %a = add %x, %y
  return %a
}";

fn runtime_on(device: &FakeDevice) -> Arc<Runtime> {
    Arc::new(Runtime::new(
        Some(Arc::new(FakeCompiler::default())),
        Arc::new(device.clone()),
        RuntimeOptions::new(),
    ))
}

fn program_on(device: &FakeDevice, text: &str) -> CompiledProgram {
    compiled(&runtime_on(device), &graph(text), false)
}

fn call(program: &CompiledProgram, inputs: &[Tensor]) -> Tensor {
    program.run(inputs).unwrap().swap_remove(0)
}

/// The interpreter's results.
fn expected(text: &str, inputs: &[Tensor]) -> Tensor {
    let outputs = interpret(&graph(text), inputs, &InterpretOptions::default());
    outputs.unwrap().swap_remove(0)
}

fn is_right(expected: &Tensor, found: &Tensor) -> bool {
    let both = (std::slice::from_ref(expected), std::slice::from_ref(found));
    compare_all(both.0, both.1, Tolerance::OfLargest(1e-5)).is_ok()
}

/// The numbers of uploads and downloads.
fn crossings(device: &FakeDevice) -> (usize, usize) {
    (device.traffic().uploads, device.traffic().downloads)
}

#[test]
fn chained_calls_transfer_once_each_way() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let x = ramp(&[4, 3]);
    let mut y = call(&program, std::slice::from_ref(&x));
    let mut reference = expected(STEP, &[x]);
    assert_eq!((crossings(&device), y.is_loaded()), ((1, 0), false));
    for _ in 0..3 {
        y = call(&program, &[y]);
        reference = expected(STEP, &[reference]);
    }
    assert_eq!((crossings(&device), y.is_loaded()), ((1, 0), false));
    for _ in 0..2 {
        assert!(is_right(&reference, &y));
        assert_eq!((crossings(&device), y.is_loaded()), ((1, 1), true));
    }
    // A tensor that the host has read stays on the device.
    let z = call(&program, &[y]);
    assert_eq!((crossings(&device), z.is_loaded()), ((1, 1), false));
}

#[test]
fn programs_and_runtimes_on_one_device_share_its_memory() {
    let device = FakeDevice::default();
    let (first, second) = (program_on(&device, STEP), program_on(&device, SUM));
    let x = ramp(&[2, 3]);
    let y = call(&first, std::slice::from_ref(&x));
    let z = call(&second, &[y.clone(), y]);
    assert_eq!(crossings(&device), (1, 0));
    let half = expected(STEP, &[x]);
    assert!(is_right(&expected(SUM, &[half.clone(), half]), &z));
}

#[test]
fn concurrent_threads_can_read_one_tensor() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let x = ramp(&[5, 3]);
    let y = call(&program, std::slice::from_ref(&x));
    let reference = expected(STEP, &[expected(STEP, &[x])]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let z = call(&program, std::slice::from_ref(&y));
                    assert!(is_right(&reference, &z));
                }
            });
        }
    });
    assert_eq!(device.traffic().uploads, 1);
    let before = device.traffic().downloads;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| y.as_bytes().map(<[u8]>::len).unwrap());
        }
    });
    assert_eq!(device.traffic().downloads, before + 1);
}

#[test]
fn cancellable_calls_download_nothing_either() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let options = CallOptions::new().with_cancellation(&Cancellation::new());
    let y = program.run_with(&[ramp(&[4, 3])], &options).unwrap();
    let z = program.run_with(&y, &options).unwrap();
    assert_eq!(crossings(&device), (1, 0));
    let half = expected(STEP, &[ramp(&[4, 3])]);
    assert!(is_right(&expected(STEP, &[half]), &z[0]));
}

#[test]
fn row_slices_stay_on_the_device_and_other_views_are_made_on_the_host() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let y = call(&program, &[ramp(&[4, 3])]);
    let seen = expected(STEP, &[ramp(&[4, 3])]);
    let rows = y.narrow(0, 1, 2).unwrap();
    let z = call(&program, std::slice::from_ref(&rows));
    assert_eq!(crossings(&device), (1, 0));
    let reference = expected(STEP, &[seen.narrow(0, 1, 2).unwrap()]);
    assert!(is_right(&reference, &z));
    let reversed = y.reverse(1).unwrap();
    let before = crossings(&device);
    let z = call(&program, std::slice::from_ref(&reversed));
    assert_eq!(crossings(&device), (before.0 + 1, before.1 + 1));
    assert!(is_right(&expected(STEP, &[seen.reverse(1).unwrap()]), &z));
}

#[test]
fn a_tensor_of_another_device_is_downloaded_there_and_uploaded_here() {
    let (here, there) = (FakeDevice::default(), FakeDevice::default());
    let y = call(&program_on(&there, STEP), &[ramp(&[4, 3])]);
    let z = call(&program_on(&here, STEP), std::slice::from_ref(&y));
    assert_eq!((crossings(&there), crossings(&here)), ((1, 1), (1, 0)));
    let half = expected(STEP, &[ramp(&[4, 3])]);
    assert!(is_right(&expected(STEP, &[half]), &z));
}

#[test]
fn memory_is_freed_with_the_last_tensor_and_reused() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let x = ramp(&[8, 3]);
    drop(call(&program, std::slice::from_ref(&x)));
    let idle = device.traffic().used_bytes;
    let y = call(&program, std::slice::from_ref(&x));
    assert_eq!(device.traffic().used_bytes, idle + y.byte_len());
    let row = y.narrow(0, 0, 1).unwrap();
    let z = call(&program, std::slice::from_ref(&y));
    drop(y);
    // A view keeps the whole memory alive.
    assert_eq!(device.traffic().used_bytes, idle + 2 * z.byte_len());
    drop(row);
    assert_eq!(device.traffic().used_bytes, idle + z.byte_len());
    drop(z);
    assert_eq!(device.traffic().used_bytes, idle);
}

#[test]
fn tensors_outlive_their_program_and_runtime() {
    let device = FakeDevice::default();
    let runtime = runtime_on(&device);
    let program = compiled(&runtime, &graph(STEP), false);
    let y = call(&program, &[ramp(&[4, 3])]);
    let kept = y.clone();
    drop((program, runtime));
    let again = program_on(&device, STEP);
    drop(call(&again, &[ramp(&[4, 3])]));
    drop(again);
    assert!(is_right(&expected(STEP, &[ramp(&[4, 3])]), &y));
    drop((y, device));
    assert!(is_right(&expected(STEP, &[ramp(&[4, 3])]), &kept));
}

#[test]
fn host_outputs_are_ready_when_the_call_returns() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP).with_outputs(OutputPlacement::Host);
    let y = call(&program, &[ramp(&[4, 3])]);
    assert_eq!((crossings(&device), y.is_loaded()), ((1, 1), true));
    assert!(Resident::place_of(&y).is_none());
}

/// Outputs in memory that a call did not allocate for them.
const VIEWS: &str = r#"graph @views(%x: f32[N, 3]) -> (f32[N, 3], f32[3, N], f32[2], f32[N, 3], f32[N, 3]) {
  %flat = reshape %x {dims = [3, N]}
  %c: f32[2] = constant [1.5, -2.5]
  %y = neg %x
  return "x" = %x, "flat" = %flat, "c" = %c, "y" = %y, "again" = %y
}"#;

#[test]
fn outputs_that_are_inputs_views_or_constants_are_unchanged() {
    let device = FakeDevice::default();
    let program = program_on(&device, VIEWS);
    let inputs = |factor: f32| [Tensor::full(&[2, 3], factor).unwrap()];
    let mut kept = Vec::new();
    for factor in [1.0, 2.0, 3.0] {
        let outputs = program.run(&inputs(factor)).unwrap();
        // And those of a call whose inputs stay on the device.
        let derived = program.run(&[outputs[3].clone()]).unwrap();
        kept.push((factor, outputs));
        kept.push((-factor, derived));
    }
    for (factor, outputs) in &kept {
        let expected = interpret(
            program.program().graph(),
            &inputs(*factor),
            &InterpretOptions::default(),
        );
        compare_all(&expected.unwrap(), outputs, Tolerance::Exact).unwrap();
    }
}

#[test]
fn tensors_of_a_lost_device_are_a_typed_error_and_downloaded_data_remains() {
    let device = FakeDevice::default();
    let program = program_on(&device, STEP);
    let (seen, unseen) = (
        call(&program, &[ramp(&[4, 3])]),
        call(&program, &[ramp(&[4, 3])]),
    );
    assert!(is_right(&expected(STEP, &[ramp(&[4, 3])]), &seen));
    device.lose_after(0);
    assert!(is_right(&expected(STEP, &[ramp(&[4, 3])]), &seen));
    for _ in 0..2 {
        let error = unseen.to_vec::<f32>().unwrap_err();
        assert!(matches!(error, TensorError::Deferred(_)), "{error}");
        assert_eq!(
            error.to_string(),
            "the elements cannot be loaded: device fake was lost: a test unplugged it"
        );
    }
    let error = program.run(std::slice::from_ref(&unseen)).unwrap_err();
    assert_eq!(error.code(), "E0896", "{error}");
    // On another device it is an error about the input.
    let other = program_on(&FakeDevice::default(), STEP);
    let error = other.run(&[unseen]).unwrap_err();
    assert!(error.to_string().contains("was lost"), "{error}");
    drop(program);
}

#[test]
fn a_device_lost_at_any_point_gives_typed_errors_now_and_later() {
    let inputs = [ramp(&[4, 3])];
    let reference = expected(STEP, &inputs);
    let mut n_lost = 0;
    for compiler in [Some(Arc::new(FakeCompiler::default())), None] {
        for things in 0.. {
            let device = FakeDevice::default();
            let compiler = compiler.clone();
            let runtime = Arc::new(Runtime::new(
                compiler.map(|compiler| compiler as Arc<dyn KernelCompiler>),
                Arc::new(device.clone()),
                RuntimeOptions::new(),
            ));
            let program = compiled(&runtime, &graph(STEP), false);
            let kept = call(&program, &inputs);
            let mut given = [ramp(&[4, 3])];
            device.lose_after(things);
            // Both output placements, and the requests made by reading an output.
            let called = program
                .run(&inputs)
                .map(|outputs| outputs[0].as_bytes().is_ok());
            let called_into = program.run_into(&inputs, &mut given);
            let is_lost = !matches!(called, Ok(true)) || called_into.is_err();
            assert_eq!(given[0].shape(), [4, 3]);
            if !is_lost {
                assert!(is_right(&reference, &given[0]));
                break;
            }
            n_lost += 1;
            let errors = called.err().into_iter().chain(called_into.err());
            for error in errors.chain(program.run(&inputs).err()) {
                assert_eq!(error.code(), "E0896", "after {things}: {error}");
            }
            assert!(program.run(&inputs).is_err() && kept.as_bytes().is_err());
        }
    }
    assert!(n_lost > 10, "{n_lost}");
}

const APPEND: &str = "graph @append(%cache: f32[8, 3], %new: f32[1, 3], %at: i64[1]) -> f32[8, 3] {
  %next = update_slice %cache, %at, %new {axes = [0]}
  return %next
}";

#[test]
fn a_donated_tensor_keeps_elements_the_call_does_not_write() {
    let device = FakeDevice::default();
    let program = program_on(&device, APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let mut cache = ramp(&[8, 3]);
    let mut reference = cache.clone().copied().unwrap();
    let mut n_taken = 0;
    for at in 0..8_i64 {
        let rest = [
            Tensor::full(&[1, 3], at as f32).unwrap(),
            Tensor::full(&[1], at).unwrap(),
        ];
        let [new, place] = &rest;
        reference = expected(APPEND, &[reference, new.clone(), place.clone()]);
        let mut inputs = [cache, new.clone(), place.clone()];
        let mut outputs = [Tensor::scalar(0.0f32)];
        program
            .run_donating(&mut inputs, &mut donations, &mut outputs, None)
            .unwrap();
        n_taken += usize::from(donations.fate(0) == DonationFate::Taken);
        let [next] = outputs;
        assert!(is_right(&reference, &next), "{at}");
        cache = next;
    }
    assert!(n_taken > 0);
    // A resident tensor belongs to its owner, even while there are other handles.
    let step = program_on(&device, STEP);
    let resident = call(&step, std::slice::from_ref(&cache));
    let before = expected(STEP, &[cache]);
    let mut inputs = [
        resident.clone(),
        Tensor::zeros(DType::F32, &[1, 3]).unwrap(),
        Tensor::full(&[1], 0i64).unwrap(),
    ];
    let mut outputs = [Tensor::scalar(0.0f32)];
    program
        .run_donating(&mut inputs, &mut donations, &mut outputs, None)
        .unwrap();
    assert!(is_right(&before, &resident));
    assert_eq!(outputs[0].as_slice::<f32>().unwrap()[..3], [0.0; 3]);
}

/// Donates a cache to a call that writes a row into it; returns the cache after the call.
fn append(program: &CompiledProgram, donations: &mut Donations, cache: Tensor, at: i64) -> Tensor {
    let row = Tensor::full(&[1, 3], at as f32 * 0.5).unwrap();
    let mut inputs = [cache, row, Tensor::full(&[1], at).unwrap()];
    let mut outputs = [Tensor::scalar(0.0f32)];
    program
        .run_donating(&mut inputs, donations, &mut outputs, None)
        .unwrap();
    let [next] = outputs;
    next
}

#[test]
fn a_donated_device_tensor_is_updated_in_place_and_only_new_data_is_transferred() {
    const CALLS: usize = 100;
    let device = FakeDevice::default();
    let program = program_on(&device, APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    // The first call uploads the cache, and leaves its next value on the device.
    let mut cache = append(&program, &mut donations, ramp(&[8, 3]), 0);
    assert_eq!(donations.fate(0), DonationFate::Kept);
    let before = device.traffic();
    for call in 1..=CALLS {
        cache = append(&program, &mut donations, cache, call as i64 % 8);
        assert_eq!(donations.fate(0), DonationFate::Taken);
        assert_eq!(device.traffic().used_bytes, before.used_bytes);
    }
    let after = device.traffic();
    let (row, place) = (3 * size_of::<f32>(), size_of::<i64>());
    let uploaded = after.uploaded_bytes - before.uploaded_bytes;
    assert_eq!(uploaded, CALLS * (row + place));
    assert_eq!((after.downloads, after.downloaded_bytes), (0, 0));
    let rows = (0..8).flat_map(|row| [row as f32 * 0.5; 3]);
    assert_eq!(cache.to_vec::<f32>().unwrap(), rows.collect::<Vec<_>>());
    assert_eq!(device.traffic().downloaded_bytes, 8 * row);
}

#[test]
fn a_donated_tensor_with_shared_memory_is_not_modified() {
    let device = FakeDevice::default();
    let program = program_on(&device, APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let first = append(&program, &mut donations, ramp(&[8, 3]), 0);
    // A clone, and a view that keeps the memory.
    let kept = first.clone();
    let second = append(&program, &mut donations, first, 1);
    assert_eq!(donations.fate(0), DonationFate::Kept);
    let row = second.narrow(0, 1, 1).unwrap();
    let third = append(&program, &mut donations, second, 1);
    assert_eq!(donations.fate(0), DonationFate::Kept);
    let fourth = append(&program, &mut donations, third, 2);
    assert_eq!(donations.fate(0), DonationFate::Taken);
    let start = |tensor: &Tensor| tensor.to_vec::<f32>().unwrap()[..9].to_vec();
    let ramp = ramp(&[8, 3]).to_vec::<f32>().unwrap();
    assert_eq!(start(&kept)[3..], ramp[3..9]);
    assert_eq!(row.to_vec::<f32>().unwrap(), [0.5; 3]);
    assert_eq!(
        start(&fourth),
        [0.0, 0.0, 0.0, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0]
    );
}

#[test]
fn a_donated_tensor_of_another_device_is_uploaded_and_not_modified() {
    let (here, there) = (FakeDevice::default(), FakeDevice::default());
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let away = append(
        &program_on(&there, APPEND),
        &mut donations,
        ramp(&[8, 3]),
        0,
    );
    let program = program_on(&here, APPEND);
    let next = append(&program, &mut donations, away.clone(), 1);
    assert_eq!(donations.fate(0), DonationFate::Kept);
    assert_eq!(there.traffic().downloads, 1);
    assert_eq!(
        next.to_vec::<f32>().unwrap()[..6],
        [0.0, 0.0, 0.0, 0.5, 0.5, 0.5]
    );
    assert!(!is_right(&away, &next));
}

#[test]
fn a_failed_call_returns_donated_tensors() {
    let device = FakeDevice::default();
    let program = program_on(&device, APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let cache = append(&program, &mut donations, ramp(&[8, 3]), 0);
    let mut inputs = [
        cache,
        Tensor::zeros(DType::F32, &[1, 3]).unwrap(),
        Tensor::full(&[1], 99i64).unwrap(),
    ];
    let mut outputs = [Tensor::scalar(0.0f32)];
    let called = program.run_donating(&mut inputs, &mut donations, &mut outputs, None);
    assert_eq!(called.unwrap_err().code(), "E0822");
    assert_eq!(donations.fate(0), DonationFate::Spoiled);
    assert_eq!(
        (inputs[0].shape(), inputs[0].is_loaded()),
        (&[8, 3][..], false)
    );
    let cache = append(&program, &mut donations, ramp(&[8, 3]), 1);
    assert_eq!(cache.to_vec::<f32>().unwrap()[3..6], [0.5; 3]);
}

#[test]
fn a_failed_call_returns_donated_tensors_with_their_shape() {
    let text = "graph @flat(%cache: f32[8, 3], %new: f32[1, 3], %at: i64[1]) -> f32[24] {
      %next = update_slice %cache, %at, %new {axes = [0]}
      %flat = reshape %next {dims = [24]}
      return %flat
    }";
    for placement in [OutputPlacement::Device, OutputPlacement::Host] {
        let device = FakeDevice::default();
        let program = program_on(&device, text).with_outputs(placement);
        let mut donations = Donations::new([(0, 0)]).unwrap();
        let step = program_on(&device, STEP);
        let resident = call(&step, &[ramp(&[8, 3])]);
        let cache = match placement {
            OutputPlacement::Device => resident,
            _ => ramp(&[8, 3]),
        };
        let row = Tensor::zeros(DType::F32, &[1, 3]).unwrap();
        let mut inputs = [cache, row, Tensor::full(&[1], 99i64).unwrap()];
        let mut outputs = [Tensor::scalar(0.0f32)];
        let called = program.run_donating(&mut inputs, &mut donations, &mut outputs, None);
        assert_eq!(called.unwrap_err().code(), "E0822");
        assert_eq!(donations.fate(0), DonationFate::Spoiled);
        assert_eq!(inputs[0].shape(), [8, 3]);
    }
}

#[test]
fn states_of_a_program_with_host_outputs_are_on_the_host() {
    let device = FakeDevice::default();
    let program = program_on(&device, APPEND).with_outputs(OutputPlacement::Host);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let mut cache = ramp(&[8, 3]);
    for at in 0..8 {
        cache = append(&program, &mut donations, cache, at);
        assert!(cache.is_loaded() && Resident::place_of(&cache).is_none());
    }
    assert_eq!(cache.to_vec::<f32>().unwrap()[21..], [3.5; 3]);
}

/// Whether a device gives correct results when outputs are kept while calls continue.
fn keeps_outputs(device: &FakeDevice) -> bool {
    let program = program_on(device, VIEWS);
    let inputs = |factor: f32| [Tensor::full(&[2, 3], factor).unwrap()];
    let calls = [1.0, 2.0, 3.0].map(|factor| (factor, program.run(&inputs(factor)).unwrap()));
    calls.iter().all(|(factor, outputs)| {
        let expected = interpret(
            program.program().graph(),
            &inputs(*factor),
            &InterpretOptions::default(),
        );
        compare_all(&expected.unwrap(), outputs, Tolerance::Exact).is_ok()
    })
}

#[test]
fn a_device_that_reuses_memory_of_a_live_tensor_is_detected() {
    assert!(keeps_outputs(&FakeDevice::default()));
    assert!(!keeps_outputs(&FakeDevice::broken(Broken::Reuse)));
}

#[test]
fn a_device_that_overwrites_memory_of_a_live_tensor_is_detected() {
    assert!(!keeps_outputs(&FakeDevice::broken(Broken::Sharing)));
}

#[test]
fn a_device_that_accepts_foreign_memory_is_detected() {
    let y = call(&program_on(&FakeDevice::default(), STEP), &[ramp(&[4, 3])]);
    let program = program_on(&FakeDevice::broken(Broken::Ownership), STEP);
    let error = program.run(&[y]).unwrap_err();
    assert!(error.to_string().contains("another device"), "{error}");
}

#[test]
fn a_tensor_outside_its_memory_is_refused() {
    let executor: Arc<dyn KernelExecutor> = Arc::new(FakeDevice::default());
    let memory = executor.alloc(16).unwrap();
    let of = |offset, shape: &[usize]| {
        Resident::tensor(&executor, &memory, offset, kiln_tensor::DType::F32, shape)
    };
    assert_eq!(of(4, &[3]).unwrap().len(), 3);
    for (offset, shape) in [(4, [4]), (20, [1]), (usize::MAX, [1])] {
        assert_eq!(of(offset, &shape).unwrap_err().code(), "E0341");
    }
}
