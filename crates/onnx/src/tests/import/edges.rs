//! Faults: long chains, wide graphs, deep nesting, constants that are small in the file and large in memory.

use std::thread;

use kiln_tensor::{DType, Tensor};

use super::net::*;
use crate::proto::{GraphProto, NodeProto};
use crate::{Error, ImportOptions};

fn import_on_a_stack(bytes: usize, net: GraphProto) -> Result<usize, Error> {
    let run =
        move || imported(&of_version(net, 17), &ImportOptions::new()).map(|graph| graph.n_ops());
    let thread = thread::Builder::new().stack_size(bytes).spawn(run).unwrap();
    thread.join().unwrap()
}

/// Fault 5. Long enough to reveal anything quadratic or recursive.
#[test]
fn a_chain_of_a_hundred_thousand_nodes_imports_on_a_small_stack() {
    const LENGTH: usize = 100_000;
    let step = |index: usize| {
        let from = if index == 0 {
            "x".to_owned()
        } else {
            format!("v{index}")
        };
        let to = if index + 1 == LENGTH {
            "y".to_owned()
        } else {
            format!("v{}", index + 1)
        };
        node("Neg", &from, &to, vec![])
    };
    let nodes: Vec<NodeProto> = (0..LENGTH).map(step).collect();
    let net = graph(vec![input("x", DType::F32, &["N"])], vec![], nodes, &["y"]);
    assert_eq!(import_on_a_stack(128 << 10, net).unwrap(), LENGTH);
}

/// Fault 5.
#[test]
fn a_value_with_many_readers_imports() {
    const WIDTH: usize = 20_000;
    let mut nodes: Vec<NodeProto> = (0..WIDTH)
        .map(|index| node("Neg", "x", &format!("v{index}"), vec![]))
        .collect();
    let names: Vec<String> = (0..WIDTH).map(|index| format!("v{index}")).collect();
    nodes.push(node("Sum", &names.join(" "), "y", vec![]));
    let net = graph(vec![input("x", DType::F32, &["N"])], vec![], nodes, &["y"]);
    assert_eq!(import_on_a_stack(128 << 10, net).unwrap(), 2 * WIDTH - 1);
}

/// Faults 5 and 38: nested bodies, until reading the file fails.
#[test]
fn deeply_nested_bodies_import_or_hit_a_limit() {
    let nested = |depth: usize| {
        let mut inner = graph(vec![], vec![], vec![node("Neg", "x", "b", vec![])], &["b"]);
        for _ in 0..depth {
            let branches = vec![
                body("then_branch", inner.clone()),
                body(
                    "else_branch",
                    GraphProto {
                        node: vec![node("Identity", "x", "b", vec![])],
                        ..inner.clone()
                    },
                ),
            ];
            inner = graph(vec![], vec![], vec![node("If", "c", "b", branches)], &["b"]);
            // If each branch got a copy of the inner body, the model would double at each level.
            inner.node[0].attribute[1].g = Some(Box::new(graph(
                vec![],
                vec![],
                vec![node("Identity", "x", "b", vec![])],
                &["b"],
            )));
        }
        GraphProto {
            input: vec![input("x", DType::F32, &["N"]), input("c", DType::Bool, &[])],
            ..inner
        }
    };
    assert!(import_on_a_stack(2 << 20, nested(10)).is_ok());
    assert!(import_on_a_stack(2 << 20, nested(25)).is_ok());
    let error = import_on_a_stack(2 << 20, nested(31)).unwrap_err();
    assert_eq!(error.code(), "E0902");
}

/// Fault 4: ten bytes that describe 4 TiB.
#[test]
fn a_huge_constant_of_shape_is_not_materialised_at_import() {
    let nodes = vec![
        node("ConstantOfShape", "shape", "huge", vec![]),
        node("Shape", "huge", "y", vec![]),
    ];
    let shape = initializer("shape", &i64s(&[2], &[1 << 20, 1 << 20]));
    let net = graph(vec![], vec![shape], nodes, &["y"]);
    let graph = imported(&of_version(net, 17), &ImportOptions::new()).unwrap();
    let largest = graph.ops().filter_map(|(_, op)| match &op.op {
        kiln_ir::Op::Constant(constant) => Some(constant.tensor().byte_len()),
        _ => None,
    });
    assert!(largest.max().unwrap_or(0) < 1024);
}

