//! The text form: printing, diagnostics, and the round-trip laws.

mod laws;
mod rejected;

use insta::assert_snapshot;
use kiln_scalar::{Function, ScalarOp, ScalarValue};
use kiln_symbolic_shape::{ContractFact, DimTable, FactOrigin, Predicate, SymbolicDimension};
use kiln_tensor::{DType, bf16, f16};

use super::{print, read};
use crate::form::{Extent, Kernel, KernelBuilder, Load, LoadGuard, Reduction, Role};

/// Reads a kernel, and checks that its printed text reads back as the same kernel, with its symbols in the same order.
fn stable(text: &str) -> Kernel {
    let kernel = read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    expect_stable(&kernel);
    kernel
}

fn expect_stable(kernel: &Kernel) {
    let printed = print(kernel);
    let again = read(&printed).unwrap_or_else(|errors| panic!("{}", errors.render(&printed)));
    assert_eq!(print(&again), printed);
    let symbols = |kernel: &Kernel| -> Vec<String> {
        let dims = kernel.dims();
        dims.symbols()
            .map(|symbol| dims.symbol_name(symbol).to_owned())
            .collect()
    };
    assert_eq!(symbols(&again), symbols(kernel), "{printed}");
    assert_eq!(again.buffers().len(), kernel.buffers().len());
}

/// The printed value of the only stage of a kernel over `%x: f32[N]`, `%k: i64[N]` and `%c: bool[N]`.
fn expression(text: &str) -> String {
    let whole = format!(
        "kernel @k(%x: in f32[N], %k: in i64[N], %c: in bool[N]) {{ outer i < N  v = {text} }}"
    );
    let printed = print(&stable(&whole));
    let (_, value) = printed.split_once(" v = ").unwrap();
    value.trim_end_matches("\n}\n").to_owned()
}

#[test]
fn operators_bind_as_usual() {
    let same = [
        "%x[i] + 1.0 * 2.0",
        "(%x[i] + 1.0) * 2.0",
        "%x[i] - (1.0 - %x[i])",
        "%x[i] / (%x[i] * 2.0)",
        "%k[i] / 2 % 3 * 4",
        "%k[i] % (2 * %k[i])",
        "%k[i] < 3 and %k[i] >= 0 or not %c[i]",
        "%c[i] and (%c[i] or %k[i] != 2)",
        "not (%c[i] or %c[i])",
        "not not %c[i]",
        "(%x[i] < 1.0) == %c[i]",
        "-1 * %k[i] - -2",
        "neg(%k[i])",
        "div(%k[i], 2)",
        "floor_div(%x[i], 2.0)",
        "floor_mod(%x[i], 2.0)",
        "select(%c[i], 1, %k[i])",
        "leaky_relu(%x[i], alpha=0.3)",
        "clip(%x[i], -1.0, inf)",
        "hard_sigmoid(%x[i], alpha=0.2, beta=0.5)",
        "nan",
        "true",
        "size(2*N + 1) + N",
        "f32(%k[i]) + f32((3)) + f32((-0.5))",
        "f16(0.5)",
        "u64(18446744073709551615)",
        "i8(-128)",
        "f64(-inf)",
        "f64(1e-300)",
        "bf16(nan)",
        "bool((3))",
        "-9223372036854775808",
        "1e-45",
        "3.4028235e38",
        "(%x[i - 1] if inside else 0.0) + (%x[i] if inside and %c[i] and i > 0 else 1.0)",
        "%x[i] if i > 0 or %c[i] else %x[0] if %c[i] else nan",
        "{ t0 = exp(%x[i]); t0 * t0 }",
    ];
    for text in same {
        assert_eq!(expression(text), text);
    }
}

#[test]
fn the_reader_is_lenient() {
    let read_as = [
        ("%x[i] + 1", "%x[i] + 1.0"),
        ("1 + %x[i]", "1.0 + %x[i]"),
        ("max(0, %x[i])", "max(0.0, %x[i])"),
        ("max(1, 0.5)", "max(1.0, 0.5)"),
        ("select(%c[i], 0, %x[i])", "select(%c[i], 0.0, %x[i])"),
        ("i32(%k[i]) * 3", "i32(%k[i]) * i32(3)"),
        ("%x[i] if inside else 0", "%x[i] if inside else 0.0"),
        ("-%x[i]", "neg(%x[i])"),
        ("- 1", "-1"),
        ("-(1)", "neg(1)"),
        ("add(%k[i], 1)", "%k[i] + 1"),
        ("and(%c[i], %c[i])", "%c[i] and %c[i]"),
        ("swish(%x[i])", "silu(%x[i])"),
        (
            "hard_sigmoid(%x[i], beta=1)",
            "hard_sigmoid(%x[i], alpha=0.2, beta=1.0)",
        ),
        ("{ a = 2; b = a + a; %x[0] }", "%x[0]"),
        ("size(N) + size(4)", "N + 4"),
        ("((%k[i]))", "%k[i]"),
        ("exp(%x[i]) * exp(%x[i])", "{ t0 = exp(%x[i]); t0 * t0 }"),
        ("not %k[i] == 2", "not %k[i] == 2"),
    ];
    for (given, printed) in read_as {
        assert_eq!(expression(given), printed);
    }
}

