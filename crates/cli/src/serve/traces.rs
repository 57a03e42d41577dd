//! Sends spans of the server to a collector, in builds that support it.

use super::TraceArguments;
use crate::logging;
use anyhow::Error;

#[cfg(feature = "opentelemetry")]
mod sending {
    use super::*;
    use crate::report;
    use kiln_serve::{TraceOptions, Traces};
    use std::time::Duration;

    /// How long the last spans may take when the server ends.
    const LAST: Duration = Duration::from_secs(5);

    /// Spans on their way to a collector, if there is one.
    pub(crate) struct Sent(Option<Traces>);

    /// Starts sending, and logging.
    pub(crate) fn start(arguments: &TraceArguments) -> Result<Sent, Error> {
        let start = |url: &String| {
            Traces::start(&TraceOptions {
                sampled: arguments.trace_sample,
                ..TraceOptions::new(url)
            })
        };
        let traces = arguments.traces.as_ref().map(start).transpose()?;
        logging::start_beside(traces.as_ref().map(Traces::layer));
        Ok(Sent(traces))
    }

    impl Sent {
        /// Sends what is left.
        pub(crate) fn finish(self) {
            if self.0.is_some_and(|traces| !traces.shutdown(LAST)) {
                report::note("warning: the last spans could not be sent");
            }
        }
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod sending {
    use super::*;

    /// No spans are sent.
    pub(crate) struct Sent;

    /// Starts logging; sending is an error.
    pub(crate) fn start(arguments: &TraceArguments) -> Result<Sent, Error> {
        anyhow::ensure!(
            arguments.traces.is_none(),
            "this build sends no traces; build with the feature `opentelemetry` of kiln-cli"
        );
        let _ = arguments.trace_sample;
        logging::start();
        Ok(Sent)
    }

    impl Sent {
        /// Nothing is left.
        pub(crate) fn finish(self) {}
    }
}

pub(super) use sending::start;
