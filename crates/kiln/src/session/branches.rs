//! Branches of a session: further sessions that continue from the same states.

use super::Session;
use crate::error::Error;
use kiln_lazy_runtime::Donations;

impl Session {
    /// Another session that continues from these states: a beam of a search, or a conversation that shares its
    /// beginning with others. Both share the states' memory until one of them is called; that call writes its states to
    /// new memory, and later calls update them in place again. If all but one are dropped, the last one continues
    /// without a copy.
    ///
    /// # Errors
    /// `E0876` if a failed call left the elements of a state undefined.
    pub fn fork(&self) -> Result<Self, Error> {
        self.check_states()?;
        let mut inputs = vec![self.nothing.clone(); self.inputs.len()];
        for state in &self.states {
            inputs[state.input] = self.inputs[state.input].clone();
        }
        let pairs = self.states.iter().map(|state| (state.input, state.output));
        Ok(Self {
            model: self.model.clone(),
            inputs,
            outputs: vec![self.nothing.clone(); self.outputs.len()],
            states: self.states.clone(),
            donations: Donations::new(pairs)?,
            growth: self.growth.clone(),
            names: self.names.clone(),
            nothing: self.nothing.clone(),
        })
    }
}
