//! ONNX models, written byte by byte: named and fixed dimensions, open ranks, rejected models.
#![cfg(feature = "onnx")]

use kiln::diagnose::{self, Stage};
use kiln::{
    Cancellation, DType, Dim, Error, ErrorKind, Import, Mode, Model, Notice, Observation, Options,
    Source, Tensor, Work,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A field of a protobuf message: its number and its bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    bytes.extend(varint(content.len() as u64));
    bytes.extend(content);
    bytes
}

fn number(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// An f32 input or output with named sizes, or of open rank if there are none.
fn value(name: &str, sizes: Option<&[&str]>) -> Vec<u8> {
    let dims = |sizes: &[&str]| {
        let dims = sizes
            .iter()
            .map(|size| field(1, &field(2, size.as_bytes())));
        field(2, &dims.collect::<Vec<_>>().concat())
    };
    let tensor = [number(1, 1), sizes.map(dims).unwrap_or_default()].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// `y = op(x, other)`, with an operator of version 17 without attributes.
fn model(op: &str, sizes: Option<&[&str]>) -> Vec<u8> {
    model_stating(op, sizes, sizes)
}

/// The same, for a model that declares other sizes for its result.
fn model_stating(op: &str, sizes: Option<&[&str]>, stated: Option<&[&str]>) -> Vec<u8> {
    let node = [
        field(1, b"x"),
        field(1, b"other"),
        field(2, b"y"),
        field(3, b"the node"),
        field(4, op.as_bytes()),
    ];
    let graph = [
        field(1, &node.concat()),
        field(2, b"g"),
        field(11, &value("x", sizes)),
        field(11, &value("other", Some(&["length"]))),
        field(12, &value("y", stated)),
    ];
    let metadata = [field(1, b"author"), field(2, b"Ada")].concat();
    [
        number(1, 8),
        field(7, &graph.concat()),
        field(8, &number(2, 17)),
        field(14, &metadata),
    ]
    .concat()
}

fn load(bytes: &[u8], options: Options) -> Result<Model, Error> {
    options.load(Source::onnx(bytes, None))
}

#[test]
fn named_dimensions_stay_symbols() {
    let model = load(&model("Add", Some(&["batch", "length"])), Options::new()).unwrap();
    assert_eq!(
        format!("{model:?}"),
        "Model(x: f32[batch, length], other: f32[length] -> y: f32[batch, length])"
    );
    assert_eq!(model.metadata()["author"], "Ada");
    let other = Tensor::from_slice(&[2], &[10.0_f32, 20.0]).unwrap();
    for batch in [0, 1, 3] {
        let x = Tensor::full(&[batch, 2], 1.0_f32).unwrap();
        let outputs = model.run([("x", &x), ("other", &other)]).unwrap();
        assert_eq!(outputs.get("y").unwrap().shape(), [batch, 2]);
        assert_eq!(
            outputs[0].to_vec::<f32>().unwrap(),
            [11.0, 21.0].repeat(batch)
        );
    }
}

#[test]
fn stale_stated_sizes_are_a_notice_and_refuse_no_call() {
    let bytes = model_stating("Add", Some(&["batch", "length"]), Some(&["batch", "batch"]));
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let options = Options::new().observe(
        Observation::new().on_notice(move |notice| heard.lock().unwrap().push(notice.clone())),
    );
    let loaded = load(&bytes, options).unwrap();
    let told = notices.lock().unwrap().clone();
    let stale: Vec<_> = told
        .iter()
        .filter(|notice| matches!(notice, Notice::WrongTypes { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        stale,
        [
            r#"the model states types that its operators do not confirm, 1 in all; type of "y": the model states f32[batch, batch], its operators give f32[batch, length]; the latter is used"#
        ]
    );
    let x = Tensor::full(&[3, 2], 1.5_f32).unwrap();
    let other = Tensor::full(&[2], 1.0_f32).unwrap();
    let outputs = loaded.run([("x", &x), ("other", &other)]).unwrap();
    assert_eq!(outputs.get("y").unwrap().shape(), [3, 2]);
    let strict = load(
        &bytes,
        Options::new().import(Import::new().mode(Mode::Strict)),
    )
    .unwrap_err();
    assert!(strict.to_string().contains("stated type of"), "{strict}");
}

#[test]
fn dimensions_can_be_constrained() {
    let bytes = model("Add", Some(&["batch", "length"]));
    let fixed = load(&bytes, Options::new().dim("batch", Dim::fixed(4))).unwrap();
    assert_eq!(fixed.inputs()[0].to_string(), "x: f32[4, length]");
    let error = load(&bytes, Options::new().dim("width", Dim::fixed(4))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown dimension `width`, expected one of: batch, length"
    );
    let error = load(
        &bytes,
        Options::new().dim("batch", Dim::range(1..=7).multiple_of(8)),
    )
    .unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0978", ErrorKind::InvalidInput)
    );
    let bounded = load(&bytes, Options::new().dim("batch", Dim::range(1..=2))).unwrap();
    let inputs = |batch| {
        (
            Tensor::zeros(DType::F32, &[batch, 2]),
            Tensor::zeros(DType::F32, &[2]),
        )
    };
    let (x, other) = inputs(3);
    let error = bounded
        .run([("x", &x.unwrap()), ("other", &other.unwrap())])
        .unwrap_err();
    assert!(error.to_string().contains("batch"), "{error}");
}

#[test]
fn an_open_rank_is_resolved_by_each_call() {
    let model = load(&model("Add", None), Options::new()).unwrap();
    assert_eq!(model.inputs()[0].to_string(), "x: f32[..]");
    let other = Tensor::from_slice(&[2], &[10.0_f32, 20.0]).unwrap();
    for shape in [&[2][..], &[3, 2], &[1, 2, 2], &[3, 2]] {
        let x = Tensor::full(shape, 1.0_f32).unwrap();
        let outputs = model.run([("x", &x), ("other", &other)]).unwrap();
        assert_eq!(outputs[0].shape(), shape);
    }
    let error = diagnose::graph(&model, Stage::Optimized).unwrap_err();
    assert_eq!(error.code(), "E0976");
    assert_eq!(
        error.to_string(),
        "the rank of input x is unknown; set it with `Import::rank`"
    );
    assert_eq!(
        diagnose::graph(&model, Stage::Import).unwrap_err().code(),
        "E0976"
    );
}

#[test]
fn an_open_rank_can_be_set() {
    let model = load(
        &model("Add", None),
        Options::new().import(Import::new().rank("x", 2)),
    )
    .unwrap();
    assert_eq!(model.inputs()[0].shape().unwrap().rank(), 2);
    assert!(diagnose::graph(&model, Stage::Optimized).is_ok());
    let wrong = Tensor::zeros(DType::F32, &[2]).unwrap();
    assert_eq!(
        model
            .run([("x", &wrong), ("other", &wrong)])
            .unwrap_err()
            .code(),
        "E0873"
    );
}

#[test]
fn an_unsupported_operator_is_reported_as_unsupported() {
    let error = load(&model("Frobnicate", Some(&["n"])), Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("Frobnicate") && error.to_string().contains("the node"),
        "{error}"
    );
}

#[test]
fn errors_name_files_without_their_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.onnx");
    std::fs::write(&path, model("Mul", Some(&["length"]))).unwrap();
    assert_eq!(
        Model::load(&path).unwrap().outputs()[0].to_string(),
        "y: f32[length]"
    );
    let error = Model::load(folder.path().join("absent.onnx")).unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Environment, "E0903")
    );
    assert!(
        !error.to_string().contains(folder.path().to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn a_call_that_imports_an_open_rank_can_be_cancelled_and_retried() {
    let (imports, goes_on) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (count, let_go) = (Arc::clone(&imports), Arc::clone(&goes_on));
    let options = Options::new().observe(Observation::new().on_progress(move |progress| {
        if progress.work == Work::Import && progress.done == 0 {
            count.fetch_add(1, Ordering::SeqCst);
            while !let_go.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    }));
    let model = load(&model("Add", None), options).unwrap();
    let x = Tensor::full(&[3, 2], 1.0_f32).unwrap();
    let other = Tensor::from_slice(&[2], &[10.0_f32, 20.0]).unwrap();
    let cancellation = Cancellation::new();
    std::thread::scope(|scope| {
        let inputs = [("x", &x), ("other", &other)];
        let call = model.call(inputs).cancellation(&cancellation);
        let call = scope.spawn(|| call.run());
        while imports.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        cancellation.cancel();
        // While the import is still waiting.
        assert_eq!(call.join().unwrap().unwrap_err().code(), "E0835");
    });
    goes_on.store(true, Ordering::SeqCst);
    let outputs = model.run([("x", &x), ("other", &other)]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [11.0, 21.0].repeat(3));
    assert_eq!(imports.load(Ordering::SeqCst), 1);
}
