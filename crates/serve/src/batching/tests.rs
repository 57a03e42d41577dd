//! The analysis of graphs whose samples are or are not independent; batched calls compared with single ones.

use super::{BatchPlan, Group, join, split};
use kiln::{DType, Device, Model, Options, Source, Tensor};
use proptest::prelude::*;

fn model(text: &str) -> Model {
    let options = Options::new().device(Device::interpreter());
    options.load(Source::text(text)).unwrap()
}

fn plan(text: &str) -> Result<BatchPlan, String> {
    let graph = model(text).graph().unwrap();
    BatchPlan::of_graph(&graph, None, false).map_err(|refusal| refusal.to_string())
}

/// Graphs that are independent along the first size of the first input.
const INDEPENDENT: &[&str] = &[
    "graph @mlp(%x: f32[B, 4]) -> f32[B, 4] { %y = relu %x return %y }",
    "graph @softmax(%x: f32[B, 4]) -> f32[B, 4] {
       %m = reduce %x {function = max, axes = [1], keep_dims}
       %d = sub %x, %m
       return %d
     }",
    // Attention heads: the batch moves between axes, and is merged with another size and split again.
    "graph @heads(%x: f32[B, S, 6]) -> f32[B, S, 6] {
       %a = reshape %x {dims = [B * S, 6]}
       %b = relu %a
       %c = reshape %b {dims = [B, S, 2, 3]}
       %d = transpose %c {permutation = [0, 2, 1, 3]}
       %e = transpose %c {permutation = [0, 2, 3, 1]}
       %f = matmul %d, %e
       %g = matmul %f, %d
       %h = transpose %g {permutation = [0, 2, 1, 3]}
       %i = reshape %h {dims = [B, S, 6]}
       return %i
     }",
    "graph @product(%x: f32[B, 3], %y: f32[B, 3]) -> (f32[B, 3], f32[B]) {
       %p = mul %x, %y
       %s = reduce %p {function = sum, axes = [1]}
       return %p, %s
     }",
    // A requirement that is satisfied for every batch size, or for none.
    "graph @merged(%x: f32[B, S, 1], %w: f32[B, T]) -> f32[B, T] where product(B, S) == product(B, T) {
       %r = reshape %x {dims = [B, T]}
       %y = add %r, %w
       return %y
     }",
    // The batch need not be the first size of an output.
    "graph @turned(%x: f32[B, 3]) -> f32[3, B] {
       %y = transpose %x {permutation = [1, 0]}
       return %y
     }",
];

/// Graphs that are not.
const DEPENDENT: &[(&str, &str)] = &[
    (
        "graph @norm(%x: f32[B, 4]) -> f32[B, 4] {
           %m = reduce %x {function = mean, axes = [0], keep_dims}
           %d = sub %x, %m
           return %d
         }",
        "reduce",
    ),
    (
        "graph @running(%x: f32[B, 4]) -> f32[B, 4] {
           %y = cumulate %x {function = sum, axis = 0}
           return %y
         }",
        "cumulate",
    ),
    (
        "graph @total(%x: f32[B, 4]) -> f32[4] {
           %y = reduce %x {function = sum, axes = [0]}
           return %y
         }",
        "exactly one axis",
    ),
    (
        "graph @pairs(%x: f32[B, 4]) -> f32[B, 4] {
           %t = transpose %x {permutation = [1, 0]}
           %g = matmul %x, %t
           %y = matmul %g, %x
           return %y
         }",
        "matmul",
    ),
    (
        "graph @counted(%x: f32[B]) -> f32[B] {
           %i = iota {dims = [B], axis = 0, dtype = f32}
           %y = add %x, %i
           return %y
         }",
        "iota",
    ),
    (
        "graph @sized(%x: f32[B]) -> f32[B] {
           %n = dims {sizes = [B]}
           %f = cast %n {to = f32}
           %y = mul %x, %f
           return %y
         }",
        "dims",
    ),
    (
        "graph @turned(%x: f32[B, B2]) -> f32[B, B2] where B == B2 {
           %y = relu %x
           return %y
         }",
        "",
    ),
    (
        "graph @swapped(%x: f32[B, 4]) -> f32[B, 4] {
           %y = reshape %x {dims = [4, B]}
           %z = reshape %y {dims = [B, 4]}
           return %z
         }",
        "",
    ),
    (
        "graph @fixed(%x: f32[2, N]) -> f32[2, N] { %y = relu %x return %y }",
        "not a symbol",
    ),
    (
        "graph @apart(%x: f32[B, 4], %w: f32[4, 4]) -> f32[B, 4] { %y = matmul %x, %w return %y }",
        "an input is f32[4, 4]",
    ),
];

