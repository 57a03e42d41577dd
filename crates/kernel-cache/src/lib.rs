//! A cache of compiled artifacts: in memory, on disk and in any other attached store; one compile per key.
//!
//! A runtime holds a [`TieredCache`]: an LRU of ready values in front of [`Tier`]s of bytes, with one compile per key
//! across threads and processes. A [`Codec`] defines the values: kernels, serialised programs, packed constants. The
//! cache does not interpret the bytes, but keeps code and data apart ([`Payload`]). A problem with a store is a
//! [`Miss`] with a reason, or a [`NotStored`], each counted; it is never an error of the call.
//!
//! | you want to | use |
//! |---|---|
//! | get a value, compiled at most once | [`TieredCache::get_or_compile`] |
//! | the same without waiting here | [`TieredCache::begin`] |
//! | keep entries in a folder; list, check, clear it | [`DiskTier`] |
//! | put many entries into one file, and use it | [`CollectingTier`], [`Bundle`] |
//! | attach another store | [`Tier`]; [`seal_entry`], [`open_entry`] if it can be written by other users |
//! | find out why a kernel was compiled | [`TieredCache::explain`] |
//! | bound other values by count and bytes | [`BoundedLru`] |
//!
//! ```
//! use std::{convert::Infallible, sync::Arc, time::{Duration, Instant}};
//! use kiln_kernel_cache::{BytesCodec, CacheKey, CacheOptions, EntryKind, TieredCache};
//!
//! let begin = Instant::now();
//! let clock = Arc::new(move || begin.elapsed());
//! let cache = TieredCache::<Vec<u8>, Infallible>::new(BytesCodec, clock, CacheOptions::default());
//! let key = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp"), ("compiler", "llvm 19.1.7")]);
//! let wait = Duration::from_secs(1);
//! let first = cache.get_or_compile(&key, wait, || Ok(vec![1, 2, 3]))?;
//! let again = cache.get_or_compile(&key, wait, || unreachable!("it is there"))?;
//! assert_eq!((first.value, cache.stats().compiles), (again.value, 1));
//! # Ok::<(), kiln_kernel_cache::Failure<Infallible>>(())
//! ```

#![deny(unsafe_code)]

mod bounded;
mod bundle;
mod cache;
mod clock;
mod codec;
mod collected;
mod disk;
mod entry;
mod envelope;
mod error;
mod explain;
mod failures;
mod flight;
mod fs;
mod key;
mod miss;
mod payload;
mod seal;
mod stats;
mod sync;
mod tier;
mod tier_list;

pub use bounded::{BoundedLru, Inserted, LruLimits};
pub use bundle::Bundle;
pub use cache::{Begin, CacheOptions, Canceller, Found, Source, Ticket, TieredCache, Waiter};
pub use clock::Clock;
pub use codec::{BytesCodec, Codec};
pub use collected::{Collected, CollectingTier};
pub use disk::{Cleared, DiskOptions, DiskTier, DiskUsage, EntryInfo, Verified};
pub use entry::{EntryHead, FORMAT, StoredEntry};
pub use envelope::{open_entry, seal_entry};
pub use error::{CacheError, Failure, FolderProblem};
pub use explain::{MissReport, Nearest, StoredHeads};
pub use fs::{FileInfo, FileKind, Folder, FolderFile, Fs, SystemFs, open_regular};
pub use key::{CacheKey, EntryKind, FieldDifference, FieldValue, KeyDigest, KeyField};
pub use miss::{Miss, MissCategory, NotStored, Rejection, TierMiss};
pub use payload::{Content, Payload};
pub use seal::SealKey;
pub use stats::CacheStats;
pub use tier::{Claim, Stored, Tier};
pub use tier_list::TierList;
