//! Hostile names in errors, and what error messages omit.

use std::fs;

use prost::Message;

use crate::proto::GraphProto;
use crate::tests::build::*;
use crate::{Error, Folder, Model, NoFiles};

/// Files that are often given by mistake, such as failed downloads or checkouts.
#[test]
fn common_files_mistaken_for_models_are_named() {
    let said = |bytes: &[u8]| {
        let error = Model::from_bytes(bytes, &NoFiles).unwrap_err();
        assert_eq!(error.code(), "E0901");
        error.to_string()
    };
    assert!(said(b"").ends_with("the file is empty"));
    assert!(said(b"<!doctype html><html>").contains("a web page"));
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    assert!(said(pointer).contains("git lfs pull"));
    assert!(said(b"<htm").contains("malformed"));
}

#[test]
fn errors_escape_names_and_show_no_data_and_no_folders() {
    let evil = "w\x1b]0;owned\x07\r\n\u{202e}";
    let root = tempfile::tempdir().unwrap();
    let files = Folder::open(root.path()).unwrap();
    let with =
        |graph: GraphProto| Model::from_bytes(&model(graph).encode_to_vec(), &files).unwrap_err();
    let initializers = |initializer| {
        with(GraphProto {
            initializer,
            ..GraphProto::default()
        })
    };
    let nodes = |node| {
        with(GraphProto {
            node: vec![node],
            ..GraphProto::default()
        })
    };
    let evil_node = |attributes| {
        let mut node = node(evil, attributes);
        node.name = evil.to_owned();
        node.domain = evil.to_owned();
        node
    };
    fs::write(root.path().join("data"), "private bytes").unwrap();
    let data = [entry("location", "data")];
    let errors: Vec<Error> = vec![
        initializers(vec![raw(evil, 1, &[2], b"private bytes")]),
        initializers(vec![raw(evil, 9, &[i64::MAX, 3], b"private bytes")]),
        initializers(vec![raw(evil, 2, &[-1], b"private bytes")]),
        initializers(vec![raw(evil, 2, &[1], b"p"), raw(evil, 2, &[1], b"p")]),
        initializers(vec![external(evil, 2, &[1], &[entry("location", evil)])]),
        initializers(vec![external(
            evil,
            2,
            &[1],
            &[entry("location", "absent\u{9b}")],
        )]),
        initializers(vec![external(
            evil,
            2,
            &[1],
            &[entry("location", "absent")],
        )]),
        initializers(vec![external(evil, 2, &[14], &data)]),
        initializers(vec![
            external(evil, 2, &[2], &data),
            external("b", 2, &[3], &data),
        ]),
        initializers(vec![external(
            evil,
            2,
            &[1],
            &[entry("location", "data"), entry("offset", evil)],
        )]),
        nodes(evil_node(vec![attribute(evil, 99)])),
        nodes(evil_node(vec![attribute(evil, 1), attribute(evil, 1)])),
        Model::load(root.path().join("absent\x1b")).unwrap_err(),
    ];
    for error in errors {
        for text in [error.to_string(), format!("{error:?}")] {
            let unsafe_character = |c: char| c.is_control() || c == '\u{202e}';
            assert!(!text.contains(unsafe_character), "{text:?}");
            assert!(!text.contains("private"), "{text}");
            assert!(!text.contains(root.path().to_str().unwrap()), "{text}");
        }
    }
}
