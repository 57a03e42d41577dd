//! Decoding: generating text token by token, with a model whose caches are the states of a session.
//!
//! A thin layer over [`Session`](crate::Session): [`Decoder`] knows which inputs are tokens, positions and caches; it
//! creates the caches, grows them, and counts tokens. [`Sampler`] chooses tokens from logits, with a separate graph
//! that is compiled like any other. Both can be implemented with sessions and graphs alone.
//!
//! ```
//! use kiln::decode::{Decoder, Generation, Sampling};
//! use kiln::{Model, Source, Tensor};
//! use std::ops::ControlFlow;
//!
//! // The logits of a token are its row of `%table`; the cache has the tokens so far.
//! let text = "graph @toy(%tokens: i64[T], %at: i64[1], %cache.0: f32[C, 1]) -> (f32[1, 3], f32[C, 1]) {
//!   %table: f32[3, 3] = constant [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
//!   %last: i64[1] = constant [-1]
//!   %token = gather %tokens, %last {axis = 0}
//!   %logits = gather %table, %token {axis = 0}
//!   %rows = cast %tokens {to = f32}
//!   %column = reshape %rows {dims = [T, 1]}
//!   %next = update_slice %cache.0, %at, %column {axes = [0]}
//!   return \"logits\" = %logits, \"next.cache.0\" = %next
//! }";
//! let mut decoder = Decoder::new(&Model::load(Source::text(text))?, 16)?;
//! let generation = Generation::new(4).sampling(Sampling::greedy());
//! let mut seen = Vec::new();
//! let tokens = decoder.generate(&[0], &generation, |token| {
//!     seen.push(token);
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(tokens, [1, 2, 0, 1]);
//! assert_eq!(seen, tokens);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decoder;
mod generation;
mod roles;
mod sampler;
mod sampling;
mod sampling_graph;

pub use decoder::Decoder;
pub use generation::Generation;
pub use sampler::Sampler;
pub use sampling::Sampling;
