//! Writes in the background: a queue bounded by bytes, processed in order by one task.
//!
//! The order matters, since the claim on a compile is released only after the entry has been written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use crate::stats::{add, count};
use crate::tier::Shared;
use crate::worker::Worker;

/// A queue of writes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    sender: UnboundedSender<Job>,
    waiting: Arc<AtomicU64>,
    limit: u64,
}

#[derive(Debug)]
enum Job {
    Put {
        name: Path,
        file: Bytes,
    },
    Delete {
        name: Path,
    },
    /// Signals that everything before it is done.
    Mark(mpsc::SyncSender<()>),
}

impl Writer {
    pub(crate) fn start(worker: &Worker, shared: Arc<Shared>) -> Self {
        let (sender, receiver) = unbounded_channel();
        let waiting = Arc::new(AtomicU64::new(0));
        let writer = Self {
            sender,
            limit: shared.options.queue_bytes,
            waiting: Arc::clone(&waiting),
        };
        worker.spawn(work(receiver, shared, waiting));
        writer
    }

    /// Queues an entry; false if too many bytes wait.
    pub(crate) fn put(&self, name: Path, file: Vec<u8>) -> bool {
        let bytes = file.len() as u64;
        let reserve = |waiting: u64| {
            let after = waiting.checked_add(bytes)?;
            (after <= self.limit).then_some(after)
        };
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        if self.waiting.fetch_update(set, get, reserve).is_err() {
            return false;
        }
        let file = Bytes::from(file);
        self.sender.send(Job::Put { name, file }).is_ok()
    }

    /// Queues the removal of an object.
    pub(crate) fn delete(&self, name: Path) {
        // Without a task, nothing is removed; leftover objects are harmless.
        let _ = self.sender.send(Job::Delete { name });
    }

    /// Waits until everything queued so far is done; false if that takes longer.
    pub(crate) fn drain(&self, limit: Duration) -> bool {
        let (done, told) = mpsc::sync_channel(1);
        self.sender.send(Job::Mark(done)).is_ok() && told.recv_timeout(limit).is_ok()
    }
}

async fn work(mut jobs: UnboundedReceiver<Job>, shared: Arc<Shared>, waiting: Arc<AtomicU64>) {
    while let Some(job) = jobs.recv().await {
        match job {
            Job::Put { name, file } => {
                let bytes = file.len() as u64;
                put(&shared, &name, file).await;
                waiting.fetch_sub(bytes, Ordering::AcqRel);
            }
            Job::Delete { name } if shared.admits() => {
                let deleted = shared.store.delete(&name);
                let deleted = timeout(shared.options.write_deadline, deleted).await;
                match deleted {
                    Ok(Ok(()) | Err(object_store::Error::NotFound { .. })) => shared.succeeded(),
                    Ok(Err(error)) => shared.failed(&error.to_string()),
                    Err(_) => shared.timed_out(),
                }
            }
            Job::Delete { .. } => {}
            Job::Mark(done) => {
                let _ = done.send(());
            }
        }
    }
}

async fn put(shared: &Shared, name: &Path, file: Bytes) {
    let stats = &shared.counters;
    if !shared.admits() {
        count(&stats.not_written);
        return;
    }
    let bytes = file.len() as u64;
    let written = shared.store.put(name, PutPayload::from_bytes(file));
    match timeout(shared.options.write_deadline, written).await {
        Ok(Ok(_)) => {
            shared.succeeded();
            count(&stats.written);
            add(&stats.bytes_written, bytes);
        }
        Ok(Err(error)) => {
            count(&stats.not_written);
            shared.failed(&error.to_string());
        }
        Err(_) => {
            count(&stats.not_written);
            shared.timed_out();
        }
    }
}
