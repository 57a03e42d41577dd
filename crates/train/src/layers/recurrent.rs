//! Recurrent layers.

use crate::initial::Initial;
use crate::network::Network;
use kiln::{Step, Var};

impl Network {
    /// An LSTM layer over `x: [time, batch, inputs]`, from states of zero: all hidden states, `[time, batch, hidden]`. As PyTorch:
    /// `NAME.weight_ih_l0: [4 * hidden, inputs]`, `NAME.weight_hh_l0: [4 * hidden, hidden]`, `NAME.bias_ih_l0` and
    /// `NAME.bias_hh_l0: [4 * hidden]`, gates in the order input, forget, cell, output.
    #[track_caller]
    pub fn lstm(&self, name: &str, x: &Var, inputs: usize, hidden: usize) -> Var {
        let layer = self.within(name);
        let spread = Initial::Uniform((hidden.max(1) as f64).sqrt().recip());
        let gates = 4 * hidden;
        let of_input = layer.parameter("weight_ih_l0", &[gates, inputs], spread);
        let of_state = layer.parameter("weight_hh_l0", &[gates, hidden], spread);
        let input_bias = layer.parameter("bias_ih_l0", &[gates], spread);
        let state_bias = layer.parameter("bias_hh_l0", &[gates], spread);
        // The products with the inputs do not depend on the states, so one product serves all steps.
        let projected = x.matmul(of_input.transpose()) + (input_bias + state_bias);
        let of_state = of_state.transpose();
        let zero = x.scalar(0.0).broadcast_to([x.size(1), hidden.into()]);
        let results = projected.scan(&[&zero, &zero], &[&of_state], |row, states, captures| {
            let ([h, c], [of_state]) = (states, captures) else {
                unreachable!("a step gets the states and captures of the scan")
            };
            let sums = row + h.matmul(of_state);
            let gate = |index: usize| sums.slice(-1, index * hidden, (index + 1) * hidden);
            let kept = gate(1).sigmoid() * c;
            let c = kept + gate(0).sigmoid() * gate(2).tanh();
            let h = gate(3).sigmoid() * c.tanh();
            Step {
                states: vec![h.clone(), c],
                outputs: vec![h],
            }
        });
        match results.into_iter().nth(2) {
            Some(all) => all,
            None => unreachable!("a scan returns its states and outputs"),
        }
    }
}
