//! Time, injected: nothing here asks the system for it. The clock is that of `timing`.

pub use kiln_timing::Clock;
