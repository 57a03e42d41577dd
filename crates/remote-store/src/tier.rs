//! The store as a tier: [`RemoteTier`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kiln_fork_lock::ForkLock;
use kiln_kernel_cache::{
    CacheKey, Claim, Clock, Content, KeyDigest, Miss, NotStored, SealKey, Stored, StoredEntry,
    Tier, open_entry, seal_entry,
};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt};
use tokio::time::{Instant as Deadline, timeout_at};

use crate::absent::Absent;
use crate::breaker::{Breaker, Turn};
use crate::claims::{Claims, Tried, try_claim};
use crate::error::RemoteError;
use crate::location;
use crate::names;
use crate::options::RemoteOptions;
use crate::stats::{Counters, RemoteStats, add, count};
use crate::worker::{NoResult, Worker};
use crate::writer::Writer;

/// Entries in a store that many machines share.
///
/// The key authenticates entries that are read: any holder of the key can supply code to every other holder. Processes
/// that are given the key but should not write set [`read_only`](RemoteOptions::read_only).
pub struct RemoteTier {
    shared: Arc<Shared>,
    seal: SealKey,
    prefix: Path,
    absent: ForkLock<Absent>,
    claims: ForkLock<Claims>,
    writer: Writer,
    worker: Worker,
}

/// The state that the tier and its background writes share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) options: RemoteOptions,
    pub(crate) counters: Counters,
    clock: Arc<dyn Clock>,
    breaker: ForkLock<Breaker>,
}

/// Why a read returned nothing.
enum Unread {
    TooLarge(u64),
    TimedOut,
    Failed(String),
}

impl RemoteTier {
    /// The store at an address: `file:///mnt/shared/kiln`, `s3://bucket/kiln`, `gs://bucket/kiln`, `az://container/kiln`,
    /// `https://cache.local/kiln`. Makes no request.
    ///
    /// Settings are credentials and the like, under the names that the stores' own tools give them, in lower case:
    /// `aws_access_key_id`, `aws_endpoint`, `google_service_account`, `azure_storage_account_name`, `allow_http`.
    ///
    /// # Errors
    /// E0730 when the address is invalid; E0731 when this build cannot reach such stores; E0732 when no thread can be
    /// started.
    pub fn open(
        address: &str,
        settings: impl IntoIterator<Item = (String, String)>,
        seal: SealKey,
        options: RemoteOptions,
    ) -> Result<Self, RemoteError> {
        let (store, prefix) = location::open(address, settings.into_iter().collect())?;
        let begin = Instant::now();
        Self::on(
            store,
            prefix,
            seal,
            options,
            Arc::new(move || begin.elapsed()),
        )
    }

    /// As [`open`](Self::open), on a given store and clock.
    ///
    /// # Errors
    /// E0732 when no thread can be started.
    pub(crate) fn on(
        store: Arc<dyn ObjectStore>,
        prefix: Path,
        seal: SealKey,
        options: RemoteOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, RemoteError> {
        let worker = Worker::start()?;
        let shared = Arc::new(Shared {
            store,
            options,
            counters: Counters::default(),
            clock,
            breaker: ForkLock::new(move || Breaker::new(options.breaker)),
        });
        Ok(Self {
            seal,
            prefix,
            absent: ForkLock::new(move || Absent::new(options.absent_for)),
            claims: ForkLock::new(Claims::new),
            writer: Writer::start(&worker, Arc::clone(&shared)),
            shared,
            worker,
        })
    }

    /// The statistics so far.
    pub fn stats(&self) -> RemoteStats {
        self.shared.counters.snapshot()
    }

    /// Waits until everything stored so far is written; false if that takes longer than `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        !self.worker.is_here() || self.writer.drain(limit)
    }

    /// An entry's file.
    fn read(&self, name: Path) -> Result<Option<Vec<u8>>, Miss> {
        let (shared, options) = (Arc::clone(&self.shared), &self.shared.options);
        let limit = options.read_limit(options.max_entry_bytes);
        let result = self.worker.run(limit, async move {
            read(&*shared.store, &name, &shared.options).await
        });
        match result {
            Ok(Ok(file)) => {
                self.shared.succeeded();
                Ok(file)
            }
            Ok(Err(Unread::TooLarge(bytes))) => {
                self.shared.succeeded();
                let limit = options.max_entry_bytes;
                Err(Miss::TooLarge { bytes, limit })
            }
            Ok(Err(Unread::Failed(message))) => {
                self.shared.failed(&message);
                Err(Miss::Unavailable { message })
            }
            Ok(Err(Unread::TimedOut)) | Err(NoResult::TimedOut) => {
                self.shared.timed_out();
                Err(unavailable("the read took too long"))
            }
            Err(NoResult::NoThread) => Err(no_thread()),
        }
    }

