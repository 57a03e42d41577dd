//! The planner interface: the facade combines fusion and program and passes them in, so that further plans can be built on
//! demand.

use std::error::Error;

use kiln_program::Program;
use kiln_symbolic_shape::FactSelection;

/// Plans one graph, any number of times.
pub trait Planner: Send + Sync {
    /// The program that depends on no facts other than these. Selecting all facts requests the main plan.
    ///
    /// # Errors
    /// Why there is no such plan.
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>>;
}
