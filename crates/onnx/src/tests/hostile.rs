//! Files designed to break the reader: nesting depth, counts, lengths, random bytes.

use std::thread;

use proptest::prelude::*;
use prost::Message;

use crate::proto::{GraphProto, NodeProto};
use crate::tests::build::*;
use crate::{Error, LimitKind, Limits, Model, NoFiles};

/// Nested messages, with field numbers from the outermost inwards. Built without recursion.
fn nested(fields: &[u32], innermost: &[u8]) -> Vec<u8> {
    let mut lengths = vec![innermost.len() as u64];
    for field in fields.iter().rev() {
        let inner = lengths[lengths.len() - 1];
        lengths.push(
            varint(u64::from(field << 3 | 2)).len() as u64 + varint(inner).len() as u64 + inner,
        );
    }
    let mut bytes = Vec::new();
    for (field, length) in fields.iter().zip(lengths.iter().rev().skip(1)) {
        bytes.extend(varint(u64::from(field << 3 | 2)));
        bytes.extend(varint(*length));
    }
    bytes.extend(innermost);
    bytes
}

fn varint(value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_varint(value, &mut bytes);
    bytes
}

fn nested_graphs(depth: usize) -> Vec<u8> {
    let mut fields = vec![7];
    fields.extend([1, 5, 6].into_iter().cycle().take(3 * depth));
    nested(&fields, b"")
}

#[test]
fn nested_messages_hit_the_limit_on_a_small_stack() {
    let test = || {
        for depth in [10, 29, 30, 31, 33, 34, 100, 1000, 10_000, 1_000_000] {
            let error = Model::from_bytes(&nested_graphs(depth), &NoFiles).unwrap_err();
            match error {
                // The bodies contain no operators.
                Error::Structure { .. } => assert!(depth <= 29, "{depth}"),
                Error::NotAModel { .. } => assert!(depth <= 29, "{depth}"),
                Error::Limit { kind, .. } => {
                    assert!(kind == LimitKind::Nesting && depth > 29, "{depth}")
                }
                other => panic!("{depth}: {other}"),
            }
        }
        // Nested sequence types, in the type of an input.
        for depth in [10, 1_000_000] {
            let mut fields = vec![7, 11, 2];
            fields.extend([4, 1].into_iter().cycle().take(2 * depth));
            let error = Model::from_bytes(&nested(&fields, b""), &NoFiles).unwrap_err();
            let expected = if depth == 10 { "E0913" } else { "E0902" };
            assert_eq!(error.code(), expected, "{depth}");
        }
    };
    thread::Builder::new()
        .stack_size(512 << 10)
        .spawn(test)
        .unwrap()
        .join()
        .unwrap();
}

#[test]
fn nesting_limits_above_the_decoder_limit_are_clamped() {
    let limits = Limits {
        nesting: u64::MAX,
        ..Limits::default()
    };
    for depth in 0..40 {
        let error = Model::from_bytes_with(&nested_graphs(depth), &NoFiles, &limits).unwrap_err();
        assert!(!error.to_string().contains("recursion"), "{depth}: {error}");
    }
}

#[test]
fn lengths_beyond_the_file_are_refused() {
    for field in [2, 7, 8, 14, 25, 99, 536_870_911] {
        for length in [1, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX] {
            let mut bytes = varint(field << 3 | 2);
            bytes.extend(varint(length));
            let error = Model::from_bytes(&bytes, &NoFiles).unwrap_err();
            assert_eq!(error.code(), "E0901", "{field} {length}");
            // The same inside a message that ends before its field.
            let mut inner = nested(&[7], &bytes);
            inner.extend([0; 16]);
            assert_eq!(
                Model::from_bytes(&inner, &NoFiles).unwrap_err().code(),
                "E0901"
            );
        }
    }
}

#[test]
fn malformed_keys_and_numbers_are_refused() {
    for bytes in [
        &[0x00, 0x00][..],
        &[0x0b],
        &[0x0f],
        &[0x08],
        &[0x08, 0x80],
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02,
        ],
        &[
            0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ],
        &[0x0d, 0x00],
        &[0xff, 0xff, 0xff, 0xff, 0x7f, 0x00],
    ] {
        assert_eq!(
            Model::from_bytes(bytes, &NoFiles).unwrap_err().code(),
            "E0901",
            "{bytes:?}"
        );
    }
}

#[test]
fn many_small_messages_hit_a_limit_before_allocation() {
    let refused =
        |limits: &Limits, bytes: &[u8]| match Model::from_bytes_with(bytes, &NoFiles, limits) {
            Err(Error::Limit { kind, .. }) => kind,
            other => panic!("{other:?}"),
        };
    // An empty tensor takes two bytes here and hundreds in memory.
    let tensors = nested(&[7], &[0x2a, 0x00].repeat(6 << 20));
    assert_eq!(
        refused(&Limits::default(), &tensors),
        LimitKind::StructureBytes
    );
    let names = nested(&[7, 1], &[0x0a, 0x00].repeat(17 << 20));
    assert_eq!(refused(&Limits::default(), &names), LimitKind::Messages);
    let limits = Limits {
        model_bytes: 10,
        ..Limits::default()
    };
    assert_eq!(refused(&limits, &[0; 11]), LimitKind::ModelBytes);
}

#[test]
fn a_long_chain_of_nodes_is_read() {
    let link = |index: usize| NodeProto {
        input: vec![format!("v{index}")],
        output: vec![format!("v{}", index + 1)],
        ..node("Relu", vec![])
    };
    let graph = GraphProto {
        node: (0..50_000).map(link).collect(),
        ..GraphProto::default()
    };
    assert_eq!(read(&model(graph)).unwrap().graph().nodes().len(), 50_000);
}

/// A model that contains some of everything.
fn rich_model() -> Vec<u8> {
    let mut body = attribute("body", 5);
    let inner = GraphProto {
        node: vec![node("Relu", vec![])],
        ..GraphProto::default()
    };
    body.g = Some(Box::new(inner));
    let mut axes = attribute("axes", 7);
    axes.ints = vec![1, -1, 300];
    let mut constant = attribute("value", 4);
    constant.t = Some(Box::new(raw("c", 1, &[1], &[0; 4])));
    let graph = GraphProto {
        node: vec![
            node("Loop", vec![body, axes]),
            node("Constant", vec![constant]),
        ],
        initializer: vec![raw("w", 2, &[2, 2], &[1, 2, 3, 4])],
        input: vec![value("x", tensor_type(1, vec![]))],
        ..GraphProto::default()
    };
    model(graph).encode_to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let _ = Model::from_bytes(&bytes, &NoFiles);
    }

    #[test]
    fn changed_models_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = rich_model();
        for (index, byte) in &changes {
            *index.get_mut(&mut bytes) = *byte;
        }
        let _ = Model::from_bytes(&bytes, &NoFiles);
        bytes.truncate(end.index(bytes.len()));
        let _ = Model::from_bytes(&bytes, &NoFiles);
    }
}

#[test]
fn a_model_cut_off_anywhere_never_panics() {
    let bytes = rich_model();
    assert!(Model::from_bytes(&bytes, &NoFiles).is_ok());
    for end in 0..bytes.len() {
        let _ = Model::from_bytes(&bytes[..end], &NoFiles);
    }
}
