//! Files recognised by their identity: they are not read again, and changes are detected.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::file::OnnxOrigin;
use super::{ConstantPlace, ModelDigest};
use kiln_ir::Digest;
use kiln_kernel_cache::{DiskOptions, DiskTier};
use kiln_onnx::Limits;
use kiln_tensor::{DType, Tensor};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A field of a protobuf message: its number and its bytes, fewer than 128.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    assert!(length < 128);
    [&[number << 3 | 2, length], content].concat()
}

fn number(field: u8, value: u8) -> Vec<u8> {
    vec![field << 3, value]
}

/// `y = x + w` with 100 weights in `weights.bin`.
fn write_model(folder: &Path) -> PathBuf {
    let shape = field(2, &field(1, &number(1, 100)));
    let tensor = field(1, &[number(1, 1), shape].concat());
    let value = |name: &[u8]| [field(1, name), field(2, &tensor)].concat();
    let entry = [field(1, b"location"), field(2, b"weights.bin")].concat();
    let head = [number(1, 100), number(2, 1), field(8, b"w")].concat();
    let weights = [head, field(13, &entry), number(14, 1)].concat();
    let node = [
        field(1, b"x"),
        field(1, b"w"),
        field(2, b"y"),
        field(4, b"Add"),
    ]
    .concat();
    let parts = [
        field(1, &node),
        field(2, b"g"),
        field(5, &weights),
        field(11, &value(b"x")),
        field(12, &value(b"y")),
    ];
    let graph = parts.concat();
    let length = [0x80 | (graph.len() & 0x7f) as u8, (graph.len() >> 7) as u8];
    let graph = [&[7 << 3 | 2][..], &length, &graph].concat();
    let model = [number(1, 8), graph, field(8, &number(2, 17))].concat();
    let path = folder.join("model.onnx");
    fs::write(&path, model).unwrap();
    write_weights(folder, 1.0);
    path
}

fn write_weights(folder: &Path, first: f32) {
    let weights: Vec<u8> = (0..100)
        .flat_map(|i| (first + i as f32).to_le_bytes())
        .collect();
    fs::write(folder.join("weights.bin"), weights).unwrap();
}

struct Place {
    folder: TempDir,
    model: PathBuf,
    disk: DiskTier,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let model = write_model(folder.path());
        let disk = DiskTier::at(folder.path().join("cache"), DiskOptions::default());
        Self {
            folder,
            model,
            disk,
        }
    }

    fn open_at(&self, now: SystemTime) -> OnnxOrigin {
        OnnxOrigin::open(&self.model, &Limits::default(), &self.disk, now).unwrap()
    }

    /// Opens the model at a time when all changes are long past.
    fn open(&self) -> OnnxOrigin {
        self.open_at(SystemTime::now() + Duration::from_secs(3600))
    }
}

fn digest(source: &OnnxOrigin) -> ModelDigest {
    *source.digest().unwrap()
}

/// The weights, read on demand.
fn weights(source: &OnnxOrigin, place: &ConstantPlace, digest: Digest) -> Tensor {
    source.constant(place, DType::F32, &[100], digest).unwrap()
}

#[test]
fn a_known_file_is_not_read_and_its_weights_are_read_on_demand() {
    let place = Place::new();
    let first = place.open();
    assert!(first.read().is_some());
    let places = first.constant_places();
    let (&weight, at) = places.first_key_value().unwrap();
    assert_eq!(
        (places.len(), at.file.as_deref(), at.offset),
        (1, Some("weights.bin"), 0)
    );
    let second = place.open();
    assert!(second.read().is_none());
    assert_eq!(digest(&second), digest(&first));
    let tensor = weights(&second, at, weight);
    assert_eq!(tensor.to_vec::<f32>().unwrap()[..2], [1.0, 2.0]);
    assert_eq!(second.model().unwrap().graph().initializers().len(), 1);
    assert!(weights(&first, at, weight).bit_equal(&tensor));
}

#[test]
fn a_changed_file_is_read_again_and_not_mistaken_for_the_old_one() {
    let place = Place::new();
    let first = place.open();
    let places = first.constant_places();
    let (&weight, at) = places.first_key_value().unwrap();
    let second = place.open();
    let unread = weights(&second, at, weight);
    // The same size, in place.
    write_weights(place.folder.path(), 2.0);
    let error = unread.to_vec::<f32>().unwrap_err();
    assert_eq!(error.code(), "E0943");
    assert!(
        error.to_string().contains("load the model again"),
        "{error}"
    );
    assert_eq!(second.model().unwrap_err().code(), "E0987");
    let third = place.open();
    assert!(third.read().is_some());
    assert_ne!(digest(&third), digest(&first));
    assert!(place.open().read().is_none(), "it is known by now");
    // The same bytes in another file: read, and found to be equal.
    write_weights(place.folder.path(), 1.0);
    assert_eq!(unread.to_vec::<f32>().unwrap()[0], 1.0);
    let path = place.folder.path().join("weights.bin");
    fs::copy(&path, place.folder.path().join("copy")).unwrap();
    fs::rename(place.folder.path().join("copy"), &path).unwrap();
    let fourth = place.open();
    assert!(fourth.read().is_some());
    assert_eq!(digest(&fourth), digest(&first));
    fs::remove_file(&path).unwrap();
    let gone = OnnxOrigin::open(
        &place.model,
        &Limits::default(),
        &place.disk,
        SystemTime::now(),
    );
    assert!(gone.is_err());
}

#[test]
fn a_recently_changed_file_is_not_recorded() {
    let place = Place::new();
    for _ in 0..2 {
        assert!(place.open_at(SystemTime::now()).read().is_some());
    }
    assert!(place.open().read().is_some());
    assert!(place.open().read().is_none());
}
