//! The text form: printed text reads back, and errors state their position.

use insta::assert_snapshot;
use kiln_ir::{BlobMap, Constant, Graph, NewOp, Op, Type, structural_hash, text};
use kiln_symbolic_shape::{ContractFact, FactOrigin, Predicate};
use kiln_tensor::{DType, Tensor};

/// Reads a graph, checks both laws on it, and returns its printed text.
fn reprint(source: &str) -> String {
    let graph = text::read(source, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(source)));
    let printed = text::print(&graph);
    let again = text::read(&printed, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(&printed)));
    assert_eq!(
        text::print(&again),
        printed,
        "printing what was read is a fixpoint"
    );
    assert_eq!(structural_hash(&again), structural_hash(&graph));
    printed
}

fn rejected(source: &str) -> String {
    match text::read(source, &BlobMap::new()) {
        Ok(_) => panic!("expected an error"),
        Err(errors) => errors.render(source),
    }
}

#[test]
fn a_small_graph_round_trips_as_text() {
    let source = "\
graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] where B >= 1, N % 8 == 0 {
  %h: f32[B, N] = matmul %x, %w
  %0: f32[B, N] = relu %h
  return %0
}
";
    // The output is named by its number, and callers may use that name.
    assert_snapshot!(reprint(source), @r#"
    graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] where B >= 1, N % 8 == 0 {
      %h: f32[B, N] = matmul %x, %w
      %0: f32[B, N] = relu %h
      return %0
    }
    "#);
}

