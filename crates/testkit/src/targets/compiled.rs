//! Graphs run as machine code, compared with the interpreter.

use std::sync::Arc;

use arbitrary::Unstructured;
use kiln_backend::{CallerOnly, KernelCompiler};
use kiln_ir::{Graph, Op, text};
use kiln_lazy_runtime::Runtime;
use kiln_tensor::Tensor;

use super::graphs::graph_of_text;
use super::{CHOICE_BYTES, fail_with};
use crate::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use crate::kernels::{BackwardPool, Plainest};
use crate::programs::{Compared, ProgramFinding, runtime, smallest};
use crate::random::SplitMix64;

/// The maximum number of ops of a compiled graph: a kernel takes milliseconds.
const OPS_LIMIT: usize = 40;

/// The maximum number of elements of all inputs of one call.
const ELEMENT_LIMIT: usize = 1 << 12;

/// The number of calls with sizes that the graph declares, and of calls with others.
const N_CALLS: usize = 3;

/// Bytes as choices and the text of a graph, or as choices for a random one: compiled with the fallback schedules and
/// with the best ones, it gives the interpreter's results at several sizes, and fails if the interpreter fails, with
/// the same code, also at sizes that do not fit.
pub fn run_compiled(compiler: &Arc<dyn KernelCompiler>, bytes: &[u8]) {
    let (head, tail) = bytes.split_at(bytes.len().min(CHOICE_BYTES));
    let is_text = tail.starts_with(b"graph");
    let mut choices = Unstructured::new(if is_text { head } else { bytes });
    // Continuous functions on f32, whose results are compared; or any op, whose results are compared where there are no
    // jumps.
    let smooth = !is_text && choices.ratio(2, 3).unwrap_or(true);
    let graph = if is_text {
        graph_of_text(tail)
    } else {
        let options = GraphOptions {
            max_ops: 10,
            smooth,
        };
        random_graph(&mut choices, &options).ok()
    };
    let Some(graph) = graph.filter(|graph| graph.ops().count() <= OPS_LIMIT) else {
        return;
    };
    let fuse = choices.ratio(4, 5).unwrap_or(true);
    let runtimes = runtimes(compiler);
    let compared = match Compared::new(&graph, &runtimes, fuse) {
        Ok(compared) => compared,
        // Values that are not tensors have neither kernels nor steps, and are rejected.
        Err(ProgramFinding::Plan(_)) => return,
        Err(finding) => fail_with(&format!("{finding}\n{}", text::print(&graph))),
    };
    let is_exact = smooth || !has_jumps(&graph);
    let mut random = SplitMix64::new(choices.arbitrary().unwrap_or_default());
    for call in 0..2 * N_CALLS {
        let Some(inputs) = inputs(&mut random, &graph, smooth, call >= N_CALLS) else {
            continue;
        };
        match compared.check_codes(&inputs) {
            Ok(_) => {}
            Err(ProgramFinding::Output { .. }) if !is_exact => {}
            Err(finding) => report(&graph, &runtimes, fuse, &inputs, &finding),
        }
    }
    for runtime in &runtimes {
        let records = runtime.compile_records();
        if let Some(error) = records.iter().find_map(|record| record.error.as_ref()) {
            fail_with(&format!("{error}\n{}", text::print(&graph)));
        }
    }
}

/// Inputs of sizes that the graph declares, or of arbitrary sizes on each axis.
fn inputs(
    random: &mut SplitMix64,
    graph: &Graph,
    smooth: bool,
    broken: bool,
) -> Option<Vec<Tensor>> {
    let bytes: Vec<u8> = (0..64)
        .flat_map(|_| random.next_u64().to_le_bytes())
        .collect();
    let mut choices = Unstructured::new(&bytes);
    let mut shapes = input_shapes(&mut choices, graph).ok()??;
    if broken {
        // One axis in three, so that one violation does not hide another.
        for size in shapes.iter_mut().flatten() {
            if random.below(3) == 0 {
                *size = [0, 1, 2, 3, 4, 5, 8, 17][random.below(8) as usize];
            }
        }
    }
    let elements = |shape: &Vec<usize>| shape.iter().copied().fold(1, usize::saturating_mul);
    if shapes.iter().map(elements).fold(0, usize::saturating_add) > ELEMENT_LIMIT {
        return None;
    }
    let flavor = if smooth {
        Flavor::Smooth
    } else {
        Flavor::Small
    };
    input_tensors(&mut choices, graph, &shapes, flavor).ok()
}

/// One runtime with the fallback schedules, and one with the best ones.
fn runtimes(compiler: &Arc<dyn KernelCompiler>) -> Vec<Arc<Runtime>> {
    let plain: Arc<dyn KernelCompiler> = Arc::new(Plainest(Arc::clone(compiler)));
    vec![
        runtime(&plain, compiler.host(), Arc::new(CallerOnly)),
        runtime(compiler, compiler.host(), Arc::new(BackwardPool::new(3))),
    ]
}

/// Whether a rounding may change results arbitrarily: ops with jumps, products of many elements, constants of any
/// magnitude.
fn has_jumps(graph: &Graph) -> bool {
    let continuous = [
        "add",
        "sub",
        "mul",
        "neg",
        "max",
        "min",
        "abs",
        "relu",
        "select",
        "transpose",
        "reshape",
        "broadcast",
        "concat",
        "slice",
        "pad",
        "constant",
        "iota",
        "dims",
        "gather",
        "tanh",
    ];
    let is_jump = |op: &Op, mnemonic: &str| match op {
        Op::Constant(constant) => constant.tensor().dtype().is_float(),
        _ => !continuous.contains(&mnemonic),
    };
    graph
        .ops()
        .any(|(_, data)| is_jump(&data.op, data.op.mnemonic()))
}

fn report(
    graph: &Graph,
    runtimes: &[Arc<Runtime>],
    fuse: bool,
    inputs: &[Tensor],
    finding: &ProgramFinding,
) -> ! {
    let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
    let part = smallest(graph, runtimes, fuse, inputs);
    let part = part.map_or_else(String::new, |(part, finding)| {
        format!("smallest: {finding}\n{}", text::print(&part))
    });
    fail_with(&format!(
        "{finding}\nfuse {fuse}, shapes {shapes:?}\n{}{part}",
        text::print(graph)
    ))
}
