//! `kiln inspect`: a model's graph after any stage, as text, JSON or a drawing.

use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::{Context, Error};
use clap::Args;
use kiln::Model;
use kiln::ir::text::{PrintOptions, print_with};
use kiln::ir::{Graph, draw};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Shows a model's graph.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    #[command(flatten)]
    model: ModelArguments,
    /// The stage to show: import, the name of a pass, or optimized
    #[arg(long, value_name = "STAGE", default_value = "optimized")]
    stage: String,
    /// Write the graph in the DOT language instead of printing it
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write the graph as an SVG picture instead of printing it
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the metadata that came with the model too
    #[arg(long)]
    metadata: bool,
    /// Print a summary as one JSON line
    #[arg(long)]
    json: bool,
}

/// What JSON says of a graph.
#[derive(Serialize)]
struct Summary {
    name: String,
    stage: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    symbols: Vec<String>,
    /// How many ops there are of each kind, those of nested regions included.
    ops: BTreeMap<&'static str, usize>,
    contract_facts: Vec<String>,
    plan_facts: Vec<String>,
    metadata: Vec<String>,
    stages: Vec<&'static str>,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let (model, _) = self.model.load(&Bar::new())?;
        let graph = model.stage(&self.stage)?;
        if let Some(file) = &self.dot {
            write(file, &draw::dot(&graph))?;
        }
        if let Some(file) = &self.svg {
            write(file, &draw::svg(&graph))?;
        }
        if self.json {
            report::line(serde_json::to_string(&self.summary(&model, &graph))?)?;
        } else if self.dot.is_none() && self.svg.is_none() {
            let options = PrintOptions {
                metadata: self.metadata,
                ..PrintOptions::full()
            };
            report::line(print_with(&graph, options).trim_end())?;
        }
        Ok(Failures::default())
    }

    fn summary(&self, model: &Model, graph: &Graph) -> Summary {
        let dims = graph.dims();
        let mut ops = BTreeMap::new();
        for (_, data) in graph.ops() {
            *ops.entry(data.op.mnemonic()).or_insert(0) += 1;
        }
        let facts = dims.contract_facts().iter();
        let plans = dims.plan_facts().iter();
        Summary {
            name: graph.name().to_owned(),
            stage: self.stage.clone(),
            inputs: model.inputs().iter().map(ToString::to_string).collect(),
            outputs: model.outputs().iter().map(ToString::to_string).collect(),
            symbols: dims
                .symbols()
                .map(|symbol| dims.symbol_info(symbol).name().to_owned())
                .collect(),
            ops,
            contract_facts: facts
                .map(|fact| dims.display_predicate(&fact.predicate).to_string())
                .collect(),
            plan_facts: plans
                .map(|fact| {
                    format!(
                        "{} == {}",
                        dims.display(fact.left),
                        dims.display(fact.right)
                    )
                })
                .collect(),
            metadata: model.metadata().keys().cloned().collect(),
            stages: model.stages(),
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    report::note(format!("wrote {}", file.display()));
    Ok(())
}
