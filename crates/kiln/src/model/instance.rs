//! A model built for given ranks: the graph as imported and as optimised.

use super::executable::Executable;
use super::source::Source;
use crate::error::{Error, Failure};
use crate::options::Options;
use crate::progress::Work;
use crate::recording::building;
use kiln_ir::Graph;
use kiln_passes::{PassOptions, optimize, pass_names};
use kiln_tensor::Tensor;
use std::collections::BTreeMap;

/// The stage before any pass.
const IMPORT: &str = "import";
/// The stage after all passes.
const OPTIMIZED: &str = "optimized";

/// What a call runs. The graphs share their constants, apart from those that passes made.
pub(super) struct Instance {
    imported: Graph,
    optimized: Graph,
    executable: Executable,
}

impl Instance {
    /// Imports and optimises.
    pub(super) fn build(
        source: &Source,
        ranks: &BTreeMap<String, usize>,
        options: &Options,
    ) -> Result<Self, Error> {
        options.listener.tell(Work::Import, IMPORT, 0, Some(1));
        let imported = {
            let _span = tracing::info_span!("kiln.import").entered();
            let _time = building(
                options.clockwork(),
                "import",
                "Turning a model into a graph",
            );
            source.graph(ranks, options)?
        };
        options.listener.tell(Work::Import, IMPORT, 1, Some(1));
        let optimized = if options.passes {
            let _span = tracing::info_span!("kiln.optimize").entered();
            let _time = building(options.clockwork(), "passes", "Passes over the graph");
            let mut done = 0;
            run_passes(imported.clone(), options, &mut |pass, _| {
                done += 1;
                options.listener.tell(Work::Optimize, pass, done, None);
            })?
        } else {
            imported.clone()
        };
        options.listener.tell(Work::Optimize, OPTIMIZED, 1, Some(1));
        let executable = Executable::build(&optimized, options)?;
        Ok(Self {
            imported,
            optimized,
            executable,
        })
    }

    /// Runs on inputs in the graph's order.
    pub(super) fn run(&self, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
        self.executable.run(&self.optimized, inputs, options, None)
    }

    pub(super) fn executable(&self) -> &Executable {
        &self.executable
    }

    pub(super) fn imported(&self) -> &Graph {
        &self.imported
    }

    pub(super) fn optimized(&self) -> &Graph {
        &self.optimized
    }

    /// The graph after a stage; of several runs of a pass, after the last.
    pub(super) fn stage(&self, name: &str, options: &Options) -> Result<Graph, Error> {
        match name {
            IMPORT => return Ok(self.imported.clone()),
            OPTIMIZED => return Ok(self.optimized.clone()),
            _ if stages().contains(&name) => {}
            _ => {
                let name = name.escape_debug().to_string();
                return Err(Failure::UnknownStage {
                    name,
                    expected: stages().join(", "),
                }
                .into());
            }
        }
        let mut last = None;
        run_passes(self.imported.clone(), options, &mut |pass, graph| {
            if pass == name {
                last = Some(graph.clone());
            }
        })?;
        // A pass that these options leave out changes nothing.
        Ok(last.unwrap_or_else(|| self.imported.clone()))
    }
}

/// The names of all stages in order.
pub(super) fn stages() -> Vec<&'static str> {
    [IMPORT]
        .into_iter()
        .chain(pass_names())
        .chain([OPTIMIZED])
        .collect()
}

fn run_passes(
    graph: Graph,
    options: &Options,
    seen: &mut dyn FnMut(&str, &Graph),
) -> Result<Graph, Error> {
    let mut pass_options = PassOptions {
        freeze: options.freeze,
        dump: Some(seen),
        ..PassOptions::default()
    };
    let (graph, report) = optimize(graph, &mut pass_options)?;
    tracing::debug!(
        rounds = report.rounds,
        rewrites = report.rewrites(),
        "passes done"
    );
    Ok(graph)
}
