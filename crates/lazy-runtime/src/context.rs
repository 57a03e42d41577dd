//! One kernel for given sizes, compiled when it is first needed: [`LazyCompilationContext`].
#![allow(unsafe_code, reason = "a launch on memory of its own")]

use std::sync::Arc;
use std::time::Duration;

use kiln_backend::{Launch, LaunchContext, Memory, MemorySlice};
use kiln_fork_lock::ForkCell;
use kiln_kernel::{Role, VerifiedKernel};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{Tensor, element_count};

use crate::compile::{CompiledKernel, KernelIdentity};
use crate::error::RuntimeError;
use crate::runtime::{Runtime, binding_of};

/// A kernel with the values of its symbols, to be compiled and run on tensors.
#[derive(Debug)]
pub struct LazyCompilationContext {
    identity: Arc<KernelIdentity>,
    symbols: Vec<i64>,
    input_shapes: Vec<Vec<usize>>,
    output_shapes: Vec<Vec<usize>>,
    compiled: ForkCell<(Arc<CompiledKernel>, Duration)>,
}

impl LazyCompilationContext {
    /// A kernel with the values of its symbols, in the order of its table. Nothing is compiled yet.
    ///
    /// # Errors
    /// A size of a buffer that has no value, or is negative.
    pub fn new(kernel: &VerifiedKernel, symbols: &[i64]) -> Result<Self, RuntimeError> {
        let form = kernel.kernel();
        let binding = binding_of(kernel, symbols);
        let (mut input_shapes, mut output_shapes) = (Vec::new(), Vec::new());
        for buffer in form.buffers().values() {
            let sizes = buffer.shape.iter().map(|&dim| size(kernel, dim, &binding));
            let shape = sizes.collect::<Result<Vec<usize>, _>>()?;
            if buffer.role.is_written() {
                output_shapes.push(shape);
            } else {
                input_shapes.push(shape);
            }
        }
        Ok(Self {
            identity: Arc::new(KernelIdentity::of(kernel, kernel.name())),
            symbols: symbols.to_vec(),
            input_shapes,
            output_shapes,
            compiled: ForkCell::new(),
        })
    }

    /// What is computed: the kernel's name.
    pub fn operation(&self) -> &str {
        self.identity.name()
    }

    /// The shapes of the buffers that are only read, in order.
    pub fn input_shapes(&self) -> &[Vec<usize>] {
        &self.input_shapes
    }

    /// The shapes of the buffers that are written, in order.
    pub fn output_shapes(&self) -> &[Vec<usize>] {
        &self.output_shapes
    }

