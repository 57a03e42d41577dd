//! Tensors in files next to the model: ranges, sharing, and files that change.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;

use prost::Message;

use crate::proto::{GraphProto, StringStringEntryProto, TensorProto};
use crate::tests::build::*;
use crate::{DataFile, Error, FileError, Folder, Fs, Location, MemoryFiles, Model, NoFiles};

fn load(tensors: Vec<TensorProto>, files: &dyn Fs) -> Result<Model, Error> {
    let graph = GraphProto {
        initializer: tensors,
        ..GraphProto::default()
    };
    Model::from_bytes(&model(graph).encode_to_vec(), files)
}

fn at(location: &str, offset: impl ToString, length: impl ToString) -> Vec<StringStringEntryProto> {
    vec![
        entry("location", location),
        entry("offset", offset),
        entry("length", length),
    ]
}

fn sixteen_bytes() -> MemoryFiles {
    MemoryFiles::new().with("w", (0..16).collect::<Vec<u8>>())
}

#[test]
fn data_files_fill_tensors_of_every_type() {
    for (number, size) in [
        (1, 4),
        (2, 1),
        (3, 1),
        (4, 2),
        (5, 2),
        (6, 4),
        (7, 8),
        (9, 1),
        (10, 2),
        (11, 8),
        (12, 4),
        (13, 8),
        (16, 2),
    ] {
        let bytes: Vec<u8> = (0..3 * size + 1).map(|byte| (byte % 2) as u8).collect();
        let files = MemoryFiles::new().with("w", bytes.as_slice());
        let model = load(
            vec![external("w", number, &[3], &at("w", 1, 3 * size))],
            &files,
        )
        .unwrap();
        let tensor = model.graph().initializers()["w"].tensor().unwrap();
        assert_eq!(tensor.as_bytes().unwrap(), &bytes[1..], "{number}");
    }
    let truth = MemoryFiles::new().with("w", [2]);
    let model = load(vec![external("w", 9, &[1], &at("w", 0, 1))], &truth).unwrap();
    assert!(
        model.graph().initializers()["w"]
            .tensor()
            .unwrap()
            .item::<bool>()
            .unwrap()
    );
}

#[test]
fn a_model_on_disk_finds_its_files() {
    let root = tempfile::tempdir().unwrap();
    let proto = model_of(external(
        "w",
        2,
        &[4],
        &[entry("location", "weights.bin"), entry("checksum", "-")],
    ));
    fs::write(root.path().join("model.onnx"), proto.encode_to_vec()).unwrap();
    fs::write(root.path().join("weights.bin"), [1, 2, 3, 4, 5]).unwrap();
    let model = Model::load(root.path().join("model.onnx")).unwrap();
    let tensor = model.graph().initializers()["w"].tensor().unwrap();
    assert_eq!(tensor.to_vec::<u8>().unwrap(), [1, 2, 3, 4]);

    fs::remove_file(root.path().join("weights.bin")).unwrap();
    let error = Model::load(root.path().join("model.onnx")).unwrap_err();
    assert_eq!(error.code(), "E0904");
    assert_eq!(
        error.to_string(),
        r#"tensor "w": cannot read data file "weights.bin": No such file or directory (os error 2)"#
    );
}