    /// Whether a request may be made; counts if not.
    fn admitted(&self) -> Result<(), Miss> {
        match self.shared.admits() {
            true => Ok(()),
            false => Err(unavailable(
                "left alone for a while after it failed several times",
            )),
        }
    }

    fn lookup(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let (digest, counters) = (key.digest(), &self.shared.counters);
        if self.absent.lock().has(digest, self.shared.now()) {
            count(&counters.believed_absent);
            return Err(Miss::Absent);
        }
        self.admitted()?;
        let Some(file) = self.read(names::entry(&self.prefix, key))? else {
            count(&counters.absent);
            self.absent.lock().note(digest, self.shared.now());
            return Err(Miss::Absent);
        };
        let bytes = file.len() as u64;
        let entry = open_entry(key, file, &self.seal).inspect_err(|miss| {
            count(&counters.rejected);
            tracing::warn!(%key, %miss, "rejected an entry of the remote store");
        })?;
        count(&counters.hits);
        add(&counters.bytes_read, bytes);
        Ok(entry)
    }

    fn claim(&self, key: &CacheKey) -> Result<Claim, NoResult> {
        let (digest, options, now) = (key.digest(), &self.shared.options, self.shared.now());
        let expired = {
            let mut claims = self.claims.lock();
            if options.read_only || !claims.is_supported() {
                return Ok(Claim::Unavailable);
            }
            if claims.is_held_still(digest, now, options.poll) {
                return Ok(Claim::Busy);
            }
            claims.expired(digest, now, options.lease)
        };
        if !self.shared.admits() {
            return Ok(Claim::Unavailable);
        }
        let (shared, name) = (Arc::clone(&self.shared), names::claim(&self.prefix, key));
        let claimed = name.clone();
        let tried = self.worker.run(options.deadline, async move {
            let deadline = Deadline::now() + shared.options.deadline;
            timeout_at(deadline, try_claim(&*shared.store, &claimed, expired)).await
        })?;
        Ok(match tried {
            Ok(tried) => self.claimed(digest, name, tried),
            Err(_) => {
                self.shared.timed_out();
                Claim::Unavailable
            }
        })
    }

    fn claimed(&self, digest: KeyDigest, name: Path, tried: Tried) -> Claim {
        let (shared, counters) = (&self.shared, &self.shared.counters);
        match tried {
            Tried::Held { is_taken_over } => {
                shared.succeeded();
                count(&counters.claimed);
                if is_taken_over {
                    count(&counters.taken_over);
                }
                self.claims.lock().forget(digest);
                let writer = self.writer.clone();
                Claim::Held(Box::new(Held { name, writer }))
            }
            Tried::Busy(version) => {
                shared.succeeded();
                count(&counters.busy);
                self.claims.lock().note_busy(digest, version, shared.now());
                Claim::Busy
            }
            Tried::Unsupported => {
                shared.succeeded();
                self.claims.lock().note_unsupported();
                Claim::Unavailable
            }
            Tried::Failed(message) => {
                shared.failed(&message);
                Claim::Unavailable
            }
        }
    }
}

impl Tier for RemoteTier {
    fn name(&self) -> &str {
        "remote"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        match self.worker.is_here() {
            true => self.lookup(key),
            false => Err(no_thread()),
        }
    }

    fn put(
        &self,
        key: &CacheKey,
        compile_time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        let options = &self.shared.options;
        if options.read_only {
            return Err(NotStored::ReadOnly);
        }
        if !self.worker.is_here() {
            let message = FORKED.to_owned();
            return Err(NotStored::Unavailable { message });
        }
        let (bytes, limit) = (content.len() as u64, options.max_entry_bytes);
        if bytes > limit {
            return Err(NotStored::TooLarge { bytes, limit });
        }
        let file = seal_entry(key, compile_time, content, &self.seal)?;
        self.absent.lock().forget(key.digest());
        if !self.writer.put(names::entry(&self.prefix, key), file) {
            count(&self.shared.counters.dropped);
            let message = "too much waits to be written".to_owned();
            return Err(NotStored::Unavailable { message });
        }
        Ok(Stored::default())
    }

    fn remove(&self, key: &CacheKey) {
        if !self.shared.options.read_only && self.worker.is_here() {
            self.writer.delete(names::entry(&self.prefix, key));
        }
    }

