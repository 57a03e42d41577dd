//! `kiln inspect`: a model at any stage: its graph as text, JSON or a drawing, then fusion, kernels, program, and the code
//! of each kernel.

use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::{Context, Error, bail};
use clap::Args;
use kiln::Model;
use kiln::diagnose::{self, Stage};
use kiln::internals::ir::text::{PrintOptions, print_with};
use kiln::internals::ir::{Graph, draw};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The stages of compiled code.
const CODE_STAGES: [&str; 3] = ["loops", "llvm", "asm"];

/// Shows a model.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    #[command(flatten)]
    model: ModelArguments,
    /// The stage to show: import, the name of a pass, optimized; fusion, kernels, program, loops, llvm or asm
    #[arg(long, value_name = "STAGE", default_value = "optimized")]
    stage: String,
    /// Show only the kernels with this name, at the stages kernels, loops, llvm and asm
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Write the graph in the DOT language instead of printing it
    #[arg(long, value_name = "FILE")]
    dot: Option<PathBuf>,
    /// Write the graph as an SVG image instead of printing it
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also print the metadata that came with the model
    #[arg(long)]
    metadata: bool,
    /// Print a summary as one JSON line
    #[arg(long)]
    json: bool,
}

/// The JSON summary of a graph.
#[derive(Serialize)]
struct Summary {
    name: String,
    stage: String,
    inputs: Vec<String>,
    outputs: Vec<String>,
    symbols: Vec<String>,
    /// The number of ops of each kind, including those of nested regions.
    ops: BTreeMap<&'static str, usize>,
    contract_facts: Vec<String>,
    plan_facts: Vec<String>,
    metadata: Vec<String>,
    stages: Vec<String>,
}

impl Inspect {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        let is_code = CODE_STAGES.contains(&self.stage.as_str());
        let (model, _) = self.model.load_with(&Bar::new(), |loading| {
            // Showing code requires compiling it, even in debug builds.
            if is_code {
                self.model.compile_for(loading);
            }
        })?;
        let stage = self.stage.parse::<Stage>();
        let graph = match stage {
            Ok(stage) if stage.is_graph() => diagnose::graph(&model, stage)?,
            _ => return self.beyond_graphs(&model, stage),
        };
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

    fn beyond_graphs(
        &self,
        model: &Model,
        stage: Result<Stage, kiln::Error>,
    ) -> Result<Failures, Error> {
        if self.dot.is_some() || self.svg.is_some() || self.json {
            bail!(
                "--dot, --svg and --json show graphs: stage {} is not one",
                self.stage
            );
        }
        let stage = stage?;
        let text = match &self.kernel {
            Some(name) => diagnose::inspect_kernel(model, stage, name)?,
            None => diagnose::inspect(model, stage)?,
        };
        report::line(text.trim_end())?;
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
            stages: Stage::all().iter().map(ToString::to_string).collect(),
        }
    }
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    report::note(format!("wrote {}", file.display()));
    Ok(())
}
