//! The verifier: each rule violated once, and everything reported at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot continue panics"
)]

use insta::assert_snapshot;
use kiln_ir::{
    BlobMap, Combine, Constant, Graph, Indices, NewOp, Op, OpId, REGION_DEPTH_LIMIT,
    ReduceFunction, RegionId, Type, ValueId, VerifyErrors, text, verify,
};
use kiln_scalar::Function;
use kiln_symbolic_shape::{DimId, SymbolId};
use kiln_tensor::{DType, Tensor};
use smallvec::smallvec;

fn relu() -> Op {
    Op::map(Function::by_name("relu").unwrap())
}

/// `f32[B]` in, nothing else.
fn one_input() -> (Graph, ValueId, DimId) {
    let mut graph = Graph::new("g");
    let size = graph.dims_mut().symbol("B").unwrap();
    let x = graph.add_input("x", Type::tensor(DType::F32, [size]));
    (graph, x, size)
}

fn append(graph: &mut Graph, new: NewOp) -> OpId {
    let body = graph.body();
    graph.append(body, new)
}

fn errors(graph: &Graph) -> String {
    verify(graph).expect_err("the graph is broken").to_string()
}

/// The verifier's errors for a text that the reader accepts otherwise.
fn rejected(source: &str) -> String {
    match text::read(source, &BlobMap::new()) {
        Ok(_) => panic!("expected an error from {source}"),
        Err(errors) => errors.to_string(),
    }
}

