//! Tensors kept from call to call: updated in place, never lost, and equal to the interpreter's.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::{
    Cache, DType, Device, DonationFate, Donations, ErrorKind, Inputs, Model, Options, Session,
    Source, Tensor,
};

fn options(device: Device) -> Options {
    Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off())
}

fn model(text: &str) -> Model {
    options(Device::cpu())
        .load(Source::text(text))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn ramp(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let elements = (0..count).map(|k| k as f32 * 0.5 - 3.0).collect();
    Tensor::from_vec(shape, elements).unwrap()
}

fn at(position: i64) -> Tensor {
    Tensor::from_slice(&[1], &[position]).unwrap()
}

fn start_of(tensor: &Tensor) -> *const u8 {
    tensor.as_bytes().unwrap().as_ptr()
}

const APPEND: &str =
    "graph @append(%cache: f32[C, D], %at: i64[1], %rows: f32[R, D]) -> (f32[C, D], f32[D]) {
  %new = tanh %rows
  %next = update_slice %cache, %at, %new {axes = [0]}
  %sum = reduce %next {function = sum, axes = [0]}
  return %next, %sum
}";

/// A session that appends to this cache.
fn appending(cache: Tensor) -> Session {
    let session = model(APPEND).session().state("cache", "next", cache);
    session.build().unwrap()
}

/// Appends rows in a session, and compares the state and the output with the interpreter's.
fn append(session: &mut Session, position: i64, rows: &Tensor) {
    let reference = options(Device::interpreter())
        .load(Source::text(APPEND))
        .unwrap();
    let before = session.state("cache").unwrap().copied().unwrap();
    let at = at(position);
    let inputs = [("at", &at), ("rows", rows)];
    let expected = reference
        .run([("cache", &before), inputs[0], inputs[1]])
        .unwrap();
    let found = session.run(inputs).unwrap();
    let close = |left: &Tensor, right: &Tensor| {
        let pairs = left
            .to_vec::<f32>()
            .unwrap()
            .into_iter()
            .zip(right.to_vec::<f32>().unwrap());
        pairs
            .into_iter()
            .all(|(left, right)| (left - right).abs() <= 1e-4 * right.abs().max(1.0))
    };
    assert!(close(session.state("cache").unwrap(), &expected[0]));
    assert!(close(&found[0], &expected[1]));
    assert_eq!(found.get("next").unwrap_err().code(), "E0874");
}

#[test]
fn a_cache_is_appended_to_in_place() {
    let model = model(APPEND);
    for (capacity, width) in [(1, 1), (2, 7), (16, 16), (33, 17)] {
        let mut session = model
            .session()
            .state("cache", "next", ramp(&[capacity, width]))
            .build()
            .unwrap();
        let start = start_of(session.state("cache").unwrap());
        for position in 0..capacity {
            append(&mut session, position as i64, &ramp(&[1, width]));
            assert_eq!(start_of(session.state("cache").unwrap()), start);
        }
        // Several rows at once, and no rows.
        append(&mut session, 0, &ramp(&[capacity, width]));
        append(&mut session, 0, &ramp(&[0, width]));
        assert_eq!(start_of(session.state("cache").unwrap()), start);
    }
}

#[test]
fn clones_of_a_state_stay_unchanged() {
    let first = ramp(&[4, 3]);
    let mut session = appending(first.clone());
    append(&mut session, 1, &ramp(&[1, 3]));
    assert!(first.bit_equal(&ramp(&[4, 3])));
    let kept = session.state("cache").unwrap().clone();
    let before = kept.copied().unwrap();
    for position in 0..4 {
        append(&mut session, position, &ramp(&[1, 3]));
        assert!(kept.bit_equal(&before));
    }
    let states = session.into_states().unwrap();
    assert_eq!(states[0].0, "cache");
    assert!(!states[0].1.bit_equal(&before));
}

