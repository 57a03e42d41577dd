//! The contents of a model folder: names, versions, files.
//!
//! *Invariant:* a name from a request refers only to a folder directly beneath the repository: it has no separators and
//! does not begin with a dot.

use crate::config::{ModelConfig, Versions};
use crate::error::{ServeError, excerpt, shown};
use crate::options::Models;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The files that a version may consist of; exactly one of them must exist.
const FILES: [&str; 4] = [
    "model.onnx",
    "model.kiln",
    "model.kiln-bundle",
    "model.json",
];

/// The maximum number of folder entries that are read.
const ENTRIES: usize = 10_000;

/// A model that was found in the repository.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) config: ModelConfig,
    /// The file of the configuration, for messages.
    pub(super) config_path: String,
    /// The versions to load, each with its file or folder, in ascending order.
    pub(super) versions: Vec<(u64, PathBuf)>,
}

/// The names of all models.
pub(super) fn names(models: &Models) -> Result<Vec<String>, ServeError> {
    match models {
        Models::File { name, .. } if !is_name(name) => Err(ServeError::Setting {
            name: "name",
            expected: "a name of letters, digits, `-`, `_` and `.`",
            found: name.escape_debug().to_string(),
        }),
        Models::File { name, .. } => Ok(vec![name.clone()]),
        Models::Folder(root) => {
            let folders = folders(root)?.into_iter();
            Ok(folders.filter(|name| is_name(name)).collect())
        }
    }
}

/// All versions of all models. A model whose folder cannot be read is omitted: loading it reports the reason.
pub(super) fn all(models: &Models) -> Result<BTreeSet<(String, u64)>, ServeError> {
    let mut found = BTreeSet::new();
    for name in names(models)? {
        match models {
            Models::File { .. } => {
                found.insert((name, 1));
            }
            Models::Folder(root) => {
                let versions = versions(&root.join(&name)).unwrap_or_default();
                found.extend(
                    versions
                        .into_iter()
                        .map(|(version, _)| (name.clone(), version)),
                );
            }
        }
    }
    Ok(found)
}

/// A model's configuration, and the versions to load.
///
/// # Errors
/// E1503 when there is no such model; E1521 when it has no version, or lacks a requested one; E1522 for its
/// configuration.
pub(super) fn of_model(models: &Models, name: &str) -> Result<Found, ServeError> {
    let unknown = || ServeError::UnknownModel {
        name: excerpt(name),
        version: String::new(),
        known: "those in the repository's folder".to_owned(),
    };
    let root = match models {
        Models::File {
            path,
            name: own,
            config,
        } => {
            if own != name {
                return Err(unknown());
            }
            let config_path = config.clone().unwrap_or_default();
            return Ok(Found {
                config: match config {
                    Some(path) => ModelConfig::read(path)?,
                    None => ModelConfig::default(),
                },
                config_path: shown(&config_path),
                versions: vec![(1, path.clone())],
            });
        }
        Models::Folder(root) => root,
    };
    let folder = root.join(name);
    if !is_name(name) || !folder.is_dir() {
        return Err(unknown());
    }
    let config_path = folder.join("config.json");
    let config = ModelConfig::read(&config_path)?;
    let all = versions(&folder)?;
    let versions = match &config.versions {
        Versions::All => all,
        Versions::Latest => all.into_iter().next_back().into_iter().collect(),
        Versions::Listed(wanted) => {
            let missing = wanted
                .iter()
                .find(|wanted| !all.iter().any(|(version, _)| version == *wanted));
            if let Some(missing) = missing {
                let problem =
                    format!("expected a folder `{missing}`, which the configuration lists");
                return Err(ServeError::layout(&folder, problem));
            }
            all.into_iter()
                .filter(|(version, _)| wanted.contains(version))
                .collect()
        }
    };
    if versions.is_empty() {
        let problem = "expected a folder for a version, such as `1`, found none";
        return Err(ServeError::layout(&folder, problem));
    }
    Ok(Found {
        config,
        config_path: shown(&config_path),
        versions,
    })
}

