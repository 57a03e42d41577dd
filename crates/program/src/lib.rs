//! Programs as plain data: segments of steps, symbol binding, layouts, the memory plan.

#![forbid(unsafe_code)]
