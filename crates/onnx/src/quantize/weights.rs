//! Weights of a few bits: `MatMulNBits`.

use super::form::{Quantize, QuantizeRequest, QuantizedWeights};
use super::products::{Kind, Product};
use super::write::{Names, Rewritten, bytes, floats, int, node};
use crate::proto::{AttributeProto, NodeProto};

/// As [`QuantizedForm::Weights`](super::form::QuantizedForm::Weights).
pub(super) struct Form {
    pub(super) bits: u32,
    pub(super) block: usize,
    pub(super) zero_points: bool,
    pub(super) int8_activations: bool,
}

/// The `accuracy_level` that allows activations of 8 bits.
const INT8: usize = 4;

/// `MatMulNBits` in place of a product by a matrix, and `Add` for its bias.
pub(super) fn rewrite(
    product: &Product,
    form: Form,
    quantize: &Quantize<'_>,
    names: &mut Names,
) -> Result<Rewritten, &'static str> {
    let Form {
        bits,
        block,
        zero_points,
        int8_activations,
    } = form;
    if product.kind == Kind::Conv {
        return Err("convolutions have no form with weights of a few bits");
    }
    let (weights, [rows, columns]) = product
        .matrix()
        .ok_or("its second operand is no constant finite matrix of f32")?;
    let request = QuantizeRequest {
        batch: 1,
        rows,
        columns,
        group: block,
        bits,
        zero_points,
    };
    let quantized = quantize(&weights, &request).ok_or("its weights cannot be quantised")?;
    let stem = &product.node.input[1];
    let [codes, scales, zeros] =
        ["codes", "scales", "zero_points"].map(|part| names.fresh(&format!("{stem}_{part}")));
    let groups = request.groups();
    let packed = packed_codes(&quantized, &request);
    let shape = [columns, groups, block * bits as usize / 8];
    let mut constants = vec![
        bytes(&codes, &shape, packed),
        floats(
            &scales,
            &[columns, groups],
            &by_column(&quantized.scales, &request),
        ),
    ];
    let mut inputs = vec![product.activation.as_str(), &codes, &scales];
    if let Some(zero_points) = &quantized.zero_points {
        let packed = packed_zero_points(zero_points, &request);
        let per_column = packed.len() / columns;
        constants.push(bytes(&zeros, &[columns, per_column], packed));
        inputs.push(&zeros);
    }
    let mut attributes = vec![
        int("K", rows),
        int("N", columns),
        int("bits", bits as usize),
        int("block_size", block),
    ];
    if int8_activations {
        attributes.push(int("accuracy_level", INT8));
    }
    let nodes = nodes(product, &inputs, attributes, names);
    Ok(Rewritten {
        nodes,
        constants,
        error: quantized.error,
    })
}

/// The product, and the sum with its bias.
fn nodes(
    product: &Product,
    inputs: &[&str],
    attributes: Vec<AttributeProto>,
    names: &mut Names,
) -> Vec<NodeProto> {
    let output = product.node.output.first().map_or("", String::as_str);
    let multiply = |result: &str| {
        node(
            "com.microsoft",
            "MatMulNBits",
            inputs,
            &[result],
            attributes,
        )
    };
    match product.node.input.get(2).filter(|bias| !bias.is_empty()) {
        None => vec![multiply(output)],
        Some(bias) => {
            let sum = names.fresh(&format!("{output}_product"));
            let add = node("", "Add", &[&sum, bias], &[output], Vec::new());
            vec![multiply(&sum), add]
        }
    }
}

/// `[groups, columns]` as `[columns, groups]`.
fn by_column<T: Copy>(numbers: &[T], request: &QuantizeRequest) -> Vec<T> {
    let (groups, columns) = (request.groups(), request.columns);
    let turned = (0..columns)
        .flat_map(|column| (0..groups).map(move |group| numbers[group * columns + column]));
    turned.collect()
}

/// Non-negative codes.
fn unsigned(code: i16, request: &QuantizeRequest) -> u8 {
    match request.zero_points {
        true => code as u8,
        false => (code + (1 << (request.bits - 1))) as u8,
    }
}

/// `u8[columns, groups, bytes]`; of two codes in a byte, the first is in the low bits.
fn packed_codes(quantized: &QuantizedWeights, request: &QuantizeRequest) -> Vec<u8> {
    let columns = request.columns;
    let padded = request.groups() * request.group;
    let mut packed = Vec::with_capacity(padded * columns * request.bits as usize / 8);
    for column in 0..columns {
        let code = |row: usize| unsigned(quantized.codes[row * columns + column], request);
        match request.bits {
            4 => packed.extend(
                (0..padded)
                    .step_by(2)
                    .map(|row| code(row) | code(row + 1) << 4),
            ),
            _ => packed.extend((0..padded).map(code)),
        }
    }
    packed
}

/// The same for a zero point per group; each column begins with a new byte.
fn packed_zero_points(zero_points: &[i16], request: &QuantizeRequest) -> Vec<u8> {
    let by_column = by_column(zero_points, request);
    let columns = by_column.chunks(request.groups().max(1));
    let packed = columns.flat_map(|column| match request.bits {
        4 => {
            let pairs = column.chunks(2);
            let pairs =
                pairs.map(|pair| pair[0] as u8 | (pair.get(1).copied().unwrap_or(0) as u8) << 4);
            pairs.collect::<Vec<u8>>()
        }
        _ => column.iter().map(|&zero| zero as u8).collect(),
    });
    packed.collect()
}
