//! `kiln check`: checks whether an ONNX model can be used: its contents, operators without an importer, wrongly stated
//! types, requirements on sizes, memory, and steps that will be interpreted.
//!
//! The model is not run. If there are problems, the command reports all of them and exits with status 1.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Error, anyhow};
use clap::Args;
use kiln::internals::ir::{Graph, Op, Type, ValueId};
use kiln::internals::onnx::{self, ImportOptions};
use kiln::internals::symbolic_shape::{Binding, FactOrigin, Predicate, SymbolicDimension};
use kiln::{Device, Mode, Options, Source, diagnose};

use crate::importing::ImportArguments;
use crate::inputs::SizeArguments;
use crate::report::{self, Failures};

/// The number of listed conditions on sizes.
const NAMED_NEEDS: usize = 10;

/// Checks a model without running it.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// An ONNX model
    model: PathBuf,
    #[command(flatten)]
    sizes: SizeArguments,
    #[command(flatten)]
    importing: ImportArguments,
    /// Reject a model whose stated types its operators contradict or do not confirm
    #[arg(long)]
    strict: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let mut failures = Failures::default();
        let of_model = || report::OfModel::new(&self.model);
        let model = onnx::Model::load(&self.model)
            .map_err(kiln::Error::from)
            .with_context(of_model)?;
        self.contents(&model)?;
        let options = ImportOptions::new().mode(match self.strict {
            true => Mode::Strict,
            false => Mode::Lenient,
        });
        let options = self.importing.apply_to_import(options)?;
        let imported = match onnx::import_reporting(&model, &options) {
            Ok(imported) => imported,
            Err(error) => {
                if let onnx::Error::UnsupportedOperators { operators } = &error {
                    for operator in operators {
                        let nodes = operator.nodes.join(", ");
                        let more = if operator.nodes.len() < operator.count {
                            ", …"
                        } else {
                            ""
                        };
                        report::line(format!(
                            "operator {}: not supported, {} nodes: {nodes}{more}",
                            operator.operator, operator.count
                        ))?;
                    }
                }
                as_stated(&model)?;
                let error = Error::from(kiln::Error::from(error)).context(of_model());
                failures.add("import", &error);
                return Ok(failures);
            }
        };
        let graph = imported.graph;
        signature(&graph)?;
        report::line(format!(
            "operators: all are supported; {} core ops",
            n_ops(&graph)
        ))?;
        for wrong in &imported.wrong_types {
            report::line(wrong)?;
        }
        if imported.wrong_types.is_empty() {
            report::line("types: none is stated wrongly")?;
        }
        let (binding, said) = self.sizes(&graph)?;
        self.needs(&graph, &binding, &mut failures)?;
        memory(&graph, &binding, &said)?;
        self.steps(graph, &mut failures)?;
        Ok(failures)
    }

    /// The contents of the file.
    fn contents(&self, model: &onnx::Model) -> Result<(), Error> {
        let graph = model.graph();
        report::line(format!(
            "holds {} nodes, {} functions",
            graph.nodes().len(),
            model.functions().len()
        ))?;
        for (domain, version) in model.opsets().iter() {
            let domain = if domain.is_empty() { "ai.onnx" } else { domain };
            report::line(format!("uses {} version {version}", domain.escape_debug()))?;
        }
        Ok(())
    }

    /// A size for every symbol, and the same in words.
    fn sizes(&self, graph: &Graph) -> Result<(Binding, Vec<String>), Error> {
        let given = self.sizes.by_name();
        let dims = graph.dims();
        let names = dims.symbols().map(|symbol| dims.symbol_info(symbol).name());
        let names: BTreeSet<&str> = names.collect();
        if let Some(name) = given.keys().find(|name| !names.contains(name.as_str())) {
            let names: Vec<String> = names
                .iter()
                .map(|name| name.escape_debug().to_string())
                .collect();
            return Err(anyhow!(
                "--size {}: unknown dimension, expected one of: {}",
                name.escape_debug(),
                names.join(", ")
            ));
        }
        let mut binding = Binding::new();
        let mut said = Vec::new();
        for symbol in dims.symbols() {
            let info = dims.symbol_info(symbol);
            if dims.definition(symbol).is_some() {
                continue;
            }
            let size = match given.get(info.name()) {
                Some(&size) => size,
                None => example(info),
            };
            if !info.allows(size) {
                return Err(anyhow!(
                    "--size {}={size}: the model does not allow it",
                    info.name()
                ));
            }
            binding.set(symbol, size)?;
            said.push(format!("{}={size}", info.name().escape_debug()));
        }
        Ok((binding, said))
    }

    /// Requirements of operators on the sizes of a call, which are checked at the call. Sizes given by the user that
    /// violate them are a failure.
    fn needs(
        &self,
        graph: &Graph,
        binding: &Binding,
        failures: &mut Failures,
    ) -> Result<(), Error> {
        let dims = graph.dims();
        let mut seen = BTreeSet::new();
        let facts = dims.contract_facts().iter().filter_map(|fact| {
            let FactOrigin::Required(by) = &fact.origin else {
                return None;
            };
            // The requirement that sizes fit an i32 is not mentioned.
            if let Predicate::LessEqual(_, most) = fact.predicate
                && dims.as_constant(most) == Some(i64::from(i32::MAX))
            {
                return None;
            }
            let predicate = dims.display_predicate(&fact.predicate).to_string();
            seen.insert(predicate.clone())
                .then_some((fact, predicate, by))
        });
        let mut more = 0;
        for (index, (fact, predicate, by)) in facts.enumerate() {
            let is_violated = matches!(dims.holds(&fact.predicate, binding), Ok(false));
            if is_violated && !self.sizes.by_name().is_empty() {
                let sizes = self.sizes.texts().join(", ");
                let error = anyhow!("{sizes}: expected {predicate} (required by {by})");
                failures.add("sizes", &error);
            } else if index < NAMED_NEEDS {
                report::line(format!("each call checks: {predicate} (required by {by})"))?;
            } else {
                more += 1;
            }
        }
        match more {
            0 => Ok(()),
            more => report::line(format!("each call checks: {more} more")),
        }
    }

    /// The steps of a compiled call, and which of them are interpreted.
    fn steps(&self, graph: Graph, failures: &mut Failures) -> Result<(), Error> {
        let options = Options::new().device(Device::cpu());
        let explained = match options
            .load(Source::graph(graph))
            .and_then(|model| diagnose::explain(&model))
        {
            Ok(explained) => explained,
            Err(error) => {
                failures.add("compiled program", &error.into());
                return Ok(());
            }
        };
        report::line(format!(
            "compiled: {} steps, {} of them interpreted",
            explained.steps.len(),
            explained.count("interpret")
        ))?;
        for step in explained
            .steps
            .iter()
            .filter(|step| step.kind == "interpret")
        {
            let reason = step.reason.as_deref().unwrap_or("unknown reason");
            report::line(format!("interpreted: {}: {reason}", step.name))?;
        }
        Ok(())
    }
}

