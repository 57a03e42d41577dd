//! Random graphs, fused and compiled at every level, compared with the interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::Unstructured;
use kiln_backend::KernelCompiler;
use kiln_codegen_llvm::LlvmCompiler;
use kiln_ir::{BlobMap, Graph, Op, text};
use kiln_lazy_runtime::Runtime;
use kiln_tensor::{DType, Tensor, match_dtype};
use kiln_testkit::generate::{
    Flavor, GraphOptions, input_shapes, input_tensors, random_graph, random_tensor,
};
use kiln_testkit::oracle::Unexplained;
use kiln_testkit::programs::{self, Compared, ProgramFinding, smallest};
use kiln_testkit::random::{SplitMix64, seeded_bytes};

/// How many sets of shapes each graph is run at.
const N_SHAPES: usize = 10;
/// The maximum total number of elements in the inputs of one call.
const MAX_ELEMENTS: usize = 1 << 14;

/// A runtime per level, each with a different number of threads.
pub(crate) fn runtimes() -> Vec<Arc<Runtime>> {
    let compiler: Arc<dyn KernelCompiler> = Arc::new(LlvmCompiler::new());
    programs::runtimes(&compiler, super::targets())
}

/// Ops that may add weights that apply to the same element before multiplying, which matters for non-finite elements.
const WEIGHTED: [&str; 1] = ["resize"];

/// Discontinuous ops: a small difference in an operand may be a large one in the result.
const JUMPS: [&str; 22] = [
    "cast",
    "floor",
    "ceil",
    "trunc",
    "round_even",
    "sign",
    "rem",
    "floor_mod",
    "floor_div",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "arg_pool",
    "arg_reduce",
    "top_k",
    "non_zero",
    "div",
    "recip",
    "log",
];

/// Whether a non-finite element differs legitimately: the weights that apply to one element may be added before or
/// after multiplying.
fn is_other_infinity(finding: &ProgramFinding) -> bool {
    let ProgramFinding::Output {
        source: Unexplained::Element {
            promoted, found, ..
        },
        ..
    } = finding
    else {
        return false;
    };
    !promoted.is_finite() && !found.is_finite()
}

/// Whether the constants of a graph are finite, and neither huge nor tiny.
fn constants_are_tame(graph: &Graph) -> bool {
    graph.ops().all(|(_, data)| {
        let Op::Constant(constant) = &data.op else {
            return true;
        };
        let tensor = constant.tensor();
        !tensor.dtype().is_float()
            || match_dtype!(tensor.dtype(), T => {
                let elements = tensor.to_vec::<T>().unwrap();
                elements.into_iter().all(|element| {
                    let size = kiln_scalar::ScalarValue::from(element).to_f64().abs();
                    size == 0.0 || (1e-6..=1e3).contains(&size)
                })
            })
    })
}

/// The results of some graphs.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) graphs: usize,
    /// The numbers of runs with outputs, and of runs that also fail in the interpreter.
    pub(crate) agreed: usize,
    pub(crate) failed: usize,
    pub(crate) broken: Vec<String>,
    /// Seeds of graphs whose outputs differ, possibly because rounding moved a value across a jump.
    pub(crate) unstable: BTreeMap<u64, String>,
}

impl Tally {
    /// Adds the results of other graphs.
    pub(crate) fn add(&mut self, other: Self) {
        self.graphs += other.graphs;
        self.agreed += other.agreed;
        self.failed += other.failed;
        self.broken.extend(other.broken);
        self.unstable.extend(other.unstable);
    }

    /// Fails if an output is wrong, or if more than one graph in a hundred is excused because of a jump.
    pub(crate) fn expect_right(&self) {
        assert!(
            self.broken.is_empty(),
            "{} graphs:\n{}",
            self.broken.len(),
            self.broken.join("\n\n")
        );
        assert!(
            self.unstable.len() <= 1 + self.graphs / 100,
            "too many jumps among {} graphs: {:?}",
            self.graphs,
            self.unstable.keys()
        );
    }
}

fn report(
    seed: u64,
    graph: &Graph,
    runtimes: &[Arc<Runtime>],
    fuse: bool,
    inputs: &[Tensor],
    what: &dyn std::fmt::Display,
) -> String {
    let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
    let part = smallest(graph, runtimes, fuse, inputs);
    let part = part.map_or_else(
        || "right when each value is the only output".to_owned(),
        |(part, finding)| format!("smallest: {finding}\n{}", text::print(&part)),
    );
    format!(
        "seed {seed}, fuse {fuse}, shapes {shapes:?}: {what}\n{}{part}",
        text::print(graph)
    )
}

