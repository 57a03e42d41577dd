//! Builtins: operations that are not kernels. An operation without device code, or whose code is not compiled yet, runs
//! on the host, which is counted.
#![allow(unsafe_code, reason = "what an operation accesses is vouched for here")]

use super::error::DeviceError;
use super::execution::{CudaExecution, own_kernel};
use super::memory::place_of;
use crate::builtin::DeviceBuiltin;
use kiln_backend::{
    Builtin, BuiltinOperand, ExecuteError, KernelExecutor, Launch, LaunchContext, Memory,
    MemorySlice,
};
use kiln_tensor::element_count;
use std::sync::Arc;

/// An operand or a result: its place, dtype and shape.
type Given<'a> = (MemorySlice<'a>, BuiltinOperand<'a>);

/// Runs a builtin after everything submitted before.
///
/// # Safety
/// As for [`Execution::launch`](kiln_backend::Execution::launch).
pub(super) unsafe fn run(
    execution: &mut CudaExecution,
    builtin: &Builtin,
    inputs: &[Given<'_>],
    outputs: &[Given<'_>],
) -> Result<(), ExecuteError> {
    match (builtin, inputs, outputs) {
        // SAFETY: as the caller promises.
        (Builtin::Copy, [from], [to]) => Ok(unsafe { copy(execution, from, to) }?),
        _ => match run_on_device(execution, builtin, inputs, outputs)? {
            true => Ok(()),
            false => run_on_host(execution, builtin, inputs, outputs),
        },
    }
}

/// The address of an operand, and its bytes.
fn place(
    execution: &CudaExecution,
    what: &str,
    (slice, operand): &Given<'_>,
) -> Result<(u64, usize), DeviceError> {
    let width = operand.dtype.size_in_bytes();
    let bytes = element_count(operand.dtype, operand.shape)? * width;
    let context = execution.executor().context();
    let place = place_of(context, slice, width, || what.to_owned())?;
    if slice.bytes < bytes {
        return Err(DeviceError::mismatch(
            what,
            format_args!("at least {bytes} bytes"),
            slice.bytes,
        ));
    }
    Ok((place, bytes))
}

/// Checks that results, given as addresses and bytes, share no memory.
fn apart(what: &str, inputs: &[(u64, usize)], outputs: &[(u64, usize)]) -> Result<(), DeviceError> {
    let overlap = |&(a, a_bytes): &(u64, usize), &(b, b_bytes): &(u64, usize)| {
        a < b + b_bytes as u64 && b < a + a_bytes as u64
    };
    for (position, output) in outputs.iter().enumerate() {
        let mut others = inputs.iter().chain(&outputs[..position]);
        if others.any(|other| overlap(output, other)) {
            return Err(DeviceError::mismatch(
                what,
                "memory of its own",
                "memory of another operand or result",
            ));
        }
    }
    Ok(())
}

/// Copies elements within the device.
///
/// # Safety
/// As [`run`].
unsafe fn copy(
    execution: &mut CudaExecution,
    from: &Given<'_>,
    to: &Given<'_>,
) -> Result<(), DeviceError> {
    let (source, bytes) = place(execution, "an operand of copy", from)?;
    let (destination, expected) = place(execution, "a result of copy", to)?;
    if (from.1.dtype, bytes) != (to.1.dtype, expected) {
        return Err(DeviceError::mismatch(
            "the result of copy",
            format_args!("{bytes} bytes of {}", from.1.dtype),
            format_args!("{expected} bytes of {}", to.1.dtype),
        ));
    }
    if bytes == 0 {
        return Ok(());
    }
    apart(
        "a result of copy",
        &[(source, bytes)],
        &[(destination, bytes)],
    )?;
    // SAFETY: both ranges were checked to be inside their memories; the rest is the caller's promise.
    unsafe { execution.copy((source, &from.0), (destination, &to.0), bytes) }
}

fn operands<'a>(given: &[Given<'a>]) -> Vec<BuiltinOperand<'a>> {
    given.iter().map(|&(_, operand)| operand).collect()
}

