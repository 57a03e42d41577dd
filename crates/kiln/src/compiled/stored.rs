//! Programs stored across processes: a model's program, stored under a digest of the model and everything else that
//! determines the program.
//!
//! An entry is the program as data. Large constants in the model's files are stored as references to their positions
//! there; other large constants are separate entries, by digest. None is read before it is needed. If an entry is
//! invalid, the model is imported as if there were none.

use super::runtime::{SharedRuntime, VERSION};
use crate::error::Error;
use crate::model::{Choice, ConstantPlace, ModelDigest, Origin};
use crate::options::Options;
use kiln_fork_lock::ForkCell;
use kiln_ir::text::ReadLimits;
use kiln_ir::{BlobMap, Constant, Digest, Graph, Op};
use kiln_kernel_cache::{CacheKey, Content, EntryKind, KeyDigest, Tier, TierList};
use kiln_program::{Program, StoredProgram};
use kiln_tensor::{DType, Tensor, TensorError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The program of one model under one set of options.
pub(crate) struct ProgramStore {
    tiers: Arc<dyn Tier>,
    limits: ReadLimits,
    key: CacheKey,
}

#[derive(Serialize, Deserialize)]
struct StoredModel {
    program: StoredProgram,
    constants: Vec<StoredConstant>,
}

/// A large constant, and the location of its elements.
#[derive(Serialize, Deserialize)]
struct StoredConstant {
    digest: String,
    dtype: DType,
    shape: Vec<usize>,
    /// The position in the model's files; `None` if it is a separate entry.
    place: Option<ConstantPlace>,
}

/// Rebuilds the graph of a constant whose entry is missing.
type RebuildGraph = dyn Fn() -> Result<Graph, Error> + Send + Sync;

/// The constants of a graph that is built only if one of them is missing.
struct MissingConstants {
    make: Box<RebuildGraph>,
    made: ForkCell<Option<BTreeMap<Digest, Tensor>>>,
}

impl MissingConstants {
    fn constant(&self, digest: Digest) -> Option<Tensor> {
        let made = self.made.get_or_init(|| {
            tracing::info!("a stored constant is missing: the model is imported for it");
            let graph = (self.make)().ok()?;
            let constants = graph.ops().filter_map(|(_, data)| match &data.op {
                Op::Constant(constant) if !constant.is_inline() => {
                    Some((constant.digest(), constant.tensor()))
                }
                _ => None,
            });
            Some(constants.collect())
        });
        made.as_ref()?.get(&digest).cloned()
    }
}

impl ProgramStore {
    /// Where the program of this model is kept; `None` if nothing is kept, or the options supply a runtime.
    pub(crate) fn of(
        model: &ModelDigest,
        choice: &Choice,
        options: &Options,
        shared: &SharedRuntime,
    ) -> Option<Self> {
        // Without `..`, so that a new option is put into the key or listed here with the reason why it is not.
        let Options {
            dims,
            import,
            precision,
            gradients,
            passes,
            memory,
            limits,
            cache,
            stores,
            runtime: supplied_runtime,
            // These determine the runtime, whose device, target and compiler are in the key.
            device: _,
            target: _,
            compiling: _,
            // Decides when the program is made, not what it is.
            compile_after: _,
            // Programs do not depend on the number of threads, or on other models that use the runtime.
            threads: _,
            shared_kernels: _,
            // These apply to calls.
            outputs: _,
            stop: _,
            // These observe without affecting the program.
            observation: _,
            recorder: _,
        } = options;
        if supplied_runtime.is_some() {
            return None;
        }
        let tiers = stores.after(cache);
        if tiers.is_empty() {
            return None;
        }
        let runtime = &shared.runtime;
        let (compiler, target) = (runtime.compiler()?, runtime.target()?);
        let mut all_ranks = import.ranks.clone();
        all_ranks.extend(choice.ranks.clone());
        let program_limits = format!("{:?} {:?}", limits.dims, limits.fusion);
        let fields = [
            ("model", KeyDigest::from(*model).to_string()),
            ("dims", format!("{dims:?}")),
            ("ranks", format!("{all_ranks:?}")),
            ("answers", format!("{:?}", choice.answers)),
            ("inputs", import.key()?),
            ("precision", format!("{precision:?}")),
            ("gradients", format!("{gradients:?}")),
            ("passes", format!("{passes:?}")),
            ("mode", format!("{:?}", import.mode)),
            // Another device may fuse differently, and so may the same one after an update.
            ("device", shared.device.key().to_owned()),
            ("fusion", format!("{:?}", shared.device.fusion())),
            ("target", target.to_string()),
            ("features", compiler.features(target).join(" ")),
            ("memory", format!("{memory:?}")),
            ("limits", program_limits),
            ("kiln", VERSION.to_owned()),
            ("compiler", compiler.version()),
        ];
        Some(Self {
            tiers: Arc::new(TierList::new(tiers)),
            limits: limits.of_reading(),
            key: CacheKey::of_fields(EntryKind::PROGRAM, fields),
        })
    }

    /// The program, if it is stored and intact. `make` builds its graph, for constants that are missing when they are
    /// needed.
    pub(crate) fn load(
        &self,
        source: &Origin,
        make: impl Fn() -> Result<Graph, Error> + Send + Sync + 'static,
    ) -> Option<Program> {
        let _span = tracing::info_span!("kiln.load_program").entered();
        let entry = match self.tiers.get(&self.key) {
            Ok(entry) => entry,
            Err(miss) => {
                tracing::debug!(%miss, "no stored program");
                return None;
            }
        };
        let missing = Arc::new(MissingConstants {
            make: Box::new(make),
            made: ForkCell::new(),
        });
        let loaded = self.read(&entry.payload, source, &missing);
        if let Err(problem) = &loaded {
            tracing::info!(problem, "a stored program cannot be used");
            self.tiers.remove(&self.key);
        }
        loaded.ok()
    }

    fn read(
        &self,
        bytes: &[u8],
        source: &Origin,
        missing: &Arc<MissingConstants>,
    ) -> Result<Program, String> {
        let stored: StoredModel =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut blobs = BlobMap::new();
        for constant in &stored.constants {
            blobs.insert(self.constant(constant, source, missing)?);
        }
        Program::load_within(&stored.program, &blobs, &self.limits)
            .map_err(|error| error.to_string())
    }

    fn constant(
        &self,
        stored: &StoredConstant,
        source: &Origin,
        missing: &Arc<MissingConstants>,
    ) -> Result<Constant, String> {
        let StoredConstant {
            digest,
            dtype,
            shape,
            place,
        } = stored;
        let known: Digest = digest.parse().map_err(|_| "not a digest".to_owned())?;
        let tensor = match place {
            Some(place) => source.constant(place, *dtype, shape, known),
            None => self.entry(stored, known, missing),
        };
        let tensor = tensor.ok_or_else(|| format!("constant {digest} is missing"))?;
        if tensor.dtype() != *dtype || tensor.shape() != shape {
            return Err(format!("constant {digest} has changed"));
        }
        Constant::of_known_digest(tensor, known).map_err(|error| error.to_string())
    }

    /// A constant in a separate entry, read on demand.
    fn entry(
        &self,
        stored: &StoredConstant,
        digest: Digest,
        missing: &Arc<MissingConstants>,
    ) -> Option<Tensor> {
        let (tiers, key) = (Arc::clone(&self.tiers), constant_key(&stored.digest));
        let (dtype, shape, missing) = (stored.dtype, stored.shape.clone(), Arc::clone(missing));
        let load = move || {
            let read = Tensor::filled_by(dtype, &shape, |content| {
                let read = tiers.get_into(&key, content).map(drop);
                read.map_err(|miss| TensorError::Deferred(miss.into()))
            });
            match read {
                Err(error @ TensorError::Deferred(_)) => {
                    let made = missing.constant(digest).ok_or(error)?;
                    put(&*tiers, &key, &made);
                    Ok(made)
                }
                read => read,
            }
        };
        Tensor::deferred(stored.dtype, &stored.shape, load).ok()
    }

    /// Stores a program. A failure is logged; the program is then rebuilt next time.
    pub(crate) fn store(&self, program: &Program, source: &Origin, time: Duration) {
        let _span = tracing::info_span!("kiln.store_program").entered();
        if let Err(problem) = self.try_store(program, source, time) {
            tracing::debug!(problem, "the program was not stored");
        }
    }

    fn try_store(&self, program: &Program, source: &Origin, time: Duration) -> Result<(), String> {
        let mut blobs = BlobMap::new();
        let stored = program
            .store(&mut blobs)
            .map_err(|error| error.to_string())?;
        let mut places = source.constant_places();
        let mut constants = Vec::with_capacity(blobs.len());
        for (digest, constant) in blobs.iter() {
            let tensor = constant.tensor();
            let stored = StoredConstant {
                digest: digest.to_string(),
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                place: places.remove(&digest),
            };
            if stored.place.is_none() {
                let key = constant_key(&stored.digest);
                let bytes = tensor.as_bytes().map_err(|error| error.to_string())?;
                if !self.tiers.contains(&key) {
                    self.tiers
                        .put(&key, Duration::ZERO, Content::data(bytes))
                        .map_err(|problem| problem.to_string())?;
                }
            }
            constants.push(stored);
        }
        let model = StoredModel {
            program: stored,
            constants,
        };
        let bytes = serde_json::to_vec(&model).map_err(|error| error.to_string())?;
        let put = self.tiers.put(&self.key, time, Content::data(&bytes));
        put.map(drop).map_err(|problem| problem.to_string())
    }
}

/// Stores a constant; if that fails, it is rebuilt next time.
fn put(tier: &dyn Tier, key: &CacheKey, tensor: &Tensor) {
    if let Ok(bytes) = tensor.as_bytes()
        && let Err(problem) = tier.put(key, Duration::ZERO, Content::data(bytes))
    {
        tracing::debug!(%problem, "a constant was not stored");
    }
}

fn constant_key(digest: &str) -> CacheKey {
    CacheKey::of_fields(
        EntryKind::CONSTANT,
        [("constant", digest), ("form", "plain")],
    )
}
