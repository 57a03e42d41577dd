//! One case: its model, its inputs and expected results, and a call on each backend.
//!
//! Inputs that must be known on import, such as axes, are made constants, as a caller would do.

use std::path::Path;

use anyhow::{Context, anyhow};
use kiln::internals::ir::Graph;
use kiln::internals::onnx::{self, ImportOptions};
use kiln::{Device, Inputs, Options, Passes, Source, Tensor, diagnose};

use crate::compare::{self, Tolerance};
use crate::verdict::{Answer, Outcome, Verdict};

/// The inputs and expected results of one call.
struct Data {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

/// An input or an expected result.
enum Value {
    Tensor(Tensor),
    Sequence(Vec<Tensor>),
    /// An optional without content.
    Nothing,
}

impl Value {
    fn tensors(&self) -> &[Tensor] {
        match self {
            Self::Tensor(tensor) => std::slice::from_ref(tensor),
            Self::Sequence(entries) => entries,
            Self::Nothing => &[],
        }
    }
}

/// Runs the case of a folder.
pub(crate) fn run(folder: &Path, tolerance: Tolerance) -> Answer {
    let mut answer = Answer {
        interpreted: Outcome::passed(),
        compiled: Outcome::passed(),
        fixed: false,
        interpreted_steps: 0,
    };
    let refused = |answer: &mut Answer, outcome: Outcome| {
        answer.interpreted = outcome.clone();
        answer.compiled = outcome;
    };
    let model = match onnx::Model::load(folder.join("model.onnx")) {
        Ok(model) => model,
        Err(error) => {
            refused(&mut answer, Outcome::of_error(&error.into()));
            return answer;
        }
    };
    // Without data, the import's result is still worth reporting.
    let sets = data_sets(folder, &model);
    let sets = match sets {
        Ok(sets) => sets,
        Err(error) => {
            let outcome = match onnx::import(&model, &ImportOptions::new()) {
                Err(refusal) => Outcome::of_error(&refusal.into()),
                Ok(_) => Outcome {
                    verdict: Verdict::Unsupported,
                    ..Outcome::failed(format!("{error:#}"))
                },
            };
            refused(&mut answer, outcome);
            return answer;
        }
    };
    for data in &sets {
        let (graph, named) = match import(&model, data, &mut answer.fixed) {
            Ok(imported) => imported,
            Err(outcome) => {
                refused(&mut answer, outcome);
                return answer;
            }
        };
        if answer.interpreted.verdict == Verdict::Passed {
            let options = Options::new()
                .device(Device::interpreter())
                .passes(Passes::None);
            answer.interpreted = call(graph.clone(), options, &named, &data.outputs, tolerance).0;
        }
        if answer.compiled.verdict == Verdict::Passed {
            let options = Options::new()
                .device(Device::cpu())
                .threads(1)
                .shared_kernels(false);
            let (outcome, steps) = call(graph, options, &named, &data.outputs, tolerance);
            answer.compiled = outcome;
            answer.interpreted_steps = answer.interpreted_steps.max(steps);
        }
    }
    answer
}

type Named<'a> = Vec<(String, &'a Tensor)>;

/// The graph, and its remaining inputs.
fn import<'a>(
    model: &onnx::Model,
    data: &'a Data,
    fixed: &mut bool,
) -> Result<(Graph, Named<'a>), Outcome> {
    let mut options = ImportOptions::new();
    let mut named: Named<'a> = Vec::new();
    for (input, value) in model.graph().required_inputs().zip(&data.inputs) {
        match value {
            Value::Tensor(tensor) => named.push((input.name.clone(), tensor)),
            Value::Sequence(entries) => {
                options = options.length(&input.name, entries.len());
                let entries = entries.iter().enumerate();
                named.extend(
                    entries.map(|(index, entry)| (format!("{}.{index}", input.name), entry)),
                );
            }
            Value::Nothing => options = options.absent(&input.name),
        }
    }
    for (name, tensor) in &named {
        options = options.rank(name, tensor.rank());
    }
    let first = match onnx::import(model, &options) {
        Ok(graph) => return Ok((graph, named)),
        Err(error) => error,
    };
    // If integers determine the result, they are what must be known on import; otherwise small tensors of any kind may be.
    for may_fix in [is_small_integers as fn(&Tensor) -> bool, is_small] {
        let mut options = options.clone();
        for (name, tensor) in named.iter().filter(|(_, tensor)| may_fix(tensor)) {
            options = options.fix(name, (*tensor).clone());
        }
        if let Ok(graph) = onnx::import(model, &options) {
            *fixed = true;
            let named = named.into_iter();
            return Ok((
                graph,
                named.filter(|(_, tensor)| !may_fix(tensor)).collect(),
            ));
        }
    }
    Err(Outcome::of_error(&first.into()))
}

