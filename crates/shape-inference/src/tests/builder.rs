//! The builder: errors are reported by the call that causes them; composite ops, annotations.

use super::describe;
use crate::{GraphBuilder, InferError, Mode, check_types};
use insta::assert_snapshot;
use kiln_ir::{Combine, Extremum, Graph, Indices, Op, PadMode, PoolFunction, Type, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};

type Built<T = ()> = Result<T, InferError>;

fn input(builder: &mut GraphBuilder, name: &str, sizes: &[&str]) -> ValueId {
    let dims: Vec<DimId> = sizes
        .iter()
        .map(|size| match size.parse() {
            Ok(size) => builder.size(size),
            Err(_) => builder.symbol(size).unwrap(),
        })
        .collect();
    builder.input(name, DType::F32, &dims)
}

fn finish(builder: GraphBuilder, value: ValueId) -> Graph {
    let graph = builder.finish(&[("out", value)]).unwrap();
    check_types(&graph).unwrap();
    graph
}

/// The ops of a graph, and the type of its output.
fn summary(graph: &Graph) -> String {
    let ops: Vec<&str> = graph
        .region(graph.body())
        .ops
        .iter()
        .map(|&op| graph.op(op).op.mnemonic())
        .collect();
    format!(
        "{} -> {}",
        ops.join(" "),
        graph.ty(graph.outputs()[0]).display(graph.dims())
    )
}

#[test]
fn a_failed_builder_call_leaves_the_graph_unchanged() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["B", "3"]);
    let y = input(&mut builder, "y", &["B", "4"]);
    builder.origin("encoder/Add");
    let error = builder.add(x, y).unwrap_err();
    assert_snapshot!(error.to_string(), @"add (encoder/Add): cannot broadcast %x: f32[B, 3] with %y: f32[B, 4]: expected sizes that are equal or 1, found 3 and 4");
    assert_eq!(error.code(), "E0330");
    assert_eq!(builder.graph().n_ops(), 0);
    assert!(builder.dims().plan_facts().is_empty());
    builder.clear_origin();
    let z = builder.relu(x)?;
    builder.name(z, "z");
    assert_snapshot!(describe(&finish(builder, z)), @"z: f32[B, 3]");
    Ok(())
}

