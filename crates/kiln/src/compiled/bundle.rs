//! Bundles: single files with everything a program needs to run without a compiler: the program, the code of its
//! kernels, and its constants, both as they are and packed for kernels.
//!
//! A bundle is for one version of Kiln and one instruction-set level. It serves every call that the graph allows:
//! besides the main plan it contains the plan for sizes on which facts fail, and the generic kernels of both. Faster
//! plans and kernels are built at run time if this build can compile.

mod compiler;
#[cfg(feature = "llvm")]
mod save;

use super::runtime::{SharedRuntime, VERSION, assemble, compiler_of, key_of};
use crate::device::Device;
use crate::error::{Error, Failure};
use crate::options::Options;
use compiler::BundleCompiler;
use kiln_backend::{PreferredLayout, Schedule, Target};
use kiln_ir::{BlobMap, Constant, Digest};
use kiln_kernel::VerifiedKernel;
use kiln_kernel_cache::{Bundle, CacheError, CacheKey, EntryKind, Tier};
use kiln_program::{Program, StoredProgram};
use kiln_symbolic_shape::FactSelection;
use kiln_tensor::{DType, Tensor, TensorError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(feature = "llvm")]
pub(crate) use save::save;

/// The version that made a bundle, and the machines it is for: readable even if the rest of the manifest is not.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Maker {
    kiln: String,
    device: String,
    target: Target,
}

/// The manifest of a bundle.
#[derive(Serialize, Deserialize)]
struct Manifest {
    kiln: String,
    /// The key of the device it is for.
    device: String,
    target: Target,
    /// The target's features, as keys contain them.
    features: Vec<String>,
    /// The compiler's version, as keys contain it.
    compiler: String,
    program: StoredProgram,
    /// Plans for sizes for which facts do not hold; if the program rests on facts, one of these serves all sizes.
    others: Vec<BundledPlan>,
    constants: Vec<BundledConstant>,
    /// The schedules of kernels, by digest of the kernel's text.
    kernels: BTreeMap<String, Vec<BundledCandidate>>,
}

/// A plan in addition to the main one.
#[derive(Serialize, Deserialize)]
struct BundledPlan {
    /// The facts it may rest on.
    facts: FactSelection,
    program: StoredProgram,
}

/// A loaded bundle.
pub(crate) struct Bundled {
    /// The main plan.
    pub(crate) program: Program,
    /// Plans for sizes for which facts do not hold, each with the facts it may rest on.
    pub(crate) others: Vec<(FactSelection, Program)>,
    /// A runtime with the code of all plans.
    pub(crate) shared: Arc<SharedRuntime>,
    /// Whether this build can compile what further plans would need.
    pub(crate) compiles: bool,
}

#[derive(Serialize, Deserialize)]
struct BundledConstant {
    digest: String,
    dtype: DType,
    shape: Vec<usize>,
}

/// A schedule without a predicate.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct BundledCandidate {
    schedule: Schedule,
    layouts: Vec<PreferredLayout>,
}

/// The plans of a bundle, and a runtime with their code.
///
/// # Errors
/// When it is damaged, or of a different version, or for another machine.
pub(crate) fn load(bundle: Bundle, options: &Options) -> Result<Bundled, Error> {
    let _span = tracing::info_span!("kiln.load_bundle").entered();
    let bundle = Arc::new(bundle);
    let path = bundle.path();
    let damaged = |part: &str, problem: String| CacheError::Bundle {
        path: path.to_owned(),
        part: part.to_owned(),
        problem,
    };
    let unreadable = |error: serde_json::Error| damaged("its manifest", error.to_string());
    let maker: Maker = serde_json::from_slice(bundle.manifest()).map_err(unreadable)?;
    let device = check_maker(&maker)?;
    let manifest: Manifest = serde_json::from_slice(bundle.manifest()).map_err(unreadable)?;
    // Weights are checked when they are read; code is small, and refused whole if damaged.
    bundle.verify(|kind| kind == EntryKind::KERNEL.name())?;
    let mut blobs = BlobMap::new();
    for constant in &manifest.constants {
        blobs.insert(open_constant(&bundle, constant, &damaged)?);
    }
    let limits = options.limits.of_reading();
    let read = |stored: &StoredProgram| {
        Program::load_within(stored, &blobs, &limits)
            .map_err(|error| damaged("its program", error.to_string()))
    };
    let program = read(&manifest.program)?;
    let others = manifest.others.iter();
    let others = others.map(|other| Ok((other.facts.clone(), read(&other.program)?)));
    let others = others.collect::<Result<Vec<_>, CacheError>>()?;
    let mut key = key_of(options, device, manifest.target.clone())?;
    let own = match key.device().has_compiler() {
        true => Some(compiler_of(&key, None)?),
        false => None,
    };
    let compiler = BundleCompiler::new(manifest, own);
    let mut tiers: Vec<Arc<dyn Tier>> = vec![Arc::clone(&bundle) as Arc<dyn Tier>];
    let compiles = compiler.compiles();
    if compiles {
        tiers.extend(options.stores.after(&options.cache));
    } else {
        key = key.without_variants();
    }
    Ok(Bundled {
        program,
        others,
        shared: Arc::new(assemble(&key, compiler, tiers)?),
        compiles,
    })
}

/// Rejects a bundle of a different version or for other machines; returns its device.
fn check_maker(maker: &Maker) -> Result<Device, Error> {
    let text = |text: &str| text.escape_debug().to_string();
    if maker.kiln != VERSION {
        return Err(Failure::BundleVersion {
            expected: VERSION,
            found: text(&maker.kiln),
        }
        .into());
    }
    // CPU code also runs in a build that cannot compile for the CPU.
    let device = match Device::cpu() {
        cpu if cpu.key() == maker.device => cpu,
        _ => maker.device.parse()?,
    };
    let levels = device.levels();
    if !levels.is_empty() && !levels.contains(&maker.target.level) {
        return Err(Failure::BundleTarget {
            expected: levels.join(", "),
            found: text(&maker.target.level),
        }
        .into());
    }
    Ok(device)
}

/// A constant of a bundle, read on demand.
fn open_constant(
    bundle: &Arc<Bundle>,
    constant: &BundledConstant,
    damaged: &impl Fn(&str, String) -> CacheError,
) -> Result<Constant, Error> {
    let BundledConstant {
        digest,
        dtype,
        shape,
    } = constant;
    let known: Digest = digest
        .parse()
        .map_err(|_| damaged("its manifest", "not a digest".to_owned()))?;
    let (bundle, key) = (Arc::clone(bundle), constant_key(digest));
    if !bundle.contains(&key) {
        let problem = format!("constant {digest} is missing");
        return Err(damaged("its index", problem).into());
    }
    let (element, sizes) = (*dtype, shape.clone());
    let load = move || {
        Tensor::filled_by(element, &sizes, |content| {
            let read = bundle.get_into(&key, content).map(drop);
            read.map_err(|miss| {
                let damage = bundle.damage(&key, &miss);
                TensorError::Deferred(damage.map_or_else(|| miss.into(), Into::into))
            })
        })
    };
    let tensor = Tensor::deferred(*dtype, shape, load)?;
    Ok(Constant::of_known_digest(tensor, known)?)
}

fn constant_key(digest: &str) -> CacheKey {
    CacheKey::of_fields(EntryKind::CONSTANT, [("constant", digest)])
}

/// The digest of a kernel's text, independent of its name.
fn kernel_digest(kernel: &VerifiedKernel) -> String {
    let text = kiln_kernel::text::print(&kernel.kernel().clone().renamed("k"));
    Digest::of_text(&text).to_string()
}