#[test]
fn a_refused_call_leaves_the_state_unchanged() {
    let mut session = appending(ramp(&[4, 3]));
    append(&mut session, 1, &ramp(&[1, 3]));
    let before = session.state("cache").unwrap().copied().unwrap();
    let (position, row) = (at(0), ramp(&[1, 3]));
    let wrong = [
        session.run([("at", &position)]).unwrap_err(),
        session
            .run([("at", &position), ("rows", &at(0))])
            .unwrap_err(),
        session
            .run([("at", &position), ("rows", &ramp(&[1, 2]))])
            .unwrap_err(),
        session
            .run([("cache", &row), ("at", &position), ("rows", &row)])
            .unwrap_err(),
        session
            .call(std::slice::from_ref(&row))
            .run_into(&mut [])
            .unwrap_err(),
    ];
    for error in wrong {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    assert!(session.state("cache").unwrap().bit_equal(&before));
    append(&mut session, 2, &row);
}

#[test]
fn a_state_that_a_failed_call_wrote_into_must_be_set_again() {
    let mut session = appending(ramp(&[4, 3]));
    append(&mut session, 1, &ramp(&[1, 3]));
    let row = ramp(&[1, 3]);
    for position in [4, -1, i64::MAX] {
        let position = at(position);
        let error = session
            .run([("at", &position), ("rows", &row)])
            .unwrap_err();
        assert_eq!(error.code(), "E0822", "{error}");
        for error in [
            session.state("cache").unwrap_err(),
            session.run([("at", &at(0)), ("rows", &row)]).unwrap_err(),
        ] {
            assert_eq!(error.code(), "E0876", "{error}");
            assert!(error.to_string().contains("`cache`"), "{error}");
        }
        assert_eq!(
            session.set_state("cache", at(0)).unwrap_err().code(),
            "E0875"
        );
        session.set_state("cache", ramp(&[4, 3])).unwrap();
        append(&mut session, 3, &row);
    }
}

#[test]
fn states_that_grow_are_replaced() {
    let text = "graph @grow(%past: f32[P, D], %row: f32[1, D]) -> (f32[P + 1, D], f32[1, D]) {
      %next = concat %past, %row {axis = 0}
      %y = neg %row
      return %next, %y
    }";
    for device in [Device::cpu(), Device::interpreter()] {
        let model = options(device).load(Source::text(text)).unwrap();
        let empty = Tensor::zeros(DType::F32, &[0, 3]).unwrap();
        let mut session = model
            .session()
            .state("past", "next", empty)
            .build()
            .unwrap();
        let mut expected = Vec::new();
        for step in 0..5 {
            let row = Tensor::full(&[1, 3], step as f32).unwrap();
            let outputs = session.run([("row", &row)]).unwrap();
            assert_eq!(
                outputs.get("y").unwrap().to_vec::<f32>().unwrap(),
                [-(step as f32); 3]
            );
            expected.extend([step as f32; 3]);
            assert_eq!(
                session.state("past").unwrap().to_vec::<f32>().unwrap(),
                expected
            );
        }
    }
}

#[test]
fn parameters_and_their_momentum_are_updated_in_place() {
    let text = "graph @step(%p: f32[N], %m: f32[N], %g: f32[N], %b: f32[], %r: f32[]) -> (f32[N], f32[N]) {
      %kept = mul %m, %b
      %next = add %kept, %g
      %change = mul %next, %r
      %q = sub %p, %change
      return %q, %next
    }";
    let (decay, rate) = (Tensor::scalar(0.9f32), Tensor::scalar(0.1f32));
    for n in [0, 1, 2, 7, 16, 17, 1021] {
        let mut session = model(text)
            .session()
            .state("p", "q", ramp(&[n]))
            .state("m", "next", Tensor::zeros(DType::F32, &[n]).unwrap())
            .build()
            .unwrap();
        let starts = ["p", "m"].map(|name| start_of(session.state(name).unwrap()));
        let (mut p, mut m) = (ramp(&[n]).to_vec::<f32>().unwrap(), vec![0.0f32; n]);
        for _ in 0..4 {
            let g = ramp(&[n]);
            assert!(
                session
                    .run([("g", &g), ("b", &decay), ("r", &rate)])
                    .unwrap()
                    .is_empty()
            );
            for ((p, m), g) in p.iter_mut().zip(&mut m).zip(g.to_vec::<f32>().unwrap()) {
                *m = *m * 0.9 + g;
                *p -= *m * 0.1;
            }
        }
        for (name, expected) in [("p", &p), ("m", &m)] {
            let found = session.state(name).unwrap().to_vec::<f32>().unwrap();
            let close = |(found, expected): (&f32, &f32)| (found - expected).abs() <= 1e-3;
            assert!(found.iter().zip(expected).all(close), "{name} of {n}");
        }
        if n > 0 {
            assert_eq!(
                ["p", "m"].map(|name| start_of(session.state(name).unwrap())),
                starts
            );
        }
    }
}

#[test]
fn pairs_that_cannot_be_states_are_refused() {
    let sized = model(
        "graph @sized(%cache: f32[C, 3]) -> (f32[C, 3], f32[C, 6]) {
          %next = neg %cache
          %longer = concat %cache, %cache {axis = 1}
          return %next, %longer
        }",
    );
    let model = model(APPEND);
    let cache = || ramp(&[4, 3]);
    let wrong = [
        model.session().state("nothing", "next", cache()),
        model.session().state("cache", "nothing", cache()),
        model.session().state("cache", "sum", cache()),
        model.session().state("at", "next", at(0)),
        model.session().state("cache", "next", at(0)),
        sized.session().state("cache", "next", ramp(&[4, 2])),
        sized.session().state("cache", "longer", cache()),
        model
            .session()
            .state("cache", "next", cache())
            .state("rows", "next", cache()),
        model
            .session()
            .state("cache", "next", cache())
            .state("cache", "next", cache()),
    ];
    for builder in wrong {
        let error = builder.build().unwrap_err();
        assert_eq!(error.code(), "E0875", "{error}");
    }
}

fn donate(
    model: &Model,
    inputs: &mut [Tensor],
    donations: &mut Donations,
    outputs: &mut [Tensor],
) -> Result<(), kiln::Error> {
    let inputs = Inputs::donated(inputs, donations);
    model.call(inputs).run_into(outputs)
}

