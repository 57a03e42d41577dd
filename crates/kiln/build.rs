//! Computes the version of Kiln that keys of stored code contain: that of the package and, in a checkout of the repository,
//! a digest of the sources that decide what is compiled, so that code compiled before a change of them is never reused
//! after it.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The crates whose sources decide what programs and kernels are.
const CRATES: [&str; 15] = [
    "backend",
    "codegen-cuda",
    "codegen-llvm",
    "fusion",
    "interpreter",
    "ir",
    "kernel",
    "onnx",
    "passes",
    "program",
    "scalar",
    "schedule-cpu",
    "shape-inference",
    "symbolic-shape",
    "tensor",
];

fn main() -> io::Result<()> {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let mut files = Vec::new();
    for name in CRATES {
        let folder = Path::new("..").join(name).join("src");
        if folder.is_dir() {
            println!("cargo::rerun-if-changed={}", folder.display());
            collect(&folder, &mut files)?;
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    files.sort();
    // 128-bit FNV-1a: it only has to differ where sources differ.
    let mut digest = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for file in &files {
        let name = file.display().to_string();
        for byte in name.bytes().chain(fs::read(file)?) {
            digest =
                (digest ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    let sources = if files.is_empty() {
        String::new()
    } else {
        format!("+{digest:032x}")
    };
    println!("cargo::rustc-env=KILN_VERSION={version}{sources}");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    Ok(())
}