    fn contains(&self, key: &CacheKey) -> bool {
        let (digest, options, now) = (key.digest(), &self.shared.options, self.shared.now());
        if !self.worker.is_here()
            || !self
                .claims
                .lock()
                .may_ask_for_entry(digest, now, options.poll)
            || !self.shared.admits()
        {
            return false;
        }
        let (shared, name) = (Arc::clone(&self.shared), names::entry(&self.prefix, key));
        let found = self.worker.run(options.deadline, async move {
            let deadline = Deadline::now() + shared.options.deadline;
            timeout_at(deadline, shared.store.head(&name)).await
        });
        match found {
            Ok(Ok(Ok(_))) => {
                self.shared.succeeded();
                self.absent.lock().forget(digest);
                true
            }
            Ok(Ok(Err(Error::NotFound { .. }))) => {
                self.shared.succeeded();
                false
            }
            Ok(Ok(Err(error))) => {
                self.shared.failed(&error.to_string());
                false
            }
            Ok(Err(_)) | Err(NoResult::TimedOut) => {
                self.shared.timed_out();
                false
            }
            Err(NoResult::NoThread) => false,
        }
    }

    fn try_claim(&self, key: &CacheKey) -> Claim {
        if !self.worker.is_here() {
            return Claim::Unavailable;
        }
        self.claim(key).unwrap_or_else(|problem| {
            if problem == NoResult::TimedOut {
                self.shared.timed_out();
            }
            Claim::Unavailable
        })
    }
}

impl Drop for RemoteTier {
    fn drop(&mut self) {
        if self.worker.is_here() && !self.writer.drain(self.shared.options.drain) {
            tracing::warn!("gave up waiting for writes to the remote store");
        }
    }
}

impl fmt::Debug for RemoteTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteTier")
            .field("store", &self.shared.store.to_string())
            .field("prefix", &self.prefix.to_string())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Whether a request may be made now; counts if not.
    pub(crate) fn admits(&self) -> bool {
        let admits = self.breaker.lock().admits(self.now());
        if !admits {
            count(&self.counters.left_alone);
        }
        admits
    }

    pub(crate) fn succeeded(&self) {
        if self.breaker.lock().succeeded() == Turn::Closed {
            tracing::info!("the remote store answers again");
        }
    }

    pub(crate) fn failed(&self, message: &str) {
        count(&self.counters.failed);
        self.note_failure(message);
    }

    pub(crate) fn timed_out(&self) {
        count(&self.counters.timed_out);
        self.note_failure("it took too long");
    }

    fn note_failure(&self, message: &str) {
        tracing::debug!(message, "a request to the remote store failed");
        if let Turn::Opened(pause) = self.breaker.lock().failed(self.now()) {
            count(&self.counters.opened);
            tracing::warn!(message, ?pause, "the remote store fails and is left alone");
        }
    }
}

/// A claim that is released when it is dropped, after the entries that were stored before.
struct Held {
    name: Path,
    writer: Writer,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.writer.delete(self.name.clone());
    }
}

const FORKED: &str = "this process was forked after the store was opened";

fn no_thread() -> Miss {
    unavailable(FORKED)
}

fn unavailable(message: &str) -> Miss {
    Miss::Unavailable {
        message: message.to_owned(),
    }
}

/// An object, within the limits on time and bytes; `None` if there is none.
async fn read(
    store: &dyn ObjectStore,
    name: &Path,
    options: &RemoteOptions,
) -> Result<Option<Vec<u8>>, Unread> {
    let begin = Deadline::now();
    let answer = store.get_opts(name, GetOptions::default());
    let answer = timeout_at(begin + options.deadline, answer).await;
    let answer = match answer.map_err(|_| Unread::TimedOut)? {
        Ok(answer) => answer,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(Unread::Failed(error.to_string())),
    };
    let promised = answer.meta.size;
    if promised > options.max_entry_bytes {
        return Err(Unread::TooLarge(promised));
    }
    let last = begin + options.read_limit(promised);
    let mut file = Vec::new();
    let mut pieces = answer.into_stream();
    loop {
        let next = (Deadline::now() + options.deadline).min(last);
        let piece = timeout_at(next, pieces.next()).await;
        let Some(piece) = piece.map_err(|_| Unread::TimedOut)? else {
            return Ok(Some(file));
        };
        let piece = piece.map_err(|error| Unread::Failed(error.to_string()))?;
        let bytes = (file.len() as u64).saturating_add(piece.len() as u64);
        if bytes > options.max_entry_bytes {
            return Err(Unread::TooLarge(bytes));
        }
        // The size that the store reports is not trusted: memory grows with the received data.
        let room = file.try_reserve(piece.len());
        room.map_err(|error| Unread::Failed(error.to_string()))?;
        file.extend_from_slice(&piece);
    }
}