#[test]
fn reading_a_donated_tensor_is_an_error() {
    let model = model(APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let mut inputs = [ramp(&[4, 3]), at(1), ramp(&[1, 3])];
    let mut outputs = [Tensor::scalar(0u8), Tensor::scalar(0u8)];
    let start = start_of(&inputs[0]);
    donate(&model, &mut inputs, &mut donations, &mut outputs).unwrap();
    assert_eq!(donations.fate(0), DonationFate::Taken);
    assert_eq!(start_of(&outputs[0]), start);
    assert_eq!(inputs[0].as_bytes().unwrap_err().code(), "E0943");
    let error = donate(&model, &mut inputs, &mut donations, &mut outputs).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    // It is passed twice, so it is not exclusively owned, and the donation is not taken.
    let both = "graph @both(%x: f32[N], %y: f32[N]) -> f32[N] {
      %z = sub %x, %y
      return %z
    }";
    let x = ramp(&[5]);
    let mut inputs = [x.clone(), x.clone()];
    let both = self::model(both);
    donate(&both, &mut inputs, &mut donations, &mut outputs[..1]).unwrap();
    assert_eq!(donations.fate(0), DonationFate::Kept);
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [0.0; 5]);
    assert!(inputs[0].bit_equal(&ramp(&[5])));
    assert_eq!(
        Donations::new([(0, 0), (1, 0)]).unwrap_err().code(),
        "E0898"
    );
    let mut donations = Donations::new([(7, 0)]).unwrap();
    let error = donate(&both, &mut inputs, &mut donations, &mut outputs[..1]);
    assert_eq!(error.unwrap_err().code(), "E0898");
    assert!(inputs[0].bit_equal(&x));
}

#[test]
fn calls_that_may_be_ended_do_not_overwrite_states() {
    let limit = std::time::Duration::from_secs(600);
    let mut session = appending(ramp(&[4, 3]));
    append(&mut session, 1, &ramp(&[1, 3]));
    let (position, row) = (at(9), ramp(&[1, 3]));
    let call = session.call([("at", &position), ("rows", &row)]);
    let error = call.time_limit(limit).run().unwrap_err();
    assert_eq!(error.code(), "E0822");
    append(&mut session, 2, &ramp(&[1, 3]));
}

#[test]
fn every_kind_of_call_takes_inputs_by_name_or_position() {
    let (model, position, rows) = (model(APPEND), at(1), ramp(&[2, 3]));
    let expected = {
        let inputs = [ramp(&[4, 3]), position.clone(), rows.clone()];
        model.run(&inputs).unwrap()
    };
    let is_expected = |session: &Session, sum: &Tensor| {
        session.state("cache").unwrap().bit_equal(&expected[0]) && sum.bit_equal(&expected[1])
    };
    let mut steps = Vec::new();
    for way in 0..5 {
        let mut session = appending(ramp(&[4, 3]));
        let mut into = [Tensor::scalar(0u8)];
        let own = [position.clone(), rows.clone()];
        let sum = match way {
            0 => session.run([("rows", &rows), ("at", &position)]).unwrap()[0].clone(),
            1 => session.run([&position, &rows]).unwrap()[0].clone(),
            2 => session.run(&own).unwrap()[0].clone(),
            3 => {
                let call = session.call([&position, &rows]);
                call.profile(&mut steps).run().unwrap()[0].clone()
            }
            _ => {
                session.call(&own).run_into(&mut into).unwrap();
                into[0].clone()
            }
        };
        assert!(is_expected(&session, &sum), "{way}");
        let error = session.run(std::slice::from_ref(&position)).unwrap_err();
        assert_eq!(error.code(), "E0877", "{error}");
        let error = session.run([&position]).unwrap_err();
        assert_eq!(error.code(), "E0871", "{error}");
        let error = session.call(&own).run_into(&mut []).unwrap_err();
        assert_eq!(error.code(), "E0877", "{error}");
    }
    assert!(!steps.is_empty());
}

#[test]
fn a_profiled_call_takes_no_donation_and_gives_the_same() {
    let model = model(APPEND);
    let mut donations = Donations::new([(0, 0)]).unwrap();
    let mut inputs = [ramp(&[4, 3]), at(1), ramp(&[1, 3])];
    let mut steps = Vec::new();
    let call = model.call(Inputs::donated(&mut inputs, &mut donations));
    let profiled = call.profile(&mut steps).run().unwrap();
    assert!(!steps.is_empty());
    assert_eq!(donations.fate(0), DonationFate::Kept);
    let start = start_of(&inputs[0]);
    let donated = Inputs::donated(&mut inputs, &mut donations);
    let outputs = model.run(donated).unwrap();
    assert_eq!(donations.fate(0), DonationFate::Taken);
    assert_eq!(start_of(&outputs[0]), start);
    assert!(outputs[0].bit_equal(&profiled[0]) && outputs[1].bit_equal(&profiled[1]));
}