#[test]
fn ids_outside_the_graph_are_reported() {
    let (mut graph, x, size) = one_input();
    let mut new = NewOp::new(
        relu(),
        [ValueId::from_u32(77)],
        [Type::tensor(DType::F32, [size])],
    );
    new.regions = smallvec![RegionId::from_u32(5)];
    new.symbols = smallvec![SymbolId::from_u32(9)];
    append(&mut graph, new);
    graph.set_outputs([("y", x)]);
    assert_snapshot!(errors(&graph), @"
    [E0201] op0 (relu, %1): value %77 is not in this graph
    [E0201] op0 (relu, %1): region region5 is not in this graph
    [E0201] op0 (relu, %1): symbol s9 is not in this graph
    ");

    let (mut graph, x, _) = one_input();
    append(
        &mut graph,
        NewOp::new(
            relu(),
            [x],
            [Type::tensor(DType::F32, [DimId::from_u32(99)])],
        ),
    );
    graph.set_outputs([("y", ValueId::from_u32(44))]);
    assert_snapshot!(errors(&graph), @"[E0201] region0: value %44 is not in this graph");
}

#[test]
fn values_are_defined_before_they_are_read() {
    let (mut graph, x, size) = one_input();
    let ty = Type::tensor(DType::F32, [size]);
    // The first op reads the second's result, which does not exist yet.
    append(
        &mut graph,
        NewOp::new(relu(), [ValueId::from_u32(2)], [ty.clone()]),
    );
    append(&mut graph, NewOp::new(relu(), [x], [ty]));
    graph.set_outputs([("y", x)]);
    assert_snapshot!(errors(&graph), @"[E0202] op0 (relu, %1): %2 is not defined before this point in this region; pass it in as an operand");
}

#[test]
fn a_region_cannot_read_outer_values() {
    let (mut graph, x, size) = one_input();
    let ty = Type::tensor(DType::F32, [size]);
    let condition = graph.add_input("c", Type::tensor(DType::Bool, []));
    let regions = [graph.add_region(), graph.add_region()];
    for region in regions {
        graph.set_results(region, [x]);
    }
    let mut new = NewOp::new(Op::If, [condition], [ty]);
    new.regions = regions.into_iter().collect();
    let id = append(&mut graph, new);
    let result = graph.op(id).results[0];
    graph.set_outputs([("y", result)]);
    assert_snapshot!(errors(&graph), @"
    [E0202] region1: %0 is not defined before this point in this region; pass it in as an operand
    [E0202] region2: %0 is not defined before this point in this region; pass it in as an operand
    ");
}

#[test]
fn regions_and_ops_have_one_owner() {
    let (mut graph, x, size) = one_input();
    let condition = graph.add_input("c", Type::tensor(DType::Bool, []));
    let region = graph.add_region();
    let parameter = graph.add_parameter(region, Type::tensor(DType::F32, [size]));
    graph.set_results(region, [parameter]);
    let _orphan = graph.add_region();
    let mut new = NewOp::new(Op::If, [condition, x], [Type::tensor(DType::F32, [size])]);
    new.regions = smallvec![region, region];
    let id = append(&mut graph, new);
    let result = graph.op(id).results[0];
    graph.set_outputs([("y", result)]);
    assert_snapshot!(errors(&graph), @"
    [E0211] region1: region region1 occurs in 2 places, expected one
    [E0211] region2: region region2 occurs in 0 places, expected one
    ");
}

#[test]
fn nesting_over_the_limit_is_an_error() {
    let nest = |depth: usize| {
        let mut graph = Graph::new("g");
        let bool_ty = Type::tensor(DType::Bool, []);
        let condition = graph.add_input("c", bool_ty.clone());
        let (mut region, mut value) = (graph.body(), condition);
        let mut enclosing = Vec::new();
        for _ in 0..depth {
            let regions = [graph.add_region(), graph.add_region()];
            let parameters = regions.map(|inner| graph.add_parameter(inner, bool_ty.clone()));
            graph.set_results(regions[1], [parameters[1]]);
            let mut new = NewOp::new(Op::If, [value, value], [bool_ty.clone()]);
            new.regions = regions.into_iter().collect();
            let id = graph.append(region, new);
            enclosing.push((region, graph.op(id).results[0]));
            (region, value) = (regions[0], parameters[0]);
        }
        graph.set_results(region, [value]);
        for &(region, result) in enclosing.iter().skip(1) {
            graph.set_results(region, [result]);
        }
        graph.set_outputs([("y", enclosing[0].1)]);
        verify(&graph)
    };
    assert_eq!(nest(REGION_DEPTH_LIMIT), Ok(()));
    assert_eq!(
        nest(REGION_DEPTH_LIMIT + 1).map_err(|errors| errors.code()),
        Err("E0205")
    );
    // Excessive nesting is an error too, not a stack overflow.
    assert_eq!(nest(20_000).map_err(|errors| errors.code()), Err("E0205"));
}

#[test]
fn wrong_operand_counts_and_kinds_are_errors() {
    let messages = [
        "graph @g(%x: f32[B]) -> f32[B] { %0: f32[B] = add %x return %0 }",
        "graph @g(%x: f32[B], %y: i64[B]) -> f32[B] { %0: f32[B] = add %x, %y return %0 }",
        "graph @g(%x: f32[B], %y: i64[B]) -> f32[B] { %0: f32[B] = gather %x, %x {axis = 0} return %0 }",
        "graph @g(%x: f32[B], %c: f32[]) -> f32[B] { %0: f32[B] = if %c, %x
           region(%a: f32[B]) { yield %a } region(%a: f32[B]) { yield %a } return %0 }",
        "graph @g(%x: f32[B], %c: bool[]) -> f32[B] { %0: f32[B] = if %c, %x
           region(%a: f32[B]) { yield %a } region(%a: i64[B]) { yield %a } return %0 }",
        "graph @g(%x: f32[B], %n: i64[], %c: bool[]) -> f32[B] { %0: f32[B] = loop %n, %c, %x {carried = 1}
           region(%i: i64[], %a: f32[B]) { yield %a } return %0 }",
        "graph @g(%x: f32[B]) -> f32[B, B] { %0: f32[B, B] = constant [] return %0 }",
        "graph @g(%x: f32[B]) -> f32[B] { bind %x -> (n) return %x }",
        "graph @g(%x: i8[M, K], %y: i8[K, N]) -> f32[M, N] { %0: f32[M, N] = matmul %x, %y {out = f32} return %0 }",
        "graph @g(%x: f32[M], %y: f32[M]) -> f32[M] {
           %0: f32[M] = pad %x, %y {low = [0], high = [0], mode = constant} return %0 }",
    ]
    .map(rejected)
    .join("\n");
    assert_snapshot!(messages, @"
    [E0203] op0 (add, %1): expected 2 operands, found 1
    [E0214] op0 (add, %2): `add` expects two numbers of one dtype, found f32, i64: convert with `cast`
    [E0206] op0 (gather, %2): operand 1: expected a tensor of integers, found f32[B]
    [E0206] op0 (if, %4): operand 0: expected a tensor of bool, found f32[]
    [E0207] op0 (if, %4): parameter 0: expected f32[B], found i64[B]
    [E0207] op0 (if, %4): result 0: expected f32[B], found i64[B]
    [E0203] op0 (loop, %5): expected 0 results, found 1
    [E0117] expected a constant of known sizes
    [E0206] op0 (bind): operand 0: expected a tensor of integers, found f32[B]
    [E0206] op0 (matmul, %2): operand 0: expected a tensor of f32, found a tensor of i8
    [E0206] op0 (matmul, %2): operand 1: expected a tensor of f32, found a tensor of i8
    [E0206] op0 (pad, %2): operand 1: expected a scalar, found a tensor of rank 1
    ");
}

