//! Files of a release: copied, packed, and listed with their checksums.
//!
//! Invariant: nothing in a tarball depends on when, by whom or in which order its files were written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::step;

/// The file with the checksums of the others.
const CHECKSUMS: &str = "SHA256SUMS";

/// Makes an empty folder, removing any previous contents.
pub(super) fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Copies a file, and makes its target folder.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    fs::copy(from, to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Writes a file, and makes its target folder.
pub(super) fn write(to: &Path, text: &str) -> Result<()> {
    make_parent(to)?;
    fs::write(to, text).with_context(|| format!("cannot write {}", to.display()))
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(folder) = path.parent() else {
        return Ok(());
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// Copies the files directly in a folder, without those of its subfolders.
pub(super) fn copy_files(from: &Path, to: &Path) -> Result<()> {
    for path in entries(from)? {
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Every file beneath a folder, in the order of their paths.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in entries(&folder)? {
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// Packs a folder, under its own name.
pub(super) fn pack(folder: &Path, tarball: &Path) -> Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        anyhow::bail!("expected a folder in a folder, found {}", folder.display());
    };
    make_parent(tarball)?;
    let mut command = Command::new("tar");
    command
        .args(["--create", "--sort=name", "--mtime=@0", "--owner=0"])
        .args(["--group=0", "--numeric-owner", "--mode=u+rwX,go+rX,go-w"])
        // gzip, without the name and time that it writes by default.
        .args(["--use-compress-program", "gzip -n -9", "--file"])
        .arg(tarball)
        .arg("--directory")
        .arg(parent)
        .arg(name);
    step::output(&mut command)?;
    Ok(())
}

/// Writes the checksums of a folder's files, as `sha256sum --check` reads them.
pub(super) fn write_checksums(folder: &Path) -> Result<()> {
    let mut text = String::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_file() && name != CHECKSUMS {
            text.push_str(&format!("{}  {name}\n", sha256(&path)?));
        }
    }
    write(&folder.join(CHECKSUMS), &text)
}

/// A file's digest, in hexadecimal digits.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let mut file =
        fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut digest = Sha256::new();
    std::io::copy(&mut file, &mut Writer(&mut digest))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let bytes = digest.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A digest as something to write to.
struct Writer<'a>(&'a mut Sha256);

impl std::io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_of_files_and_not_of_themselves() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("b"), "").unwrap();
        write(&folder.path().join("a"), "abc").unwrap();
        write(&folder.path().join("folder/c"), "c").unwrap();
        for _ in 0..2 {
            write_checksums(folder.path()).unwrap();
        }
        assert_eq!(
            fs::read_to_string(folder.path().join(CHECKSUMS)).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n\
             e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
        );
    }

    #[test]
    fn a_tarball_does_not_depend_on_times_and_orders() {
        let folder = tempfile::tempdir().unwrap();
        let packed = |names: [&str; 2], tarball: &str| {
            let files = folder.path().join("files");
            make_empty(&files).unwrap();
            for name in names {
                write(&files.join("bin").join(name), name).unwrap();
            }
            let tarball = folder.path().join(tarball);
            pack(&files, &tarball).unwrap();
            sha256(&tarball).unwrap()
        };
        assert_eq!(packed(["a", "b"], "1"), packed(["b", "a"], "2"));
        assert_ne!(packed(["a", "b"], "1"), packed(["a", "c"], "2"));
    }
}
