//! The licence texts of everything in a release: of crates, of the system's packages, and of Rust's own library.
//!
//! Invariant: a component without a text is an error, never left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::archive;
use super::components::{Components, Crate};
use super::libraries::Package;
use crate::step;

/// The prefixes of names of files that are licences, or that a licence requires.
const NAMES: [&str; 7] = [
    "LICENSE",
    "LICENCE",
    "COPYING",
    "COPYRIGHT",
    "NOTICE",
    "UNLICENSE",
    "AUTHORS",
];

/// The folder in which Debian has the texts to which the licences of its packages refer.
const COMMON: &str = "/usr/share/common-licenses";

/// Writes the texts to a folder, a folder per component.
pub(super) fn collect(
    root: &Path,
    components: &Components,
    packages: &[Package],
    folder: &Path,
) -> Result<()> {
    for found in components.foreign() {
        let own = folder
            .join("crates")
            .join(format!("{}-{}", found.name, found.version));
        let texts = texts(found)?;
        for text in &texts {
            archive::copy(text, &own.join(text.file_name().unwrap_or_default()))?;
        }
        if texts.is_empty() {
            let text = stated(root, found, components)?;
            archive::write(&own.join("LICENSE"), &text)?;
        }
    }
    for package in packages {
        of_package(package, &folder.join("libraries"))?;
    }
    of_rust(&folder.join("rust"))
}

