//! The complete CUDA C source of a kernel: the prelude, the launch's words, the functions.

use std::fmt::Write as _;

use kiln_backend::{Phase, Quantity};

use super::function::Function;
use super::lowering::Lowering;
use crate::container::{Entry, FIXED_WORDS, MAX_PARAMETER_BYTES};
use crate::error::CudaError;

const SCALAR: &str = include_str!("prelude/scalar.cuh");
const MATH: &str = include_str!("prelude/math.cuh");
const PARALLEL: &str = include_str!("prelude/parallel.cuh");
const CONTRACTION: &str = include_str!("prelude/contraction.cuh");
const WARP_GROUPS: &str = include_str!("prelude/warp_groups.cuh");
const ATTENTION: &str = include_str!("prelude/attention.cuh");
const DEVICE: &str = include_str!("prelude/device.cuh");

/// The source of a kernel's functions, with the parts of an artifact that describe them.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// The text of the functions, which needs the functions of `device.cuh`.
    text: String,
    pub(crate) entries: Vec<Entry>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) arguments: Vec<Quantity>,
    pub(crate) shared_scratch: Quantity,
    pub(crate) fault_sites: Vec<String>,
}

impl Source {
    /// The source for NVRTC.
    pub(crate) fn for_device(&self) -> String {
        for_device(&self.text)
    }

    /// The same without the definitions that exist only on a device: another text defines those names.
    pub(crate) fn for_host(&self) -> &str {
        &self.text
    }
}

/// A text for NVRTC: the definitions that exist only on a device, then the text that uses them.
pub(crate) fn for_device(text: &str) -> String {
    format!("{DEVICE}{text}")
}

/// The state in which functions are written, with names for the words of a launch's parameter.
pub(crate) fn prelude(n_buffers: usize, n_arguments: usize) -> Result<String, CudaError> {
    let n_words = n_buffers + n_arguments + FIXED_WORDS;
    if 8 * n_words > MAX_PARAMETER_BYTES {
        return Err(CudaError::TooManyWords {
            given: n_words,
            limit: MAX_PARAMETER_BYTES / 8,
        });
    }
    let mut text = format!("{SCALAR}{MATH}{PARALLEL}{CONTRACTION}{WARP_GROUPS}{ATTENTION}");
    let fixed = n_buffers + n_arguments;
    let words = [
        format!("struct kiln_params {{ k_u64 w[{n_words}]; }};"),
        format!("#define K_SCRATCH ((unsigned char*)p.w[{fixed}])"),
        format!(
            "#define K_FAULT(site, cause) k_report((k_u64*)p.w[{}], p.w[{}] << 32 | (k_u64)(site) << 8 | (cause))",
            fixed + 1,
            fixed + 2
        ),
        format!("#define K_TASKS ((k_i64)p.w[{}])", fixed + 3),
        format!(
            "#define K_STOPPED (p.w[{0}] && k_read_stop((const unsigned*)p.w[{0}]))",
            fixed + 4
        ),
    ];
    for line in words {
        text.push_str(&line);
        text.push('\n');
    }
    Ok(text)
}

/// Joins the functions that were written.
pub(super) fn assemble(
    lowering: &Lowering<'_>,
    functions: Vec<Function>,
) -> Result<Source, CudaError> {
    let kernel = lowering.kernel;
    let n_buffers = kernel.buffers().len();
    // Each function counts its tasks in a word of the parameter, so no number may be added from here on.
    let n_arguments = lowering.launch.borrow().n_arguments();
    let mut text = prelude(n_buffers, n_arguments)?;
    let mut entries = Vec::new();
    let mut phases = Vec::new();
    let mut shared_scratch = Quantity::constant(0);
    for (position, function) in functions.into_iter().enumerate() {
        let name = format!("kiln_{position}");
        entries.push(match function.gemm {
            Some(ref gemm) => Entry::Gemm(gemm.clone()),
            None => {
                write_function(lowering, &mut text, &name, &function, n_arguments);
                Entry::Function {
                    name: name.clone(),
                    threads: function.threads,
                }
            }
        });
        phases.push(Phase {
            entry: name,
            tasks: function.tasks,
            block: function.threads,
            scratch: function.shared,
        });
        shared_scratch = shared_scratch.max(function.scratch);
    }
    let (arguments, fault_sites) = lowering.launch.take().finish();
    Ok(Source {
        text,
        entries,
        phases,
        arguments,
        shared_scratch,
        fault_sites,
    })
}

fn write_function(
    lowering: &Lowering<'_>,
    text: &mut String,
    name: &str,
    function: &Function,
    n_arguments: usize,
) {
    let kernel = lowering.kernel;
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "K_KERNEL void K_BOUNDS({}) {name}(K_PARAMETER kiln_params p) {{",
        function.threads
    ));
    line("  K_SHARED".to_owned());
    line(format!("  typedef {} k_index;", function.index.c_type()));
    for (id, buffer) in kernel.buffers() {
        let (position, ty) = (id.as_u32(), super::c_type::c_type(buffer.dtype));
        line(format!(
            "  {ty}* const b{position} = ({ty}*)p.w[{position}];"
        ));
    }
    let first = kernel.buffers().len();
    for argument in 0..n_arguments {
        line(format!(
            "  const k_i64 s{argument} = (k_i64)p.w[{}];",
            first + argument
        ));
    }
    text.push_str("  for (k_i64 t = k_block(); t < K_TASKS; t += k_blocks()) {\n");
    for statement in function.body.lines() {
        let _ = writeln!(text, "    {statement}");
    }
    text.push_str("  }\n}\n");
}