/// Inputs and outputs with the symbols that calls of the model use, as in `--size`.
fn signature(graph: &Graph) -> Result<(), Error> {
    let dims = graph.dims();
    let shown = |name: &str, value: ValueId| {
        let ty = match graph.ty(value) {
            Type::Tensor(ty) => format!("{}{}", ty.dtype, dims.describe(&ty.dims)),
            ty => ty.display(dims).to_string(),
        };
        format!("{}: {ty}", name.escape_debug())
    };
    for &input in graph.inputs() {
        let line = shown(&graph.input_name(input), input);
        report::line(format!("takes {line}"))?;
    }
    for (&output, name) in graph.outputs().iter().zip(graph.output_names()) {
        report::line(format!("gives {}", shown(name, output)))?;
    }
    Ok(())
}

/// The inputs of a model that cannot be imported, as its file states them.
fn as_stated(model: &onnx::Model) -> Result<(), Error> {
    for input in model.graph().required_inputs() {
        let ty = input.ty.as_ref();
        let ty = ty.map_or_else(|| "?".to_owned(), ToString::to_string);
        report::line(format!("takes {}: {ty}", input.name.escape_debug()))?;
    }
    Ok(())
}

/// The peak size of values alive at once, op by op; compiled code fuses ops and needs less.
fn memory(graph: &Graph, binding: &Binding, said: &[String]) -> Result<(), Error> {
    let dims = graph.dims();
    let bytes_of = |value: ValueId| -> Option<i64> {
        let ty = graph.tensor_ty(value)?;
        let sizes = ty.dims.iter().map(|&dim| dims.evaluate(dim, binding).ok());
        let elements = sizes
            .into_iter()
            .try_fold(1_i64, |all, size| all.checked_mul(size?))?;
        elements.checked_mul(i64::try_from(ty.dtype.size_in_bytes()).ok()?)
    };
    let Some(most) = most_alive(graph, bytes_of) else {
        return report::line("memory: unknown before a call");
    };
    let at = if said.is_empty() {
        String::new()
    } else {
        format!(" for --size {}", said.join(","))
    };
    report::line(format!(
        "memory: {} of constants; of values, op by op, at most {} at once{at}",
        megabytes(constant_bytes(graph)),
        megabytes(usize::try_from(most).unwrap_or(0))
    ))
}

