//! Training with Kiln: a convenience, not a framework.
//!
//! A training step is one graph: forward, backward and the optimiser's update, recorded once from a function of variables,
//! compiled once for every batch size. Parameters and the optimiser's state are states of a [session](kiln::Session): they are
//! donated to the step and updated in place.
//!
//! | you want to | use |
//! |---|---|
//! | train a network | [`Trainer`] |
//! | describe one | [`Network`]: parameters and layers by name |
//! | read data in batches | [`data`] |
//! | a loss | [`losses`] |
//! | an optimiser | [`Sgd`], [`Adam`], [`AdamW`], or your own [`Optimizer`] |
//! | a learning rate that changes | [`Trainer::step_at`], [`schedules`] |
//! | initial values | [`Initial`] |
//! | train on several machines or threads | [`parallel`], [`TrainerBuilder::build_across`] |
//! | outputs of a trained network | [`Predictor`] |
//! | save and load parameters | [`Trainer::save`], [`Trainer::load`], [`weights`] |
//!
//! ```
//! use kiln::{DType, Tensor};
//! use kiln_train::{Adam, Trainer, losses};
//!
//! let mut trainer = Trainer::new("regression", Adam::default())
//!     .learning_rate(0.05)
//!     .input("x", DType::F32, ["B".into(), 2.into()])
//!     .input("y", DType::F32, ["B".into(), 1.into()])
//!     .build(|network, inputs| {
//!         let y = network.linear("out", &inputs[0], 2, 1);
//!         losses::mean_squared_error(&y, &inputs[1])
//!     })?;
//! let x = Tensor::from_slice(&[3, 2], &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
//! let y = Tensor::from_slice(&[3, 1], &[2.0f32, -1.0, 1.0])?;
//! let first = trainer.step([("x", &x), ("y", &y)])?;
//! let mut last = first;
//! for _ in 0..200 {
//!     last = trainer.step([("x", &x), ("y", &y)])?;
//! }
//! assert!(last < 0.01 * first);
//! assert_eq!(trainer.parameter("out.weight")?.shape(), [1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod error;
mod initial;
mod layers;
mod network;
mod optimizer;
mod predictor;
mod trainer;

pub mod data;
pub mod losses;
pub mod parallel;
pub mod schedules;
pub mod weights;

pub use error::TrainError;
pub use initial::Initial;
pub use layers::{AttentionSizes, ConvSizes};
pub use network::Network;
pub use optimizer::{Adam, AdamW, Optimizer, Sgd, Update, Updated};
pub use predictor::{Predictor, PredictorBuilder};
pub use trainer::{Trainer, TrainerBuilder};
