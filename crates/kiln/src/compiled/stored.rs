//! Programs that outlive the process: what a model became, kept under a digest of the model and of all that decides
//! what becomes of it.
//!
//! An entry is the program as data. Of its large constants, those that the model's file has go by their names there; the
//! others are entries of their own, by digest. Whatever is wrong with an entry, the model is imported as if there were
//! none.

use super::runtime::{SharedRuntime, VERSION};
use crate::model::{ModelDigest, Source};
use crate::options::Options;
use kiln_ir::{BlobMap, Constant, Digest};
use kiln_kernel_cache::{CacheKey, DiskTier, EntryKind, KeyDigest, Tier};
use kiln_program::{Program, StoredProgram};
use kiln_tensor::{DType, Tensor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// More threads than this do not read a disk faster.
const READERS: usize = 4;

/// The program of one model under one set of options.
pub(crate) struct ProgramStore {
    disk: DiskTier,
    key: CacheKey,
}

#[derive(Serialize, Deserialize)]
struct StoredModel {
    program: StoredProgram,
    constants: Vec<StoredConstant>,
}

/// A large constant, and where its elements are.
#[derive(Serialize, Deserialize)]
struct StoredConstant {
    digest: String,
    dtype: DType,
    shape: Vec<usize>,
    /// Its name in the model's file; none where it is an entry of its own.
    initializer: Option<String>,
}

impl ProgramStore {
    /// Where the program of this model is kept; none where nothing is, or the options bring a runtime of their own.
    pub(crate) fn of(
        model: &ModelDigest,
        ranks: &BTreeMap<String, usize>,
        options: &Options,
        shared: &SharedRuntime,
    ) -> Option<Self> {
        if options.runtime.is_some() {
            return None;
        }
        let disk = options.cache.open()?;
        let runtime = &shared.runtime;
        let (compiler, target) = (runtime.compiler()?, runtime.target()?);
        let mut all_ranks = options.ranks.clone();
        all_ranks.extend(ranks.clone());
        let fields = [
            ("model", KeyDigest::from(*model).to_string()),
            ("dims", format!("{:?}", options.dims)),
            ("ranks", format!("{all_ranks:?}")),
            ("inputs", options.importing.key()?),
            ("passes", format!("{} {}", options.passes, options.freeze)),
            ("mode", format!("{:?}", options.mode)),
            ("target", target.to_string()),
            ("features", compiler.features(target).join(" ")),
            ("kiln", VERSION.to_owned()),
            ("compiler", compiler.version()),
        ];
        Some(Self {
            disk,
            key: CacheKey::of_fields(EntryKind::PROGRAM, fields),
        })
    }

    /// The program, if it is there and whole.
    pub(crate) fn load(&self, source: &Source) -> Option<Program> {
        let _span = tracing::info_span!("kiln.load_program").entered();
        let entry = match self.disk.get(&self.key) {
            Ok(entry) => entry,
            Err(miss) => {
                tracing::debug!(%miss, "no stored program");
                return None;
            }
        };
        let loaded = self.read(&entry.payload, source);
        if let Err(problem) = &loaded {
            tracing::info!(problem, "a stored program that cannot be used");
            self.disk.remove(&self.key);
        }
        loaded.ok()
    }

    fn read(&self, bytes: &[u8], source: &Source) -> Result<Program, String> {
        let stored: StoredModel =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let mut blobs = BlobMap::new();
        for constant in self.constants(&stored.constants, source)? {
            blobs.insert(constant);
        }
        Program::load(&stored.program, &blobs).map_err(|error| error.to_string())
    }

    /// The constants, read on a few threads.
    fn constants(
        &self,
        stored: &[StoredConstant],
        source: &Source,
    ) -> Result<Vec<Constant>, String> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut read = Vec::new();
            while let Some(constant) = stored.get(next.fetch_add(1, Ordering::Relaxed)) {
                read.push(self.constant(constant, source)?);
            }
            Ok(read)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let others = (1..threads.min(stored.len()).min(READERS)).filter_map(|_| {
                // One that cannot be had is one less.
                let thread = std::thread::Builder::new();
                thread.spawn_scoped(scope, work).ok()
            });
            let others: Vec<_> = others.collect();
            let mut all = work();
            for other in others {
                let read: Result<Vec<Constant>, String> = other
                    .join()
                    .unwrap_or_else(|_| Err("reading constants panicked".to_owned()));
                all = all.and_then(|mut all| {
                    all.extend(read?);
                    Ok(all)
                });
            }
            all
        })
    }

    fn constant(&self, stored: &StoredConstant, source: &Source) -> Result<Constant, String> {
        let digest: Digest = stored
            .digest
            .parse()
            .map_err(|_| "a digest that is none".to_owned())?;
        let tensor = match &stored.initializer {
            Some(name) => source.initializer(name).cloned(),
            None => self.entry(stored),
        };
        let tensor = tensor.ok_or_else(|| format!("constant {} is gone", stored.digest))?;
        if tensor.dtype() != stored.dtype || tensor.shape() != stored.shape {
            return Err(format!("constant {} has changed", stored.digest));
        }
        Constant::of_known_digest(tensor, digest).map_err(|error| error.to_string())
    }

    /// Keeps a program. What cannot be kept is logged, and made again next time.
    pub(crate) fn store(&self, program: &Program, source: &Source, time: Duration) {
        let _span = tracing::info_span!("kiln.store_program").entered();
        if let Err(problem) = self.try_store(program, source, time) {
            tracing::debug!(problem, "the program is not kept");
        }
    }

    fn try_store(&self, program: &Program, source: &Source, time: Duration) -> Result<(), String> {
        let mut blobs = BlobMap::new();
        let stored = program
            .store(&mut blobs)
            .map_err(|error| error.to_string())?;
        let names = source.initializer_digests();
        let mut constants = Vec::with_capacity(blobs.len());
        for (digest, constant) in blobs.iter() {
            let tensor = constant.tensor();
            let initializer = names.get(&digest).cloned();
            let stored = StoredConstant {
                digest: digest.to_string(),
                dtype: tensor.dtype(),
                shape: tensor.shape().to_vec(),
                initializer,
            };
            if stored.initializer.is_none() {
                let key = constant_key(&stored.digest);
                let bytes = tensor.as_bytes().map_err(|error| error.to_string())?;
                if !self.disk.contains(&key) {
                    self.disk
                        .put(&key, Duration::ZERO, bytes)
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
        let put = self.disk.put(&self.key, time, &bytes);
        put.map(drop).map_err(|problem| problem.to_string())
    }

    fn entry(&self, constant: &StoredConstant) -> Option<Tensor> {
        let entry = self.disk.get(&constant_key(&constant.digest)).ok()?;
        Tensor::from_bytes(constant.dtype, &constant.shape, &entry.payload).ok()
    }
}

fn constant_key(digest: &str) -> CacheKey {
    CacheKey::of_fields(
        EntryKind::CONSTANT,
        [("constant", digest), ("form", "plain")],
    )
}
