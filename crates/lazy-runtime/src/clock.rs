//! Time is injected: no code in this crate reads the system clock. The clock types are those of `timing`.

pub use kiln_timing::{Clock, SystemClock};
