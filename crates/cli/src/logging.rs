//! Logs on standard error, configured by the environment variable `KILN_LOG`.

use std::io;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Identity, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Starts logging; silent unless `KILN_LOG` is set. Every stage reports how long it took.
pub(crate) fn start() {
    start_beside(None::<Identity>);
}

/// The same beside another layer, which listens whether or not there are logs.
pub(crate) fn start_beside(layer: Option<impl Layer<Registry> + Send + Sync>) {
    let filter = filter();
    if layer.is_none() && filter.is_none() {
        return;
    }
    let logs = filter.map(|filter| {
        fmt::layer()
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(io::stderr)
            .with_filter(filter)
    });
    tracing_subscriber::registry().with(layer).with(logs).init();
}

fn filter() -> Option<EnvFilter> {
    let directives = std::env::var("KILN_LOG").ok()?;
    match EnvFilter::try_new(&directives) {
        Ok(filter) => Some(filter),
        Err(error) => {
            crate::report::note(format!("warning: KILN_LOG is ignored: {error}"));
            None
        }
    }
}