#[test]
fn shared_values_are_printed_once() {
    let mut text = "%x[i]".to_owned();
    let mut block = String::new();
    for step in 0..40 {
        block.push_str(&format!("d{step} = {text} + exp({text}); "));
        text = format!("d{step}");
    }
    let printed = expression(&format!("{{ {block} {text} }}"));
    assert!(printed.len() < 2_000, "{printed}");
    // A long chain is split into pieces that fit the reader's depth limit.
    let mut b = KernelBuilder::new("deep", DimTable::new());
    let mut node = b.number(0.5, DType::F32);
    for _ in 0..1_000 {
        node = b.apply(ScalarOp::Exp, [node]);
    }
    b.map("v", [], node);
    expect_stable(&b.finish().unwrap());
}

#[test]
fn items_of_every_kind_print() {
    let kernel = stable(
        "kernel @all<T, N>(%x: in f32[N, T] strides [T + 8, 1], %n: in i32[N], %5: const i8[N], %y: out f64[N], %z: inout f32[N, N]) where T >= 1, N % 2 == 0 {
          outer i < N
          s = reduce add f64[j < clamp(i + 1, T), k < clamp(j, T)] %x[i, j]
          a = reduce argmin_last[j < T] %x[i, j]
          m[j < T, e < 2] = %x[i, j] * f32(e) + f32(a)
          carry t < clamp(i64(%n[i]), T) reverse {
            store set %z[i, 0] = prev(h)[0]
            g[e < 2] = prev(h)[e] + m[t, e]
            h[e < 2] init f32(e) = g[e]
            p init 0 = reduce max[e < 2] prev(p) + t
          }
          store %y[i] = s + f64(last(h)[1]) + f64(last(p))
          store add %z[i, r < N] = 1.0
          store[r < N] mul %z[r, i] = 1.0
          store[q < N, r < N] min %z[q + 0, r] = 1.0
          store[r < N] max %z[r + 1, r] = 1.0
          store max %z[r < N, r] = 1.0
        }",
    );
    assert_snapshot!(print(&kernel));
}

#[test]
fn the_symbols_are_listed_where_their_order_would_be_lost() {
    let symbols = |text: &str| print(&stable(text)).split('(').next().unwrap().to_owned();
    assert_eq!(
        symbols("kernel @k(%x: in f32[B, A]) where C >= 1 {}"),
        "kernel @k"
    );
    assert_eq!(
        symbols("kernel @k<A, B>(%x: in f32[B, A]) {}"),
        "kernel @k<A, B>"
    );
    assert_eq!(
        symbols("kernel @k(%x: in f32[B]) { outer i < A }"),
        "kernel @k<B, A>"
    );
    assert_eq!(
        symbols("kernel @k<B, A>(%x: in f32[B]) {}"),
        "kernel @k<B, A>"
    );
    assert_eq!(
        symbols("kernel @k(%x: in f32[B]) where o >= -3 {}"),
        "kernel @k<B, o >= -3>"
    );
    assert_eq!(
        symbols("kernel @k<B, t = 2*B>(%x: in f32[t]) {}"),
        "kernel @k<B, t = 2*B>"
    );
    let mut dims = DimTable::new();
    dims.declare(SymbolicDimension::integer("o")).unwrap();
    expect_stable(&KernelBuilder::new("k", dims).finish().unwrap());
}

