//! Time is injected: nothing below reads the system clock. The clock types are those of `timing`.

pub use kiln_timing::{Clock, SystemClock};
