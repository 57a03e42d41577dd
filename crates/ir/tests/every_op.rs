//! One graph with every op and every dtype: it verifies, prints, reads back, copies and draws.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use kiln_ir::{BlobMap, Graph, Rebuild, Visit, draw, structural_hash, text, verify};
use std::convert::Infallible;

const EVERY_OP: &str = r#"
graph @every(%x: f32[N, C, H, W], %w: f32[O, C, 3, 3], %i: i64[2], %k: u64[2], %c: bool[], %b: i8[H, W], %s: seq<f32[N]>, %p: optional<f32[N]>) -> (f32[N, C, H, W], seq<f32[N]>, optional<f32[N]>)
  where C % 2 == 0, N >= 1
{
  %0: f64[2] = constant [0.1, -1e300]
  %1: f16[2] = constant [0.5, 65504.0]
  %2: bf16[2] = constant [1.0, inf]
  %3: i32[1] = constant [-5]
  %4: i16[1] = constant [-5]
  %5: u32[1] = constant [5]
  %6: u16[1] = constant [5]
  %7: u8[1] = constant [5]
  %8: bool[2] = constant [true, false]
  %zero: f32[] = constant [0.0]
  %9: f32[H, 4] = iota {dims = [H, 4], axis = 1, dtype = f32}
  %10: i64[2] = dims {sizes = [N + 1, W]}
  %11: u32[N, 3] = random_bits %k {dims = [N, 3]}
  %12: f32[N, C, H, W] = add %x, %x
  %13: f64[N, C, H, W] = cast %x {to = f64}
  %14: f32[N, C, H*W] = reshape %x {dims = [N, C, H*W]}
  %15: f32[2, N, C, H, W] = broadcast %x {dims = [2, N, C, H, W]}
  %16: f32[W, H, C, N] = transpose %x {permutation = [3, 2, 1, 0]}
  %17: f32[1, C, H, W] = slice %x {starts = [0, 0, 0, W - 1], sizes = [1, C, H, W], steps = [1, 1, 1, -1]}
  %18: f32[N, C, H + 1, W] = pad %x, %zero {low = [0, 0, 1, 0], high = [0, 0, 0, 0], mode = reflect}
  %19: f32[2*N, C, H, W] = concat %x, %12 {axis = 0}
  %20: f32[2, C, H, W] = gather %x, %i {axis = 0}
  %21: i8[H, W] = gather_elements %b, %b {axis = 1}
  %22: f32[H, W] = gather_nd %x, %i {batch_axes = 0}
  %23: i8[H, W] = scatter_elements %b, %b, %b {axis = 0, combine = max}
  %24: f32[N, C, H, W] = scatter_nd %x, %i, %22 {combine = add}
  %25: f32[N, C, H, H] = matmul %x, %x
  %26: i32[H, W] = matmul %b, %b {out = i32}
  %27: f32[N, O, H, W] = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
  %28: f32[N, C, H, W] = conv_transpose %27, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], output_padding = [0, 0], groups = 1}
  %29: f32[N, C] = reduce %x {function = max, axes = [2, 3]}
  %30: i64[N, 1, H, W] = arg_reduce %x {extremum = min, axis = 1, keep_dims, last}
  %31: f32[N, C, H, W] = cumulate %x {function = product, axis = 3, exclusive, reverse}
  %32: f32[N, C, H, W] = pool %x {function = mean_with_padding, size = [3, 3], strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]}
  %33: i64[N, C, H, W] = arg_pool %x {size = [3, 3], strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]}
  %34: f32[N, C, 2*H, W] = resize %x {axes = [2], sizes = [2*H], scales = [2.0], mode = cubic, coordinates = align_corners, rounding = prefer_ceil, cubic_coefficient = -0.5, exclude_outside, antialias}
  bind %i -> (n0, n1)
  %35: i64[4, C*H*N*W], %36: i64[] = non_zero %x
  %37: f32[N, C, H, 2], %38: i64[N, C, H, 2] = top_k %x {k = 2, axis = 3, extremum = max}
  %43: i64[N, 3], %44: i64[] = suppress %x, %x, %zero, %zero {k = 2}
  %39: f32[N, C, H, W] = custom %x, %i {name = "mine", arguments = "{\"a\": 1}"}
  %40: f32[N, C, H, W] = if %c, %x
    region(%a: f32[N, C, H, W]) {
      yield %a
    }
    region(%a: f32[N, C, H, W]) {
      %n: f32[N, C, H, W] = leaky_relu %a {alpha = 0.3}
      yield %n
    }
  %41: f32[m, C, H, W], %42: i64[t] = loop %36, %c, %40 {carried = 1} -> (m, t)
    region(%iteration: i64[], %acc: f32[q, C, H, W]) -> (q) {
      %more: bool[] = constant [false]
      %twice: f32[2*q, C, H, W] = concat %acc, %acc {axis = 0}
      yield %more, %twice, %iteration
    } from "the/loop"
  return %24, %s, %p
}
"#;

fn every_op() -> Graph {
    text::read(EVERY_OP, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(EVERY_OP)))
}

#[test]
fn every_op_round_trips() {
    let graph = every_op();
    let printed = text::print(&graph);
    let again = text::read(&printed, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(&printed)));
    assert_eq!(text::print(&again), printed);
    assert_eq!(structural_hash(&again), structural_hash(&graph));
    // The source has the printer's format, except for the names of results that are numbers.
    for line in EVERY_OP.lines().filter(|line| line.contains(" = ")) {
        let op = line
            .split(" = ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .unwrap();
        assert!(printed.contains(op), "{op} is printed");
    }
}

#[test]
fn every_op_is_copied() {
    let graph = every_op();
    let copy = Rebuild::new(&graph)
        .run::<Infallible>(&mut |_, _, _| Ok(Visit::Copy))
        .unwrap();
    assert!(verify(&copy).is_ok());
    assert_eq!(text::print(&copy), text::print(&graph));
}

#[test]
fn every_op_appears_in_the_drawings() {
    let graph = every_op();
    let (dot, svg) = (draw::dot(&graph), draw::svg(&graph));
    for (_, data) in graph
        .ops()
        .filter(|(_, data)| data.op.mnemonic() != "constant")
    {
        let mnemonic = data.op.mnemonic();
        assert!(
            dot.contains(mnemonic) && svg.contains(mnemonic),
            "{mnemonic} is drawn"
        );
    }
}

#[test]
fn sizes_among_the_attributes_can_be_replaced() {
    let graph = every_op();
    let mut seen = 0;
    for (_, data) in graph.ops() {
        let mut op = data.op.clone();
        let mut dims = Vec::new();
        op.for_each_dim(&mut |dim| dims.push(dim));
        seen += dims.len();
        let mut replaced = 0;
        op.try_map_dims::<Infallible>(&mut |dim| {
            replaced += 1;
            Ok(dim)
        })
        .unwrap();
        assert_eq!((replaced, &op), (dims.len(), &data.op));
        if let Some(&first) = dims.first() {
            assert_eq!(op.try_map_dims(&mut |dim| Err(dim)), Err(first));
        }
    }
    assert!(seen > 20);
}
