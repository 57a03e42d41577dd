//! Functions compiled just in time: recorded at the first call, and run as a model.

use crate::error::{Error, Failure};
use crate::gradients::Gradients;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;
use crate::options::Options;
use crate::outputs::Outputs;
use crate::recording::building;
use crate::source::Source;
use kiln_fork_lock::ForkLock;
use kiln_lazy_runtime::CompilationStats;
use kiln_tensor::Tensor;
use kiln_timing::Timing;
use kiln_trace::{ArgumentType, Arguments, AxisSize, Results, Signature, TraceFunction, Traced};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::MutexGuard;

/// Makes a function of [`Var`](crate::Var)s callable with tensors.
///
/// The function is recorded once per combination of dtypes and ranks of its arguments, at the first call with it; sizes
/// stay symbols. It takes one to twelve variables and returns one, a tuple of up to four, an array or a vector.
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
    /// Sets the name, which is used for graphs, reports and logs.
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

    /// Sets options, such as the device or the number of threads.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self {
            traced: self.traced.with_limits(options.limits.dims.clone()),
            options: options.with_one_recorder(),
            models: ForkLock::default(),
        }
    }

    /// Specifies the sizes of the axes of an argument, by its position: numbers, and names, which stand for the same
    /// size wherever they occur, including in [`Options::dim`]. Calls with other sizes, or a different number of axes,
    /// are rejected.
    ///
    /// ```
    /// use kiln::{Dim, Options, Tensor, Var};
    ///
    /// let scaled = kiln::jit(|x: Var, scale: Var| x * scale)
    ///     .with_sizes(0, ["batch".into(), "features".into()])
    ///     .with_sizes(1, ["features".into()])
    ///     .with_options(Options::new().dim("batch", Dim::range(1..=64)));
    /// let (x, scale) = (Tensor::full(&[2, 3], 2.0f32)?, Tensor::full(&[3], 0.5f32)?);
    /// assert_eq!(scaled.call([&x, &scale])?.to_vec::<f32>()?, [1.0; 6]);
    /// assert!(scaled.call([&x, &Tensor::full(&[1], 0.5f32)?]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn with_sizes(self, argument: usize, sizes: impl IntoIterator<Item = AxisSize>) -> Self {
        Self {
            traced: self.traced.with_sizes(argument, sizes),
            options: self.options,
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
        self.results(self.run(&inputs)?.into_tensors())
    }

    /// Calls the function and writes its results into `outputs`, one tensor per result, in place where its type and shape
    /// fit; see [`Call::run_into`](crate::Call::run_into).
    ///
    /// ```
    /// use kiln::{DType, Tensor, Var};
    ///
    /// let double = kiln::jit(|x: Var| &x + &x);
    /// let mut outputs = [Tensor::zeros(DType::F32, &[2])?];
    /// double.call_into([&Tensor::full(&[2], 1.5f32)?], &mut outputs)?;
    /// assert_eq!(outputs[0].to_vec::<f32>()?, [3.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`call`](Self::call), and when the number of tensors differs from the number of results.
    pub fn call_into(&self, inputs: A::Tensors<'_>, outputs: &mut [Tensor]) -> Result<(), Error> {
        let inputs = inputs.as_ref();
        let model = self.model_for(inputs)?;
        let inputs: Inputs<'_> = inputs.iter().copied().collect();
        model.call(inputs).run_into(outputs)
    }

    /// Runs the recording for these arguments.
    fn run(&self, inputs: &A::Tensors<'_>) -> Result<Outputs, Error> {
        let inputs = inputs.as_ref();
        let model = self.model_for(inputs)?;
        model.run(inputs.iter().copied().collect::<Inputs<'_>>())
    }

    fn model_for(&self, inputs: &[&Tensor]) -> Result<Model, Error> {
        let signature: Signature = inputs.iter().map(|input| ArgumentType::of(input)).collect();
        self.model(&signature)
    }

    /// The tensors as the function's results.
    fn results(&self, tensors: Vec<Tensor>) -> Result<<F::Output as Results>::Tensors, Error> {
        let found = tensors.len();
        F::Output::from_tensors(tensors).ok_or_else(|| {
            Failure::Results {
                name: self.name().escape_debug().to_string(),
                found,
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
        let (graph, options) = guarded("recording a function", || {
            let _time = building(self.timing(), "trace", "Recording a function as a graph");
            let recorded = self.traced.recorded(signature)?;
            let options = self.options.clone();
            // A custom gradient is known only to the recording.
            Ok(match &self.options.gradients {
                Some(gradients) if recorded.has_custom_gradients() => {
                    let gradients = gradients.apply_to(&recorded)?;
                    (gradients, options.without_gradients())
                }
                _ => ((**recorded.graph()).clone(), options),
            })
        })?;
        let model = options.load(Source::graph(graph))?;
        let mut models = self.lock();
        let model = models.entry(signature.to_vec()).or_insert(model);
        Ok(model.clone())
    }

    /// Counts of what was compiled so far; see [`Model::compilation_stats`].
    pub fn compilation_stats(&self) -> CompilationStats {
        let model = self.lock().values().next().cloned();
        model.map_or_else(CompilationStats::default, |model| model.compilation_stats())
    }

    /// Where the time went, over all recordings; see [`Model::timing`].
    pub fn timing(&self) -> &Timing {
        self.options.timing()
    }

    /// A function of the same arguments that returns the results and the gradients of the first result, a scalar such
    /// as a loss, with respect to each floating-point argument.
    ///
    /// ```
    /// use kiln::{Tensor, Var};
    ///
    /// let loss = |x: Var, w: Var, y: Var| (x.matmul(w) - y).square().mean(..);
    /// let step = kiln::jit(loss).value_and_grad();
    /// let x = Tensor::from_slice(&[2, 1], &[1.0f32, 2.0])?;
    /// let w = Tensor::from_slice(&[1, 1], &[3.0f32])?;
    /// let y = Tensor::from_slice(&[2, 1], &[1.0f32, 2.0])?;
    /// let (loss, gradients) = step.call([&x, &w, &y])?;
    /// assert_eq!(loss.to_vec::<f32>()?, [10.0]);
    /// assert_eq!(gradients[1].to_vec::<f32>()?, [10.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn value_and_grad(self) -> JitGradient<F, A> {
        let options = self.options.gradients(Gradients::of("y0"));
        JitGradient(Self {
            traced: self.traced,
            options,
            models: ForkLock::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Signature, Model>> {
        self.models.lock()
    }
}

/// A function that compiles itself together with its gradient; see [`Jit::value_and_grad`].
pub struct JitGradient<F, A>(Jit<F, A>);

impl<A: Arguments, F: TraceFunction<A>> JitGradient<F, A> {
    /// Computes gradients with respect to these arguments, by position, in this order.
    #[must_use]
    pub fn with_respect_to(self, arguments: &[usize]) -> Self {
        let names = arguments.iter().map(|argument| format!("x{argument}"));
        let gradients = Gradients::of("y0").with_respect_to(names);
        Self(Jit {
            options: self.0.options.gradients(gradients),
            ..self.0
        })
    }

    /// Calls the function: its results and the gradients.
    ///
    /// # Errors
    /// As [`Jit::call`]; E06xx if the function cannot be differentiated.
    pub fn call(
        &self,
        inputs: A::Tensors<'_>,
    ) -> Result<(<F::Output as Results>::Tensors, Vec<Tensor>), Error> {
        let gradients = self.0.options.gradients.as_ref();
        let n_gradients = gradients.map_or(0, |gradients| {
            gradients.count(inputs.as_ref().iter().map(|input| input.dtype()))
        });
        let mut tensors = self.0.run(&inputs)?.into_tensors();
        let gradients = tensors.split_off(tensors.len().saturating_sub(n_gradients));
        Ok((self.0.results(tensors)?, gradients))
    }

    /// The model for arguments of these types; see [`Jit::model`].
    ///
    /// # Errors
    /// As [`Jit::model`].
    pub fn model(&self, signature: &[ArgumentType]) -> Result<Model, Error> {
        self.0.model(signature)
    }
}

impl<F, A> fmt::Debug for JitGradient<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JitGradient({:?})", self.0.traced)
    }
}

impl<F, A> fmt::Debug for Jit<F, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jit({:?})", self.traced)
    }
}