#[test]
fn bad_calls_are_typed_errors() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["B", "3"]);
    let sequence =
        builder.input_of_type("s", Type::Sequence(Box::new(Type::tensor(DType::F32, []))));
    let three = builder.size(3);
    let errors = [
        builder.map("nope", &[x]),
        builder.map_with("elu", &[1.0, 2.0], &[x]),
        builder.relu(sequence),
        builder.cast(sequence, DType::F64),
        builder.reshape_inferring(x, &[None, None]),
        builder.squeeze(x, &[2]),
        builder.squeeze(x, &[1]),
        builder.unsqueeze(x, &[3]),
        builder.unsqueeze(x, &[0, 0]),
        builder.flatten(x, 3),
        builder.tile(x, &[three]),
        builder.concat(&[x], 2),
        builder.slice_range(x, 0, three, three, 0),
        builder.reverse(x, 2),
        builder.layer_norm(x, 2, None, None, 1e-5),
        builder
            .expand(x, &[three, three, three, three])
            .and_then(|y| builder.expand(y, &[three, three])),
        builder.split(x, 1, &[three, three]).map(|parts| parts[0]),
        builder.softmax(x, 5),
        builder.bind(x).map(|_| x),
        builder.op1(Op::Bind, &[x]),
        builder.axis(x, -3).map(|_| x),
        builder.gather(x, ValueId::from_u32(99), 0),
        builder.symbol("no identifier").map(|_| x),
    ];
    let lines: Vec<String> = errors
        .into_iter()
        .map(|result| match result {
            Ok(value) => format!("ok {}", builder.describe(value)),
            Err(error) => format!("[{}] {error}", error.code()),
        })
        .collect();
    assert_snapshot!(lines.join("\n"), @r#"
    [E0333] builder: attribute function: expected the name of a scalar function, found nope
    [E0333] elu (%2): attribute parameters: expected 1 entries, found 2
    [E0332] relu (%2): operand 0: expected a tensor, found seq<f32[]>
    [E0332] builder: operand 0: expected a tensor, found %s: seq<f32[]>
    [E0333] builder: attribute dims: expected at most one size left out, found 2
    [E0333] builder: attribute axis: expected an axis below 2, found 2
    [E0333] builder: attribute axes: expected axes of size 1 of %x: f32[B, 3], found axis 1
    [E0333] builder: attribute axis: expected an axis below 3, found 3
    [E0333] builder: attribute axes: expected each axis once, found [0, 0]
    [E0333] builder: attribute axis: expected an axis below 3, found 3
    [E0333] builder: attribute repeats: expected 2 entries, found 1
    [E0333] builder: attribute axis: expected an axis below 2, found 2
    [E0333] builder: attribute steps: expected a step that is not 0, found 0
    [E0333] builder: attribute axis: expected an axis below 2, found 2
    [E0333] builder: attribute axis: expected an axis below 2, found 2
    ok %2: f32[3, 3, 3, 3]
    [E0331] builder: total sizes of a split of %x: f32[B, 3] and [3, 3] differ: expected 3, found 6
    [E0333] reduce (%3): attribute axes: expected an axis below the rank, 2, found 5
    [E0332] builder: operand 0: expected an integer scalar or a vector of at most 256 elements, found %x: f32[B, 3]
    [E0332] bind (%3): operand 0: expected an integer for each of 0 symbols, found %x: f32[B, 3]
    [E0333] builder: attribute axis: expected an axis in [-2, 2), found -3
    [E0362] gather (%3): operand 1: %99 is not defined in this region; pass it in as a capture
    [E0305] builder: expected a symbol name of letters, digits, `_` and `.` that starts with a letter or `_`, found "no identifier"
    "#);
    let error = builder.clone().finish(&[("a", x), ("a", x)]).unwrap_err();
    assert_snapshot!(error.to_string(), @r#"graph: [E0212] graph: two outputs are named "a""#);
    let error = builder.finish(&[("a", ValueId::from_u32(99))]).unwrap_err();
    assert_snapshot!(error.to_string(), @"return: operand 0: %99 is not defined in this region; pass it in as a capture");
    Ok(())
}

#[test]
fn composites_decompose_into_core_ops() -> Built {
    type Compose = fn(&mut GraphBuilder, ValueId, &[ValueId]) -> Built<ValueId>;
    let composites: [(&str, Compose); 15] = [
        ("softmax", |b, x, _| b.softmax(x, 1)),
        ("log_softmax", |b, x, _| b.log_softmax(x, 3)),
        ("layer_norm", |b, x, _| b.layer_norm(x, 2, None, None, 1e-5)),
        ("rms_norm", |b, x, _| b.rms_norm(x, 3, None, 1e-6)),
        ("instance_norm", |b, x, v| {
            b.instance_norm(x, v[0], v[1], 1e-5)
        }),
        ("group_norm", |b, x, v| b.group_norm(x, 2, v[0], v[1], 1e-5)),
        ("batch_norm", |b, x, v| {
            b.batch_norm(x, [v[0], v[1], v[2], v[3]], 1e-5)
        }),
        ("l2_normalize", |b, x, _| b.l2_normalize(x, &[1], 1e-12)),
        ("global_mean_pool", |b, x, _| b.global_mean_pool(x)),
        ("add_channel_bias", |b, x, v| b.add_channel_bias(x, v[0])),
        ("flatten", |b, x, _| b.flatten(x, 1)),
        ("stack", |b, x, _| b.stack(&[x, x], 4)),
        ("cumulative_sum", |b, x, _| b.cumulative_sum(x, 2)),
        ("arg_reduce", |b, x, _| {
            b.arg_reduce(x, Extremum::Min, 1, true)
        }),
        ("arg_pool", |b, x, _| {
            let window = b.plain_window(2);
            b.arg_pool(x, &[1, 2], window)
        }),
    ];
    let mut lines = Vec::new();
    for (name, compose) in composites {
        let mut builder = GraphBuilder::new("t");
        let x = input(&mut builder, "x", &["N", "8", "H", "W"]);
        let vectors: Vec<ValueId> = ["a", "b", "c", "d"]
            .map(|name| input(&mut builder, name, &["8"]))
            .to_vec();
        let y = compose(&mut builder, x, &vectors)?;
        lines.push(format!("{name}: {}", summary(&finish(builder, y))));
    }
    assert_snapshot!(lines.join("\n"), @"
    softmax: reduce stop_gradient sub exp reduce div -> f32[N, 8, H, W]
    log_softmax: reduce stop_gradient sub exp reduce log sub -> f32[N, 8, H, W]
    layer_norm: reduce sub square reduce constant add rsqrt mul -> f32[N, 8, H, W]
    rms_norm: square reduce constant add rsqrt mul -> f32[N, 8, H, W]
    instance_norm: reduce sub square reduce constant add rsqrt mul reshape reshape mul add -> f32[N, 8, H, W]
    group_norm: reshape reduce sub square reduce constant add rsqrt mul reshape reshape reshape mul add -> f32[N, 8, H, W]
    batch_norm: constant add rsqrt mul reshape reshape reshape sub mul add -> f32[N, 8, H, W]
    l2_normalize: square reduce sqrt constant max div -> f32[N, 8, H, W]
    global_mean_pool: reduce -> f32[N, 8, 1, 1]
    add_channel_bias: reshape add -> f32[N, 8, H, W]
    flatten: reshape -> f32[N, 8*H*W]
    stack: reshape reshape concat -> f32[N, 8, H, W, 2]
    cumulative_sum: cumulate -> f32[N, 8, H, W]
    arg_reduce: arg_reduce -> i64[N, 1, H, W]
    arg_pool: arg_pool -> i64[N, 8, H, W - 1]
    ");
    Ok(())
}

#[test]
fn layer_norm_scales_and_shifts() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["B", "S", "384"]);
    let scale = input(&mut builder, "scale", &["384"]);
    let bias = input(&mut builder, "bias", &["384"]);
    let y = builder.layer_norm(x, 2, Some(scale), Some(bias), 1e-12)?;
    assert_snapshot!(summary(&finish(builder, y)), @"reduce sub square reduce constant add rsqrt mul mul add -> f32[B, S, 384]");
    Ok(())
}

