//! Graphs as cases.

use std::collections::BTreeSet;

use kiln_fusion::{FusionOptions, FusionPlan, plan};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph, text, verify};
use kiln_passes::{Changed, PassContext, PassError, PassOptions, optimize};
use kiln_program::{BuildOptions, Program, RowMajor, build};
use kiln_shape_inference::check_types;
use kiln_symbolic_shape::{Binding, SymbolId};
use kiln_tensor::{DType, Tensor};

use super::form::{Engine, Form};
use super::literal;
use super::run::{Outcome, Run, Sizes};
use crate::generate::{random_tensor, shapes_under};
use crate::gradients::{self, GENERIC};
use crate::kernels::EDGE_SIZES;
use crate::programs::Compared;
use crate::random::SplitMix64;

/// The stages of a graph: with types filled in; optimised; the fusion plan; the resulting kernels and program. Also
/// `after PASS, PASS`: the graph after only these passes.
pub const GRAPH_STAGES: [&str; 5] = ["typed", "optimized", "fusion", "kernels", "program"];

/// The maximum total number of elements of the inputs of one call at `edges`.
const MAX_ELEMENTS: usize = 1 << 14;

/// A graph.
pub(super) struct GraphForm {
    graph: Graph,
}

impl GraphForm {
    pub(super) fn read(source: &str) -> Result<Self, String> {
        let graph = kiln_shape_inference::read_graph(source, &BlobMap::new());
        let graph = graph.map_err(|errors| errors.render(source))?;
        Ok(Self { graph })
    }

    fn optimized(&self) -> Result<Graph, String> {
        let graph = optimize(self.graph.clone(), &mut PassOptions::default());
        Ok(graph.map_err(|error| error.to_string())?.0)
    }

    fn plan(graph: &Graph) -> Result<FusionPlan, String> {
        plan(graph, &FusionOptions::new()).map_err(|error| error.to_string())
    }

    fn program(&self) -> Result<Program, String> {
        let graph = self.optimized()?;
        let plan = Self::plan(&graph)?;
        build(graph, &plan, &RowMajor, &BuildOptions::default()).map_err(|error| error.to_string())
    }

    /// The graph after some passes, each followed by the verifier and a check of types.
    fn after(&self, names: &str) -> Result<String, String> {
        let mut graph = self.graph.clone();
        let mut ctx = PassContext::new();
        for name in names.split(", ") {
            let pass =
                pass(name).ok_or_else(|| format!("expected the name of a pass, found `{name}`"))?;
            graph = pass(graph, &mut ctx)
                .map_err(|error| error.to_string())?
                .graph;
            verify(&graph).map_err(|errors| format!("after {name}: {errors}"))?;
            check_types(&graph).map_err(|errors| format!("after {name}: {errors}"))?;
        }
        Ok(text::print(&graph))
    }

    /// The symbols that are bound by the inputs' shapes.
    fn symbols(&self) -> Vec<SymbolId> {
        let (graph, dims) = (&self.graph, self.graph.dims());
        let all = graph
            .inputs()
            .iter()
            .flat_map(|&input| graph.ty(input).innermost().dims.iter());
        let symbols: BTreeSet<SymbolId> = all.filter_map(|&dim| dims.as_symbol(dim)).collect();
        symbols.into_iter().collect()
    }

    /// The bindings of a run.
    fn bindings(&self, run: &Run) -> Result<Vec<Binding>, String> {
        let (symbols, dims) = (self.symbols(), self.graph.dims());
        let rows: Vec<Vec<i64>> = match &run.sizes {
            Sizes::Edges => (0..EDGE_SIZES.len())
                .map(|round| edges(round, symbols.len()))
                .collect(),
            Sizes::Listed { names, rows } => {
                let place = |&symbol: &SymbolId| {
                    let name = dims.symbol_name(symbol);
                    let place = names.iter().position(|given| given == name);
                    place.ok_or_else(|| format!("expected a size of {name}"))
                };
                let places = symbols.iter().map(place).collect::<Result<Vec<_>, _>>()?;
                if places.len() < names.len() {
                    return Err(format!(
                        "expected sizes of the graph's symbols, found `{}`",
                        names.join(" ")
                    ));
                }
                let sorted = |row: &Vec<i64>| places.iter().map(|&place| row[place]).collect();
                rows.iter().map(sorted).collect()
            }
        };
        let mut bindings = Vec::new();
        for row in rows {
            let binding: Binding = symbols.iter().copied().zip(row.iter().copied()).collect();
            let is_listed = matches!(run.sizes, Sizes::Listed { .. });
            match dims.check(&binding) {
                Ok(()) => bindings.push(binding),
                Err(error) if is_listed => return Err(format!("at {row:?}: {error}")),
                Err(_) => {}
            }
        }
        Ok(bindings)
    }