#[test]
fn sizes_are_as_simple_as_the_facts_allow() {
    let mut dims = DimTable::new();
    let (n, m) = (dims.symbol("N").unwrap(), dims.symbol("M").unwrap());
    let (eight, nine) = (dims.constant(8), dims.constant(9));
    let least = dims.min_of(&[n, nine]).unwrap();
    let predicate = Predicate::LessEqual(n, eight);
    dims.assume(ContractFact {
        predicate,
        origin: FactOrigin::Required("the caller".into()),
    })
    .unwrap();
    let mut b = KernelBuilder::new("k", dims);
    let x = b.buffer("x", Role::In, DType::F32, [least, m]);
    let (i, size) = (b.outer("i", least), b.size(least));
    let (other, index, zero) = (b.size(n), b.index(i), b.integer(0));
    let sum = b.apply(ScalarOp::Add, [size, other]);
    let twice = b.apply(ScalarOp::Mul, [sum, sum]);
    let load = b.load(x, [index, zero]);
    let value = b.cast(twice, DType::F32);
    let value = b.apply(ScalarOp::Add, [load, value]);
    b.map("s", [], value);
    let kernel = b.finish().unwrap();
    expect_stable(&kernel);
    assert_snapshot!(print(&kernel), @r"
    kernel @k(%x: in f32[N, M]) where N <= 8 {
      outer i < N
      s = { t0 = N + N; %x[i, 0] + f32(t0 * t0) }
    }
    ");
}

#[test]
fn invalid_names_are_changed_in_print() {
    let mut dims = DimTable::new();
    let (n, inf) = (dims.symbol("N").unwrap(), dims.symbol("inf").unwrap());
    let mut b = KernelBuilder::new("layer/1", dims);
    let x = b.buffer("in put", Role::In, DType::F32, [n]);
    let y = b.buffer("in put", Role::Out, DType::F32, [n, inf]);
    let i = b.outer("N", n);
    let j = b.axis("i/j", inf);
    let r = b.axis("t0", n);
    let (i, size) = (b.index(i), b.size(inf));
    let (rows, load) = (b.index(r), b.load(x, [i]));
    let row = b.cast(rows, DType::F32);
    let product = b.apply(ScalarOp::Mul, [row, load]);
    let square = b.apply(ScalarOp::Mul, [product, product]);
    let s = b.reduce("store", [], Reduction::Add, [r], square);
    let (s, j_index, size) = (b.local(s, []), b.index(j), b.cast(size, DType::F32));
    let value = b.apply(ScalarOp::Add, [s, size]);
    b.store([j], y, [i, j_index], value);
    let kernel = b.finish().unwrap();
    expect_stable(&kernel);
    assert_snapshot!(print(&kernel), @r"
    kernel @layer_1(%in_put: in f32[N], %in_put_1: out f32[N, inf]) {
      outer N_1 < N
      store_1 = reduce add[t0 < N] { t1 = f32(t0) * %in_put[N_1]; t1 * t1 }
      store %in_put_1[N_1, i_j < inf] = store_1 + f32(size(inf))
    }
    ");
}

#[test]
fn literals_of_every_dtype_round_trip_bit_for_bit() {
    let values: [ScalarValue; 16] = [
        f64::MIN_POSITIVE.into(),
        0.1_f64.into(),
        (-0.0_f32).into(),
        f32::from_bits(1).into(),
        f16::MIN_POSITIVE_SUBNORMAL.into(),
        f16::NEG_INFINITY.into(),
        bf16::from_f32(1.0 / 3.0).into(),
        i64::MIN.into(),
        i64::MAX.into(),
        i32::MIN.into(),
        i16::MIN.into(),
        i8::MIN.into(),
        u64::MAX.into(),
        u32::MAX.into(),
        u16::MAX.into(),
        u8::MAX.into(),
    ];
    for value in values {
        let mut b = KernelBuilder::new("k", DimTable::new());
        let node = b.literal(value);
        b.map("v", [], node);
        let kernel = read(&print(&b.finish().unwrap())).unwrap();
        let stage = kernel.stages().values().next().unwrap();
        assert_eq!(*kernel.node(stage.value), crate::form::Node::Literal(value));
    }
}

#[test]
fn kernels_are_serialised_as_text() {
    let kernel: Kernel =
        "kernel @k(%x: in f32[N], %y: out f32[N]) { outer i < N store %y[i] = %x[i] }"
            .parse()
            .unwrap();
    let json = serde_json::to_string(&kernel).unwrap();
    let again: Kernel = serde_json::from_str(&json).unwrap();
    assert_eq!(again.to_string(), kernel.to_string());
    let error = serde_json::from_str::<Kernel>("\"kernel\"")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("[E0101] expected a name such as `@main`, found the end of the text"),
        "{error}"
    );
    assert!(serde_json::from_str::<Kernel>("3").is_err());
}

#[test]
fn equal_calls_print_equally() {
    let mut b = KernelBuilder::new("k", DimTable::new());
    let x = b.number(0.5, DType::F32);
    let elu = Function::by_name("elu").unwrap();
    assert_eq!(b.call(elu, &[], [x]), b.call(elu, &[1.0], [x]));
}

#[test]
fn an_empty_guard_is_true() {
    let mut dims = DimTable::new();
    let n = dims.symbol("N").unwrap();
    let mut b = KernelBuilder::new("k", dims);
    let x = b.buffer("x", Role::In, DType::F32, [n]);
    let (zero, otherwise) = (b.integer(0), b.number(0.0, DType::F32));
    let value = b.literal(ScalarValue::I64(4));
    let axis = b.push_axis("j", Extent::Clamped { value, bound: n });
    let guard = Some(LoadGuard {
        inside: false,
        when: None,
        otherwise,
    });
    let load = b.push_load(Load {
        buffer: x,
        indices: [zero].into_iter().collect(),
        guard,
    });
    b.reduce("v", [], Reduction::Max, [axis], load);
    let kernel = b.finish().unwrap();
    expect_stable(&kernel);
    assert!(print(&kernel).contains("v = reduce max[j < clamp(4, N)] %x[0] if true else 0.0\n"));
}