/// The model's file of a version.
///
/// # Errors
/// E1521 when there is none, or more than one.
pub(super) fn file_of(version: &Path) -> Result<PathBuf, ServeError> {
    if !version.is_dir() {
        return Ok(version.to_owned());
    }
    let files = FILES.iter().map(|file| version.join(file));
    let mut found: Vec<PathBuf> = files.filter(|path| path.is_file()).collect();
    match (found.pop(), found.len()) {
        (Some(file), 0) => Ok(file),
        (file, _) => {
            let found = if file.is_some() { "several" } else { "none" };
            let problem = format!("expected one of {}, found {found}", FILES.join(", "));
            Err(ServeError::layout(version, problem))
        }
    }
}

/// The versions of a model in ascending order.
fn versions(folder: &Path) -> Result<Vec<(u64, PathBuf)>, ServeError> {
    let numbers = folders(folder)?.into_iter().filter_map(|name| {
        let number: u64 = name.parse().ok()?;
        // `01` and `+1` are not versions: the folder of a version is found by its number.
        (number > 0 && number.to_string() == name).then(|| (number, folder.join(&name)))
    });
    let mut versions: Vec<(u64, PathBuf)> = numbers.collect();
    versions.sort();
    Ok(versions)
}

/// The names of the folders in a folder, sorted.
fn folders(folder: &Path) -> Result<Vec<String>, ServeError> {
    let unreadable = |error: std::io::Error| ServeError::layout(folder, error.to_string());
    let mut names = Vec::new();
    for (count, entry) in std::fs::read_dir(folder).map_err(unreadable)?.enumerate() {
        if count == ENTRIES {
            let problem = format!("expected at most {ENTRIES} entries, found more");
            return Err(ServeError::layout(folder, problem));
        }
        let entry = entry.map_err(unreadable)?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().is_dir()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a name is valid for a model. `stats` has a special meaning in the protocol's paths.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    (1..=200).contains(&name.len())
        && name.chars().all(is_letter)
        && !name.starts_with('.')
        && name != "stats"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "{}").unwrap();
        }
    }

    #[test]
    fn versions_are_folders_named_by_numbers() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            &[
                "a/1/model.kiln",
                "a/10/model.kiln",
                "a/2/model.kiln",
                "a/02/x",
                "a/0/x",
                "a/new/x",
                "a/3",
                ".git/1/x",
                "b c/1/x",
            ],
        );
        let models = Models::Folder(root.path().to_owned());
        assert_eq!(names(&models).unwrap(), ["a"]);
        let all: Vec<u64> = all(&models)
            .unwrap()
            .into_iter()
            .map(|(_, version)| version)
            .collect();
        assert_eq!(all, [1, 2, 10]);
        let latest = of_model(&models, "a").unwrap();
        assert_eq!(latest.versions.len(), 1);
        assert_eq!(latest.versions[0].0, 10);
        make(root.path(), &["a/config.json"]);
        std::fs::write(root.path().join("a/config.json"), r#"{"versions": [2, 7]}"#).unwrap();
        assert_eq!(of_model(&models, "a").unwrap_err().code(), "E1521");
        std::fs::write(root.path().join("a/config.json"), r#"{"versions": [2, 1]}"#).unwrap();
        let listed: Vec<u64> = of_model(&models, "a")
            .unwrap()
            .versions
            .into_iter()
            .map(|(version, _)| version)
            .collect();
        assert_eq!(listed, [1, 2]);
    }

    #[test]
    fn names_lead_nowhere_but_to_folders_of_the_repository() {
        let outer = tempfile::tempdir().unwrap();
        make(
            outer.path(),
            &["repository/a/1/model.kiln", "secret/1/model.kiln"],
        );
        let models = Models::Folder(outer.path().join("repository"));
        for name in [
            "../secret",
            "..",
            ".",
            "",
            "a/1",
            "/etc",
            "a\0",
            "nothing",
            "stats",
        ] {
            let error = of_model(&models, name).unwrap_err();
            assert_eq!(error.code(), "E1503", "{name:?}");
        }
        assert!(of_model(&models, "a").is_ok());
    }

    #[test]
    fn a_version_has_exactly_one_file() {
        let root = tempfile::tempdir().unwrap();
        make(
            root.path(),
            &[
                "one/model.onnx",
                "two/model.onnx",
                "two/model.kiln",
                "none/readme",
            ],
        );
        assert!(
            file_of(&root.path().join("one"))
                .unwrap()
                .ends_with("one/model.onnx")
        );
        for folder in ["two", "none"] {
            assert_eq!(
                file_of(&root.path().join(folder)).unwrap_err().code(),
                "E1521"
            );
        }
    }
}
