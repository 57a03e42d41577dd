//! `cargo xtask build`: every crate and the `kiln` command.
//!
//! `--no-llvm` omits the `llvm` feature of the command, if that feature exists.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::flags::BuildOptions;
use crate::workspace::{self, Metadata};
use crate::{setup, step};

/// The package of the `kiln` command.
pub(crate) const COMMAND_PACKAGE: &str = "kiln-cli";
const LLVM_FEATURE: &str = "llvm";

/// Builds the project.
pub(crate) fn run(options: &BuildOptions) -> Result<()> {
    setup::run()?;
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let mut command = Command::new(workspace::cargo());
    command
        .current_dir(&root)
        .args(arguments(options, &metadata)?);
    step::run("build", &mut command)
}

/// Builds the `kiln` command of the project at `root`, in release, into a target folder.
pub(crate) fn release_command(root: &Path, target: &Path) -> Result<PathBuf> {
    let mut build = Command::new(workspace::cargo());
    build
        .current_dir(root)
        .args(["build", "--release", "--package", COMMAND_PACKAGE])
        .arg("--target-dir")
        .arg(target);
    step::run("the kiln command", &mut build)?;
    let name = format!("kiln{}", std::env::consts::EXE_SUFFIX);
    Ok(target.join("release").join(name))
}

fn arguments(options: &BuildOptions, metadata: &Metadata) -> Result<Vec<String>> {
    let mut arguments = vec!["build".to_owned()];
    match features_without_llvm(metadata)? {
        Some(features) if options.no_llvm => {
            arguments
                .extend(["--package", COMMAND_PACKAGE, "--no-default-features"].map(str::to_owned));
            arguments.extend(["--features".to_owned(), features.join(",")]);
        }
        None if options.no_llvm => {
            println!("build: no crate links LLVM yet, so --no-llvm changes nothing");
            arguments.push("--workspace".to_owned());
        }
        _ => arguments.push("--workspace".to_owned()),
    }
    if options.release {
        arguments.push("--release".to_owned());
    }
    Ok(arguments)
}

/// The command's default features except `llvm`; `None` when it has no such default.
pub(crate) fn features_without_llvm(metadata: &Metadata) -> Result<Option<Vec<String>>> {
    let package = metadata
        .members()
        .find(|package| package.name == COMMAND_PACKAGE);
    let package =
        package.with_context(|| format!("the workspace has no package {COMMAND_PACKAGE}"))?;
    let default = package
        .features
        .get("default")
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !default.iter().any(|feature| feature == LLVM_FEATURE) {
        return Ok(None);
    }
    Ok(Some(
        default
            .iter()
            .filter(|feature| *feature != LLVM_FEATURE)
            .cloned()
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(features: &str) -> Metadata {
        let text = format!(
            r#"{{"packages":[{{"name":"kiln-cli","id":"c","features":{features}}}],"workspace_members":["c"]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn no_llvm_drops_only_the_llvm_feature() {
        let options = BuildOptions {
            release: true,
            no_llvm: true,
        };
        let with = metadata(r#"{"default":["llvm","onnx"]}"#);
        assert_eq!(
            arguments(&options, &with).unwrap().join(" "),
            "build --package kiln-cli --no-default-features --features onnx --release"
        );
        let without = metadata(r#"{"default":["onnx"]}"#);
        assert_eq!(
            arguments(&options, &without).unwrap().join(" "),
            "build --workspace --release"
        );
    }

    #[test]
    fn a_plain_build_takes_the_whole_workspace() {
        let arguments = arguments(&BuildOptions::default(), &metadata("{}")).unwrap();
        assert_eq!(arguments.join(" "), "build --workspace");
    }
}
