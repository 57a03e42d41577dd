//! Time, injected: nothing below asks the system for it. The clocks are those of `timing`.

pub use kiln_timing::{Clock, SystemClock};
