//! Models from graphs and texts: results and errors as a user sees them.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::diagnose::{self, Stage};
use kiln::internals::ir::{Graph, NewOp, Op, Type};
use kiln::{
    DType, Dim, Error, ErrorKind, Inputs, Limits, Model, Observation, Options, Passes, Source,
    Tensor, Work,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const SCALE: &str = "
graph @scale(%x: f32[N, 3], %scale: f32[3]) -> f32[N, 3]
  meta \"author\" = \"Ada\" {
  %y = mul %x, %scale
  return %y
}";

fn zeros(dtype: DType, shape: &[usize]) -> Tensor {
    Tensor::zeros(dtype, shape).unwrap()
}

fn summary(error: &Error) -> String {
    format!("{} ({}): {error}", error.code(), error.kind())
}

#[test]
fn a_model_describes_its_inputs_and_outputs() {
    let model = Model::load(Source::text(SCALE)).unwrap();
    assert_eq!(
        format!("{model:?}"),
        "Model(x: f32[N, 3], scale: f32[3] -> y: f32[N, 3])"
    );
    assert_eq!(model.inputs()[1].dtype(), Some(DType::F32));
    assert!(model.inputs()[1].shape().unwrap().is_fully_known());
    assert_eq!(model.metadata()["author"], "Ada");
}

#[test]
fn inputs_are_checked_before_anything_runs() {
    let model = Model::load(Source::text(SCALE)).unwrap();
    let (x, scale) = (zeros(DType::F32, &[1, 3]), zeros(DType::F32, &[3]));
    let fail = |inputs: &[(&str, &Tensor)]| summary(&model.run(inputs).unwrap_err());
    assert_eq!(
        fail(&[("x", &x)]),
        "E0871 (invalid input): missing input scale: f32[3]; pass a tensor for it"
    );
    assert_eq!(
        fail(&[("x", &x), ("z\u{1b}", &scale)]),
        "E0872 (invalid input): unknown input `z\\u{1b}`, expected each of these once: x: f32[N, 3], scale: f32[3]"
    );
    assert_eq!(
        fail(&[("x", &x), ("x", &x), ("scale", &scale)]),
        "E0872 (invalid input): repeated input `x`, expected each of these once: x: f32[N, 3], scale: f32[3]"
    );
    assert_eq!(
        fail(&[("x", &zeros(DType::I64, &[1, 3])), ("scale", &scale)]),
        "E0873 (invalid input): input x: expected f32[N, 3], given i64[1, 3]"
    );
    assert_eq!(
        fail(&[("scale", &zeros(DType::F32, &[3, 1])), ("x", &x)]),
        "E0873 (invalid input): input scale: expected f32[3], given f32[3, 1]"
    );
    let by_position = |inputs: Vec<&Tensor>| summary(&model.run(inputs).unwrap_err());
    assert_eq!(
        by_position(vec![&x]),
        "E0871 (invalid input): missing input scale: f32[3]; pass a tensor for it"
    );
    assert_eq!(
        by_position(vec![&scale, &x]),
        "E0873 (invalid input): input x: expected f32[N, 3], given f32[3]"
    );
    assert_eq!(
        by_position(vec![&x, &scale, &x]),
        "E0872 (invalid input): unknown input `number 3`, expected each of these once: x: f32[N, 3], scale: f32[3]"
    );
    let wrong_size = model
        .run([("x", &zeros(DType::F32, &[1, 4])), ("scale", &scale)])
        .unwrap_err();
    assert_eq!(wrong_size.kind(), ErrorKind::InvalidInput);
    assert!(
        wrong_size.to_string().contains("input x axis 1"),
        "{wrong_size}"
    );
}

#[test]
fn outputs_are_found_by_name_and_position() {
    let model = Model::load(Source::text(SCALE)).unwrap();
    let x = Tensor::from_slice(&[1, 3], &[1.0_f32, 2.0, 3.0]).unwrap();
    let scale = Tensor::from_slice(&[3], &[1.0_f32, 10.0, 100.0]).unwrap();
    let inputs = vec![("scale".to_owned(), scale), ("x".to_owned(), x)];
    let outputs = model.run(&inputs).unwrap();
    assert_eq!((outputs.len(), outputs.is_empty()), (1, false));
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0, 20.0, 300.0]);
    assert!(outputs.get("y").unwrap().bit_equal(&outputs[0]));
    let names: Vec<_> = outputs.iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["y"]);
    let error = outputs.get("z").unwrap_err();
    assert_eq!(
        summary(&error),
        "E0874 (invalid input): unknown output `z`, expected one of: y"
    );
    assert_eq!(outputs.into_tensors().len(), 1);
}

