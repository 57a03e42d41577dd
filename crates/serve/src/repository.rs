//! The models that are served: their states, loading and unloading, and requests to them.
//!
//! *Invariants:* no lock is held while a model is read, compiled or called; a model that fails to load has a state with
//! a reason, and affects no other model.

mod catalog;
mod layout;
mod load;

pub(crate) use catalog::Catalog;
pub use catalog::{ModelState, VersionStatus};

use crate::error::ServeError;
use crate::metrics::{Collected, Metrics, ModelLabels};
use crate::model::ServedModel;
use crate::options::{RepositoryOptions, at_least};
use crate::request::{InferAnswer, InferRequest};
use kiln_fork_lock::ForkLock;
use layout::Found;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// Models by name and version. Clones are one repository. It belongs to the process that opened it.
///
/// ```
/// use kiln::Tensor;
/// use kiln_serve::{InferRequest, Models, Repository, RepositoryOptions};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("double.kiln");
/// # std::fs::write(&path, "graph @double(%x: f32[N]) -> f32[N] {
/// #   %y = add %x, %x
/// #   return %y
/// # }")?;
/// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let models = Models::File { path, name: "double".into(), config: None };
/// let repository = Repository::open(RepositoryOptions::new(models))?;
/// repository.loaded().await;
/// let answer = repository
///     .infer(InferRequest {
///         model: "double".into(),
///         inputs: vec![("x".into(), Tensor::from_slice(&[2], &[1.0f32, 2.0])?)],
///         ..InferRequest::default()
///     })
///     .await?;
/// assert_eq!(answer.outputs[0].1.to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Repository(Arc<Inner>);

