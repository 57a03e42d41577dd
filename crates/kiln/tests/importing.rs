//! Choices made at the import of an ONNX model: inputs made constants, lengths of sequences, omitted optional inputs.
#![cfg(feature = "onnx")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "llvm")]
use kiln::{Device, Import, Source};
use kiln::{Error, Model, Options, Tensor};

/// A field of a protobuf message: its number and its bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap_or(u8::MAX);
    let length = match length {
        0..=0x7f => vec![length],
        _ => vec![
            (content.len() & 0x7f) as u8 | 0x80,
            (content.len() >> 7) as u8,
        ],
    };
    [&[number << 3 | 2][..], &length, content].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

/// The type of an f32 tensor; its rank is open if its one size has no name.
fn tensor(size: Option<&str>) -> Vec<u8> {
    let shape = size.map(|size| field(2, &field(1, &field(2, size.as_bytes()))));
    field(1, &[number(1, 1), shape.unwrap_or_default()].concat())
}

fn value(name: &str, ty: &[u8]) -> Vec<u8> {
    [field(1, name.as_bytes()), field(2, ty)].concat()
}

/// A model of one node with one output.
fn model(op: &str, inputs: &[(&str, Vec<u8>)], attributes: &[Vec<u8>]) -> Vec<u8> {
    let mut node: Vec<u8> = inputs
        .iter()
        .flat_map(|(name, _)| field(1, name.as_bytes()))
        .collect();
    node.extend([field(2, b"y"), field(4, op.as_bytes())].concat());
    node.extend(attributes.iter().flat_map(|attribute| field(5, attribute)));
    let mut graph = [field(1, &node), field(2, b"g")].concat();
    for (name, ty) in inputs {
        graph.extend(field(11, &value(name, ty)));
    }
    graph.extend(field(12, &field(1, b"y")));
    let opset = field(8, &number(2, 18));
    [number(1, 8), field(7, &graph), opset].concat()
}

fn add() -> Vec<u8> {
    let inputs = [("a", tensor(Some("N"))), ("b", tensor(Some("N")))];
    model("Add", &inputs, &[])
}

fn load(bytes: &[u8], options: Options) -> Result<Model, Error> {
    options.load(Source::onnx(bytes, None))
}

fn numbers(elements: &[f32]) -> Tensor {
    Tensor::from_slice(&[elements.len()], elements).unwrap()
}

#[test]
fn an_input_made_a_constant_is_no_longer_an_input_and_fixes_sizes() {
    let options = Options::new().import(Import::new().fix("b", numbers(&[10.0, 20.0])));
    let model = load(&add(), options).unwrap();
    assert_eq!(format!("{model:?}"), "Model(a: f32[2] -> y: f32[2])");
    let outputs = model.run([("a", &numbers(&[1.0, 2.0]))]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [11.0, 22.0]);
    let error = load(
        &add(),
        Options::new().import(Import::new().fix("c", numbers(&[1.0]))),
    )
    .unwrap_err();
    assert_eq!(error.code(), "E0926");
    let error = load(
        &add(),
        Options::new().import(Import::new().fix("b", Tensor::scalar(1_i64))),
    )
    .unwrap_err();
    assert_eq!(error.code(), "E0925");
}

#[test]
fn an_input_of_open_rank_may_be_made_a_constant() {
    let inputs = [("a", tensor(None)), ("b", tensor(None))];
    let bytes = model("Add", &inputs, &[]);
    let model = load(
        &bytes,
        Options::new().import(Import::new().fix("a", numbers(&[1.0, 2.0]))),
    )
    .unwrap();
    assert_eq!(model.inputs().len(), 1);
    for shape in [vec![2], vec![3, 2], vec![]] {
        let b = Tensor::full(&shape, 10.0_f32).unwrap();
        let outputs = model.run([("b", &b)]).unwrap();
        assert_eq!(outputs[0].shape().last(), Some(&2));
    }
    // Options that do not apply to the model are reported when it is loaded, not at the first call.
    let error = load(&bytes, Options::new().import(Import::new().absent("z"))).unwrap_err();
    assert_eq!(error.code(), "E0926");
}

#[test]
fn the_entries_of_a_sequence_are_separate_inputs() {
    let attribute = [field(1, b"axis"), number(3, 0), vec![0xa0, 0x01, 2]].concat();
    let sequence = field(4, &field(1, &tensor(None)));
    let bytes = model("ConcatFromSequence", &[("xs", sequence)], &[attribute]);
    assert_eq!(load(&bytes, Options::new()).unwrap_err().code(), "E0927");
    let model = load(&bytes, Options::new().import(Import::new().length("xs", 2))).unwrap();
    assert_eq!(model.inputs()[1].name(), "xs.1");
    let (first, second) = (numbers(&[1.0, 2.0]), numbers(&[3.0]));
    let outputs = model.run([("xs.0", &first), ("xs.1", &second)]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    // An entry may be a constant, and its rank may be fixed.
    let import = Import::new()
        .length("xs", 2)
        .fix("xs.0", first)
        .rank("xs.1", 1);
    let model = load(&bytes, Options::new().import(import)).unwrap();
    let outputs = model.run([("xs.1", &second)]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    let error = load(
        &bytes,
        Options::new().import(Import::new().length("xs", usize::MAX)),
    )
    .unwrap_err();
    assert_eq!(error.code(), "E0902");
}

#[test]
fn an_optional_input_is_present_unless_declared_absent() {
    // Field 9 of a type.
    let optional = field(9, &field(1, &tensor(Some("N"))));
    let bytes = model("OptionalHasElement", &[("o", optional)], &[]);
    let model = load(&bytes, Options::new()).unwrap();
    let given = model.run([("o", &numbers(&[1.0]))]).unwrap();
    assert!(given[0].item::<bool>().unwrap());
    let model = load(&bytes, Options::new().import(Import::new().absent("o"))).unwrap();
    assert!(model.inputs().is_empty());
    let none: [(&str, &Tensor); 0] = [];
    assert!(!model.run(none).unwrap()[0].item::<bool>().unwrap());
}

#[test]
fn import_options_are_refused_for_a_graph() {
    let text = "graph @id(%x: f32[N]) -> f32[N] { return %x }";
    for options in [
        Options::new().import(Import::new().fix("x", numbers(&[1.0]))),
        Options::new().import(Import::new().length("x", 2)),
        Options::new().import(Import::new().absent("x")),
    ] {
        let error = options.load(Source::text(text)).unwrap_err();
        assert_eq!(error.code(), "E0986");
        assert!(error.to_string().contains("input `x`"), "{error}");
    }
}

#[cfg(feature = "llvm")]
#[test]
fn stored_programs_with_different_constants_are_distinct() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("add.onnx");
    std::fs::write(&path, add()).unwrap();
    let cache = kiln::Cache::folder(folder.path().join("cache"));
    for _ in 0..2 {
        for constant in [1.0, 2.0] {
            let options = Options::new().device(Device::cpu()).cache(cache.clone());
            let options = options.import(Import::new().fix("b", numbers(&[constant; 2])));
            let model = options.load(&path).unwrap();
            let outputs = model.run([("a", &numbers(&[0.0; 2]))]).unwrap();
            assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [constant; 2]);
        }
    }
}
