//! `cargo xtask setup --cuda` and `test --cuda`: what compiles for GPUs, and the tests of what is generated for them.
//!
//! NVRTC and a disassembler are pinned wheels of Python's index, in the git-ignored `cuda/`. No GPU is needed. Invariant: a
//! folder has its final name only once the wheel's digest was checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::models::pins::Wheel;
use crate::models::wheel;
use crate::{step, workspace};

/// The wheels, each with a file that it must have.
const WHEELS: [(Wheel, &str); 2] = [
    (
        Wheel {
            name: "nvidia-cuda-nvrtc-cu12",
            version: "12.9.86",
            digest: "210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4",
            platform: None,
        },
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
    ),
    (
        Wheel {
            name: "nvidia-cuda-nvdisasm",
            version: "13.5.37",
            digest: "d3fdbdd49fa53e2e4aacd3db8259d052bd2b049ececdcb69e92e083c6728e7ca",
            platform: None,
        },
        "nvidia/cu13/bin/nvdisasm",
    ),
];

/// The folder of the fetched files.
fn folder(root: &Path) -> PathBuf {
    root.join("cuda")
}

/// The place of a wheel's file.
fn file(root: &Path, number: usize) -> PathBuf {
    let (wheel, file) = &WHEELS[number];
    folder(root).join(wheel.name).join(file)
}

/// Fetches missing wheels.
pub(crate) fn setup() -> Result<()> {
    let root = workspace::root();
    let to = folder(&root);
    std::fs::create_dir_all(&to).with_context(|| format!("cannot create {}", to.display()))?;
    for (number, (pinned, _)) in WHEELS.iter().enumerate() {
        if file(&root, number).is_file() {
            println!("cuda: {} is here", pinned.name);
            continue;
        }
        let aside = to.join(format!(".fetching-{}", std::process::id()));
        std::fs::create_dir_all(&aside)
            .with_context(|| format!("cannot create {}", aside.display()))?;
        let unpacked = wheel::unpack(pinned, &aside);
        let placed = unpacked.and_then(|()| {
            let place = to.join(pinned.name);
            // An incomplete wheel.
            let _ = std::fs::remove_dir_all(&place);
            std::fs::rename(aside.join(pinned.name), &place)
                .with_context(|| format!("cannot place {}", place.display()))
        });
        let _ = std::fs::remove_dir_all(&aside);
        placed?;
        println!("cuda: {}", pinned.name);
    }
    make_executable(&file(&root, 1))
}

/// Python's `zipfile` keeps no permissions.
fn make_executable(tool: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(tool, all)
            .with_context(|| format!("cannot make {} executable", tool.display()))?;
    }
    Ok(())
}

/// Tests the code generated for GPUs: all kernels on the host, and in NVRTC if it was fetched.
pub(crate) fn test() -> Result<()> {
    let root = workspace::root();
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(&root)
        .args([
            "test",
            "--package",
            "kiln-codegen-cuda",
            "--no-fail-fast",
            "--",
            "--nocapture",
        ])
        .env("KILN_TEST_ALL", "1")
        .env("KILN_TEST_KERNELS", "0..60");
    let (nvrtc, tool) = (file(&root, 0), file(&root, 1));
    if nvrtc.is_file() {
        command.env("KILN_NVRTC", &nvrtc);
        if tool.is_file() {
            command.env("KILN_NVDISASM", &tool);
        }
    } else {
        println!(
            "cuda: NVRTC is not in {}; `cargo xtask setup --cuda` fetches it",
            folder(&root).display()
        );
    }
    step::run("code for GPUs", &mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_pinned_by_digest() {
        for (wheel, _) in &WHEELS {
            assert_eq!(wheel.digest.len(), 64, "{}", wheel.name);
            assert!(wheel.digest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        }
    }
}
