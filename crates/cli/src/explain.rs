//! `kiln explain`: the kernels of a model's graph, and why two of its ops were or were not fused.

mod near_misses;

use crate::inputs::InputArguments;
use crate::interrupts::run_interruptibly;
use crate::model::ModelArguments;
use crate::progress::Bar;
use crate::report::{self, Failures};
use anyhow::{Error, bail};
use clap::Args;
use kiln::{VariantOptions, diagnose};
use std::time::{Duration, Instant};

/// Explains a model.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    #[command(flatten)]
    model: ModelArguments,
    /// Explain why two ops were or were not fused; each is named by a value that it produces, or by its node in the
    /// source model
    #[arg(value_name = "OP", num_args = 0..=2)]
    ops: Vec<String>,
    /// Calls to make first, so that compiles are shown too; without any, the model is not called
    #[command(flatten)]
    inputs: InputArguments,
    /// Repeat each call for this many seconds, so that variants for its sizes are compiled and measured; variants are
    /// then enabled from the start
    #[arg(long, value_name = "SECONDS", value_parser = crate::bench::seconds)]
    variants: Option<Duration>,
    /// Instead, measure a call, and list pairs of steps that were not fused by the milliseconds that fusing them would
    /// save, with the fact about sizes that would allow it, if there is one
    #[arg(long, conflicts_with_all = ["ops", "variants"])]
    near_misses: bool,
}

impl Explain {
    pub(crate) fn run(self) -> Result<Failures, Error> {
        if self.near_misses {
            return near_misses::run(&self.model, &self.inputs);
        }
        let bar = Bar::new();
        let eager = self
            .variants
            .map(|_| VariantOptions::new().with_after(Duration::from_millis(1)));
        let (model, _) = self.model.load_with(&bar, |loading| {
            if eager.is_some() {
                loading.compiling.variants = eager;
            }
        })?;
        let mut failures = Failures::default();
        if self.variants.is_some() || !self.inputs.are_absent() {
            for call in self.inputs.calls()? {
                let done = call.inputs(&model).and_then(|inputs| {
                    let start = Instant::now();
                    loop {
                        run_interruptibly(model.call(&inputs))?;
                        if self.variants.is_none_or(|limit| start.elapsed() >= limit) {
                            return Ok(());
                        }
                    }
                });
                bar.finish();
                if let Err(error) = done {
                    failures.add(call.title(), &error);
                }
            }
        }
        let text = match self.ops.as_slice() {
            [] => diagnose::explain(&model)?.to_string(),
            [a, b] => diagnose::explain_pair(&model, a, b)?.to_string(),
            _ => bail!("expected two ops or none, found one: kiln explain MODEL [OP OP]"),
        };
        report::line(text.trim_end())?;
        Ok(failures)
    }
}
