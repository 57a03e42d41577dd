//! Static quantisation: 8-bit codes for weights and activations, with observed ranges, as `QuantizeLinear` and
//! `DequantizeLinear`.
//!
//! Activations are u8 with one scale and zero point per tensor, over a range that includes zero; weights are symmetric
//! i8, with a scale per output channel. A runtime that recognises the pattern multiplies integers; any other runtime
//! computes the same in floats.

use std::collections::BTreeMap;

use super::form::{Quantize, QuantizeRequest};
use super::products::{Kind, Product};
use super::write::{Names, Rewritten, bytes, floats, int, node, signed_bytes};
use crate::proto::{NodeProto, TensorProto};

/// The first version of operators with a scale per channel.
const PER_CHANNEL: i64 = 13;

/// The activations that are already quantised, and their new names.
pub(super) type Shared = BTreeMap<String, String>;

pub(super) fn rewrite(
    product: &Product,
    ranges: &BTreeMap<String, (f32, f32)>,
    version: i64,
    quantize: &Quantize<'_>,
    (names, shared): (&mut Names, &mut Shared),
) -> Result<Rewritten, &'static str> {
    if version < PER_CHANNEL {
        return Err(
            "its operators are older than version 13, which introduced a scale per channel",
        );
    }
    let (weights, shape) = product
        .weights
        .as_ref()
        .ok_or("its second operand is no constant finite tensor of f32")?;
    let range = ranges
        .get(&product.activation)
        .ok_or("its activation was not observed")?;
    // Channels are columns, or the outermost axis.
    let is_outermost = matches!(product.kind, Kind::Conv | Kind::Gemm { transposed: true });
    let request = match is_outermost {
        true => {
            let rows = shape[1..].iter().product();
            request(shape[0], rows, 1)
        }
        false => request(1, shape[0], shape[1]),
    };
    let quantized = quantize(weights, &request).ok_or("its weights cannot be quantised")?;
    let (mut nodes, mut constants) = (Vec::new(), Vec::new());
    let activation = match shared.get(&product.activation) {
        Some(name) => name.clone(),
        None => {
            let name = quantized_activation(
                &product.activation,
                *range,
                names,
                (&mut nodes, &mut constants),
            );
            shared.insert(product.activation.clone(), name.clone());
            name
        }
    };
    let stem = &product.node.input[1];
    let [codes, scales, zeros, wide] = ["codes", "scales", "zero_points", "dequantized"]
        .map(|part| names.fresh(&format!("{stem}_{part}")));
    let count = quantized.scales.len();
    let elements: Vec<i8> = quantized.codes.iter().map(|&code| code as i8).collect();
    constants.push(signed_bytes(&codes, shape, &elements));
    constants.push(floats(&scales, &[count], &quantized.scales));
    constants.push(signed_bytes(&zeros, &[count], &vec![0; count]));
    let axis = vec![int("axis", usize::from(!is_outermost))];
    nodes.push(node(
        "",
        "DequantizeLinear",
        &[&codes, &scales, &zeros],
        &[&wide],
        axis,
    ));
    let mut own = product.node.clone();
    own.input[0] = activation;
    own.input[1] = wide;
    nodes.push(own);
    Ok(Rewritten {
        nodes,
        constants,
        error: quantized.error,
    })
}

/// A scale per column.
fn request(batch: usize, rows: usize, columns: usize) -> QuantizeRequest {
    QuantizeRequest {
        batch,
        rows,
        columns,
        group: rows,
        bits: 8,
        zero_points: false,
    }
}

/// Adds a pair of nodes that rounds an activation to codes; returns the name of the result.
fn quantized_activation(
    name: &str,
    (low, high): (f32, f32),
    names: &mut Names,
    (nodes, constants): (&mut Vec<NodeProto>, &mut Vec<TensorProto>),
) -> String {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let step = high / 255.0 - low / 255.0;
    let step = if step.is_normal() { step } else { 1.0 };
    let zero = (-low / step).round_ties_even().clamp(0.0, 255.0) as u8;
    let [scale, zero_point, codes, wide] = ["scale", "zero_point", "codes", "dequantized"]
        .map(|part| names.fresh(&format!("{name}_{part}")));
    constants.push(floats(&scale, &[], &[step]));
    constants.push(bytes(&zero_point, &[], vec![zero]));
    nodes.push(node(
        "",
        "QuantizeLinear",
        &[name, &scale, &zero_point],
        &[&codes],
        Vec::new(),
    ));
    nodes.push(node(
        "",
        "DequantizeLinear",
        &[&codes, &scale, &zero_point],
        &[&wide],
        Vec::new(),
    ));
    wide
}