/// The texts in a crate's package.
fn texts(found: &Crate) -> Result<Vec<PathBuf>> {
    let Some(folder) = found.manifest_path.parent() else {
        return Ok(Vec::new());
    };
    let mut texts: Vec<PathBuf> = archive::files(folder)?
        .into_iter()
        .filter(|path| is_licence(path.strip_prefix(folder).unwrap_or(path)))
        .collect();
    if let Some(file) = &found.license_file {
        texts.push(folder.join(file));
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

/// Whether a file of a package is a licence: by its name, at the top or in a folder of licences.
fn is_licence(path: &Path) -> bool {
    let named = |name: &std::ffi::OsStr| {
        let name = name.to_string_lossy().to_uppercase();
        NAMES.iter().any(|start| name.starts_with(start))
    };
    let parts: Vec<_> = path.iter().collect();
    match parts.as_slice() {
        [file] => named(file) && path.extension().is_none_or(|end| end != "rs"),
        [folder, _] => named(folder),
        _ => false,
    }
}

/// The text of the licence that a crate states without including it.
fn stated(root: &Path, found: &Crate, components: &Components) -> Result<String> {
    let licence = found.license.as_deref().unwrap_or_default();
    let head = format!(
        "{} {} includes no text of its licence, and states: {licence}.\n\n",
        found.name, found.version
    );
    let ids: Vec<&str> = licence.split([' ', '/', '(', ')']).collect();
    if !licence.contains(" WITH ") && ids.contains(&"Apache-2.0") {
        return Ok(head + &read(&root.join("LICENSE-APACHE"))?);
    }
    if ids.contains(&"MIT") {
        let authors = match found.authors.is_empty() {
            true => format!("the authors of {}", found.name),
            false => found.authors.join(", "),
        };
        let own = read(&root.join("LICENSE-MIT"))?;
        return Ok(head + &own.replace("The Kiln developers", &authors));
    }
    Ok(head + &alike(found, components)?)
}

/// The text of another crate with the same licence.
fn alike(found: &Crate, components: &Components) -> Result<String> {
    for other in components.foreign() {
        if other.license == found.license
            && let Some(text) = texts(other)?.first()
        {
            return read(text);
        }
    }
    bail!(
        "expected a text of the licence `{}`, which {} {} states without including it; add one to the release",
        found.license.as_deref().unwrap_or("none"),
        found.name,
        found.version
    )
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The licence of a package, with the texts to which it refers, and the location of its source.
fn of_package(package: &Package, folder: &Path) -> Result<()> {
    let copyright = Path::new("/usr/share/doc")
        .join(&package.name)
        .join("copyright");
    let text = fs::read(&copyright)
        .with_context(|| format!("expected the licence of {}", package.name))?;
    let text = String::from_utf8_lossy(&text);
    let names: Vec<&str> = package
        .libraries
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let own = folder.join(&package.name);
    let source = format!(
        "{}: from the package {} {}. Its source is Debian's source package {}.\n",
        names.join(", "),
        package.name,
        package.version,
        package.source
    );
    archive::write(&own.join("source"), &source)?;
    archive::write(&own.join("copyright"), &text)?;
    for name in common(&text) {
        let file = Path::new(COMMON).join(&name);
        if file.is_file() {
            archive::copy(&file, &folder.join("common-licenses").join(name))?;
        }
    }
    Ok(())
}

/// The texts to which a licence refers by path.
fn common(text: &str) -> Vec<String> {
    let ends = text.split(COMMON).skip(1);
    let names = ends.filter_map(|rest| {
        let name = rest.strip_prefix('/')?;
        let end =
            name.find(|letter: char| !(letter.is_ascii_alphanumeric() || "-.".contains(letter)));
        let name = name.get(..end.unwrap_or(name.len()))?.trim_end_matches('.');
        (!name.is_empty()).then(|| name.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// The licences of Rust's library, which every program contains.
fn of_rust(folder: &Path) -> Result<()> {
    let sysroot = step::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let texts = Path::new(sysroot.trim()).join("share/doc/rust");
    let list = texts.join("COPYRIGHT-library.html");
    archive::copy(&list, &folder.join("COPYRIGHT-library.html"))?;
    archive::copy_files(&texts.join("licenses"), &folder.join("licenses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(folder: &Path, name: &str, licence: &str, files: &[&str]) -> Crate {
        for file in files {
            archive::write(&folder.join(name).join(file), name).unwrap();
        }
        Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: Some(licence.to_owned()),
            manifest_path: folder.join(name).join("Cargo.toml"),
            source: Some("registry".to_owned()),
            ..Crate::default()
        }
    }

    fn components(crates: Vec<Crate>) -> Components {
        Components {
            program: Crate::default(),
            crates,
        }
    }

    #[test]
    fn licences_are_found_by_their_names() {
        for path in [
            "LICENSE-MIT",
            "license.txt",
            "COPYING",
            "LICENSES/MIT.txt",
            "Notice",
        ] {
            assert!(is_licence(Path::new(path)), "{path}");
        }
        for path in [
            "src/license.rs",
            "license.rs",
            "README.md",
            "src/LICENSE/a/b",
        ] {
            assert!(!is_licence(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_crate_without_a_text_gets_that_of_its_licence() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        archive::write(&root.join("LICENSE-MIT"), "(c) The Kiln developers").unwrap();
        archive::write(&root.join("LICENSE-APACHE"), "Apache").unwrap();
        let exception = "Apache-2.0 WITH LLVM-exception";
        let mut mit = package(root, "mit", "MIT", &["Cargo.toml"]);
        mit.authors = vec!["A".to_owned(), "B".to_owned()];
        let apache = package(root, "both", "MIT/Apache-2.0", &["Cargo.toml"]);
        let bare = package(root, "bare", exception, &["Cargo.toml"]);
        let full = package(root, "full", exception, &["LICENSE"]);
        let all = components(vec![mit.clone(), apache.clone(), bare.clone(), full]);
        let end = |found: &Crate| {
            let text = stated(root, found, &all).unwrap();
            text.split("\n\n").nth(1).unwrap().to_owned()
        };
        assert_eq!(end(&mit), "(c) A, B");
        assert_eq!(end(&apache), "Apache");
        assert_eq!(end(&bare), "full");
        let alone = components(vec![bare.clone()]);
        let error = stated(root, &bare, &alone).unwrap_err().to_string();
        assert!(error.contains("bare 1.0.0"), "{error}");
    }

    #[test]
    fn common_texts_are_found_in_a_licence() {
        let text = format!("see {COMMON}/GPL-3.\nAnd `{COMMON}/Apache-2.0', {COMMON}/GPL-3\n");
        assert_eq!(common(&text), ["Apache-2.0", "GPL-3"]);
    }
}
