//! Tests of importing: the graph's results, its sizes, and rejected models.

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
