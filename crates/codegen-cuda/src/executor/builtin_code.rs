//! The code of builtins: compiled in the background when a builtin is first requested, and kept for the life of the
//! process.
//!
//! Until the code is available, the builtin runs on the host, so that no call waits for a compiler.

use super::context::Context;
use super::kernel::CudaKernel;
use crate::arch::CudaArch;
use crate::builtin::DeviceBuiltin;
use crate::compiler::CudaCompiler;
use kiln_backend::LoadedKernel;
use kiln_fork_lock::ForkLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::thread;

/// The code of the builtins requested so far; `None` for a builtin that is being compiled, or cannot be.
#[derive(Default)]
pub(super) struct BuiltinCode {
    known: ForkLock<HashMap<DeviceBuiltin, Option<LoadedKernel>>>,
}

impl BuiltinCode {
    /// The code, if it is available; the first request for a builtin starts its compilation.
    pub(super) fn get(
        self: &Arc<Self>,
        context: &Arc<Context>,
        arch: CudaArch,
        builtin: DeviceBuiltin,
    ) -> Option<LoadedKernel> {
        match self.known.lock().entry(builtin) {
            Entry::Occupied(known) => return known.get().clone(),
            Entry::Vacant(vacant) => vacant.insert(None),
        };
        let (code, context) = (Arc::clone(self), Arc::clone(context));
        let compile = move || match compiled(&context, arch, builtin) {
            Ok(loaded) => {
                code.known.lock().insert(builtin, Some(loaded));
            }
            Err(why) => tracing::warn!(builtin = builtin.name(), why, "cuda.builtin"),
        };
        let started = thread::Builder::new()
            .name("kiln-builtin".to_owned())
            .spawn(compile);
        if let Err(error) = started {
            tracing::warn!(builtin = builtin.name(), %error, "cuda.builtin");
        }
        None
    }
}

fn compiled(
    context: &Arc<Context>,
    arch: CudaArch,
    builtin: DeviceBuiltin,
) -> Result<LoadedKernel, String> {
    let artifact = CudaCompiler::compile_builtin(builtin, arch);
    let artifact = artifact.map_err(|error| error.to_string())?;
    let kernel = CudaKernel::load(context, &artifact).map_err(|error| error.to_string())?;
    Ok(LoadedKernel::new(Arc::new(kernel)))
}
