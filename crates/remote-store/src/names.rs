//! Names of objects in a store.
//!
//! ```text
//! kiln/2/kernel/4e/4e07…        the entry of a key: format, kind, first byte of the digest, digest
//! kiln/2/claims/4e/4e07…        the claim on compiling it
//! ```

use kiln_kernel_cache::{CacheKey, FORMAT};
use object_store::path::Path;

/// The first part of every name.
const ROOT: &str = "kiln";

const CLAIMS: &str = "claims";

/// The name of a key's entry, under the store's own prefix.
pub(crate) fn entry(prefix: &Path, key: &CacheKey) -> Path {
    name(prefix, key.kind().name(), key)
}

/// The name of the claim on a key.
pub(crate) fn claim(prefix: &Path, key: &CacheKey) -> Path {
    name(prefix, CLAIMS, key)
}

fn name(prefix: &Path, kind: &str, key: &CacheKey) -> Path {
    let digest = key.digest().to_string();
    let first = digest.chars().take(2).collect::<String>();
    let parts = [ROOT, &FORMAT.to_string(), kind, &first, &digest];
    parts
        .iter()
        .fold(prefix.clone(), |path, part| path.join(*part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_kernel_cache::EntryKind;

    #[test]
    fn names_tell_kind_and_digest() {
        let key = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp")]);
        let digest = key.digest().to_string();
        let name = entry(&Path::from("fleet"), &key).to_string();
        assert_eq!(
            name,
            format!("fleet/kiln/2/program/{}/{digest}", &digest[..2])
        );
        let claim = claim(&Path::default(), &key).to_string();
        assert_eq!(claim, format!("kiln/2/claims/{}/{digest}", &digest[..2]));
    }
}
