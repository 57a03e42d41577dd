//! Who plans: the facade composes fusion and program, and hands that down, so that other plans can be made on demand.

use std::error::Error;

use kiln_program::Program;
use kiln_symbolic_shape::PlanFact;

/// Plans one graph, as often as it is asked.
pub trait Planner: Send + Sync {
    /// The program that assumes none of these facts. An empty list asks for the main plan.
    ///
    /// # Errors
    /// Why there is no such plan.
    fn plan(&self, without: &[PlanFact]) -> Result<Program, Box<dyn Error + Send + Sync>>;
}