#[test]
fn dimensions_can_be_constrained() {
    let load = |dim| Options::new().dim("N", dim).load(Source::text(SCALE));
    let fixed = load(Dim::fixed(2)).unwrap();
    assert_eq!(fixed.inputs()[0].to_string(), "x: f32[2, 3]");
    let model = load(Dim::range(1..=8).multiple_of(2).likely(4)).unwrap();
    assert_eq!(
        diagnose::graph(&model, Stage::Optimized)
            .unwrap()
            .dims()
            .hints()
            .len(),
        1
    );
    let scale = zeros(DType::F32, &[3]);
    let run = |n| model.run([("x", &zeros(DType::F32, &[n, 3])), ("scale", &scale)]);
    assert!(run(2).is_ok() && run(8).is_ok());
    for n in [0, 3, 10] {
        let error = run(n).unwrap_err();
        assert!(error.to_string().contains('N'), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(
        summary(&load(Dim::range(1..=7).multiple_of(8)).unwrap_err())
            .split(':')
            .next(),
        Some("E0978 (invalid input)")
    );
    let unknown = Options::new()
        .dim("M", Dim::any())
        .load(Source::text(SCALE))
        .unwrap_err();
    assert_eq!(
        summary(&unknown),
        "E0972 (invalid input): unknown dimension `M`, expected one of: N"
    );
    let none = Options::new()
        .dim("M", Dim::any())
        .load(Source::text("graph @id(%x: f32[]) -> f32[] { return %x }"));
    assert_eq!(
        none.unwrap_err().to_string(),
        "unknown dimension `M`, the model has no named dimension"
    );
}

#[test]
fn stages_show_the_graph_after_each_pass() {
    let text = "graph @g(%x: f32[N]) -> f32[N] {
      %a: f32[1] = constant [2.0]
      %b = add %a, %a
      %c = mul %x, %b
      return %c
    }";
    let model = Model::load(Source::text(text)).unwrap();
    let count = |stage: Stage| {
        let graph = diagnose::graph(&model, stage).unwrap();
        graph.region(graph.body()).ops.len()
    };
    let graphs: Vec<Stage> = Stage::all()
        .into_iter()
        .filter(|stage| stage.is_graph())
        .collect();
    assert_eq!(graphs.first(), Some(&Stage::Import));
    assert_eq!(graphs.last(), Some(&Stage::Optimized));
    assert_eq!((count(Stage::Import), count(Stage::Optimized)), (3, 2));
    assert!(graphs.into_iter().all(|stage| count(stage) <= 4));
    let unknown = diagnose::graph(&model, Stage::Pass("none")).unwrap_err();
    assert_eq!(unknown.code(), "E0973");
    let error = diagnose::graph(&model, Stage::Fusion).unwrap_err();
    assert!(summary(&error).starts_with(
        "E0973 (invalid input): unknown stage `fusion`, expected one of: import, canonicalize"
    ));
    let plain = Options::new()
        .passes(Passes::None)
        .load(Source::text(text))
        .unwrap();
    assert_eq!(
        diagnose::graph(&plain, Stage::Optimized).unwrap().n_ops(),
        3
    );
}

#[test]
fn kept_parameters_are_not_folded_into_each_other() {
    let text = "graph @scaled(%x: f32[B, 2]) -> f32[B, 3] {
      %w: f32[2, 3] = constant [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
      %c: f32[3] = constant [1.0, 10.0, 100.0]
      %a = matmul %x, %w
      %b = mul %a, %c
      return %b
    }";
    let n_ops = |passes| {
        let model = Options::new()
            .passes(passes)
            .load(Source::text(text))
            .unwrap();
        diagnose::graph(&model, Stage::Optimized).unwrap().n_ops()
    };
    assert_eq!((n_ops(Passes::All), n_ops(Passes::KeepParameters)), (2, 4));
}

#[test]
fn a_malformed_text_is_an_error_that_shows_the_place() {
    let error = Model::load(Source::text(
        "graph @g(%x: f32[N]) -> f32[N] {\n  return %z\n}",
    ))
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(
        text.contains("%z") && text.contains("--> 2:") && !text.starts_with("error["),
        "{text}"
    );
}

#[test]
fn a_graph_that_is_not_well_formed_is_refused() {
    let mut graph = Graph::new("wrong");
    let n = graph.dims_mut().symbol("N").unwrap();
    let x = graph.add_input("x", Type::tensor(DType::F32, [n]));
    let op = NewOp::new(
        Op::Transpose {
            permutation: [7].into_iter().collect(),
        },
        [x],
        [Type::tensor(DType::F32, [n])],
    );
    let op = graph.append(graph.body(), op);
    let y = graph.op(op).results[0];
    graph.set_outputs([("y", y)]);
    let error = Model::load(Source::graph(graph)).unwrap_err();
    assert!(
        error.code().starts_with("E02") || error.code().starts_with("E03"),
        "{error:?}"
    );
}

#[test]
fn a_model_runs_from_many_threads_at_once() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let model = Model::load(Source::text(SCALE)).unwrap();
    shared(&model);
    std::thread::scope(|scope| {
        for n in 0..8_usize {
            let model = model.clone();
            scope.spawn(move || {
                let x = Tensor::full(&[n, 3], 2.0_f32).unwrap();
                let scale = Tensor::full(&[3], 3.0_f32).unwrap();
                let outputs = model.run([("x", &x), ("scale", &scale)]).unwrap();
                assert_eq!(outputs[0].to_vec::<f32>().unwrap(), vec![6.0; 3 * n]);
            });
        }
    });
}