#[test]
fn external_data_outside_their_file_are_refused() {
    let max = u64::MAX;
    for (offset, dims) in [
        (13, 4),
        (16, 1),
        (17, 1),
        (1 << 62, 4),
        (max - 3, 4),
        (max, 1),
        (0, 17),
        (0, 1 << 34),
    ] {
        let error = load(
            vec![external("w", 2, &[dims], &at("w", offset, dims))],
            &sixteen_bytes(),
        )
        .unwrap_err();
        assert_eq!(error.code(), "E0906", "{offset} {dims}");
    }
    let error = load(
        vec![external("w", 2, &[4], &at("w", 13, 4))],
        &sixteen_bytes(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"tensor "w": expected 4 bytes from offset 13 of data file "w", found a file of 16 bytes"#
    );
    assert!(
        load(
            vec![external("w", 2, &[0], &at("w", 16, 0))],
            &sixteen_bytes()
        )
        .is_ok()
    );
}

#[test]
fn external_data_entries_are_checked() {
    let location = || entry("location", "w");
    for entries in [
        vec![],
        vec![entry("offset", 0)],
        vec![location(), location()],
        vec![location(), entry("offset", -1)],
        vec![location(), entry("offset", "+1")],
        vec![location(), entry("offset", " 1")],
        vec![location(), entry("offset", "")],
        vec![location(), entry("offset", "0x10")],
        vec![location(), entry("offset", "18446744073709551616")],
        vec![location(), entry("length", "1e1")],
    ] {
        let error = load(vec![external("w", 2, &[4], &entries)], &sixteen_bytes()).unwrap_err();
        assert_eq!(error.code(), "E0905", "{entries:?}");
    }
    let error = load(
        vec![external("w", 2, &[4], &at("w", 0, 5))],
        &sixteen_bytes(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"tensor "w": expected 4 bytes of u8, found 5"#
    );
    let error = load(
        vec![external("w", 2, &[4], &[entry("location", "../w")])],
        &sixteen_bytes(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "tensor \"w\": cannot read data file \"../w\": the name has a `.` or `..` component; expected a path inside \
         the model's folder"
    );
    let error = load(vec![external("w", 2, &[4], &at("w", 0, 4))], &NoFiles).unwrap_err();
    assert_eq!(error.code(), "E0904");
}

#[test]
fn overlapping_external_data_is_refused_and_equal_ranges_are_shared() {
    let pair = |first: (i64, u64), second: (i64, u64)| {
        let tensor =
            |name, (size, offset): (i64, u64)| external(name, 2, &[size], &at("w", offset, size));
        load(
            vec![tensor("a", first), tensor("b", second)],
            &sixteen_bytes(),
        )
    };
    for (first, second) in [
        ((4, 0), (4, 3)),
        ((4, 3), (4, 0)),
        ((8, 0), (2, 2)),
        ((2, 2), (8, 0)),
        ((4, 0), (3, 0)),
    ] {
        assert_eq!(
            pair(first, second).unwrap_err().code(),
            "E0907",
            "{first:?} {second:?}"
        );
    }
    for (first, second) in [
        ((4, 0), (4, 4)),
        ((4, 4), (4, 0)),
        ((0, 2), (4, 0)),
        ((4, 0), (0, 2)),
    ] {
        assert!(pair(first, second).is_ok(), "{first:?} {second:?}");
    }
    let other_type = vec![
        external("a", 2, &[4], &at("w", 0, 4)),
        external("b", 6, &[1], &at("w", 0, 4)),
    ];
    assert_eq!(
        load(other_type, &sixteen_bytes()).unwrap_err().code(),
        "E0907"
    );

    let equal = vec![
        external("a", 2, &[4], &at("w", 0, 4)),
        external("b", 2, &[2, 2], &at("w", 0, 4)),
    ];
    let model = load(equal, &sixteen_bytes()).unwrap();
    let [a, b] = ["a", "b"].map(|name| model.graph().initializers()[name].tensor().unwrap());
    assert_eq!(b.shape(), [2, 2]);
    assert_eq!(
        a.as_bytes().unwrap().as_ptr(),
        b.as_bytes().unwrap().as_ptr()
    );
}

/// Truncates a file between opening and reading it.
struct Truncating {
    folder: Folder,
    path: PathBuf,
}

struct Truncated(Box<dyn DataFile>, PathBuf);

impl Fs for Truncating {
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        Ok(Box::new(Truncated(
            self.folder.open(location)?,
            self.path.clone(),
        )))
    }
}

impl DataFile for Truncated {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        OpenOptions::new().write(true).open(&self.1)?.set_len(5)?;
        self.0.read_at(offset, target)
    }
}

#[test]
fn a_data_file_truncated_after_opening_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("w");
    fs::write(&path, [7; 16]).unwrap();
    let files = Truncating {
        folder: Folder::open(root.path()).unwrap(),
        path,
    };
    let error = load(vec![external("w", 2, &[16], &at("w", 0, 16))], &files).unwrap_err();
    let Error::ExternalFile {
        source: FileError::Io(source),
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        (error.code(), source.kind()),
        ("E0904", io::ErrorKind::UnexpectedEof)
    );
}