#[test]
fn attributes_must_fit_the_operands() {
    let messages = [
        "graph @g(%x: f32[A, B]) -> f32[A, B] { %0: f32[A, B] = transpose %x {permutation = [0, 0]} return %0 }",
        "graph @g(%x: f32[A, B]) -> f32[A] { %0: f32[A] = reduce %x {function = sum, axes = [1, 1]} return %0 }",
        "graph @g(%x: f32[A, B]) -> f32[A] { %0: f32[A] = reduce %x {function = sum, axes = [2]} return %0 }",
        "graph @g(%x: f32[A]) -> f32[A] { %0: f32[A] = slice %x {starts = [0], sizes = [A], steps = [0]} return %0 }",
        "graph @g(%x: f32[A]) -> f32[A] { %0: f32[A] = slice %x {starts = [], sizes = [A], steps = [1]} return %0 }",
        "graph @g(%x: f32[A, B]) -> f32[A] { %0: f32[A] = broadcast %x {dims = [A]} return %0 }",
        "graph @g(%x: f32[A], %y: f32[A, A]) -> f32[A] { %0: f32[A] = concat %x, %y {axis = 0} return %0 }",
        "graph @g(%x: f32[A], %y: f32[A]) -> f32[A] { %0: f32[A] = matmul %x, %y return %0 }",
        "graph @g(%x: f32[N, C, W], %w: f32[O, C, 3]) -> f32[N, O, W] { %0: f32[N, O, W] = conv %x, %w
           {strides = [0], dilations = [1], low = [1], high = [1], groups = 1} return %0 }",
        "graph @g(%x: f32[N, C, W], %w: f32[O, C, 3]) -> f32[N, O, W] { %0: f32[N, O, W] = conv %x, %w
           {strides = [1], dilations = [1], low = [1], high = [1], groups = 0} return %0 }",
        "graph @g(%x: f32[N, C, W]) -> f32[N, C, W] { %0: f32[N, C, W] = pool %x
           {function = max, size = [0], strides = [1], dilations = [1], low = [1], high = [1]} return %0 }",
        "graph @g(%x: f32[N]) -> f32[M] { %0: f32[M] = resize %x {axes = [0], sizes = [M], scales = [-1.0],
           mode = linear, coordinates = half_pixel, rounding = floor, cubic_coefficient = -0.75} return %0 }",
        "graph @g(%x: f32[N]) -> f64[N] { %0: f64[N] = cast %x {to = f32} return %0 }",
        "graph @g(%x: i64[N, N]) -> i64[N, N] { bind %x -> (n) return %x }",
        "graph @g(%x: f32[N], %i: i64[], %u: f32[N]) -> f32[N] {
           %0: f32[N] = scatter_nd %x, %i, %u {combine = set} return %0 }",
    ]
    .map(rejected)
    .join("\n");
    assert_snapshot!(messages, @"
    [E0204] op0 (transpose, %1): attribute permutation: expected each of 2 axes once, found [0, 0]
    [E0204] op0 (reduce, %1): attribute axes: expected ascending axes, found [1, 1]
    [E0204] op0 (reduce, %1): attribute axes: axis 2 of a tensor of rank 2
    [E0204] op0 (slice, %1): attribute steps: expected steps that are not 0
    [E0204] op0 (slice, %1): attribute starts: expected 1 entries, found 0
    [E0204] op0 (broadcast, %1): attribute dims: expected at least 2 sizes, found 1
    [E0204] op0 (concat, %2): attribute axis: operands have ranks 1 and 2
    [E0204] op0 (matmul, %2): attribute out: expected operands of rank 2 or more, found 1 and 1
    [E0204] op0 (conv, %2): attribute strides: expected strides of at least 1
    [E0204] op0 (conv, %2): attribute groups: expected at least 1
    [E0204] op0 (pool, %1): attribute size: expected sizes of at least 1
    [E0204] op0 (resize, %1): attribute scales: expected finite scales of at least 0 (0: the quotient of the sizes)
    [E0210] op0 (resize, %1): symbol M has no value here; an input, region parameter or op must give it one first
    [E0204] op0 (cast, %1): attribute to: differs from the result's dtype
    [E0204] op0 (bind): attribute symbols: expected an operand of rank 0 or 1, found 2
    [E0204] op0 (scatter_nd, %3): attribute combine: expected indices of rank 1 or more, found a scalar
    ");
}