/// Launches a builtin's code, if there is some.
fn run_on_device(
    execution: &mut CudaExecution,
    builtin: &Builtin,
    inputs: &[Given<'_>],
    outputs: &[Given<'_>],
) -> Result<bool, DeviceError> {
    let found = DeviceBuiltin::of(builtin, &operands(inputs), &operands(outputs));
    let Some((code, symbols)) = found else {
        return Ok(false);
    };
    let executor = execution.executor().clone();
    let Some(loaded) = executor.builtin_code(code) else {
        return Ok(false);
    };
    let places = |execution: &CudaExecution, given: &[Given<'_>], what: &str| {
        let places = given.iter().map(|given| place(execution, what, given));
        places.collect::<Result<Vec<_>, _>>()
    };
    let read = places(execution, inputs, "an operand of a builtin")?;
    let written = places(execution, outputs, "a result of a builtin")?;
    apart("a result of a builtin", &read, &written)?;
    let numbers = own_kernel(executor.context(), &loaded)?
        .artifact
        .numbers(&LaunchContext {
            symbols: &symbols,
            threads: executor.parallelism(),
            caches: executor.caches(),
        })
        .map_err(|error| DeviceError::mismatch("the sizes of a builtin", "others", error))?;
    let buffers: Vec<_> = inputs
        .iter()
        .chain(outputs)
        .map(|(slice, _)| *slice)
        .collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &numbers,
    };
    execution.launch_builtin(&loaded, &launch)?;
    executor.context().counters.device_builtins.add(1);
    Ok(true)
}

/// Runs a builtin on the host: operands are downloaded, results uploaded.
fn run_on_host(
    execution: &mut CudaExecution,
    builtin: &Builtin,
    inputs: &[Given<'_>],
    outputs: &[Given<'_>],
) -> Result<(), ExecuteError> {
    let executor = execution.executor().clone();
    let context = executor.context();
    let host = executor.host().ok_or_else(|| DeviceError::NoHost {
        device: context.name().to_owned(),
        operation: format!("{builtin:?}"),
    })?;
    for given in inputs.iter().chain(outputs) {
        place(execution, "an operand of a builtin", given)?;
    }
    execution.wait()?;
    context.counters.host_builtins.add(1);
    let read = inputs.iter().map(|(slice, operand)| {
        let tensor = executor.download(slice.memory, slice.offset, operand.dtype, operand.shape)?;
        host.upload(&tensor)
    });
    let read = read.collect::<Result<Vec<Memory>, _>>()?;
    let written = outputs.iter().map(|(_, operand)| {
        let count = element_count(operand.dtype, operand.shape).map_err(DeviceError::from)?;
        host.alloc(count * operand.dtype.size_in_bytes())
    });
    let written = written.collect::<Result<Vec<Memory>, _>>()?;
    run_on_memories(
        execution,
        host,
        builtin,
        (inputs, &read),
        (outputs, &written),
    )?;
    for ((slice, operand), memory) in outputs.iter().zip(&written) {
        let tensor = host.download(memory, 0, operand.dtype, operand.shape)?;
        executor.write(slice, &tensor)?;
        execution.keep(slice.memory);
    }
    Ok(())
}

/// Runs a builtin on the host's memories.
fn run_on_memories(
    execution: &CudaExecution,
    host: &Arc<dyn KernelExecutor>,
    builtin: &Builtin,
    (inputs, read): (&[Given<'_>], &[Memory]),
    (outputs, written): (&[Given<'_>], &[Memory]),
) -> Result<(), ExecuteError> {
    fn slices<'a>(given: &[Given<'a>], memories: &'a [Memory]) -> Vec<Given<'a>> {
        let slice = |memory: &'a Memory| MemorySlice {
            memory,
            offset: 0,
            bytes: memory.bytes(),
        };
        let pairs = given.iter().zip(memories);
        pairs
            .map(|((_, operand), memory)| (slice(memory), *operand))
            .collect()
    }
    let mut run = host.begin();
    run.stop_when(execution.stop().cloned());
    // SAFETY: the host's memories were just made, and nothing else has them.
    unsafe { run.run_builtin(builtin, &slices(inputs, read), &slices(outputs, written))? };
    run.finish()?;
    Ok(())
}
