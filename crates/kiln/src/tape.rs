//! Gradients of eager calls: a tape that computes while it records.

use crate::compiled_graph::{CompiledGraph, GraphCompiler};
use crate::error::Error;
use crate::guard::guarded;
use kiln_autodiff::GradientRequest;
use kiln_ir::Graph;
use kiln_tensor::Tensor;
use kiln_trace::{Tape, TraceError, Var};
use std::fmt;
use std::sync::Arc;

/// Records eager calls, computes their gradients, and provides their graph for compilation.
///
/// Every op is computed when it is applied, one at a time, by the interpreter, for any dtype; sizes may change from
/// tape to tape. The recorded graph has symbolic sizes, so a [`GraphCompiler`] compiles the tapes of one program once,
/// for all sizes.
///
/// ```
/// use kiln::{GradientTape, GraphCompiler, Options, Tensor};
///
/// let compiler = GraphCompiler::new(Options::new());
/// for n in [2, 5] {
///     let tape = GradientTape::new();
///     let x = tape.watch("x", &Tensor::full(&[n], 3.0f64)?);
///     let loss = x.square().sum(..);
///     assert_eq!(tape.value(&loss)?.to_vec::<f64>()?, [9.0 * n as f64]);
///     assert_eq!(tape.gradients(&loss, &[&x])?[0].to_vec::<f64>()?, vec![6.0; n]);
///
///     let compiled = tape.compile(&compiler, &loss, &[&x])?;
///     let (outputs, gradients) = compiled.run(&tape.inputs())?;
///     assert_eq!(outputs[0].to_vec::<f64>()?, [9.0 * n as f64]);
///     assert_eq!(gradients[0].to_vec::<f64>()?, vec![6.0; n]);
/// }
/// assert_eq!(compiler.n_graphs(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct GradientTape(Tape);

impl GradientTape {
    /// An empty tape.
    pub fn new() -> Self {
        Self::named("tape")
    }

    /// An empty tape whose graph has a name.
    pub fn named(name: &str) -> Self {
        Self(Tape::new(name))
    }

    /// An input: a variable with this value, of which gradients can be taken. Names are the names of the graph's inputs.
    #[track_caller]
    pub fn watch(&self, name: &str, tensor: &Tensor) -> Var {
        self.0.input(name, tensor)
    }

    /// A constant.
    #[track_caller]
    pub fn constant(&self, tensor: &Tensor) -> Var {
        self.0.constant(tensor)
    }

    /// The value of a variable.
    ///
    /// # Errors
    /// The first mistake or fault of the tape, with its source line, once; E0888 for a variable that depends on it.
    #[track_caller]
    pub fn value(&self, variable: &Var) -> Result<Tensor, Error> {
        Ok(self.0.value(variable)?)
    }

    /// The values of the inputs, in the order in which they are [watched](Self::watch).
    pub fn inputs(&self) -> Vec<Tensor> {
        self.0.inputs()
    }

    /// The gradients of a scalar, such as a loss, with respect to variables, computed by the interpreter. They are recorded
    /// too, so gradients can be taken of gradients: see [`Var::gradients`].
    ///
    /// # Errors
    /// As [`value`](Self::value); E06xx if the variable cannot be differentiated.
    #[track_caller]
    pub fn gradients(&self, output: &Var, of: &[&Var]) -> Result<Vec<Tensor>, Error> {
        let gradients = output.gradients_of_all(of);
        let tensors = gradients.iter().map(|gradient| self.0.value(gradient));
        Ok(tensors.collect::<Result<_, TraceError>>()?)
    }

    /// The graph that computes these variables from the inputs, to be printed, drawn or loaded.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    #[track_caller]
    pub fn graph(&self, outputs: &[(&str, &Var)]) -> Result<Graph, Error> {
        Ok(self.0.graph(outputs)?)
    }

    /// A scalar and its gradients with respect to inputs, compiled together; from the compiler's cache if a tape with the same
    /// graph was compiled before.
    ///
    /// # Errors
    /// As [`value`](Self::value); E0889 if a variable is not an input; E06xx if the output cannot be differentiated.
    #[track_caller]
    pub fn compile(
        &self,
        compiler: &GraphCompiler,
        output: &Var,
        of: &[&Var],
    ) -> Result<Arc<CompiledGraph>, Error> {
        let inputs = self.0.input_positions(of)?;
        let recorded = self.0.recorded(&[("y0", output)])?;
        guarded("compiling a tape", || {
            compiler.compile_recorded(&recorded, &GradientRequest::of_scalar(0, &inputs))
        })
    }
}

impl Default for GradientTape {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for GradientTape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GradientTape({} ops)", self.0.n_ops())
    }
}
