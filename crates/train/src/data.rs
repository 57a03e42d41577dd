//! Training data: samples, and batches of them in a new order each epoch, prepared ahead of time on a thread.
//!
//! | you have | use |
//! |---|---|
//! | tensors with a sample axis | [`Tensors`] |
//! | a function that makes a sample | [`Samples`], with one that collates samples, such as [`stacked`] |
//! | anything else | your own [`Dataset`] |
//! | a dataset, to be read in batches | [`Loader`] |
//! | an iterator of samples, such as lines of a file | [`batches_of`], and [`ahead`] for a thread |
//!
//! Batches of every size run the same compiled step, so neither a smaller last batch nor batches of changing sizes cost
//! anything extra.
//!
//! ```
//! use kiln::Tensor;
//! use kiln_train::data::{Loader, Tensors};
//!
//! let x = Tensor::from_slice(&[5, 2], &[0.0f32; 10])?;
//! let y = Tensor::from_slice(&[5], &[0_i64, 1, 2, 3, 4])?;
//! let loader = Loader::new(Tensors::new([("x", x), ("y", y)])?, 2)?.shuffled(1).ahead(2);
//! let mut seen = Vec::new();
//! for batch in loader.epoch(0) {
//!     let batch = batch?; // trainer.step(&batch)?
//!     seen.extend(batch.get("y")?.to_vec::<i64>()?);
//! }
//! assert_eq!(loader.n_batches(), 3);
//! seen.sort();
//! assert_eq!(seen, [0, 1, 2, 3, 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod batch;
mod dataset;
mod loader;
mod stream;

pub use ahead::{Ahead, ahead};
pub use batch::{Batch, stacked};
pub use dataset::{Dataset, Mapped, Samples, Tensors};
pub use loader::{Epoch, Loader};
pub use stream::{BatchesOf, batches_of};
