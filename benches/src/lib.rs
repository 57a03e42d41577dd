//! Benchmarks of Kiln, one file per performance bound, under `benches/`; this crate has their shared parts: models,
//! references, and the table of bounds.
//!
//! The real models are in the folder that `KILN_MODELS` names, each as `NAME/model.onnx`; without it, an encoder made here
//! replaces them.

#![deny(unsafe_code)]

pub mod read;
pub mod rounds;
pub mod table;
pub mod wanted;

use kiln::DType;
use kiln::Tensor;
use kiln::internals::ir::{Graph, ValueId};
use kiln::internals::onnx::{ImportOptions, Model, import};
use kiln::internals::shape_inference::{GraphBuilder, InferError};
use std::error::Error;
use std::path::PathBuf;

/// The names of the real models.
pub const MODELS: [&str; 4] = ["ocr-det", "ocr-cls", "ocr-rec", "minilm"];

/// The files of the real models that exist.
pub fn model_files() -> Vec<(&'static str, PathBuf)> {
    let Some(folder) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        return Vec::new();
    };
    let files = MODELS.map(|name| (name, folder.join(name).join("model.onnx")));
    files
        .into_iter()
        .filter(|(_, path)| path.exists())
        .collect()
}

/// The real models that exist, read and checked.
///
/// # Errors
/// If one exists and cannot be read.
pub fn real_models() -> Result<Vec<(&'static str, Model)>, Box<dyn Error>> {
    let mut models = Vec::new();
    for (name, path) in model_files() {
        models.push((name, Model::load(path)?));
    }
    Ok(models)
}

/// The graphs to measure: the real models, imported, and an encoder of six layers.
///
/// # Errors
/// If a real model cannot be read or imported.
pub fn graphs() -> Result<Vec<(&'static str, Graph)>, Box<dyn Error>> {
    let mut graphs = vec![("encoder", encoder(6)?)];
    for (name, model) in real_models()? {
        graphs.push((name, import(&model, &ImportOptions::new())?));
    }
    Ok(graphs)
}

/// An encoder of `layers` layers on `x: f32[B, S, 64]` and `mask: f32[B, S]`, in the form of ONNX exports: heads split by
/// reshapes whose sizes are `B` and `S`.
///
/// # Errors
/// None: the sizes match.
pub fn encoder(layers: usize) -> Result<Graph, InferError> {
    let mut builder = GraphBuilder::new("encoder");
    let (batch, sequence) = (builder.symbol("B")?, builder.symbol("S")?);
    let width = builder.size(64);
    let mut x = builder.input("x", DType::F32, &[batch, sequence, width]);
    let mask = builder.input("mask", DType::F32, &[batch, sequence]);
    let mask = builder.unsqueeze(mask, &[1, 2])?;
    for layer in 0..layers {
        builder.origin(&format!("layer.{layer}"));
        let heads = attention(&mut builder, x, mask)?;
        let attended = builder.add(x, heads)?;
        let (scale, bias) = (weights(&mut builder, &[64])?, weights(&mut builder, &[64])?);
        let normal = builder.layer_norm(attended, 2, Some(scale), Some(bias), 1e-5)?;
        let hidden = linear(&mut builder, normal, 64, 256)?;
        let hidden = builder.map("gelu", &[hidden])?;
        let hidden = linear(&mut builder, hidden, 256, 64)?;
        x = builder.add(normal, hidden)?;
    }
    builder.finish(&[("y", x)])
}

fn attention(builder: &mut GraphBuilder, x: ValueId, mask: ValueId) -> Result<ValueId, InferError> {
    let dims = builder.shape(x)?;
    let (four, sixteen) = (builder.size(4), builder.size(16));
    let split = [dims[0], dims[1], four, sixteen];
    let mut parts = Vec::with_capacity(3);
    for permutation in [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]] {
        let projected = linear(builder, x, 64, 64)?;
        let heads = builder.reshape(projected, &split)?;
        parts.push(builder.transpose(heads, &permutation)?);
    }
    let scores = builder.matmul(parts[0], parts[1])?;
    let scale = builder.scalar(DType::F32, 0.25)?;
    let scores = builder.mul(scores, scale)?;
    let scores = builder.add(scores, mask)?;
    let shares = builder.softmax(scores, 3)?;
    let mixed = builder.matmul(shares, parts[2])?;
    let merged = builder.transpose(mixed, &[0, 2, 1, 3])?;
    let merged = builder.reshape(merged, &dims)?;
    linear(builder, merged, 64, 64)
}

fn linear(
    builder: &mut GraphBuilder,
    x: ValueId,
    from: usize,
    to: usize,
) -> Result<ValueId, InferError> {
    let (weight, bias) = (weights(builder, &[from, to])?, weights(builder, &[to])?);
    let product = builder.matmul(x, weight)?;
    builder.add(product, bias)
}

/// Small numbers, no two adjacent ones of which are equal.
fn weights(builder: &mut GraphBuilder, shape: &[usize]) -> Result<ValueId, InferError> {
    let count: usize = shape.iter().product();
    let elements = (0..count)
        .map(|i| ((i * 37) % 101) as f32 / 1010.0 - 0.05)
        .collect();
    match Tensor::from_vec::<f32>(shape, elements) {
        Ok(tensor) => builder.constant(tensor),
        Err(error) => unreachable!("as many elements as the shape has: {error}"),
    }
}
