//! A kernel-cache tier shared by many machines, so that a kernel is compiled once for a whole fleet.
//!
//! A [`RemoteTier`] keeps entries in an object store (a folder, S3, Google Cloud Storage, Azure) or behind a plain HTTP
//! server. The store and the network are not trusted: each entry is signed with a [`SealKey`], and its signature is
//! verified before it is used. Nor are they relied on:
//!
//! - a read ends after a bounded time, whatever the store does;
//! - a store that fails several times in a row is not used for a while (a circuit breaker);
//! - absent entries are remembered for a while;
//! - writes happen in the background, in order, and are dropped when too many are queued;
//! - a machine that is about to compile claims the key, so that other machines wait for its result instead of compiling
//!   too.
//!
//! Every one of these events is counted: see [`RemoteStats`]. A problem with the store is a miss with a reason, never an
//! error of a call.
//!
//! [`SealKey`]: kiln_kernel_cache::SealKey

#![forbid(unsafe_code)]

mod absent;
mod breaker;
mod claims;
mod error;
mod location;
mod names;
mod options;
mod stats;
mod tier;
mod worker;
mod writer;

pub use error::RemoteError;
pub use options::{BreakerOptions, RemoteOptions};
pub use stats::RemoteStats;
pub use tier::RemoteTier;