#[test]
fn models_whose_parts_are_independent_are_joined() {
    for text in INDEPENDENT {
        let plan = plan(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"));
        assert_eq!(plan.symbol, "B", "{text}");
    }
}

#[test]
fn models_that_mix_the_batch_are_refused_with_the_op_that_does() {
    for (text, part) in DEPENDENT {
        let refusal = plan(text).expect_err(text);
        assert!(refusal.contains(part), "{text}: {refusal}");
    }
}

#[test]
fn a_caller_may_vouch_for_what_cannot_be_proved() {
    let (text, _) = DEPENDENT[0];
    let graph = model(text).graph().unwrap();
    assert!(BatchPlan::of_graph(&graph, None, true).is_ok());
    let (text, _) = DEPENDENT[2];
    let graph = model(text).graph().unwrap();
    assert!(BatchPlan::of_graph(&graph, None, true).is_err());
}

#[test]
fn the_symbol_may_be_another_one_and_its_limit_is_known() {
    let text = "graph @each(%x: f32[B, N, 3]) -> f32[B, N] where N <= 64 {
      %y = reduce %x {function = sum, axes = [2]}
      return %y
    }";
    let graph = model(text).graph().unwrap();
    let plan = BatchPlan::of_graph(&graph, Some("N"), false).unwrap();
    assert_eq!((plan.inputs[0], plan.outputs[0]), (1, 1));
    assert_eq!(plan.max, Some(64));
    assert!(BatchPlan::of_graph(&graph, Some("M"), false).is_err());
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let elements: Vec<f32> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % 2001) as f32 / 1000.0 - 1.0
        })
        .collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is judged independent gives the same bits batched as alone, in the interpreter.
    #[test]
    fn joined_calls_give_what_single_calls_give(
        rows in prop::collection::vec(0usize..4, 1..5),
        middle in 1usize..4,
        seed in any::<u64>(),
    ) {
        for text in INDEPENDENT {
            let model = model(text);
            let plan = plan(text).unwrap();
            let requests: Vec<Vec<Tensor>> = rows.iter().enumerate().map(|(index, &rows)| {
                let tensors = model.inputs().iter().enumerate().map(|(input, described)| {
                    let sizes = described.shape().unwrap().dimensions().iter();
                    let sizes: Vec<usize> = sizes.map(|size| match (size.value(), size.name()) {
                        (Some(size), _) => size as usize,
                        (None, "B") => rows,
                        (None, _) => middle,
                    }).collect();
                    tensor(&sizes, seed ^ (index * 16 + input) as u64)
                });
                tensors.collect()
            }).collect();
            let groups: Vec<_> = requests.iter().map(|request| Group::of(&plan, request).unwrap()).collect();
            prop_assert!(groups.iter().all(|(group, _)| *group == groups[0].0));
            let counts: Vec<usize> = groups.iter().map(|(_, rows)| *rows).collect();
            prop_assert_eq!(&counts, &rows);
            let parts: Vec<&[Tensor]> = requests.iter().map(Vec::as_slice).collect();
            let joined = model.run(&join(&plan, &parts).unwrap()).unwrap().into_tensors();
            let answers = split(&plan, &joined, &counts).unwrap();
            for (request, answer) in requests.iter().zip(&answers) {
                let alone = model.run(request).unwrap().into_tensors();
                for (alone, joined) in alone.iter().zip(answer) {
                    prop_assert!(alone.bit_equal(&joined.contiguous().unwrap()));
                }
            }
        }
    }
}

#[test]
fn inputs_that_disagree_about_the_batch_have_no_group() {
    let plan = plan(INDEPENDENT[3]).unwrap();
    let inputs = [
        Tensor::zeros(DType::F32, &[2, 3]).unwrap(),
        Tensor::zeros(DType::F32, &[1, 3]).unwrap(),
    ];
    assert!(Group::of(&plan, &inputs).is_none());
    let scalar = [Tensor::scalar(1.0f32), Tensor::scalar(1.0f32)];
    assert!(Group::of(&plan, &scalar).is_none());
}
