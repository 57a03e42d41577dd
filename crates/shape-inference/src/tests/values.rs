//! Sizes that are computed as data: the idioms that exporters emit.

use crate::{GraphBuilder, InferError, KnownValue};
use insta::assert_snapshot;
use kiln_ir::{ReduceFunction, ValueId};
use kiln_symbolic_shape::FactOrigin;
use kiln_tensor::{DType, Tensor};

type Built<T = ()> = Result<T, InferError>;

fn vector(builder: &mut GraphBuilder, values: &[i64]) -> Built<ValueId> {
    builder.constant(Tensor::from_slice(&[values.len()], values).unwrap())
}

fn integer(builder: &mut GraphBuilder, value: i64) -> Built<ValueId> {
    builder.constant(Tensor::scalar(value))
}

/// `%x: f32[B, S, H, 48]`, and its sizes as data.
fn image() -> (GraphBuilder, ValueId, ValueId) {
    let mut builder = GraphBuilder::new("t");
    let mut dims = ["B", "S", "H"]
        .map(|name| builder.symbol(name).unwrap())
        .to_vec();
    dims.push(builder.size(48));
    let x = builder.input("x", DType::F32, &dims);
    let shape = builder.dims_of(x).unwrap();
    (builder, x, shape)
}

fn show(builder: &GraphBuilder, value: ValueId) -> String {
    let element = |element: crate::Element| match element {
        crate::Element::Unknown => "?".to_owned(),
        crate::Element::Dim(dim) => builder.dims().display(dim).to_string(),
        crate::Element::Ratio(ratio) => {
            format!(
                "({}) / {}",
                builder.dims().display(ratio.numerator),
                ratio.denominator
            )
        }
    };
    match builder.known(value) {
        None => "unknown".to_owned(),
        Some(known) => known.elements().map(element).collect::<Vec<_>>().join(", "),
    }
}

