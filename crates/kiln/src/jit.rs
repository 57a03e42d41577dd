//! Functions compiled just in time: recorded at the first call, run as a model.

use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;
use crate::options::Options;
use crate::recording::building;
use crate::source::Source;
use kiln_fork_lock::ForkLock;
use kiln_lazy_runtime::CompilationStats;
use kiln_timing::Timing;
use kiln_trace::{ArgumentType, Arguments, Results, Signature, TraceFunction, Traced};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::MutexGuard;

/// Makes a function of [`Var`](crate::Var)s callable with tensors.
///
/// The function is recorded once per combination of dtypes and ranks of its arguments, at the first call with it; sizes
/// stay symbols. It takes one to eight variables and returns one, a tuple of up to four, an array or a vector.
///
/// ```
/// use kiln::{Tensor, Var};
///
/// let f = kiln::jit(|x: Var, w: Var, b: Var| (x.matmul(w) + b).relu());
/// let w = Tensor::from_slice(&[2, 1], &[1.0f32, -1.0])?;
/// let b = Tensor::from_slice(&[1], &[0.5f32])?;
/// for rows in [1, 4] {
///     let x = Tensor::full(&[rows, 2], 3.0f32)?;
///     let y = f.call([&x, &w, &b])?;
///     assert_eq!(y.to_vec::<f32>()?, vec![0.5; rows]);
/// }
/// assert_eq!(f.n_recordings(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn jit<A: Arguments, F: TraceFunction<A>>(function: F) -> Jit<F, A> {
    Jit {
        traced: Traced::new("jit", function),
        options: Options::new().with_one_recorder(),
        models: ForkLock::default(),
    }
}

/// A function compiled just in time; see [`jit`].
pub struct Jit<F, A> {
    traced: Traced<F, A>,
    options: Options,
    /// By the types of the arguments. Entries are only ever added, so a panic elsewhere leaves it valid.
    models: ForkLock<BTreeMap<Signature, Model>>,
}

impl<A: Arguments, F: TraceFunction<A>> Jit<F, A> {
    /// With a name, for graphs, reports and logs.
    ///
    /// ```
    /// let f = kiln::jit(|x: kiln::Var| -x).named("dxdt");
    /// assert_eq!(f.name(), "dxdt");
    /// ```
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            traced: self.traced.named(name),
            options: self.options,
            models: ForkLock::default(),
        }
    }

    /// With options, such as the device or the number of threads.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self {
            traced: self.traced.with_limits(options.limits.dims.clone()),
            options: options.with_one_recorder(),
            models: ForkLock::default(),
        }
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.traced.name()
    }

    /// The number of recordings: one per combination of dtypes and ranks of the arguments.
    pub fn n_recordings(&self) -> usize {
        self.lock().len()
    }

    /// Calls the function.
    ///
    /// # Errors
    /// When an op of the function does not match its operands (with the op's source line), when sizes do not match each
    /// other, and as [`Call::run`](crate::Call::run).
    pub fn call(&self, inputs: A::Tensors<'_>) -> Result<<F::Output as Results>::Tensors, Error> {
        let inputs = inputs.as_ref();
        let signature: Signature = inputs.iter().map(|input| ArgumentType::of(input)).collect();
        let model = self.model(&signature)?;
        let outputs = model.run(inputs.iter().copied().collect::<Inputs<'_>>())?;
        let n_outputs = outputs.len();
        F::Output::from_tensors(outputs.into_tensors()).ok_or_else(|| {
            Failure::Results {
                name: self.name().escape_debug().to_string(),
                found: n_outputs,
            }
            .into()
        })
    }

    /// The model for arguments of these types, recorded if needed: to be inspected, explained or profiled.
    ///
    /// # Errors
    /// When an op of the function does not match its operands, and as [`Model::load`].
    pub fn model(&self, signature: &[ArgumentType]) -> Result<Model, Error> {
        if let Some(model) = self.lock().get(signature) {
            return Ok(model.clone());
        }
        let graph = guarded("recording a function", || {
            let _time = building(self.timing(), "trace", "Recording a function as a graph");
            Ok(self.traced.graph(signature)?)
        })?;
        let model = self.options.load(Source::graph((*graph).clone()))?;
        let mut models = self.lock();
        let model = models.entry(signature.to_vec()).or_insert(model);
        Ok(model.clone())
    }

    /// What was compiled so far; see [`Model::compilation_stats`].
    pub fn compilation_stats(&self) -> CompilationStats {
        let model = self.lock().values().next().cloned();
        model.map_or_else(CompilationStats::default, |model| model.compilation_stats())
    }

    /// Where the time went, over all recordings; see [`Model::timing`].
    pub fn timing(&self) -> &Timing {
        self.options.timing()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Signature, Model>> {
        self.models.lock()
    }
}

impl<F, A> fmt::Debug for Jit<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({:?})", self.traced)
    }
}