#[test]
fn every_clause_and_kind_of_attribute_round_trips() {
    let source = r#"
graph @all(%x: f32[A, 4], %y: f32[B, 4], %0 "weird name:0": i64[3]) -> (f32[bcast(A, B), 4], bool[bcast(A, B), 4])
  let t = A * B + 1
  where n >= -9223372036854775808, A <= 512, t >= 2
  requires A * 4 == B * 4 by "reshape \"r\""
  plan A == B by "add"
  likely A == 7
  meta "key" = "two\nlines \u{1b}"
{
  %1: f32[bcast(A, B), 4] = add %x, %y from "node/one"
  %2: f32[bcast(A, B), 4] = leaky_relu %1 {alpha = 0.1}
  %c: f32[5] = constant [1.0, -0.0, inf, nan, 1e-45]
  %3: i64[2] = dims {sizes = [t, ceil(A / 3)]}
  bind %0 -> (n, m, k)
  %4: f32[bcast(A, B), 1] = reduce %2 {function = mean, axes = [1], keep_dims}
  %5: bool[bcast(A, B), 4] = lt %2, %1
  return "out:0" = %2, %5
}
"#;
    assert_snapshot!(reprint(source), @r#"
    graph @all(%x: f32[A, 4], %y: f32[B, 4], %0 "weird name:0": i64[3]) -> (f32[A, 4], bool[A, 4]) where n >= -9223372036854775808
      let t = A*B + 1
      where A <= 512, t >= 2
      requires 4*A == 4*B by "reshape \"r\""
      plan A == B by "add"
      likely A == 7
      meta "key" = "two\nlines \u{1b}"
    {
      %1: f32[A, 4] = add %x, %y from "node/one"
      %2: f32[A, 4] = leaky_relu %1 {alpha = 0.1}
      %c: f32[5] = constant [1.0, -0.0, inf, nan, 1e-45]
      %3: i64[2] = dims {sizes = [t, (A + 2) / 3]}
      bind %0 -> (n, m, k)
      %4: f32[A, 1] = reduce %2 {function = mean, axes = [1], keep_dims}
      %5: bool[A, 4] = lt %2, %1
      return "out:0" = %2, %5
    }
    "#);
}

#[test]
fn regions_round_trip() {
    let source = "
graph @powers(%trips: i64[], %x: f32[N]) -> (f32[N], f32[t, N]) {
  %on: bool[] = constant [true]
  %last: f32[N], %all: f32[t, N] = loop %trips, %on, %x, %x {carried = 1} -> (t)
    region(%i: i64[], %acc: f32[N], %factor: f32[N]) {
      %more: bool[] = constant [true]
      %next: f32[N] = if %more, %acc, %factor
        region(%a: f32[N], %b: f32[N]) { %m: f32[N] = mul %a, %b yield %m }
        region(%a: f32[N], %b: f32[N]) { yield %a }
      yield %more, %next, %next
    } from \"loop\"
  return %last, %all
}";
    assert_snapshot!(reprint(source), @r#"
    graph @powers(%trips: i64[], %x: f32[N]) -> (f32[N], f32[t, N]) {
      %on: bool[] = constant [true]
      %last: f32[N], %all: f32[t, N] = loop %trips, %on, %x, %x {carried = 1} -> (t)
        region(%i: i64[], %acc: f32[N], %factor: f32[N]) {
          %more: bool[] = constant [true]
          %next: f32[N] = if %more, %acc, %factor
            region(%a: f32[N], %b: f32[N]) {
              %m: f32[N] = mul %a, %b
              yield %m
            }
            region(%0: f32[N], %1: f32[N]) {
              yield %0
            }
          yield %more, %next, %next
        } from "loop"
      return %last, %all
    }
    "#);
}

#[test]
fn large_constants_print_as_digests_that_a_blob_map_resolves() {
    let constant = Constant::new(Tensor::from_vec(&[65], (0..65_u8).collect()).unwrap()).unwrap();
    let mut graph = Graph::new("g");
    let size = graph.dims_mut().constant(65);
    let op = NewOp::new(
        Op::Constant(constant.clone()),
        [],
        [Type::tensor(DType::U8, [size])],
    );
    let body = graph.body();
    let id = graph.append(body, op);
    let value = graph.op(id).results[0];
    graph.set_outputs([("c", value)]);
    let printed = text::print(&graph);
    assert!(
        printed.contains(&constant.digest().to_string()),
        "{printed}"
    );
    assert!(text::read(&printed, &BlobMap::new()).is_err());
    let mut blobs = BlobMap::new();
    blobs.insert(constant);
    assert_eq!(
        text::read(&printed, &blobs)
            .map(|graph| text::print(&graph))
            .unwrap(),
        printed
    );
}

#[test]
fn nan_payload_bits_are_kept() {
    let odd = Constant::new(Tensor::scalar(f32::from_bits(0x7fc0_0001))).unwrap();
    let mut graph = Graph::new("g");
    let body = graph.body();
    let id = graph.append(
        body,
        NewOp::new(
            Op::Constant(odd.clone()),
            [],
            [Type::tensor(DType::F32, [])],
        ),
    );
    let value = graph.op(id).results[0];
    graph.set_outputs([("c", value)]);
    let mut blobs = BlobMap::new();
    blobs.insert(odd.clone());
    let again = text::read(&text::print(&graph), &blobs).unwrap();
    let Some(Op::Constant(read)) = again.ops().map(|(_, data)| &data.op).next() else {
        panic!("one constant")
    };
    assert_eq!(*read, odd);
}

#[test]
fn errors_name_the_place() {
    let messages = [
        "graph @g(%x: f32[B]) -> f32[B] {\n  %0: f32[B] = frobnicate %x\n  return %0\n}",
        "graph @g(%x: f32[B]) -> f32[B] {\n  %0: f32[B] = relu %y\n  return %0\n}",
        "graph @g(%x: f32[B]) -> f32[B] {\n  %0 = relu %x\n  return %0\n}",
        "graph @g(%x: f32[B]) -> f32[B] {\n  %0: f32[B] = transpose %x\n  return %0\n}",
        "graph @g(%x: f32[B]) -> f32[B] {\n  %0: f32[B] = transpose %x {permutation = [1]}\n  return %0\n}",
        "graph @g(%x: f32[B]) -> f32[2] {\n  return %x\n}",
        "graph @g(%x: f32[B]) -> f32[B] where B >= 2, B <= 1 {\n  return %x\n}",
        "graph @g(%x: string[B]) -> f32[B] { return %x }",
        "graph @g(%x: f32[B], %x: f32[B]) -> f32[B] { return %x }",
        "graph @g() -> f32[2] { %0: f32[2] = constant [1.0, zwei] return %0 }",
        "graph @g() -> i8[1] { %0: i8[1] = constant [300] return %0 }",
        "graph @g(%x: f32[B]) -> f32[n] { %0: f32[n] = relu %x return %0 }",
        "graph @g(%x: f32[B]) -> f32[B] { return %x } trailing",
        "",
    ]
    .map(rejected)
    .join("\n\n");
    assert_snapshot!(messages, @"
    error[E0111]: unknown op frobnicate
     --> 2:16
    2 |   %0: f32[B] = frobnicate %x
      |                ^^^^^^^^^^^^^

    error[E0120]: %y is not defined before this point in this region
     --> 2:21
    2 |   %0: f32[B] = relu %y
      |                     ^^

    error[E0112]: expected a type on every result; read with shape inference to fill types in
     --> 2:8
    2 |   %0 = relu %x
      |        ^^^^^^^

    error[E0124]: transpose needs attribute permutation
     --> 3:3
    3 |   return %0
      |   ^

    error[E0204]: op0 (transpose, %1): attribute permutation: expected each of 1 axes once, found [1]

    error[E0113]: expected an output of type f32[2] as the header says, found f32[B]
     --> 3:2
    3 | }
      |  ^

    error[E0304]: B <= 1 contradicts what is known: B is in 2..
     --> 1:46
    1 | graph @g(%x: f32[B]) -> f32[B] where B >= 2, B <= 1 {
      |                                              ^^^^^^

    error[E0119]: dtype `string` is reserved for a later version
     --> 1:14
    1 | graph @g(%x: string[B]) -> f32[B] { return %x }
      |              ^^^^^^

    error[E0121]: %x is defined twice in this region
     --> 1:32
    1 | graph @g(%x: f32[B], %x: f32[B]) -> f32[B] { return %x }
      |                                ^

    error[E0117]: expected an element of f32, found zwei
     --> 1:46
    1 | graph @g() -> f32[2] { %0: f32[2] = constant [1.0, zwei] return %0 }
      |                                              ^^^^^^^^^^^

    error[E0117]: expected an element of i8, found 300
     --> 1:44
    1 | graph @g() -> i8[1] { %0: i8[1] = constant [300] return %0 }
      |                                            ^^^^^

    error[E0210]: op0 (relu, %1): symbol n has no value here; an input, region parameter or op must give it one first

    error[E0101]: expected the end of the text, found `trailing`
     --> 1:46
    1 | graph @g(%x: f32[B]) -> f32[B] { return %x } trailing
      |                                              ^^^^^^^^

    error[E0101]: expected `graph`, found the end of the text
     --> 1:1
    1 | 
      | ^
    ");
}

#[test]
fn names_do_not_change_the_structural_hash_but_inputs_and_outputs_do() {
    let hash = |source: &str| structural_hash(&text::read(source, &BlobMap::new()).unwrap());
    let plain = hash("graph @g(%x: f32[B]) -> f32[B] { %a: f32[B] = relu %x return \"y\" = %a }");
    let renamed = hash(
        "graph @h(%x: f32[B]) -> f32[B] { %b: f32[B] = relu %x from \"n\" return \"y\" = %b }",
    );
    let other_output =
        hash("graph @g(%x: f32[B]) -> f32[B] { %a: f32[B] = relu %x return \"z\" = %a }");
    let other_op = hash("graph @g(%x: f32[B]) -> f32[B] { %a: f32[B] = neg %x return \"y\" = %a }");
    assert_eq!(plain, renamed);
    assert_ne!(plain, other_output);
    assert_ne!(plain, other_op);
}

#[test]
fn sizes_made_before_a_fact_was_known_print_as_a_reader_makes_them() {
    let mut graph = Graph::new("main");
    let dims = graph.dims_mut();
    let (n, four) = (dims.symbol("N").unwrap(), dims.constant(4));
    let quarter = dims.floor_div(n, four).unwrap();
    let two = dims.constant(2);
    let x = graph.add_input("x", Type::tensor(DType::F32, [n]));
    let ty = Type::tensor(DType::F32, [quarter]);
    let op = NewOp::new(
        Op::Broadcast {
            dims: [quarter].into_iter().collect(),
        },
        [x],
        [ty],
    );
    let op = graph.append(graph.body(), op);
    graph.set_outputs([("y", graph.op(op).results[0])]);
    let before = structural_hash(&graph);
    let fact = ContractFact {
        predicate: Predicate::Equal(quarter, two),
        origin: FactOrigin::Declared,
    };
    graph.dims_mut().assume(fact).unwrap();
    let printed = text::print(&graph);
    assert!(
        printed.contains("f32[2] = broadcast %x {dims = [2]}"),
        "{printed}"
    );
    let again = text::read(&printed, &BlobMap::new()).unwrap();
    assert_eq!(text::print(&again), printed);
    assert_eq!(structural_hash(&again), structural_hash(&graph));
    assert_ne!(structural_hash(&graph), before);
}
