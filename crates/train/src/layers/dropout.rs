//! Dropout.

use crate::network::Network;
use kiln::{Tensor, Var};

impl Network {
    /// While [training](Network::is_training), sets each element of `x` to zero with probability `share` and divides
    /// the others by `1 - share`; otherwise returns `x`. Which elements are dropped depends only on the trainer's seed,
    /// the number of the step and the order of the dropouts.
    #[track_caller]
    pub fn dropout(&self, x: &Var, share: f64) -> Var {
        match self.random_key() {
            Some(key) if self.is_training() && share > 0.0 => {
                let number = self.next_dropout();
                let Ok(layer) = Tensor::from_slice(&[2], &[0_u64, number]) else {
                    unreachable!("a vector of two elements has two elements")
                };
                // A stream for each dropout of each step: the key's second element counts steps in its high bits.
                let key = &key + key.constant(&layer);
                x.dropout(&key, share)
            }
            _ => x.clone(),
        }
    }
}