fn is_small_integers(tensor: &Tensor) -> bool {
    tensor.rank() <= 1 && tensor.len() <= 64 && !tensor.dtype().is_float()
}

fn is_small(tensor: &Tensor) -> bool {
    tensor.rank() <= 1 && tensor.len() <= 64
}

/// Calls the model; returns the number of interpreted steps.
fn call(
    graph: Graph,
    options: Options,
    inputs: &Named<'_>,
    expected: &[Value],
    tolerance: Tolerance,
) -> (Outcome, usize) {
    let called = options.load(Source::graph(graph)).and_then(|model| {
        let named = inputs.iter().map(|(name, tensor)| (name, *tensor));
        let outputs = model.run(named.collect::<Inputs<'_>>())?;
        let steps = match model.device() {
            device if device == Device::cpu() => diagnose::explain(&model)?.count("interpret"),
            _ => 0,
        };
        Ok((outputs, steps))
    });
    let (outputs, steps) = match called {
        Ok(called) => called,
        Err(error) => return (Outcome::of_error(&error), 0),
    };
    let expected: Vec<&Tensor> = expected.iter().flat_map(Value::tensors).collect();
    if outputs.len() < expected.len() {
        let said = format!(
            "expected {} results, found {}",
            expected.len(),
            outputs.len()
        );
        return (Outcome::failed(said), steps);
    }
    let mut pairs = outputs.iter().zip(expected);
    let different = pairs.find_map(|((name, found), expected)| {
        compare::difference(name, found, expected, tolerance)
    });
    match different {
        None => (Outcome::passed(), steps),
        Some(difference) => (Outcome::failed(difference), steps),
    }
}

/// Every data set of the case, in order.
fn data_sets(folder: &Path, model: &onnx::Model) -> anyhow::Result<Vec<Data>> {
    let mut sets = Vec::new();
    loop {
        let data = folder.join(format!("test_data_set_{}", sets.len()));
        if !data.is_dir() {
            break;
        }
        sets.push(Data {
            inputs: values(&data, "input")?,
            outputs: values(&data, "output")?,
        });
    }
    let wanted = model.graph().required_inputs().count();
    match sets.iter().find(|data| data.inputs.len() < wanted) {
        Some(data) => Err(anyhow!(
            "expected {wanted} inputs, found {}",
            data.inputs.len()
        )),
        None => Ok(sets),
    }
}

fn values(folder: &Path, what: &str) -> anyhow::Result<Vec<Value>> {
    let mut values = Vec::new();
    loop {
        let path = folder.join(format!("{what}_{}", values.len()));
        values.push(if path.is_dir() {
            let mut entries = Vec::new();
            while let Some(entry) = tensor(&path.join(entries.len().to_string()))? {
                entries.push(entry);
            }
            Value::Sequence(entries)
        } else if path.with_extension("none").exists() {
            Value::Nothing
        } else {
            match tensor(&path)? {
                Some(tensor) => Value::Tensor(tensor),
                None => return Ok(values),
            }
        });
    }
}

/// The tensor of a file; `None` if there is none.
fn tensor(path: &Path) -> anyhow::Result<Option<Tensor>> {
    let file = path.with_extension("pb");
    if !file.exists() {
        return Ok(None);
    }
    let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(Some(onnx::read_tensor(&bytes)?.tensor()?.clone()))
}
