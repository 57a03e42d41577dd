//! Optimisers: an update of one parameter, recorded with the step.

use kiln::Var;

/// The inputs of an update.
#[derive(Debug)]
pub struct Update<'a> {
    /// The parameter.
    pub parameter: &'a Var,
    /// Its gradient.
    pub gradient: &'a Var,
    /// Its state tensors, of its shape, in the order of [`Optimizer::states`].
    pub states: &'a [Var],
    /// The learning rate: a scalar.
    pub rate: &'a Var,
    /// The number of this step, from 1: a scalar.
    pub step: &'a Var,
}

/// The result of an update.
#[derive(Debug)]
pub struct Updated {
    /// The new parameter.
    pub parameter: Var,
    /// The new state tensors.
    pub states: Vec<Var>,
}

/// A rule that updates parameters from gradients.
pub trait Optimizer {
    /// The names of the tensors that it keeps for each parameter. They have the parameter's shape and are initially
    /// zero.
    fn states(&self) -> &'static [&'static str];

    /// Records the update of one parameter.
    fn update(&self, update: &Update<'_>) -> Updated;
}

/// Stochastic gradient descent, with momentum as in PyTorch: `v = momentum * v + g; p = p - rate * v`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sgd {
    /// The fraction of the last update that is kept; with 0, there is no state.
    pub momentum: f64,
    /// The weight decay: the parameter times this number is added to the gradient.
    pub weight_decay: f64,
}

impl Sgd {
    /// With momentum.
    pub fn with_momentum(momentum: f64) -> Self {
        Self {
            momentum,
            ..Self::default()
        }
    }
}

impl Optimizer for Sgd {
    fn states(&self) -> &'static [&'static str] {
        if self.momentum == 0.0 {
            &[]
        } else {
            &["velocity"]
        }
    }

    fn update(&self, update: &Update<'_>) -> Updated {
        let gradient = decayed(update, self.weight_decay);
        let velocity = update
            .states
            .first()
            .map(|velocity| velocity * self.momentum + &gradient);
        let direction = velocity.as_ref().unwrap_or(&gradient);
        Updated {
            parameter: update.parameter - direction * update.rate,
            states: velocity.into_iter().collect(),
        }
    }
}

/// Kingma and Ba, "Adam" (2015).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay rate of the mean of gradients.
    pub beta1: f64,
    /// Decay rate of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root of that mean.
    pub epsilon: f64,
    /// The weight decay: the parameter times this number is added to the gradient.
    pub weight_decay: f64,
}

impl Default for Adam {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
        }
    }
}

impl Optimizer for Adam {
    fn states(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    fn update(&self, update: &Update<'_>) -> Updated {
        let gradient = decayed(update, self.weight_decay);
        let [mean, variance] = update.states else {
            unreachable!("a trainer gives the states that an optimiser names")
        };
        let mean = mean * self.beta1 + &gradient * (1.0 - self.beta1);
        let variance = variance * self.beta2 + gradient.square() * (1.0 - self.beta2);
        // 1 - beta^step: the bias correction of a mean that starts at zero.
        let unbiased = |beta: f64| -((update.step * beta.ln()).map("expm1"));
        // All that is the same for every element is computed once: an element takes one division.
        let spread = variance.sqrt() * unbiased(self.beta2).rsqrt() + self.epsilon;
        let rate = update.rate / unbiased(self.beta1);
        Updated {
            parameter: update.parameter - &mean * rate / spread,
            states: vec![mean, variance],
        }
    }
}

/// Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019): Adam with weight decay that is decoupled from
/// the gradient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The Adam update; its own weight decay is ignored.
    pub adam: Adam,
    /// The decoupled weight decay: this number times the parameter and the learning rate is subtracted from the
    /// parameter.
    pub weight_decay: f64,
}

impl Default for AdamW {
    fn default() -> Self {
        Self {
            adam: Adam::default(),
            weight_decay: 0.01,
        }
    }
}

impl Optimizer for AdamW {
    fn states(&self) -> &'static [&'static str] {
        self.adam.states()
    }

    fn update(&self, update: &Update<'_>) -> Updated {
        let adam = Adam {
            weight_decay: 0.0,
            ..self.adam
        };
        let Updated { parameter, states } = adam.update(update);
        let decay = update.parameter * update.rate * self.weight_decay;
        Updated {
            parameter: parameter - decay,
            states,
        }
    }
}

/// The gradient with weight decay added.
fn decayed(update: &Update<'_>, weight_decay: f64) -> Var {
    if weight_decay == 0.0 {
        return update.gradient.clone();
    }
    update.gradient + update.parameter * weight_decay
}
