//! Reads the environment; no other code in the library does.
//!
//! | variable | meaning |
//! |---|---|
//! | `KILN_CACHE_DIR` | the folder of compiled code; `off` for none |
//! | `KILN_CACHE_MAX_MB` | its approximate size limit in megabytes |
//! | `AWS_*`, `GOOGLE_*`, `AZURE_*` | settings of shared stores, as read by those stores' own tools |
//! | `XDG_CACHE_HOME`, `HOME` | the base of the default folder: `$XDG_CACHE_HOME/kiln`, otherwise `$HOME/.cache/kiln` |

use std::env;
use std::path::PathBuf;

/// The cache settings of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheEnvironment {
    /// `None` disables the cache.
    pub(crate) folder: Option<PathBuf>,
    pub(crate) max_bytes: Option<u64>,
}

/// Reads the cache settings.
pub(crate) fn cache() -> CacheEnvironment {
    let path = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    of_variables(
        path("KILN_CACHE_DIR").map(PathBuf::from),
        path("XDG_CACHE_HOME").map(PathBuf::from),
        path("HOME").map(PathBuf::from),
        env::var("KILN_CACHE_MAX_MB").ok(),
    )
}

/// The settings of object stores, by name in lower case.
#[cfg(feature = "remote")]
pub(crate) fn store_settings() -> Vec<(String, String)> {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        let is_setting = ["AWS_", "GOOGLE_", "AZURE_"]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        is_setting.then(|| (name.to_ascii_lowercase(), value))
    });
    variables.collect()
}

fn of_variables(
    folder: Option<PathBuf>,
    xdg: Option<PathBuf>,
    home: Option<PathBuf>,
    max_mb: Option<String>,
) -> CacheEnvironment {
    let max_bytes = max_mb.and_then(|text| text.trim().parse::<u64>().ok());
    let folder = match folder {
        Some(folder) if folder.as_os_str() == "off" => None,
        Some(folder) => Some(folder),
        // The specification requires that relative paths are ignored.
        None => match xdg.filter(|folder| folder.is_absolute()) {
            Some(folder) => Some(folder.join("kiln")),
            None => home
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join(".cache").join("kiln")),
        },
    };
    CacheEnvironment {
        folder,
        max_bytes: max_bytes.map(|megabytes| megabytes.saturating_mul(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_folder_is_the_named_one_or_in_the_users_cache_folder() {
        let path = |text: &str| Some(PathBuf::from(text));
        let folder = |own, xdg, home| of_variables(own, xdg, home, None).folder;
        assert_eq!(folder(path("/c"), path("/x"), path("/h")), path("/c"));
        assert_eq!(folder(path("off"), path("/x"), path("/h")), None);
        assert_eq!(folder(None, path("/x"), path("/h")), path("/x/kiln"));
        assert_eq!(folder(None, path("x"), path("/h")), path("/h/.cache/kiln"));
        assert_eq!(folder(None, None, None), None);
        let limit = |text: &str| of_variables(None, None, None, Some(text.to_owned())).max_bytes;
        assert_eq!((limit("250"), limit("many")), (Some(250_000_000), None));
    }
}