    /// The inputs of a call; `None` if they have too many elements.
    fn inputs(
        &self,
        binding: &Binding,
        run: &Run,
        random: &mut SplitMix64,
    ) -> Result<Option<Vec<Tensor>>, String> {
        let graph = &self.graph;
        let Some(shapes) = shapes_under(graph, binding) else {
            return Err("expected inputs that are tensors of positive sizes".to_owned());
        };
        let elements: usize = shapes
            .iter()
            .map(|shape| shape.iter().product::<usize>())
            .sum();
        if elements > MAX_ELEMENTS && matches!(run.sizes, Sizes::Edges) {
            return Ok(None);
        }
        let names: Vec<String> = graph
            .inputs()
            .iter()
            .map(|&input| graph.input_name(input))
            .collect();
        if let Some((name, _)) = run.given.iter().find(|(name, _)| !names.contains(name)) {
            return Err(format!("expected the name of an input, found %{name}"));
        }
        let mut inputs = Vec::new();
        for ((&input, shape), name) in graph.inputs().iter().zip(&shapes).zip(&names) {
            let dtype = graph.ty(input).innermost().dtype;
            let given = run.given.iter().find(|(given, _)| given == name);
            let made = match (given, dtype) {
                (Some((_, text)), _) => literal::read(text, dtype, shape)?,
                (None, DType::I64) => {
                    let (low, high) = run.elements.indices;
                    let numbers =
                        (0..shape.iter().product()).map(|_| random.between(low, high - 1));
                    Tensor::from_vec(shape, numbers.collect()).map_err(|error| error.to_string())?
                }
                (None, dtype) => random_tensor(random, dtype, shape, run.elements.flavor)
                    .map_err(|error| error.to_string())?,
            };
            inputs.push(made);
        }
        Ok(Some(inputs))
    }

    fn results(&self, inputs: &[Tensor]) -> Result<Vec<(String, Tensor)>, String> {
        let outputs = interpret(&self.graph, inputs, &InterpretOptions::default());
        let outputs = outputs.map_err(|error| error.to_string())?;
        let names = self
            .graph
            .output_names()
            .iter()
            .map(|name| name.to_string());
        Ok(names.zip(outputs).collect())
    }
}

/// Edge sizes, different for each symbol.
fn edges(round: usize, n_symbols: usize) -> Vec<i64> {
    let steps = [1, 5, 7, 11];
    let pick = |symbol: usize| {
        EDGE_SIZES[(round * steps[symbol % steps.len()] + symbol) % EDGE_SIZES.len()]
    };
    (0..n_symbols).map(pick).collect()
}

type Pass = fn(Graph, &mut PassContext) -> Result<Changed<Graph>, PassError>;

macro_rules! passes {
    ($($pass:ident),+ $(,)?) => {
        &[$((stringify!($pass), kiln_passes::$pass)),+]
    };
}

const PASSES: &[(&str, Pass)] = passes![
    canonicalize,
    simplify_algebra,
    fold_constants,
    freeze_constants,
    resolve_bindings,
    inline_control_flow,
    hoist_from_loops,
    sink_constants,
    eliminate_common_subexpressions,
    eliminate_dead_ops,
];

fn pass(name: &str) -> Option<Pass> {
    PASSES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|&(_, pass)| pass)
}

impl Form for GraphForm {
    fn stage(&self, name: &str, _engine: &Engine) -> Result<Option<String>, String> {
        if let Some(names) = name.strip_prefix("after ") {
            return self.after(names).map(Some);
        }
        Ok(Some(match name {
            "typed" => text::print(&self.graph),
            "optimized" => text::print(&self.optimized()?),
            "fusion" => Self::plan(&self.optimized()?)?.to_string(),
            "kernels" => {
                let program = self.program()?;
                let kernels = program.kernels().values();
                let texts = kernels.map(|kernel| {
                    let named = kernel.kernel.kernel().clone().renamed(kernel.name.as_str());
                    kiln_kernel::text::print(&named)
                });
                texts.collect()
            }
            "program" => self.program()?.to_string(),
            _ => return Ok(None),
        }))
    }

    fn run(&self, run: &Run, engine: &Engine) -> Result<Vec<(String, Tensor)>, String> {
        if run.of_gradient {
            let bindings = self.bindings(run)?;
            let inputs = bindings.iter().zip(1..).map(|(binding, seed)| {
                let inputs = self.inputs(binding, run, &mut SplitMix64::new(seed))?;
                inputs.ok_or_else(|| "expected fewer elements".to_owned())
            });
            let joint = gradients::check(&self.graph, inputs, GENERIC)?;
            let run = Run {
                of_gradient: false,
                ..run.clone()
            };
            return Self { graph: joint }.run(&run, engine);
        }
        let runtimes = engine.runtimes();
        let mut results = Vec::new();
        for fuse in [true, false] {
            let compared = Compared::new(&self.graph, runtimes, fuse)
                .map_err(|finding| finding.to_string())?;
            let mut agreed = 0;
            for (seed, binding) in (1..).zip(&self.bindings(run)?) {
                let mut random = SplitMix64::new(seed);
                let Some(inputs) = self.inputs(binding, run, &mut random)? else {
                    continue;
                };
                let at = |what: &str| {
                    let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
                    format!("{what}\nat {shapes:?} (seed {seed}, fuse {fuse})")
                };
                let has_results = match run.outcome {
                    Outcome::Results => compared.check(&inputs),
                    Outcome::Some | Outcome::Faults => compared.check_codes(&inputs),
                };
                match (
                    has_results.map_err(|finding| at(&finding.to_string()))?,
                    run.outcome,
                ) {
                    (true, Outcome::Faults) => return Err(at("expected a fault, found results")),
                    (false, Outcome::Results) => return Err(at("expected results, found a fault")),
                    (has_results, _) => agreed += usize::from(has_results),
                }
                if run.has_results {
                    results = self.results(&inputs)?;
                }
            }
            if agreed == 0 && run.outcome != Outcome::Faults {
                return Err("expected a call that has results, found none".to_owned());
            }
        }
        for runtime in runtimes {
            let records = runtime.compile_records();
            if let Some(error) = records.iter().find_map(|record| record.error.as_ref()) {
                return Err(format!("a kernel that does not compile: {error}"));
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_of_the_pipeline_can_be_named() {
        for name in kiln_passes::pass_names() {
            assert!(pass(name).is_some(), "{name}");
        }
    }
}