fn facts(builder: &GraphBuilder) -> String {
    let dims = builder.dims();
    let line = |fact: &kiln_symbolic_shape::ContractFact| match &fact.origin {
        FactOrigin::Required(by) => format!("{} by {by}", dims.display_predicate(&fact.predicate)),
        FactOrigin::Declared => dims.display_predicate(&fact.predicate).to_string(),
    };
    dims.contract_facts()
        .iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// `Shape -> Gather -> Unsqueeze -> Concat -> Reshape`: attention's split into heads.
#[test]
fn reshape_by_gathered_sizes_needs_no_bind() -> Built {
    let (mut builder, x, shape) = image();
    let index = integer(&mut builder, 0)?;
    let batch = builder.gather(shape, index, 0)?;
    let batch = builder.unsqueeze(batch, &[0])?;
    let index = integer(&mut builder, -1)?;
    let width = builder.gather(shape, index, 0)?;
    let four = integer(&mut builder, 4)?;
    let quarter = builder.div(width, four)?;
    let quarter = builder.unsqueeze(quarter, &[0])?;
    let rest = vector(&mut builder, &[-1, 4])?;
    let sizes = builder.concat(&[batch, rest, quarter], 0)?;
    assert_snapshot!(show(&builder, sizes), @"B, -1, 4, 12");
    let sizes = builder.bind(sizes)?;
    let asked: Vec<_> = sizes
        .iter()
        .map(|&dim| (builder.dims().as_constant(dim) != Some(-1)).then_some(dim))
        .collect();
    let y = builder.reshape_inferring(x, &asked)?;
    assert_snapshot!(builder.describe(y), @"%12: f32[B, H*S, 4, 12]");
    assert_eq!(facts(&builder), "");
    Ok(())
}

/// `Shape -> Slice -> Concat -> Resize`: doubling the spatial sizes.
#[test]
fn sliced_sizes_stay_known() -> Built {
    let (mut builder, _, shape) = image();
    let (zero, two) = (builder.size(0), builder.size(2));
    let outer = builder.slice_axis(shape, 0, zero, two)?;
    let inner = builder.slice_axis(shape, 0, two, two)?;
    let factor = integer(&mut builder, 2)?;
    let doubled = builder.mul(inner, factor)?;
    let sizes = builder.concat(&[outer, doubled], 0)?;
    assert_snapshot!(show(&builder, sizes), @"B, S, 2*H, 96");
    let last = builder.reverse(sizes, 0)?;
    assert_snapshot!(show(&builder, last), @"96, 2*H, S, B");
    let elements = builder.reduce(sizes, ReduceFunction::Product, &[0], false)?;
    assert_snapshot!(show(&builder, elements), @"192*B*H*S");
    Ok(())
}

/// `Where(Equal(shape, -1), ones, shape)`, which exporters emit for expand.
#[test]
fn comparisons_are_decided_if_proved() -> Built {
    let (mut builder, _, shape) = image();
    let minus_one = vector(&mut builder, &[-1])?;
    let unknown = builder.equal(shape, minus_one)?;
    assert_snapshot!(show(&builder, unknown), @"0, 0, 0, 0");
    let ones = vector(&mut builder, &[1, 1, 1, 1])?;
    let sizes = builder.select(unknown, ones, shape)?;
    assert_snapshot!(show(&builder, sizes), @"B, S, H, 48");
    let large = vector(&mut builder, &[48])?;
    let less = builder.less(shape, large)?;
    assert_snapshot!(show(&builder, less), @"?, ?, ?, 0");
    let either = builder.select(less, ones, ones)?;
    assert_snapshot!(show(&builder, either), @"1, 1, 1, 1");
    Ok(())
}

/// `Cast(f32) -> Mul -> Floor -> Cast(i64)`: scales in floating point.
#[test]
fn sizes_round_trip_through_floats() -> Built {
    let (mut builder, _, shape) = image();
    let float = builder.cast(shape, DType::F32)?;
    let scales = builder.constant(Tensor::from_slice(&[4], &[1.0_f32, 1.0, 2.0, 0.5]).unwrap())?;
    let scaled = builder.mul(float, scales)?;
    assert_snapshot!(show(&builder, scaled), @"(B) / 1, (S) / 1, (2*H) / 1, (24) / 1");
    let floored = builder.floor(scaled)?;
    let sizes = builder.cast(floored, DType::I64)?;
    assert_snapshot!(show(&builder, sizes), @"B, S, 2*H, 24");
    assert_snapshot!(facts(&builder), @"
    B <= 16777216 by cast (%6): exact size arithmetic
    S <= 16777216 by cast (%6): exact size arithmetic
    H <= 16777216 by cast (%6): exact size arithmetic
    2*H <= 16777216 by cast (%6): exact size arithmetic
    ");
    Ok(())
}

#[test]
fn quotients_that_round_are_known_once_floored() -> Built {
    let (mut builder, _, shape) = image();
    let (start, one) = (builder.size(2), builder.size(1));
    let height = builder.slice_axis(shape, 0, start, one)?;
    let float = builder.cast(height, DType::F64)?;
    let three = builder.scalar(DType::F64, 3.0)?;
    let third = builder.div(float, three)?;
    assert_snapshot!(show(&builder, third), @"(H) / 3");
    let up = builder.ceil(third)?;
    let sizes = builder.cast(up, DType::I64)?;
    assert_snapshot!(show(&builder, sizes), @"(H + 2) / 3");
    // A sum of rounded numbers is not exact, so nothing is known about it.
    let sum = builder.add(third, third)?;
    assert_snapshot!(show(&builder, sum), @"unknown");
    // The same for a product with a number that has too many digits.
    let tenth = builder.scalar(DType::F64, 0.1)?;
    let product = builder.mul(float, tenth)?;
    assert_snapshot!(show(&builder, product), @"unknown");
    Ok(())
}

#[test]
fn narrow_integers_are_known_if_they_fit() -> Built {
    let (mut builder, _, shape) = image();
    let narrow = builder.cast(shape, DType::I32)?;
    assert_snapshot!(show(&builder, narrow), @"B, S, H, 48");
    let byte = builder.cast(shape, DType::U8)?;
    assert_snapshot!(show(&builder, byte), @"?, ?, ?, 48");
    let wide = builder.cast(narrow, DType::I64)?;
    assert_snapshot!(show(&builder, wide), @"B, S, H, 48");
    let truth = builder.cast(wide, DType::Bool)?;
    assert_snapshot!(show(&builder, truth), @"?, ?, ?, 1");
    assert_snapshot!(facts(&builder), @"
    B <= 2147483647 by cast (%2): exact size arithmetic
    S <= 2147483647 by cast (%2): exact size arithmetic
    H <= 2147483647 by cast (%2): exact size arithmetic
    ");
    Ok(())
}

#[test]
fn integer_functions_follow_the_scalar_definitions() -> Built {
    let (mut builder, _, shape) = image();
    let (zero, two) = (builder.size(0), builder.size(2));
    let shape = builder.slice_axis(shape, 0, zero, two)?;
    let constant = vector(&mut builder, &[-7, 3])?;
    let mut lines = Vec::new();
    for name in [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "floor_mod",
        "min",
        "max",
        "pow",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    ] {
        let (a, b, c) = (
            builder.map(name, &[shape, constant])?,
            builder.map(name, &[constant, shape])?,
            builder.map(name, &[constant, constant])?,
        );
        lines.push(format!(
            "{name}: {} | {} | {}",
            show(&builder, a),
            show(&builder, b),
            show(&builder, c)
        ));
    }
    for name in ["neg", "abs", "sign", "relu", "square"] {
        let (a, b) = (
            builder.map(name, &[shape])?,
            builder.map(name, &[constant])?,
        );
        lines.push(format!(
            "{name}: {} | {}",
            show(&builder, a),
            show(&builder, b)
        ));
    }
    assert_snapshot!(lines.join("\n"), @"
    add: B - 7, S + 3 | B - 7, S + 3 | -14, 6
    sub: B + 7, S - 3 | -B - 7, -S + 3 | 0, 0
    mul: -7*B, 3*S | -7*B, 3*S | 49, 9
    div: ?, S / 3 | unknown | 1, 1
    rem: ?, S % 3 | unknown | ?, 0
    floor_mod: ?, S % 3 | unknown | ?, 0
    min: -7, min(3, S) | -7, min(3, S) | -7, 3
    max: B, max(3, S) | B, max(3, S) | -7, 3
    pow: ?, S*S*S | unknown | ?, 27
    eq: 0, ? | 0, ? | 1, 1
    ne: 1, ? | 1, ? | 0, 0
    lt: 0, ? | 1, ? | 0, 0
    le: 0, ? | 1, ? | 1, 1
    gt: 1, ? | 0, ? | 0, 0
    ge: 1, ? | 0, ? | 1, 1
    neg: -B, -S | 7, -3
    abs: B, S | 7, 3
    sign: min(1, B), min(1, S) | -1, 1
    relu: B, S | 0, 3
    square: B*B, S*S | 49, 9
    ");
    Ok(())
}

#[test]
fn bools_and_reductions_are_known() -> Built {
    let (mut builder, _, shape) = image();
    let yes = builder.constant(Tensor::from_slice(&[2, 2], &[true, false, true, true]).unwrap())?;
    let no = builder.not(yes)?;
    let both = builder.and(yes, no)?;
    let either = builder.or(yes, no)?;
    let odd = builder.map("xor", &[yes, either])?;
    let any = builder.reduce(no, ReduceFunction::Any, &[0], false)?;
    let all = builder.reduce(yes, ReduceFunction::All, &[1], true)?;
    let largest = builder.reduce(shape, ReduceFunction::Max, &[0], false)?;
    let least = builder.reduce(shape, ReduceFunction::Min, &[0], true)?;
    let sum = builder.reduce_sum(shape, &[], false)?;
    let lines: Vec<String> = [no, both, either, odd, any, all, largest, least, sum]
        .iter()
        .map(|&value| show(&builder, value))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    0, 1, 0, 0
    0, 0, 0, 0
    1, 1, 1, 1
    0, 1, 0, 0
    0, 1
    0, 1
    max(48, B, H, S)
    min(48, B, H, S)
    B, S, H, 48
    ");
    Ok(())
}

#[test]
fn movement_ops_keep_known_elements() -> Built {
    let (mut builder, _, shape) = image();
    let (two, three) = (builder.size(2), builder.size(3));
    let square = builder.reshape(shape, &[two, two])?;
    let turned = builder.transpose(square, &[1, 0])?;
    let repeated = builder.broadcast_to(turned, &[three, two, two])?;
    let one = builder.size(1);
    let twice = builder.tile(turned, &[one, two])?;
    let order = builder.iota(DType::I32, &[two, two], 1)?;
    let picked = builder.gather(shape, order, 0)?;
    let lines: Vec<String> = [turned, repeated, twice, order, picked]
        .iter()
        .map(|&value| show(&builder, value))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    B, H, S, 48
    B, H, S, 48, B, H, S, 48, B, H, S, 48
    B, H, B, H, S, 48, S, 48
    0, 1, 0, 1
    B, S, B, S
    ");
    Ok(())
}

#[test]
fn data_dependent_elements_stay_unknown_next_to_known_ones() -> Built {
    let (mut builder, _, shape) = image();
    let one = builder.size(1);
    let data = builder.input("n", DType::I64, &[one]);
    let sizes = builder.concat(&[shape, data], 0)?;
    assert_snapshot!(show(&builder, sizes), @"B, S, H, 48, ?");
    let bound = builder.bind(sizes)?;
    assert_snapshot!(builder.dims().display_shape(&bound).to_string(), @"[B, S, H, 48, n4]");
    let again = builder.bind_sizes(data)?;
    let dims = builder.dims();
    assert_eq!(dims.range(bound[4]).min, None);
    assert_eq!(dims.range(again[0]).min, Some(0));
    Ok(())
}

#[test]
fn large_and_ragged_tensors_are_not_known() -> Built {
    let mut builder = GraphBuilder::new("t");
    let many = builder.constant(Tensor::zeros(DType::I64, &[257]).unwrap())?;
    let weights = builder.constant(Tensor::zeros(DType::F32, &[17]).unwrap())?;
    let infinite =
        builder.constant(Tensor::from_slice(&[3], &[f32::INFINITY, -0.0, f32::NAN]).unwrap())?;
    assert_eq!(
        [many, weights, infinite].map(|value| builder.known(value).is_none()),
        [true; 3]
    );
    let empty = builder.constant(Tensor::zeros(DType::I64, &[0]).unwrap())?;
    assert_eq!(builder.known(empty), Some(&KnownValue::Dims(Vec::new())));
    assert!(builder.known(empty).is_some_and(KnownValue::is_empty));
    let n = builder.symbol("n")?;
    let ragged = builder.iota(DType::I64, &[n], 0)?;
    assert!(builder.known(ragged).is_none());
    Ok(())
}

#[test]
fn clips_are_known() -> Built {
    let (mut builder, _, shape) = image();
    let (low, high) = (integer(&mut builder, 1)?, integer(&mut builder, 40)?);
    let clipped = builder.map("clip", &[shape, low, high])?;
    assert_snapshot!(show(&builder, clipped), @"min(40, max(1, B)), min(40, max(1, S)), min(40, max(1, H)), 40");
    Ok(())
}

#[test]
fn floats_combine_while_they_are_exact() -> Built {
    let (mut builder, _, shape) = image();
    let (start, one) = (builder.size(2), builder.size(1));
    let height = builder.slice_axis(shape, 0, start, one)?;
    let float = builder.cast(height, DType::F32)?;
    let three_halves = builder.scalar(DType::F32, 1.5)?;
    let less = builder.sub(float, three_halves)?;
    let small = builder.min(float, three_halves)?;
    let large = builder.max(float, three_halves)?;
    let wide = builder.cast(large, DType::F64)?;
    let truncated = builder.cast(wide, DType::I32)?;
    let negative = builder.cast(less, DType::I64)?;
    let integral = builder.map("trunc", &[float])?;
    let rounded = builder.map("round_even", &[large])?;
    let root = builder.sqrt(float)?;
    let narrow = builder.cast(float, DType::F16)?;
    let back = builder.cast(narrow, DType::I64)?;
    let truth = builder.cast(float, DType::Bool)?;
    let names = [
        "less",
        "small",
        "large",
        "wide",
        "truncated",
        "negative",
        "integral",
        "rounded",
        "root",
        "narrow",
        "back",
        "truth",
    ];
    let values = [
        less, small, large, wide, truncated, negative, integral, rounded, root, narrow, back, truth,
    ];
    let lines: Vec<String> = names
        .iter()
        .zip(values)
        .map(|(name, value)| format!("{name}: {}", show(&builder, value)))
        .collect();
    assert_snapshot!(lines.join("\n"), @"
    less: (2*H - 3) / 2
    small: (min(2*H, 3)) / 2
    large: (max(2*H, 3)) / 2
    wide: (max(2*H, 3)) / 2
    truncated: max(2*H, 3) / 2
    negative: unknown
    integral: (H) / 1
    rounded: unknown
    root: unknown
    narrow: (H) / 1
    back: unknown
    truth: unknown
    ");
    Ok(())
}

#[test]
fn sizes_of_narrow_dtypes_are_known_within_their_bounds() -> Built {
    let mut builder = GraphBuilder::new("t");
    let range = kiln_symbolic_shape::SymbolicDimension::range("n", 0..=100).unwrap();
    let symbol = builder.dims_mut().declare(range).unwrap();
    let n = builder.dims_mut().dim(symbol);
    let x = builder.input("x", DType::F32, &[n]);
    let shape = builder.dims_of(x)?;
    let mut lines = Vec::new();
    for dtype in [
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::U32,
        DType::U64,
    ] {
        let size = builder.cast(shape, dtype)?;
        let doubled = builder.add(size, size)?;
        let negated = builder.neg(size)?;
        lines.push(format!(
            "{dtype}: {} | {} | {}",
            show(&builder, size),
            show(&builder, doubled),
            show(&builder, negated)
        ));
    }
    assert_snapshot!(lines.join("\n"), @"
    i8: n | unknown | -n
    u8: n | 2*n | unknown
    i16: n | 2*n | -n
    u16: n | 2*n | unknown
    u32: n | 2*n | unknown
    u64: n | 2*n | unknown
    ");
    // Only the bound itself is stated.
    assert_eq!(facts(&builder), "n <= 100");
    Ok(())
}
