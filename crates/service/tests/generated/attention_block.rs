//! What `GraphConverter::builder_code` writes for the blueprint `attention_block`.
#![allow(unused_imports, unreachable_pub, missing_docs, reason = "generated")]
#![cfg_attr(rustfmt, rustfmt_skip)]

use kiln::DType;
use kiln::internals::ir::Graph;
use kiln::internals::shape_inference::GraphBuilder;
use kiln::internals::symbolic_shape::SymbolicDimension;
use kiln_service::convert::{add, size};

/// The graph `attention_block`.
pub fn attention_block() -> Result<Graph, Box<dyn std::error::Error>> {
    let mut b = GraphBuilder::new("attention_block");
    b.dims_mut().declare(SymbolicDimension::named("B").likely(2))?;
    b.dims_mut().declare(SymbolicDimension::named("S").with_constraints(1, None)?.likely(64))?;
    let x_sizes = [size(&mut b, "B")?, size(&mut b, "S")?, size(&mut b, "64")?];
    let x = b.input("x", DType::F32, &x_sizes);
    let norm_scale_sizes = [size(&mut b, "64")?];
    let norm_scale = b.input("norm_scale", DType::F32, &norm_scale_sizes);
    let norm_bias_sizes = [size(&mut b, "64")?];
    let norm_bias = b.input("norm_bias", DType::F32, &norm_bias_sizes);
    let w_q_sizes = [size(&mut b, "64")?, size(&mut b, "64")?];
    let w_q = b.input("w_q", DType::F32, &w_q_sizes);
    let b_q_sizes = [size(&mut b, "64")?];
    let b_q = b.input("b_q", DType::F32, &b_q_sizes);
    let w_k_sizes = [size(&mut b, "64")?, size(&mut b, "64")?];
    let w_k = b.input("w_k", DType::F32, &w_k_sizes);
    let b_k_sizes = [size(&mut b, "64")?];
    let b_k = b.input("b_k", DType::F32, &b_k_sizes);
    let w_v_sizes = [size(&mut b, "64")?, size(&mut b, "64")?];
    let w_v = b.input("w_v", DType::F32, &w_v_sizes);
    let b_v_sizes = [size(&mut b, "64")?];
    let b_v = b.input("b_v", DType::F32, &b_v_sizes);
    let w_o_sizes = [size(&mut b, "64")?, size(&mut b, "64")?];
    let w_o = b.input("w_o", DType::F32, &w_o_sizes);
    let b_o_sizes = [size(&mut b, "64")?];
    let b_o = b.input("b_o", DType::F32, &b_o_sizes);
    let normal = add(&mut b, "layer_norm", &[x, norm_scale, norm_bias], r#"{"axis":-1,"epsilon":0.00001}"#)?[0];
    let q_flat = add(&mut b, "dense", &[normal, w_q, b_q], r#"{}"#)?[0];
    let q_split_dims_sizes = [size(&mut b, "B")?, size(&mut b, "S")?, size(&mut b, "4")?, size(&mut b, "16")?];
    let q_split = b.reshape(q_flat, &q_split_dims_sizes)?;
    let q = b.transpose(q_split, &[0,2,1,3])?;
    let k_flat = add(&mut b, "dense", &[normal, w_k, b_k], r#"{}"#)?[0];
    let k_split_dims_sizes = [size(&mut b, "B")?, size(&mut b, "S")?, size(&mut b, "4")?, size(&mut b, "16")?];
    let k_split = b.reshape(k_flat, &k_split_dims_sizes)?;
    let k = b.transpose(k_split, &[0,2,1,3])?;
    let v_flat = add(&mut b, "dense", &[normal, w_v, b_v], r#"{}"#)?[0];
    let v_split_dims_sizes = [size(&mut b, "B")?, size(&mut b, "S")?, size(&mut b, "4")?, size(&mut b, "16")?];
    let v_split = b.reshape(v_flat, &v_split_dims_sizes)?;
    let v = b.transpose(v_split, &[0,2,1,3])?;
    let mixed = add(&mut b, "attention", &[q, k, v], r#"{"scale":0.25}"#)?[0];
    let mixed_back = b.transpose(mixed, &[0,2,1,3])?;
    let joined_dims_sizes = [size(&mut b, "B")?, size(&mut b, "S")?, size(&mut b, "64")?];
    let joined = b.reshape(mixed_back, &joined_dims_sizes)?;
    let projected = add(&mut b, "dense", &[joined, w_o, b_o], r#"{}"#)?[0];
    let y = add(&mut b, "add", &[x, projected], r#"{}"#)?[0];
    Ok(b.finish(&[("y", y)])?)
}