    /// Whether there is code.
    pub fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }

    /// The code, once it is there.
    pub fn kernel(&self) -> Option<&Arc<CompiledKernel>> {
        self.compiled.get().map(|(compiled, _)| compiled)
    }

    /// How long it took until the code was there; next to nothing if it was compiled before.
    pub fn compile_time(&self) -> Option<Duration> {
        self.compiled.get().map(|&(_, time)| time)
    }

    /// Compiles the kernel unless that was done.
    ///
    /// # Errors
    /// A kernel that does not compile.
    pub fn ensure_compiled(&self, runtime: &Runtime) -> Result<Arc<CompiledKernel>, RuntimeError> {
        if let Some((compiled, _)) = self.compiled.get() {
            return Ok(Arc::clone(compiled));
        }
        let begin = runtime.clock().now();
        let code = runtime.obtain_alone(&self.identity, &[&self.symbols]);
        let compiled = match code.into_iter().next() {
            Some(code) => code?,
            None => unreachable!("one was asked for"),
        };
        let time = runtime.clock().now().saturating_sub(begin);
        Ok(Arc::clone(
            &self.compiled.get_or_init(|| (compiled, time)).0,
        ))
    }

    /// Runs the kernel: `inputs` are the buffers that are only read, then for each `inout` buffer what it holds at
    /// first; the answer is what the written buffers hold afterwards.
    ///
    /// # Errors
    /// Tensors of other types than the kernel's buffers, a kernel that does not compile, a fault.
    pub fn execute(
        &self,
        runtime: &Runtime,
        inputs: &[Tensor],
    ) -> Result<Vec<Tensor>, RuntimeError> {
        let compiled = self.ensure_compiled(runtime)?;
        let (executor, form) = (runtime.executor(), self.identity.kernel.kernel());
        let failed = || RuntimeError::execute(format!("kernel @{}", self.operation()));
        let ctx = LaunchContext {
            symbols: &self.symbols,
            threads: executor.parallelism(),
            caches: executor.caches(),
        };
        let numbers = compiled.numbers(&ctx)?;
        let n_read = form
            .buffers()
            .values()
            .filter(|buffer| !buffer.role.is_written())
            .count();
        let (mut read, mut held) = (inputs.iter().take(n_read), inputs.iter().skip(n_read));
        let (mut shapes, mut written) = (self.input_shapes.iter(), self.output_shapes.iter());
        let mut memories: Vec<Memory> = Vec::with_capacity(form.buffers().len());
        for (position, buffer) in form.buffers().values().enumerate() {
            let is_written = buffer.role.is_written();
            let shape = if is_written {
                written.next()
            } else {
                shapes.next()
            };
            let shape = shape.map_or(&[][..], Vec::as_slice);
            if buffer.strides.is_some() {
                let problem = format!(
                    "expected row-major buffers, found strides of %{}",
                    buffer.name
                );
                return Err(RuntimeError::malformed(problem));
            }
            if buffer.role == Role::Out {
                let count = element_count(buffer.dtype, shape)
                    .map_err(RuntimeError::tensor(format!("%{}", buffer.name)))?;
                memories.push(
                    runtime
                        .alloc(count * buffer.dtype.size_in_bytes())
                        .map_err(failed())?,
                );
                continue;
            }
            let given = if is_written { held.next() } else { read.next() };
            let fits = |tensor: &&Tensor| tensor.dtype() == buffer.dtype && tensor.shape() == shape;
            let tensor = given.filter(fits).ok_or_else(|| {
                let expected = format!("{}{shape:?}", buffer.dtype);
                RuntimeError::malformed(format!(
                    "%{}: expected a tensor of {expected}",
                    buffer.name
                ))
            })?;
            let pack = compiled
                .artifact
                .packs
                .iter()
                .find(|spec| spec.buffer == position);
            memories.push(match pack {
                Some(spec) => executor.pack(tensor, spec).map_err(failed())?,
                // An upload may be the tensor's own memory, which nobody may write to.
                None if is_written => {
                    let own = tensor.copied();
                    let own = own.map_err(RuntimeError::tensor(format!("%{}", buffer.name)))?;
                    executor.upload(&own).map_err(failed())?
                }
                None => executor.upload(tensor).map_err(failed())?,
            });
        }
        let slice = |memory| MemorySlice {
            memory,
            offset: 0,
            bytes: memory.bytes(),
        };
        let buffers: Vec<MemorySlice<'_>> = memories.iter().map(slice).collect();
        let launch = Launch {
            buffers: &buffers,
            numbers: &numbers,
        };
        let mut execution = executor.begin();
        // SAFETY: every memory was made above for this launch alone, or is a tensor's that is only read.
        let launched = unsafe { execution.launch(&compiled.loaded, &launch) };
        launched.map_err(failed())?;
        if let Some(fault) = execution.finish().map_err(failed())? {
            let site = compiled
                .artifact
                .fault_sites
                .get(fault.site)
                .cloned()
                .unwrap_or_default();
            return Err(RuntimeError::kernel_fault(
                self.operation(),
                fault.cause,
                site,
            ));
        }
        let outputs = form.buffers().values().zip(&memories);
        let outputs = outputs.filter(|(buffer, _)| buffer.role.is_written());
        let outputs = outputs
            .zip(&self.output_shapes)
            .map(|((buffer, memory), shape)| {
                executor
                    .download(memory, 0, buffer.dtype, shape)
                    .map_err(failed())
            });
        outputs.collect()
    }
}

fn size(
    kernel: &VerifiedKernel,
    dim: kiln_symbolic_shape::DimId,
    binding: &Binding,
) -> Result<usize, RuntimeError> {
    let dims = kernel.kernel().dims();
    let what = || format!("{} of kernel @{}", dims.display(dim), kernel.name());
    let value = dims.evaluate(dim, binding);
    let value = value.map_err(|error| RuntimeError::Size {
        what: what(),
        error,
    })?;
    usize::try_from(value).map_err(|_| RuntimeError::Requirement {
        step: format!("kernel @{}", kernel.name()),
        message: "sizes of at least 0".to_owned(),
        predicate: format!("{} >= 0", dims.display(dim)),
        found: value.to_string(),
    })
}