#[test]
fn no_op_movement_returns_the_operand() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["A", "B"]);
    let dims = builder.shape(x)?;
    let zero = builder.size(0);
    let one = builder.size(1);
    for same in [
        builder.reshape(x, &dims)?,
        builder.broadcast_to(x, &dims)?,
        builder.slice_axis(x, 1, zero, dims[1])?,
        builder.tile(x, &[one, one])?,
        builder.concat(&[x], 0)?,
        builder.cast(x, DType::F32)?,
        builder.expand(x, &[one])?,
    ] {
        assert_eq!(same, x);
    }
    assert_eq!(builder.axis(x, -1)?, 1);
    Ok(())
}

#[test]
fn movement_gives_the_requested_sizes() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["A", "B", "6"]);
    let (a, b) = (builder.symbol("A")?, builder.symbol("B")?);
    let sizes = builder.sizes(&[1, 2, 3, 4]);
    let [one, two, three, four] = sizes[..] else {
        unreachable!("four sizes")
    };
    let zero = builder.scalar(DType::F32, 0.0)?;
    let values = [
        builder.reshape_inferring(x, &[Some(a), None])?,
        builder.reshape_inferring(x, &[None, Some(four)])?,
        builder.reshape_inferring(x, &[Some(a), None, Some(b)])?,
        builder.tile(x, &[one, three, two])?,
        builder.expand(x, &[four, one, b, one])?,
        builder.split(x, 2, &[two, four])?[1],
        builder.unsqueeze(x, &[0, 4])?,
        builder.reverse(x, 1)?,
        builder.pad(
            x,
            zero,
            &[one, one, one],
            &[two, two, two],
            PadMode::Reflect,
        )?,
    ];
    let lines: Vec<String> = values
        .iter()
        .map(|&value| builder.describe(value))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    %2: f32[A, 6*B]
    %3: f32[A*B + (A*B) / 2, 4]
    %4: f32[A, 6, B]
    %7: f32[A, 3*B, 12]
    %8: f32[4, A, B, 6]
    %10: f32[A, B, 4]
    %11: f32[1, A, B, 6, 1]
    %12: f32[A, B, 6]
    %13: f32[A + 3, B + 3, 9]
    ");
    let facts: Vec<String> = builder
        .dims()
        .contract_facts()
        .iter()
        .map(|fact| {
            builder
                .dims()
                .display_predicate(&fact.predicate)
                .to_string()
        })
        .collect();
    assert_snapshot!(facts.join("\n"), @"product(A, B, 6) == product(A*B + (A*B) / 2, 4)");
    Ok(())
}

