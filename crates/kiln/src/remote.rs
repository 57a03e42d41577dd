//! A store of compiled code shared by many machines.
//!
//! The first machine that needs a kernel compiles it, and the others load it. The store is an object store (S3, Google
//! Cloud Storage, Azure), a plain HTTP server or a shared folder. Entries are signed with a key, since the code in them
//! is run; entries that are not signed with that key are ignored. No call waits for a store longer than
//! [`RemoteOptions`] allows, and a store that is down is not used for a while.
//!
//! ```no_run
//! use kiln::{Options, SealKey, remote};
//!
//! let key = SealKey::read("/etc/my-service/cache.key")?;
//! let store = remote::open("s3://my-bucket/kiln", key, remote::RemoteOptions::default())?;
//! let model = Options::new().tier(store.clone()).load("model.onnx")?;
//! // …
//! println!("{:?}", store.stats());
//! # Ok::<(), kiln::Error>(())
//! ```

pub use kiln_remote_store::{BreakerOptions, RemoteError, RemoteOptions, RemoteStats, RemoteTier};

use crate::environment;
use crate::error::Error;
use kiln_kernel_cache::SealKey;
use std::sync::Arc;

/// The store at an address: `s3://bucket/kiln`, `gs://bucket/kiln`, `az://container/kiln`, `https://cache.local/kiln`,
/// `file:///mnt/shared/kiln`. Makes no request.
///
/// Credentials and settings come from the environment variables that the stores' own tools read, such as
/// `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT` and `AWS_REGION`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`.
///
/// # Errors
/// E0730 if the address is not that of a store, E0731 if this build cannot reach such stores, E0732 if no thread can be
/// started.
pub fn open(address: &str, key: SealKey, options: RemoteOptions) -> Result<Arc<RemoteTier>, Error> {
    let store = RemoteTier::open(address, environment::store_settings(), key, options)?;
    Ok(Arc::new(store))
}
