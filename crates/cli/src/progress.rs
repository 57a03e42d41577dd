//! A progress bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln::{Progress, Work};
use std::time::Duration;

/// A bar that follows a model's work. Cheap to clone; all clones share one bar.
#[derive(Clone)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar; hidden if standard error is not a terminal.
    pub(crate) fn new() -> Self {
        // The target hides itself when it is not a terminal.
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(spinner());
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        Self(bar)
    }

    /// Shows work that does not report its progress.
    pub(crate) fn begin(&self, what: &'static str) {
        if self.0.is_hidden() {
            return;
        }
        self.0.reset();
        self.0.set_style(spinner());
        self.0.set_message(what);
        self.0.enable_steady_tick(Duration::from_millis(120));
    }

    /// Shows the progress of the model's work.
    pub(crate) fn show(&self, progress: Progress<'_>) {
        if self.0.is_hidden() {
            return;
        }
        let what = match progress.work {
            Work::Import => "importing".to_owned(),
            Work::Optimize => format!("optimizing: {}", progress.step),
            Work::Plan => "planning".to_owned(),
            Work::Compile => format!("compiling: {} kernels, {}", progress.done, progress.step),
            Work::Run => "running".to_owned(),
            _ => progress.work.to_string(),
        };
        self.0.set_message(what);
        match progress.total.filter(|&total| total > 1) {
            Some(total) => {
                self.0.set_style(counter());
                self.0.set_length(total as u64);
                self.0.set_position(progress.done as u64);
            }
            None => self.0.set_style(spinner()),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

fn spinner() -> ProgressStyle {
    ProgressStyle::default_spinner()
}

fn counter() -> ProgressStyle {
    let style = ProgressStyle::with_template("{spinner} {msg} [{bar:30}] {pos}/{len} {elapsed}");
    style.unwrap_or_else(|_| spinner())
}