fn n_ops(graph: &Graph) -> usize {
    let computes = |op: &Op| !matches!(op, Op::Constant(_));
    graph.ops().filter(|(_, data)| computes(&data.op)).count()
}

fn constant_bytes(graph: &Graph) -> usize {
    let ops = graph.ops();
    let bytes = ops.map(|(_, data)| match &data.op {
        Op::Constant(constant) => constant.tensor().byte_len(),
        _ => 0,
    });
    bytes.sum()
}

/// A size for a symbol: its likely value, or its minimum, but not 0.
fn example(symbol: &SymbolicDimension) -> i64 {
    let least = symbol.min().max(1);
    let mut sizes = least..least.saturating_add(4096);
    let small = sizes.find(|&size| symbol.allows(size));
    symbol.likely_value().or(small).unwrap_or(least)
}

/// The maximum total size of the values alive at once, each from its op to its last reader; excluding constants. `None`
/// where a size is unknown.
fn most_alive(graph: &Graph, bytes_of: impl Fn(ValueId) -> Option<i64>) -> Option<i64> {
    let ops = &graph.region(graph.body()).ops;
    let mut last_read: BTreeMap<ValueId, usize> = BTreeMap::new();
    for (index, &op) in ops.iter().enumerate() {
        for &operand in &graph.op(op).operands {
            last_read.insert(operand, index);
        }
    }
    for &output in graph.outputs() {
        last_read.insert(output, ops.len());
    }
    let mut ends: BTreeMap<usize, Vec<ValueId>> = BTreeMap::new();
    for (&value, &index) in &last_read {
        ends.entry(index).or_default().push(value);
    }
    let mut alive: BTreeMap<ValueId, i64> = BTreeMap::new();
    for &input in graph.inputs() {
        alive.insert(input, bytes_of(input)?);
    }
    let mut sum: i64 = alive.values().sum();
    let mut most = sum;
    for (index, &op) in ops.iter().enumerate() {
        let data = graph.op(op);
        if !matches!(data.op, Op::Constant(_)) {
            for &result in data
                .results
                .iter()
                .filter(|result| last_read.contains_key(*result))
            {
                let bytes = bytes_of(result)?;
                alive.insert(result, bytes);
                sum = sum.checked_add(bytes)?;
            }
        }
        most = most.max(sum);
        for value in ends.get(&index).into_iter().flatten() {
            sum -= alive.remove(value).unwrap_or(0);
        }
    }
    Some(most)
}

fn megabytes(bytes: usize) -> String {
    match bytes {
        0..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