/// Fault 3: sizes whose product does not fit.
#[test]
fn sizes_that_overflow_are_an_error() {
    let shape = initializer("shape", &i64s(&[3], &[i64::MAX, i64::MAX, 2]));
    let nodes = vec![
        node("ConstantOfShape", "shape", "huge", vec![]),
        node("Size", "huge", "y", vec![]),
    ];
    let net = graph(vec![], vec![shape], nodes, &["y"]);
    let error = imported(&of_version(net, 17), &ImportOptions::new()).unwrap_err();
    assert_eq!(error.code(), "E0301", "{error}");
    let repeats = initializer("repeats", &i64s(&[1], &[i64::MAX]));
    let nodes = vec![node("Tile", "x repeats", "y", vec![])];
    let net = graph(
        vec![input("x", DType::F32, &["8"])],
        vec![repeats],
        nodes,
        &["y"],
    );
    assert!(imported(&of_version(net, 17), &ImportOptions::new()).is_err());
}

/// Attributes at the limits of their ranges never panic.
#[test]
fn extreme_attributes_are_errors_or_work() {
    let extremes = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    let operators: &[(&str, &str, &str)] = &[
        ("AveragePool", "x", "kernel_shape"),
        ("MaxPool", "x", "strides"),
        ("MaxPool", "x", "dilations"),
        ("MaxPool", "x", "pads"),
        ("Conv", "x w", "dilations"),
        ("Conv", "x w", "pads"),
        ("ConvTranspose", "x w", "output_padding"),
        ("ConvTranspose", "x w", "output_shape"),
        ("Transpose", "x", "perm"),
        ("ReduceMax", "x", "axes"),
    ];
    for &(op, operands, name) in operators {
        for extreme in extremes {
            let mut attributes = vec![ints(name, &[extreme; 2])];
            if op.ends_with("Pool") && name != "kernel_shape" {
                attributes.push(ints("kernel_shape", &[2, 2]));
                attributes.push(int("ceil_mode", 1));
            }
            if name == "pads" {
                attributes[0] = ints(name, &[extreme; 4]);
            }
            try_import(op, operands, attributes);
        }
    }
    let operators: &[(&str, &str, &str)] = &[
        ("Softmax", "x", "axis"),
        ("Flatten", "x", "axis"),
        ("Concat", "x x", "axis"),
        ("Split", "x", "axis"),
        ("Gather", "x i", "axis"),
        ("GatherND", "x i", "batch_dims"),
        ("DepthToSpace", "x", "blocksize"),
        ("SpaceToDepth", "x", "blocksize"),
        ("Shape", "x", "start"),
        ("Shape", "x", "end"),
        ("EyeLike", "m", "k"),
        ("EyeLike", "m", "dtype"),
        ("Cast", "x", "to"),
        ("LRN", "x", "size"),
        ("LpNormalization", "x", "p"),
        ("GlobalLpPool", "x", "p"),
        ("LayerNormalization", "x s", "stash_type"),
        ("OneHot", "i d s", "axis"),
        ("Conv", "x w", "group"),
    ];
    for &(op, operands, name) in operators {
        for extreme in extremes {
            try_import(op, operands, vec![int(name, extreme)]);
        }
    }
}

/// Every operator, on mismatched operands of any rank and dtype: errors, never a panic.
#[test]
fn operands_of_any_rank_never_panic() {
    const SHAPES: &[&[&str]] = &[
        &[],
        &["N"],
        &["2", "3"],
        &["N", "2", "L"],
        &["1", "2", "H", "4"],
    ];
    for operator in crate::ops::FAMILIES.iter().copied().flatten() {
        for count in [1, 2, 3, 5, 8] {
            for shift in 0..SHAPES.len() {
                for dtypes in [[DType::F32; 2], [DType::F32, DType::I64]] {
                    let names: Vec<String> = (0..count).map(|index| format!("x{index}")).collect();
                    let inputs = names.iter().enumerate().map(|(index, name)| {
                        let shape = SHAPES[(index * shift + shift) % SHAPES.len()];
                        input(name, dtypes[index % 2], shape)
                    });
                    let attributes = vec![
                        ints("kernel_shape", &[2, 2]),
                        ints("perm", &[1, 0]),
                        int("axis", 0),
                        int("num_heads", 2),
                        int("q_num_heads", 2),
                        int("kv_num_heads", 2),
                        int("num_groups", 1),
                        int("size", 3),
                        int("blocksize", 2),
                        int("is_causal", 1),
                        text("equation", "ij,jk->ik"),
                    ];
                    let node = node(operator.name, &names.join(" "), "y z", attributes);
                    let net = graph(inputs.collect(), vec![], vec![node], &["y"]);
                    let model = crate::tests::build::read(&of_version(net, 28)).unwrap();
                    let _ = crate::import(&model, &ImportOptions::new());
                }
            }
        }
    }
}

