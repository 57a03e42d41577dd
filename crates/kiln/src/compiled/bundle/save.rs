//! Saving a bundle: its plans are recompiled, through the cache, by a runtime that collects everything it stores.

use super::{
    BundledCandidate, BundledConstant, BundledPlan, Manifest, constant_key, kernel_digest,
};
use crate::compiled::runtime::{SharedRuntime, VERSION, assemble, compiler_of, key_of};
use crate::error::{Error, Failure};
use crate::options::Options;
use kiln_backend::{Candidate, CompilerWrapper, KernelCompiler, Target};
use kiln_ir::BlobMap;
use kiln_kernel::VerifiedKernel;
use kiln_kernel_cache::{Bundle, CollectingTier, Content, SealKey, Tier};
use kiln_lazy_runtime::CompiledProgram;
use kiln_program::Program;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longer than storing in memory takes.
const STORING: Duration = Duration::from_secs(60);

/// Writes a bundle of a program that was compiled with these options, sealed if there is a key; returns its size in bytes.
///
/// # Errors
/// When a kernel does not compile, the runtime was supplied by the user, or the file cannot be written.
pub(crate) fn save(
    program: &CompiledProgram,
    shared: &SharedRuntime,
    options: &Options,
    path: &Path,
    seal: Option<&SealKey>,
) -> Result<u64, Error> {
    let _span = tracing::info_span!("kiln.save_bundle").entered();
    let target = shared
        .runtime
        .target()
        .filter(|_| options.runtime.is_none());
    let target = target.cloned().ok_or(Failure::NotCompiled {
        what: "a bundle",
        next: "load the model without a runtime of your own",
    })?;
    let mut blobs = BlobMap::new();
    program.make_general_plan()?;
    let stored = program.program().store(&mut blobs)?;
    let mut others = Vec::new();
    for (facts, program) in program.other_plans() {
        let program = program.store(&mut blobs)?;
        others.push(BundledPlan { facts, program });
    }
    let key = key_of(options, shared.device.clone(), target.clone())?.without_variants();
    let collected = Arc::new(CollectingTier::new());
    let mut tiers: Vec<Arc<dyn Tier>> = vec![Arc::clone(&collected) as Arc<dyn Tier>];
    tiers.extend(options.stores.after(&options.cache));
    let compiler = Recording::new(compiler_of(&key, None)?);
    let version = KernelCompiler::version(&compiler);
    let features = KernelCompiler::features(&compiler, &target);
    let recorded = Arc::clone(&compiler.recorded);
    let runtime = assemble(&key, compiler, tiers)?.runtime;
    // Read back as from the bundle, so that texts and keys equal those looked up later.
    let limits = options.limits.of_reading();
    let read = |stored| Program::load_within(stored, &blobs, &limits);
    let mut compiled = CompiledProgram::of_program(Arc::clone(&runtime), read(&stored)?);
    for other in &others {
        compiled = compiled.with_other_plan(other.facts.clone(), read(&other.program)?);
    }
    compiled.compile_all()?;
    compiled.place_constants();
    runtime.wait_idle(STORING);
    let mut constants = Vec::new();
    for (digest, constant) in blobs.iter() {
        let (tensor, digest) = (constant.tensor(), digest.to_string());
        // A tier in memory stores everything it is given.
        let _ = collected.put(
            &constant_key(&digest),
            Duration::ZERO,
            Content::data(tensor.as_bytes()?),
        );
        constants.push(BundledConstant {
            digest,
            dtype: tensor.dtype(),
            shape: tensor.shape().to_vec(),
        });
    }
    let kernels = std::mem::take(&mut *recorded.lock().unwrap_or_else(PoisonError::into_inner));
    let manifest = Manifest {
        kiln: VERSION.to_owned(),
        device: shared.device.key().to_owned(),
        target,
        features,
        compiler: version,
        program: stored,
        others,
        constants,
        kernels,
    };
    let written = serde_json::to_vec(&manifest).map_err(|error| Failure::Write {
        file: crate::model::file_name(path),
        source: error.into(),
    })?;
    Ok(Bundle::write(path, &written, &collected.entries(), seal)?)
}

/// A compiler that records the schedules it offers.
struct Recording<C> {
    compiler: C,
    recorded: Arc<Mutex<BTreeMap<String, Vec<BundledCandidate>>>>,
}

impl<C> Recording<C> {
    fn new(compiler: C) -> Self {
        Self {
            compiler,
            recorded: Arc::default(),
        }
    }
}

impl<C: KernelCompiler> CompilerWrapper for Recording<C> {
    type Inner = C;

    fn inner(&self) -> &C {
        &self.compiler
    }

    fn schedules(&self, kernel: &VerifiedKernel, target: &Target) -> Vec<Candidate> {
        let mut candidates = self.compiler.schedules(kernel, target);
        // Predicates refer to this kernel's own table of sizes; a schedule for all sizes has none.
        candidates.retain(|candidate| candidate.predicate.is_empty());
        let recorded = candidates.iter().map(|candidate| BundledCandidate {
            schedule: candidate.schedule.clone(),
            layouts: candidate.layouts.clone(),
        });
        let mut all = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(kernel_digest(kernel), recorded.collect());
        candidates
    }
}