#[test]
fn symbols_must_be_bound_once_before_use() {
    let messages = [
        "graph @g(%x: f32[2*B]) -> f32[2*B] { return %x }",
        "graph @g(%x: f32[B], %n: i64[]) -> f32[B] { bind %n -> (B) return %x }",
        "graph @g(%x: f32[B], %n: i64[]) -> i64[1] { %0: i64[1] = dims {sizes = [m]} bind %n -> (m) return %0 }",
    ]
    .map(rejected)
    .join("\n");
    assert_snapshot!(messages, @"
    [E0210] %0: symbol B has no value here; an input, region parameter or op must give it one first
    [E0209] op0 (bind): symbol B is given a value twice
    [E0210] op0 (dims, %2): symbol m has no value here; an input, region parameter or op must give it one first
    [E0209] op1 (bind): symbol m is given a value twice
    ");
}

#[test]
fn duplicate_names_and_bad_constants_are_errors() {
    let (mut graph, x, size) = one_input();
    graph.add_input("x", Type::tensor(DType::F32, [size]));
    graph.set_outputs([("y", x), ("y", x)]);
    assert_snapshot!(errors(&graph), @r#"
    [E0212] graph: two inputs are named "x"
    [E0212] graph: two outputs are named "y"
    "#);

    let (mut graph, x, size) = one_input();
    let constant = Constant::new(Tensor::from_vec(&[2], vec![1_i32, 2]).unwrap()).unwrap();
    append(
        &mut graph,
        NewOp::new(
            Op::Constant(constant),
            [],
            [Type::tensor(DType::I32, [size])],
        ),
    );
    graph.set_outputs([("y", x)]);
    assert_snapshot!(errors(&graph), @"[E0213] op0 (constant, %1): the constant is i32[2], its result i32[B]");
}

#[test]
fn exceeded_graph_limits_are_typed_errors() {
    let mut graph = Graph::new("g");
    let one = graph.dims_mut().constant(1);
    let x = graph.add_input("x", Type::tensor(DType::F32, vec![one; 33]));
    let mut deep = Type::tensor(DType::F32, []);
    for _ in 0..9 {
        deep = Type::Sequence(Box::new(deep));
    }
    graph.add_input("s", deep);
    graph.set_outputs([("y", x)]);
    assert_snapshot!(errors(&graph), @"
    [E0205] %0: rank: 33 exceeds the limit of 32
    [E0205] %1: type nesting: 9 exceeds the limit of 8
    ");
}

#[test]
fn at_most_a_hundred_errors_are_kept() {
    let (mut graph, x, size) = one_input();
    for _ in 0..300 {
        append(
            &mut graph,
            NewOp::new(relu(), [], [Type::tensor(DType::F32, [size])]),
        );
    }
    graph.set_outputs([("y", x)]);
    assert_eq!(
        verify(&graph).map_err(|errors: VerifyErrors| errors.errors().len()),
        Err(kiln_ir::ERROR_LIMIT)
    );
}

#[test]
fn a_valid_graph_has_no_errors() {
    let source = "
graph @g(%x: f32[A, B], %i: i64[2, 1], %u: f32[2, B], %c: bool[]) -> (f32[A, B], f32[A, B]) {
  %0: f32[A, B] = scatter_nd %x, %i, %u {combine = add}
  %1: f32[A, B] = if %c, %0
    region(%a: f32[A, B]) { yield %a }
    region(%a: f32[A, B]) { %n: f32[A, B] = relu %a yield %n }
  return %0, %1
}";
    assert!(text::read(source, &BlobMap::new()).is_ok());
    let reduce = Op::Reduce {
        function: ReduceFunction::Sum,
        axes: Indices::new(),
        keep_dims: false,
    };
    assert!(reduce.is_pure() && !Op::If.is_pure());
    assert_ne!(
        Op::ScatterNd {
            combine: Combine::Add
        },
        Op::ScatterNd {
            combine: Combine::Set
        }
    );
}
