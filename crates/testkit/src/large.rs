//! Graphs that are large in one direction: long, wide or deep. And a thread with little stack.

use kiln_ir::{Graph, NewOp, Op, RegionId, Type, ValueId};
use kiln_scalar::Function;
use kiln_tensor::DType;

/// The stack of [`on_small_stack`], in bytes: enough for code that does not recurse over its input.
pub const SMALL_STACK: usize = 128 << 10;

/// Runs `work` on a thread with [`SMALL_STACK`] bytes of stack.
///
/// # Panics
/// As `work` does, and when no thread can be created.
pub fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|threads| {
        let thread = std::thread::Builder::new()
            .stack_size(SMALL_STACK)
            .spawn_scoped(threads, work);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => unreachable!("a thread can be had: {error}"),
        }
    })
}

/// `n` element-wise ops one after another on `x: f32[N]`, none of which can be eliminated.
pub fn chain(n: usize) -> Graph {
    let mut graph = vector_graph("chain");
    let body = graph.body();
    let mut value = graph.inputs()[0];
    for index in 0..n {
        let name = if index % 2 == 0 { "tanh" } else { "neg" };
        value = append(&mut graph, body, name, &[value]);
    }
    graph.set_outputs([("y", value)]);
    graph
}

/// `n` ops that all read the input `x: f32[N]`, and `n` ops that add up the results.
pub fn fan_out(n: usize) -> Graph {
    let mut graph = vector_graph("fan_out");
    let body = graph.body();
    let x = graph.inputs()[0];
    let leaves: Vec<ValueId> = (0..n)
        .map(|index| {
            // All different, or they would be merged.
            let slope = Op::Map {
                function: function("leaky_relu"),
                parameters: [index as f64 / n as f64].into_iter().collect(),
            };
            let ty = graph.ty(x).clone();
            let op = graph.append(body, NewOp::new(slope, [x], [ty]));
            graph.op(op).results[0]
        })
        .collect();
    let sum = leaves
        .into_iter()
        .reduce(|sum, leaf| append(&mut graph, body, "add", &[sum, leaf]));
    graph.set_outputs([("y", sum.unwrap_or(x))]);
    graph
}

/// `depth` nested `if`s, on `x: f32[N]` and `go: bool[]`.
pub fn nest(depth: usize) -> Graph {
    let mut graph = vector_graph("nest");
    let go = graph.add_input("go", Type::tensor(DType::Bool, []));
    let body = graph.body();
    let mut open = vec![(body, go, graph.inputs()[0])];
    for _ in 0..depth {
        let Some(&(_, go, x)) = open.last() else {
            break;
        };
        let (inner, types) = (
            graph.add_region(),
            [graph.ty(go).clone(), graph.ty(x).clone()],
        );
        let [inner_go, inner_x] = types.map(|ty| graph.add_parameter(inner, ty));
        open.push((inner, inner_go, inner_x));
    }
    // Built from the inside out: an op is appended after the ops of its regions.
    let mut inside: Option<RegionId> = None;
    for &(region, go, x) in open.iter().rev() {
        let result = match inside {
            None => append(&mut graph, region, "neg", &[x]),
            Some(then) => {
                let otherwise = graph.add_region();
                let types = [graph.ty(go).clone(), graph.ty(x).clone()];
                let [_, same] = types.clone().map(|ty| graph.add_parameter(otherwise, ty));
                graph.set_results(otherwise, [same]);
                let [_, ty] = types;
                let new = NewOp {
                    regions: [then, otherwise].into_iter().collect(),
                    ..NewOp::new(Op::If, [go, go, x], [ty])
                };
                let op = graph.append(region, new);
                graph.op(op).results[0]
            }
        };
        graph.set_results(region, [result]);
        inside = Some(region);
    }
    let results = graph.outputs().to_vec();
    graph.set_outputs(results.into_iter().map(|value| ("y", value)));
    graph
}

fn vector_graph(name: &str) -> Graph {
    let mut graph = Graph::new(name);
    let Ok(n) = graph.dims_mut().symbol("N") else {
        unreachable!("`N` is an identifier")
    };
    graph.add_input("x", Type::tensor(DType::F32, [n]));
    graph
}

fn append(graph: &mut Graph, region: RegionId, name: &str, operands: &[ValueId]) -> ValueId {
    let ty = graph.ty(operands[0]).clone();
    let op = NewOp::new(Op::map(function(name)), operands.iter().copied(), [ty]);
    let op = graph.append(region, op);
    graph.op(op).results[0]
}

fn function(name: &str) -> Function {
    match Function::by_name(name) {
        Some(function) => function,
        None => unreachable!("{name} is in the table"),
    }
}