#[test]
fn progress_is_reported_in_order() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&seen);
    let options = Options::new().observe(Observation::new().on_progress(move |progress| {
        listener
            .lock()
            .unwrap()
            .push((progress.work, progress.done, progress.total));
    }));
    assert!(format!("{options:?}").contains("Listener"));
    let model = options.load(Source::text(SCALE)).unwrap();
    model
        .run([
            ("x", &zeros(DType::F32, &[1, 3])),
            ("scale", &zeros(DType::F32, &[3])),
        ])
        .unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.first(), Some(&(Work::Import, 0, Some(1))));
    assert_eq!(seen.last(), Some(&(Work::Run, 1, Some(1))));
    let works: Vec<_> = [Work::Import, Work::Optimize, Work::Run]
        .map(|work| work.to_string())
        .to_vec();
    assert_eq!(works, ["import", "optimize", "run"]);
    assert!(seen.iter().any(|(work, _, _)| *work == Work::Optimize));
}

#[test]
fn promoted_floats_are_f64() {
    let model = Model::load(Source::text(SCALE)).unwrap();
    let (x, scale) = (zeros(DType::F32, &[1, 3]), zeros(DType::F32, &[3]));
    let reference = diagnose::reference(&model, [("x", &x), ("scale", &scale)]).unwrap();
    assert_eq!(reference.promoted()[0].dtype(), DType::F64);
    assert_eq!(reference.declared()[0].dtype(), DType::F32);
}

#[test]
fn a_call_can_be_stopped() {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let options = Options::new().cancel_when(move || asked.load(Ordering::Relaxed));
    assert!(format!("{options:?}").contains("stop: asked"));
    let model = options.load(Source::text(SCALE)).unwrap();
    let (x, scale) = (zeros(DType::F32, &[1, 3]), zeros(DType::F32, &[3]));
    stop.store(true, Ordering::Relaxed);
    let error = model.run([("x", &x), ("scale", &scale)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    stop.store(false, Ordering::Relaxed);
    assert!(model.run([("x", &x), ("scale", &scale)]).is_ok());
}

#[test]
fn limits_are_enforced_in_calls() {
    let mut limits = Limits::default();
    limits.run.live_bytes = 100;
    let model = Options::new()
        .limits(limits)
        .load(Source::text(SCALE))
        .unwrap();
    let scale = zeros(DType::F32, &[3]);
    let error = model
        .run([("x", &zeros(DType::F32, &[1000, 3])), ("scale", &scale)])
        .unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Limit, "E0832"));
    assert!(
        model
            .run([("x", &zeros(DType::F32, &[1, 3])), ("scale", &scale)])
            .is_ok()
    );
}

#[test]
fn file_formats_are_recognised_by_extension() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scale.kiln");
    std::fs::write(&path, SCALE).unwrap();
    assert_eq!(Model::load(&path).unwrap().inputs().len(), 2);
    let error = Model::load(folder.path().join("absent.kiln")).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Environment, "E0977")
    );
    assert!(std::error::Error::source(&error).is_some());
    assert!(
        !error.to_string().contains(folder.path().to_str().unwrap()),
        "{error}"
    );
    let error = Model::load("model.pt").unwrap_err();
    assert!(summary(&error).starts_with("E0971 (invalid input): unknown kind of model file"));
}

#[test]
fn large_constants_come_from_the_archive_beside_the_text() {
    let constant =
        kiln::internals::ir::Constant::new(Tensor::full(&[65], 0.5_f32).unwrap()).unwrap();
    let mut graph = Graph::new("big");
    let size = graph.dims_mut().constant(65);
    let ty = Type::tensor(DType::F32, [size]);
    let op = graph.append(
        graph.body(),
        NewOp::new(Op::Constant(constant.clone()), [], [ty]),
    );
    let value = graph.op(op).results[0];
    graph.set_outputs([("y", value)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.kiln");
    std::fs::write(&path, kiln::internals::ir::text::print(&graph)).unwrap();
    assert_eq!(
        Model::load(&path).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let archive = std::fs::File::create(folder.path().join("big.npz")).unwrap();
    kiln::internals::tensor::write_npz([("0", &constant.tensor())], archive).unwrap();
    let outputs = Model::load(&path).unwrap().run(Inputs::default()).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), vec![0.5; 65]);
}