struct Inner {
    options: RepositoryOptions,
    catalog: Arc<Catalog>,
    metrics: Metrics,
    /// Models that existed at the start and are still loading.
    starting: AtomicUsize,
    started: tokio::sync::Notify,
    /// One permit for each model that may be loaded concurrently.
    loads: Semaphore,
    /// Loads and unloads of one model are serialised.
    turns: ForkLock<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Repository {
    /// Opens a repository and begins to load its models in the background; see [`loaded`](Self::loaded). Called within a tokio
    /// runtime, whose blocking threads load models.
    ///
    /// # Errors
    /// E1521 when the folder cannot be read; E1530 for an option that makes no sense. A model that cannot be loaded is not an
    /// error here, but a [state](Self::index).
    pub fn open(options: RepositoryOptions) -> Result<Self, ServeError> {
        at_least("loads", "a positive number", options.loads, 1)?;
        let names = layout::names(&options.models)?;
        let catalog = Arc::<Catalog>::default();
        let repository = Self(Arc::new(Inner {
            metrics: Metrics::new(Collected(Arc::clone(&catalog))),
            catalog,
            starting: AtomicUsize::new(names.len()),
            started: tokio::sync::Notify::new(),
            loads: Semaphore::new(options.loads),
            turns: ForkLock::default(),
            options,
        }));
        for name in names {
            repository.0.catalog.begin(&name, &[]);
            let own = repository.clone();
            tokio::spawn(async move {
                if let Err(error) = own.load_now(&name).await {
                    tracing::warn!(model = name, code = error.code(), "{error}");
                }
                own.0.starting.fetch_sub(1, Ordering::AcqRel);
                own.0.started.notify_waiters();
            });
        }
        Ok(repository)
    }

    /// Waits until every model that existed when the repository was opened has been loaded, or has failed to load.
    pub async fn loaded(&self) {
        loop {
            let changed = self.0.started.notified();
            if self.has_started() {
                return;
            }
            changed.await;
        }
    }

    /// Whether every model that existed when the repository was opened has been loaded, or has failed to load.
    pub fn has_started(&self) -> bool {
        self.0.starting.load(Ordering::Acquire) == 0
    }

    /// Every version of every model that is known or in the folder.
    ///
    /// # Errors
    /// E1521 when the folder cannot be read.
    pub async fn index(&self) -> Result<Vec<VersionStatus>, ServeError> {
        let models = self.0.options.models.clone();
        let found = blocking("reading the repository", move || layout::all(&models)).await?;
        Ok(self.0.catalog.statuses(found))
    }

    /// Loads a model, or loads it again: its folder is read, and the versions that its configuration selects replace
    /// those that were served, which complete their pending requests. Loading continues if the future is dropped.
    ///
    /// # Errors
    /// E1503 for a model that is not in the repository; E1520 to E1523, naming the file, when it cannot be loaded: the
    /// versions served before are still served.
    pub async fn load(&self, name: &str) -> Result<(), ServeError> {
        let (own, name) = (self.clone(), name.to_owned());
        detached("loading a model", async move { own.load_now(&name).await }).await
    }

    async fn load_now(&self, name: &str) -> Result<(), ServeError> {
        let turn = self.turn(name);
        let _turn = turn.lock().await;
        let _permit = self.0.loads.acquire().await;
        let (models, wanted) = (self.0.options.models.clone(), name.to_owned());
        let found = blocking("reading a model's folder", move || {
            layout::of_model(&models, &wanted)
        });
        let found = match found.await {
            Ok(found) => found,
            Err(error) => {
                let error = Arc::new(error);
                if !matches!(*error, ServeError::UnknownModel { .. }) {
                    self.0.catalog.failed(name, None, &error);
                }
                return Err(error.into());
            }
        };
        let versions: Vec<u64> = found.versions.iter().map(|(version, _)| *version).collect();
        self.0.catalog.begin(name, &versions);
        let mut first_error = None;
        for &(version, _) in &found.versions {
            if let Err(error) = self.load_version(name, version, &found).await {
                self.0.catalog.failed(name, Some(version), &error);
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            Some(error) => Err(error.into()),
            None => {
                self.0.catalog.keep_only(name, &versions);
                Ok(())
            }
        }
    }

    async fn load_version(
        &self,
        name: &str,
        version: u64,
        found: &Found,
    ) -> Result<(), Arc<ServeError>> {
        let labels = ModelLabels {
            model: name.to_owned(),
            version: version.to_string(),
        };
        let metrics = self.0.metrics.of_model(labels);
        let (found, own) = (found.clone(), self.clone());
        let served = blocking("loading a model", move || {
            load::served(&found, version, &own.0.options, metrics)
        });
        let served = served.await.map_err(Arc::new)?;
        tracing::info!(model = name, version, "loaded");
        self.0.catalog.ready(name, version, Arc::new(served));
        Ok(())
    }

    /// Stops serving a model. Its pending requests are completed; then its memory is freed.
    ///
    /// # Errors
    /// E1503 for an unknown model.
    pub async fn unload(&self, name: &str) -> Result<(), ServeError> {
        let (own, name) = (self.clone(), name.to_owned());
        let unload = async move {
            let turn = own.turn(&name);
            let _turn = turn.lock().await;
            own.0.catalog.unload(&name)
        };
        detached("unloading a model", unload).await
    }

    /// Handles a request. If the version is replaced before the request is in its queue, the new version handles it.
    ///
    /// # Errors
    /// E1502 to E1508, and the errors of calls: see [`ServeError`].
    pub async fn infer(&self, request: InferRequest) -> Result<InferAnswer, ServeError> {
        let find = || self.served(&request.model, request.version.as_deref());
        let mut served = find()?;
        loop {
            let closed = match served.infer(request.clone()).await {
                Err(error @ ServeError::Draining { .. }) => error,
                answer => return answer,
            };
            match find() {
                Ok(newer) if !Arc::ptr_eq(&served, &newer) => served = newer,
                _ => return Err(closed),
            }
        }
    }

    /// The version of a model that serves requests for `version`, or for no particular version.
    pub(crate) fn served(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<Arc<ServedModel>, ServeError> {
        self.0.catalog.find(name, version)
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Appends the metrics to `text`, in the OpenMetrics format, without the end marker.
    pub(crate) fn write_metrics(&self, text: &mut String) -> fmt::Result {
        self.0.metrics.write(text)
    }

    /// Stops accepting requests; pending ones are completed.
    pub fn close(&self) {
        self.0.catalog.close();
    }

    fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.turns.lock();
        // Names come from requests: a name for which no request waits is removed.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }
}

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Repository({:?})", self.0.options.models)
    }
}

/// Runs blocking work on a thread for such work.
async fn blocking<T: Send + 'static>(
    doing: &'static str,
    work: impl FnOnce() -> Result<T, ServeError> + Send + 'static,
) -> Result<T, ServeError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(ServeError::Panicked { doing }))
}

/// Runs work to its end, even if the caller stops waiting.
async fn detached<T: Send + 'static>(
    doing: &'static str,
    work: impl Future<Output = Result<T, ServeError>> + Send + 'static,
) -> Result<T, ServeError> {
    let done = tokio::spawn(work).await;
    done.unwrap_or(Err(ServeError::Panicked { doing }))
}