#[test]
fn slice_positions_follow_python() -> Built {
    let mut builder = GraphBuilder::new("t");
    let n = builder.symbol("N")?;
    let x = builder.input("x", DType::F32, &[n]);
    let symbol = kiln_symbolic_shape::SymbolicDimension::integer("p");
    let p = builder.dims_mut().declare(symbol).unwrap();
    let p = builder.dims_mut().dim(p);
    let mut lines = Vec::new();
    for (start, end, step) in [
        (0, i64::MAX, 1),
        (1, i64::from(i32::MAX), 2),
        (-1, i64::MIN, -1),
        (-3, -1, 1),
        (0, -1, 1),
        (2, 5, 1),
    ] {
        let (first, last) = (builder.size(start), builder.size(end));
        let y = builder.slice_range(x, 0, first, last, step)?;
        lines.push(format!("{start}:{end}:{step} -> {}", builder.describe(y)));
    }
    let y = builder.slice_range(x, 0, p, n, 1)?;
    lines.push(format!("p:N:1 -> {}", builder.describe(y)));
    assert_snapshot!(lines.join("\n"), @"
    0:9223372036854775807:1 -> %x: f32[N]
    1:2147483647:2 -> %1: f32[(max(0, N - 1) + 1) / 2]
    -1:-9223372036854775808:-1 -> %2: f32[N]
    -3:-1:1 -> %3: f32[max(0, N - max(0, N - 3) - 1)]
    0:-1:1 -> %4: f32[max(0, N - 1)]
    2:5:1 -> %5: f32[max(0, min(5, N) - 2)]
    p:N:1 -> %6: f32[max(0, N - max(-N*max(-1, min(0, p)) + p, 0))]
    ");
    Ok(())
}

#[test]
fn windows_pools_and_convolutions_infer_their_sizes() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["N", "8", "H", "W"]);
    let w = input(&mut builder, "w", &["16", "8", "3", "3"]);
    let up = input(&mut builder, "up", &["8", "4", "2", "2"]);
    let dims = builder.shape(x)?;
    let three = builder.size(3);
    let plain = builder.plain_window(2);
    let same = builder.conv(x, w, plain.clone(), 1)?;
    let mut padded = builder.window(&[2, 2], &[1, 1], &[0, 0], &[0, 0]);
    for (axis, &size) in dims[2..].iter().enumerate() {
        (padded.low[axis], padded.high[axis]) =
            builder.same_padding(size, three, 2, 1, axis == 0)?;
    }
    let halved = builder.conv(x, w, padded, 1)?;
    let stride = builder.window(&[2, 2], &[1, 1], &[0, 0], &[0, 0]);
    let none = builder.sizes(&[0, 0]);
    let doubled = builder.conv_transpose(x, up, stride.clone(), &none, 1)?;
    let pooled = builder.pool(x, PoolFunction::Max, &[2, 2], stride)?;
    let lines = [same, halved, doubled, pooled].map(|value| builder.describe(value));
    assert_snapshot!(lines.join("\n"), @"
    %3: f32[N, 16, H - 2, W - 2]
    %4: f32[N, 16, (H + 1) / 2, (W + 1) / 2]
    %5: f32[N, 4, 2*H, 2*W]
    %6: f32[N, 8, H / 2, W / 2]
    ");
    Ok(())
}

