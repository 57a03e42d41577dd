//! Layers over variables, as methods of [`Network`](crate::Network).
//!
//! Each layer takes a name; its parameters have the names and shapes of the same layer in PyTorch, so weight files can
//! be exchanged.

mod attention;
mod conv;
mod dropout;
mod linear;
mod norm;
mod recurrent;

pub use attention::AttentionSizes;
pub use conv::ConvSizes;