pub(crate) fn check_seed(
    seed: u64,
    runtimes: &[Arc<Runtime>],
    tally: &mut Tally,
) -> Result<(), String> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    // Two thirds: continuous functions on f32. The rest: every op on every type.
    let smooth = seed % 3 != 2;
    let options = GraphOptions {
        max_ops: 12,
        smooth,
    };
    let graph = random_graph(&mut choices, &options).unwrap();
    if !smooth && !constants_are_tame(&graph) {
        // Whether a sum overflows depends on the order and the width of its additions.
        return Ok(());
    }
    let special = !graph
        .ops()
        .any(|(_, data)| WEIGHTED.contains(&data.op.mnemonic()));
    // A product of many factors may overflow, or become 0, in one order but not in another.
    let is_product =
        |text: &str| text.contains("function = product") || text.contains("combine = mul");
    let jumps = is_product(&text::print(&graph))
        || graph
            .ops()
            .any(|(_, data)| JUMPS.contains(&data.op.mnemonic()));
    let fuse = seed % 5 != 4;
    let compared = Compared::new(&graph, runtimes, fuse)
        .map_err(|finding| format!("seed {seed}: {finding}\n{}", text::print(&graph)))?;
    tally.graphs += 1;
    let mut random = SplitMix64::new(seed);
    for shape in 0..N_SHAPES {
        // Each call has separate random choices, since those of the graph run out.
        let bytes = seeded_bytes(random.next_u64(), 512);
        let mut choices = Unstructured::new(&bytes);
        let Some(shapes) = input_shapes(&mut choices, &graph).unwrap() else {
            break;
        };
        let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
        if shapes.iter().map(elements).sum::<usize>() > MAX_ELEMENTS {
            continue;
        }
        let flavor = match (smooth, shape % 2) {
            (true, _) => Flavor::Smooth,
            (false, 1) if special => Flavor::Special,
            (false, _) => Flavor::Small,
        };
        let inputs = input_tensors(&mut choices, &graph, &shapes, flavor).unwrap();
        match compared.check(&inputs) {
            Ok(true) => tally.agreed += 1,
            Ok(false) => tally.failed += 1,
            Err(finding) if !special && is_other_infinity(&finding) => {
                let report = report(seed, &graph, runtimes, fuse, &inputs, &finding);
                tally.unstable.insert(seed, report);
                break;
            }
            Err(finding @ ProgramFinding::Output { .. }) if !smooth && jumps => {
                // Different rounding may move a value across a jump, but rarely does.
                let report = report(seed, &graph, runtimes, fuse, &inputs, &finding);
                tally.unstable.insert(seed, report);
                break;
            }
            Err(finding) => {
                return Err(report(seed, &graph, runtimes, fuse, &inputs, &finding));
            }
        }
    }
    for runtime in runtimes {
        if runtime.stats().failures > 0 {
            let records = runtime.compile_records();
            let error = records.iter().find_map(|record| record.error.clone());
            return Err(format!(
                "a kernel that does not compile, by seed {seed}: {}\n{}",
                error.unwrap_or_default(),
                kiln_ir::text::print(&graph)
            ));
        }
    }
    Ok(())
}

/// Compares a graph over sizes `A` and `B`, of inputs that are all `f32`, with the interpreter at edges of both.
pub(crate) fn check_text(source: &str, runtimes: &[Arc<Runtime>]) -> Result<(), String> {
    let graph = kiln_shape_inference::read_graph(source, &BlobMap::new())
        .map_err(|errors| errors.render(source))?;
    for fuse in [true, false] {
        let compared = Compared::new(&graph, runtimes, fuse)
            .map_err(|finding| format!("{finding}\n{source}"))?;
        let mut random = SplitMix64::new(1);
        for sizes in [
            [7, 7],
            [1, 7],
            [7, 1],
            [1, 1],
            [0, 3],
            [17, 17],
            [33, 17],
            [2, 31],
        ] {
            let size = |&dim| {
                let dims = graph.dims();
                let named = |symbol| i64::from(dims.symbol_name(symbol) == "B");
                match dims.as_symbol(dim) {
                    Some(symbol) => sizes[named(symbol) as usize],
                    None => dims.as_constant(dim).unwrap() as usize,
                }
            };
            let input = |&value| {
                let shape: Vec<usize> = graph
                    .tensor_ty(value)
                    .unwrap()
                    .dims
                    .iter()
                    .map(size)
                    .collect();
                random_tensor(&mut random, DType::F32, &shape, Flavor::Smooth).unwrap()
            };
            let inputs: Vec<Tensor> = graph.inputs().iter().map(input).collect();
            compared
                .check(&inputs)
                .map_err(|finding| format!("{sizes:?}, fuse {fuse}: {finding}\n{source}"))?;
        }
    }
    Ok(())
}

/// Compares a graph with the interpreter on these inputs.
pub(crate) fn check_inputs(
    source: &str,
    runtimes: &[Arc<Runtime>],
    inputs: &[Tensor],
) -> Result<(), String> {
    let graph = kiln_shape_inference::read_graph(source, &BlobMap::new())
        .map_err(|errors| errors.render(source))?;
    for fuse in [true, false] {
        let compared = Compared::new(&graph, runtimes, fuse)
            .map_err(|finding| format!("{finding}\n{source}"))?;
        match compared.check(inputs) {
            Ok(true) => {}
            Ok(false) => return Err(format!("no outputs\n{source}")),
            Err(finding) => return Err(format!("fuse {fuse}: {finding}\n{source}")),
        }
    }
    Ok(())
}