#[test]
fn indexing_and_data_dependent_ops_infer_their_sizes() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["B", "C"]);
    let (b, two) = (builder.symbol("B")?, builder.size(2));
    let i = builder.input("i", DType::I64, &[b, two]);
    let (values, indices) = builder.top_k(x, two, 1, Extremum::Max)?;
    let elements = builder.gather_elements(x, indices, 1)?;
    let scattered = builder.scatter_elements(x, indices, values, 1, Combine::Add)?;
    let picked = builder.gather_nd(x, i, 0)?;
    let placed = builder.scatter_nd(x, i, picked, Combine::Set)?;
    let found = builder.non_zero(placed)?;
    let lines =
        [values, indices, elements, scattered, picked, found].map(|value| builder.describe(value));
    assert_snapshot!(lines.join("\n"), @"
    %2: f32[B, 2]
    %3: i64[B, 2]
    %4: f32[B, 2]
    %5: f32[B, C]
    %6: f32[B]
    %10: i64[2, n0]
    ");
    finish(builder, found);
    Ok(())
}

#[test]
fn scalars_of_every_dtype() -> Built {
    let mut builder = GraphBuilder::new("t");
    for dtype in DType::ALL {
        let value = builder.scalar(dtype, 1.0)?;
        assert_eq!(builder.tensor(value)?.dtype, dtype);
    }
    Ok(())
}

#[test]
fn integers_of_few_bits_are_accumulated_in_i32() -> Built {
    let mut builder = GraphBuilder::new("t");
    let two = builder.size(2);
    let x = builder.constant(Tensor::zeros(DType::I8, &[2, 2]).unwrap())?;
    let y = builder.matmul(x, x)?;
    assert_eq!(
        builder.tensor(y)?,
        kiln_ir::TensorType::new(DType::I32, [two, two])
    );
    Ok(())
}

#[test]
fn annotations_are_proved_or_refused_in_strict_mode() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["A", "B"]);
    let y = builder.flatten(x, 0)?;
    let (a, one, unbound) = (
        builder.symbol("A")?,
        builder.size(1),
        builder.symbol("unbound")?,
    );
    builder.annotate(y, Some(DType::F32), &[Some(one), None])?;
    builder.annotate(y, None, &[Some(unbound), Some(unbound)])?;
    assert_snapshot!(builder.describe(y), @"%1: f32[1, A*B]");
    assert_snapshot!(builder.annotate(y, None, &[Some(a), None]).unwrap_err().to_string(), @"builder: type of %1: expected f32[1, A*B], found ?[A, ?] (not proved equal; state the equality as a fact)");
    assert_snapshot!(builder.annotate(y, Some(DType::F64), &[None, None]).unwrap_err().to_string(), @"builder: type of %1: expected f32[1, A*B], found f64[?, ?]");
    assert_snapshot!(builder.annotate(y, None, &[None]).unwrap_err().to_string(), @"builder: type of %1: expected f32[1, A*B], found ?[?]");
    let three = builder.size(3);
    assert_snapshot!(builder.annotate(y, None, &[Some(three), None]).unwrap_err().to_string(), @"builder: type of %1: expected f32[1, A*B], found ?[3, ?]");
    Ok(())
}

