//! Logs on standard error, configured by the environment variable `KILN_LOG`.

use std::io;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts logging; silent unless `KILN_LOG` is set. Every stage reports how long it took.
pub(crate) fn start() {
    let Ok(directives) = std::env::var("KILN_LOG") else {
        return;
    };
    match EnvFilter::try_new(&directives) {
        Ok(filter) => tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(io::stderr)
            .init(),
        Err(error) => crate::report::note(format!("warning: KILN_LOG is ignored: {error}")),
    }
}
