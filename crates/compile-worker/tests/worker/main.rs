//! Workers as a parent meets them: what they make, how they fail, and what is left of them.

mod faults;
mod lifecycle;
mod results;
mod support;
