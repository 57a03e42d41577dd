//! Time is injected: nothing here reads the system clock. The clock type is that of `timing`.

pub use kiln_timing::Clock;
