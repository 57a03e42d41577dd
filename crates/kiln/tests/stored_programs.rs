//! Stored programs: a second load imports and plans nothing, and gives the same model.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(feature = "llvm", feature = "onnx"))]

use kiln::diagnose::{self, Stage};
use kiln::internals::kernel_cache::EntryKind;
use kiln::{Cache, Device, Model, Options, Passes, Tensor};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

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

fn value(name: &str, size: &str, width: u64) -> Vec<u8> {
    let dims = [
        field(1, &field(2, size.as_bytes())),
        field(1, &number(1, width)),
    ]
    .concat();
    let tensor = [number(1, 1), field(2, &dims)].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

fn node(op: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let inputs: Vec<u8> = inputs
        .iter()
        .flat_map(|input| field(1, input.as_bytes()))
        .collect();
    let node = [inputs, field(2, output.as_bytes()), field(4, op.as_bytes())].concat();
    field(1, &node)
}

/// Elements in the model's file, or in `weights.bin` next to it.
fn initializer(name: &str, shape: [u64; 2], outside: bool, first: f32) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..shape[0] * shape[1])
        .flat_map(|i| (first + i as f32 * 0.125).to_le_bytes())
        .collect();
    let head = [
        number(1, shape[0]),
        number(1, shape[1]),
        number(2, 1),
        field(8, name.as_bytes()),
    ];
    let entry = |key: &str, value: &str| {
        field(
            13,
            &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat(),
        )
    };
    if outside {
        let place = [entry("location", "weights.bin"), number(14, 1)].concat();
        (field(5, &[head.concat(), place].concat()), data)
    } else {
        (
            field(5, &[head.concat(), field(9, &data)].concat()),
            Vec::new(),
        )
    }
}

/// `y = relu(x w (a - b)')` with large constants: `w` external, the others to be folded.
fn write_model(folder: &Path, first: f32) -> PathBuf {
    let (w, outside) = initializer("w", [8, 16], true, first);
    let (a, _) = initializer("a", [5, 16], false, 1.0);
    let (b, _) = initializer("b", [5, 16], false, 0.5);
    let graph = [
        node("MatMul", &["x", "w"], "p"),
        node("Sub", &["a", "b"], "c"),
        node("Transpose", &["c"], "d"),
        node("MatMul", &["p", "d"], "m"),
        node("Relu", &["m"], "y"),
        field(2, b"g"),
        w,
        a,
        b,
        field(11, &value("x", "batch", 8)),
        field(12, &value("y", "batch", 5)),
    ];
    let graph = graph.concat();
    let metadata = [field(1, b"author"), field(2, b"Ada")].concat();
    let model = [
        number(1, 8),
        field(7, &graph),
        field(8, &number(2, 17)),
        field(14, &metadata),
    ];
    fs::write(folder.join("weights.bin"), outside).unwrap();
    let path = folder.join("model.onnx");
    fs::write(&path, model.concat()).unwrap();
    path
}

struct Place {
    folder: TempDir,
    model: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let model = write_model(folder.path(), -1.0);
        Self { folder, model }
    }

    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn options(&self) -> Options {
        Options::new()
            .device(Device::cpu())
            .shared_kernels(false)
            .cache(Cache::folder(self.cache()))
    }

    fn load(&self) -> Model {
        self.options().load(&self.model).unwrap()
    }

    /// The number of entries of a kind.
    fn entries(&self, kind: EntryKind) -> usize {
        let entries = Cache::folder(self.cache())
            .open()
            .unwrap()
            .entries()
            .unwrap();
        let is_kind = |head: &kiln::internals::kernel_cache::EntryHead| head.kind == kind.name();
        entries
            .iter()
            .filter(|entry| entry.head.as_ref().is_ok_and(is_kind))
            .count()
    }
}

fn run(model: &Model) -> Vec<f32> {
    let x = Tensor::full(&[3, 8], 0.25f32).unwrap();
    model.run([("x", &x)]).unwrap()[0].to_vec::<f32>().unwrap()
}

fn texts(model: &Model) -> Vec<String> {
    let stages =
        [Stage::Import, Stage::Optimized].map(|stage| diagnose::inspect(model, stage).unwrap());
    let signature = format!(
        "{:?} {:?} {:?}",
        model.inputs(),
        model.outputs(),
        model.metadata()
    );
    stages.into_iter().chain([signature]).collect()
}

#[test]
fn a_second_load_is_the_same_model() {
    let place = Place::new();
    let first = place.load();
    let expected = run(&first);
    assert_eq!(place.entries(EntryKind::PROGRAM), 1);
    let second = place.load();
    assert_eq!(run(&second), expected);
    assert_eq!(second.compilation_stats().compilations, 0);
    assert_eq!(texts(&second), texts(&first));
    let steps = |model: &Model| diagnose::explain(model).unwrap().steps.len();
    assert_eq!(steps(&second), steps(&first));
    assert_eq!(place.entries(EntryKind::PROGRAM), 1);
}

#[test]
fn different_options_or_weights_are_different_programs() {
    let place = Place::new();
    let expected = run(&place.load());
    let plain = place
        .options()
        .passes(Passes::None)
        .load(&place.model)
        .unwrap();
    assert_eq!(run(&plain), expected);
    assert_eq!(place.entries(EntryKind::PROGRAM), 2);
    let before = fs::read(&place.model).unwrap();
    write_model(place.folder.path(), 0.0);
    assert_eq!(
        fs::read(&place.model).unwrap(),
        before,
        "only the weights beside it changed"
    );
    let changed = run(&place.load());
    assert_ne!(changed, expected);
    let without = place.options().cache(Cache::off());
    assert_eq!(run(&without.load(&place.model).unwrap()), changed);
    assert_eq!(place.entries(EntryKind::PROGRAM), 3);
}

#[test]
fn a_damaged_program_is_rebuilt() {
    let place = Place::new();
    let expected = run(&place.load());
    let files = || {
        fs::read_dir(place.cache())
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    for file in files() {
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() * 9 / 10]).unwrap();
    }
    assert_eq!(run(&place.load()), expected);
    assert_eq!(place.entries(EntryKind::PROGRAM), 1);
    // A missing constant.
    let disk = Cache::folder(place.cache()).open().unwrap();
    for entry in disk.entries().unwrap() {
        if entry
            .head
            .is_ok_and(|head| head.kind == EntryKind::CONSTANT.name())
        {
            fs::remove_file(place.cache().join(format!("{}.kiln2", entry.digest))).unwrap();
        }
    }
    assert_eq!(run(&place.load()), expected);
}
