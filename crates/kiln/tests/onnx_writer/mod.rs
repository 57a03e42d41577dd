//! Writes small ONNX models with bodies, field by field.

#![allow(dead_code, reason = "no test uses all of it")]

/// Element types.
pub(crate) const F32: u64 = 1;
pub(crate) const I64: u64 = 7;
pub(crate) const BOOL: u64 = 9;

pub(crate) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let length = varint(content.len() as u64);
    [varint(number << 3 | 2), length, content.to_vec()].concat()
}

pub(crate) fn integer(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value as u64)].concat()
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

/// A node: `y, z = Op(a, b)`, with attributes.
pub(crate) fn node(text: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let (outputs, call) = text.split_once(" = ").unwrap();
    let (op, inputs) = call.trim_end_matches(')').split_once('(').unwrap();
    let names = |number, names: &str| -> Vec<u8> {
        let names = names.split(", ").filter(|name| !name.is_empty());
        let names = names.map(|name| if name == "_" { "" } else { name });
        names
            .flat_map(|name| field(number, name.as_bytes()))
            .collect()
    };
    let attributes = attributes.iter().flat_map(|attribute| field(5, attribute));
    let head = [names(1, inputs), names(2, outputs), field(4, op.as_bytes())];
    head.concat().into_iter().chain(attributes).collect()
}

pub(crate) fn int_attribute(name: &str, value: i64) -> Vec<u8> {
    [field(1, name.as_bytes()), integer(3, value), integer(20, 2)].concat()
}

pub(crate) fn graph_attribute(name: &str, graph: &[u8]) -> Vec<u8> {
    [field(1, name.as_bytes()), field(6, graph), integer(20, 5)].concat()
}

/// A constant tensor of `f32`.
pub(crate) fn floats(name: &str, dims: &[i64], elements: &[f32]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|&dim| integer(1, dim));
    let raw: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
    let rest = [
        integer(2, F32 as i64),
        field(8, name.as_bytes()),
        field(9, &raw),
    ]
    .concat();
    dims.chain(rest).collect()
}

/// A constant tensor of `i64`.
pub(crate) fn constant(name: &str, dims: &[i64], elements: &[i64]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|&dim| integer(1, dim));
    let raw: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
    let rest = [
        integer(2, I64 as i64),
        field(8, name.as_bytes()),
        field(9, &raw),
    ]
    .concat();
    dims.chain(rest).collect()
}

/// An input or output with named sizes; a number is a fixed size; without sizes the rank is open.
pub(crate) fn value(name: &str, element: u64, sizes: Option<&[&str]>) -> Vec<u8> {
    let dim = |size: &&str| match size.parse() {
        Ok(size) => field(1, &integer(1, size)),
        Err(_) => field(1, &field(2, size.as_bytes())),
    };
    let shape = sizes.map(|sizes| field(2, &sizes.iter().flat_map(dim).collect::<Vec<_>>()));
    let tensor = [integer(1, element as i64), shape.unwrap_or_default()].concat();
    [field(1, name.as_bytes()), field(2, &field(1, &tensor))].concat()
}

/// An output without a declared type.
pub(crate) fn untyped(name: &str) -> Vec<u8> {
    field(1, name.as_bytes())
}

/// A graph or a body.
pub(crate) fn graph(
    nodes: &[Vec<u8>],
    constants: &[Vec<u8>],
    inputs: &[Vec<u8>],
    outputs: &[Vec<u8>],
) -> Vec<u8> {
    let all = |number, parts: &[Vec<u8>]| -> Vec<u8> {
        parts.iter().flat_map(|part| field(number, part)).collect()
    };
    [
        all(1, nodes),
        field(2, b"g"),
        all(5, constants),
        all(11, inputs),
        all(12, outputs),
    ]
    .concat()
}

/// A model of operator set 18.
pub(crate) fn model(graph: &[u8]) -> Vec<u8> {
    [integer(1, 8), field(7, graph), field(8, &integer(2, 18))].concat()
}
