//! Tests of importing: what the graph computes, which sizes it keeps, and what is refused.

mod cases;
mod classic;
mod control;
mod edges;
mod extremes;
mod functions;
mod items;
mod limits;
mod net;
mod order;
mod refused;
mod shapes;