#[test]
fn annotations_that_are_not_proved_become_disagreements_in_lenient_mode() -> Built {
    let mut builder = GraphBuilder::new("t");
    builder.set_mode(Mode::Lenient);
    let x = input(&mut builder, "x", &["A", "B"]);
    let y = builder.flatten(x, 0)?;
    let (one, eight, nine) = (builder.size(1), builder.size(8), builder.size(9));
    let (a, b) = (builder.symbol("A")?, builder.symbol("B")?);
    let product = builder.dims_mut().mul(a, b).unwrap();
    builder.annotate(y, None, &[Some(one), Some(product)])?;
    assert!(builder.disagreements().is_empty());
    builder.annotate(y, None, &[Some(one), Some(eight)])?;
    builder.annotate(x, None, &[Some(eight), Some(nine)])?;
    builder.annotate(y, Some(DType::F32), &[Some(nine), None])?;
    builder.annotate(y, Some(DType::I64), &[None, None])?;
    let lines: Vec<String> = builder
        .disagreements()
        .iter()
        .map(|it| format!("{}: {} stated {}", it.value, it.inferred, it.stated))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    %1: f32[1, A*B] stated ?[1, 8]
    %0: f32[A, B] stated ?[8, 9]
    %1: f32[1, A*B] stated f32[9, ?]
    %1: f32[1, A*B] stated i64[?, ?]
    ");
    assert!(builder.dims().contract_facts().is_empty());
    assert_snapshot!(describe(&finish(builder, y)), @"1: f32[1, A*B]");
    Ok(())
}

#[test]
fn a_large_graph_is_built_and_checked_without_recursion() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["A"]);
    let mut y = x;
    for _ in 0..5_000 {
        y = builder.add(y, x)?;
    }
    let graph = finish(builder, y);
    let axes = Indices::new();
    assert!(axes.is_empty() && graph.n_ops() == 5_000);
    Ok(())
}

#[test]
fn composites_check_their_preconditions() -> Built {
    let mut builder = GraphBuilder::new("t");
    let x = input(&mut builder, "x", &["A", "B", "C"]);
    let (two, three) = (builder.size(2), builder.size(3));
    builder.origin("Squeeze_1");
    let y = builder.squeeze(x, &[1])?;
    builder.clear_origin();
    let parts = builder.split(y, 1, &[two, three])?;
    assert_snapshot!(describe(&finish(builder, parts[1])), @"
    1: f32[A, C]
    2: f32[A, 2]
    3: f32[A, 3]
    requires B == 1 by squeeze of %x: f32[A, B, C] (Squeeze_1)
    requires 5 == C by split of %1: f32[A, C]
    ");
    Ok(())
}

#[test]
fn scalars_are_numbers_that_their_dtype_holds() {
    let mut builder = GraphBuilder::new("g");
    for (dtype, number) in [
        (DType::I32, 0.5),
        (DType::U8, 300.0),
        (DType::U8, -1.0),
        (DType::I64, f64::NAN),
        (DType::Bool, 2.0),
        (DType::F16, 1e6),
    ] {
        let error = builder.scalar(dtype, number).unwrap_err();
        assert_eq!(error.code(), "E0804");
        let text = error.to_string();
        assert!(
            text.contains(&format!(
                "a number that {dtype} can represent, found {number:?}"
            )),
            "{text}"
        );
        // Importers of formats with this rule get the closest value.
        assert!(builder.scalar_nearest(dtype, number).is_ok());
    }
    for (dtype, number) in [
        (DType::I32, -7.0),
        (DType::Bool, 1.0),
        (DType::F16, f64::INFINITY),
    ] {
        assert!(builder.scalar(dtype, number).is_ok());
    }
}
