//! Kiln and its peers on single operators, through the scripts of `benches/peers/ops`.
//!
//! What a run measured is recorded beside the scripts on request, and is what later runs are compared with.

use std::path::Path;

use anyhow::Result;

use super::peers::script;
use crate::build::release_command;
use crate::flags::BenchOptions;
use crate::step;

/// The recorded run.
const RECORD: &str = "benches/peers/ops/record.jsonl";
/// The page that shows it.
const PAGE: &str = "docs/book/src/reference/operator-speed.md";

/// Builds the `kiln` command, measures, prints; an error if an operator is slower than recorded and the comparison was
/// requested.
pub(crate) fn run(root: &Path, target: &Path, python: &Path, options: &BenchOptions) -> Result<()> {
    let kiln = release_command(root, target)?;
    let mut measure = script(root, python, "ops/main.py");
    measure.arg(kiln).args(&options.words);
    if options.check {
        measure.arg("--check").arg(root.join(RECORD));
    }
    if options.write {
        measure.arg("--json").arg(root.join(RECORD));
        measure.arg("--page").arg(root.join(PAGE));
    }
    step::run("operators beside peers", &mut measure)
}