/// Faults 3, 4 and 38: every operator, with constants and attributes at the limits of their ranges, or with more
/// elements than any memory can store. The result is an error or a small graph, never a panic, and nothing of that size
/// is allocated.
#[test]
fn constants_and_attributes_of_any_size_never_panic_or_allocate() {
    const EXTREMES: [i64; 5] = [i64::MIN, -1, 0, 1 << 40, i64::MAX];
    const OPERANDS: &[&str] = &[
        "x c", "c", "c c c", "x c c", "x - c", "x - - c", "x c x", "c d", "d", "x d", "d c",
        "d d d",
    ];
    const INTS: &[&str] = &[
        "axes",
        "pads",
        "strides",
        "dilations",
        "kernel_shape",
        "output_shape",
        "output_padding",
        "shape",
        "starts",
        "ends",
        "split",
        "perm",
        "value_ints",
        "ngram_counts",
        "ngram_indexes",
        "pool_int64s",
    ];
    const INT: &[&str] = &[
        "axis",
        "group",
        "k",
        "size",
        "blocksize",
        "num_heads",
        "q_num_heads",
        "kv_num_heads",
        "num_groups",
        "hidden_size",
        "sample_size",
        "batch_axis",
        "time_axis",
        "batch_dims",
        "dtype",
        "to",
        "num_outputs",
        "keepdims",
        "onesided",
        "p",
        "max_skip_count",
        "min_gram_length",
        "max_gram_length",
        "output_height",
        "output_width",
        "sampling_ratio",
        "block_size",
        "value_int",
        "num_scan_inputs",
        "new_axis",
        "upper",
        "rotary_embedding_dim",
        "left_window_size",
        "start",
        "end",
    ];
    let standard = crate::ops::FAMILIES.iter().copied().flatten();
    let others = crate::ops::OTHER_DOMAINS.iter();
    let others = others.flat_map(|(domain, family)| family.iter().map(move |op| (*domain, op)));
    let all = standard.map(|op| ("", op)).chain(others).enumerate();
    for (number, (domain, operator)) in all {
        for (index, operands) in OPERANDS.iter().enumerate() {
            // Two extreme values per operator, so that every family of operators meets all of them.
            for turn in [0, 2] {
                let extreme = EXTREMES[(number + index + turn) % EXTREMES.len()];
                let attributes = match index % 4 {
                    0 => vec![],
                    1 => INT.iter().map(|name| int(name, extreme)).collect(),
                    2 => INTS.iter().map(|name| ints(name, &[extreme; 2])).collect(),
                    _ => INTS.iter().map(|name| ints(name, &[extreme; 4])).collect(),
                };
                let mut node = node(operator.name, operands, "y z", attributes);
                node.domain = domain.to_owned();
                let inputs = vec![input("x", DType::F32, &["N", "2", "H", "4"])];
                let list = Tensor::from_slice(&[4], &[extreme; 4]).unwrap();
                let constants = vec![
                    initializer("c", &list),
                    initializer("d", &Tensor::scalar(extreme)),
                ];
                let net = graph(inputs, constants, vec![node], &["y"]);
                let mut model = of_version(net, 28);
                if !domain.is_empty() {
                    model
                        .opset_import
                        .push(crate::tests::build::opset(domain, 1));
                }
                if let Ok(model) = crate::tests::build::read(&model) {
                    let _ = crate::import(&model, &ImportOptions::new());
                }
            }
        }
    }
}

fn try_import(op: &str, operands: &str, attributes: Vec<crate::proto::AttributeProto>) {
    let inputs = vec![
        input("x", DType::F32, &["N", "2", "H", "4"]),
        input("w", DType::F32, &["2", "2", "3", "K"]),
        input("i", DType::I64, &["M", "1"]),
        input("m", DType::F32, &["R", "3"]),
        input("s", DType::F32, &["2"]),
    ];
    let constants = vec![initializer("d", &Tensor::scalar(3_i64))];
    let net = graph(
        inputs,
        constants,
        vec![node(op, operands, "y", attributes)],
        &["y"],
    );
    let model = of_version(net, 17);
    let model = crate::tests::build::read(&model).unwrap();
    let _ = crate::import(&model, &ImportOptions::new());
}
