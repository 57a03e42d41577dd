//! Python environments under the target folder, each with exactly the versions that a list pins.
//!
//! Invariant: the list of installed packages is written last and compared first, so a half-made environment, or one whose
//! list has changed since, is rebuilt. No host is ever named: pip uses its configured index.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::step;

/// A task's Python requirements.
pub(crate) struct Needs<'a> {
    /// The task, for messages.
    pub(crate) task: &'a str,
    /// The name of the set of packages, such as `peers`.
    pub(crate) what: &'a str,
    /// The file that pins them, relative to the project's root.
    pub(crate) list: &'a str,
}

/// The Python of the environment in `folder`, with all requirements installed.
pub(crate) fn python(root: &Path, folder: PathBuf, needs: &Needs<'_>) -> Result<PathBuf> {
    let Needs { task, what, list } = needs;
    let wanted =
        std::fs::read_to_string(root.join(list)).with_context(|| format!("cannot read {list}"))?;
    let environment = Environment { folder };
    if environment.has(&wanted) {
        println!("{task}: the pinned {what} are here");
        return Ok(environment.python());
    }
    environment.make(root, needs)?;
    std::fs::write(environment.installed(), wanted)
        .with_context(|| format!("cannot record which {what} are installed"))?;
    Ok(environment.python())
}

/// The Python of the environment in `folder`, if all requirements are installed there.
pub(crate) fn installed(
    root: &Path,
    folder: PathBuf,
    needs: &Needs<'_>,
) -> Result<Option<PathBuf>> {
    let list = needs.list;
    let wanted =
        std::fs::read_to_string(root.join(list)).with_context(|| format!("cannot read {list}"))?;
    let environment = Environment { folder };
    let is_here = environment.has(&wanted);
    Ok(is_here.then(|| environment.python()))
}

struct Environment {
    folder: PathBuf,
}

impl Environment {
    fn python(&self) -> PathBuf {
        self.folder.join(if cfg!(windows) {
            "Scripts/python.exe"
        } else {
            "bin/python"
        })
    }

    /// The file that contains the list as it was installed.
    fn installed(&self) -> PathBuf {
        self.folder.join("installed.txt")
    }

    /// Whether all of `wanted` is installed and still runs.
    fn has(&self, wanted: &str) -> bool {
        std::fs::read_to_string(self.installed()).is_ok_and(|installed| installed == wanted)
            && Command::new(self.python())
                .args(["-c", ""])
                .status()
                .is_ok_and(|status| status.success())
    }

    fn make(&self, root: &Path, needs: &Needs<'_>) -> Result<()> {
        let Needs { what, list, .. } = needs;
        let mut make = Command::new("python3");
        make.args(["-m", "venv", "--clear"]).arg(&self.folder);
        step::run(&format!("Python environment for the {what}"), &mut make).context(
            "python3 cannot make a virtual environment; `cargo xtask setup` installs python3, and Debian and Ubuntu \
             keep the rest in a package of its own: apt-get install python3-venv",
        )?;
        let mut install = Command::new(self.python());
        install
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(["--no-input", "--only-binary=:all:", "--requirement"])
            .arg(root.join(list));
        step::run(&format!("pinned {what}"), &mut install).with_context(|| {
            format!(
                "pip cannot install the {what} that {list} pins; is the network there, and are there builds of them \
                 for {}?",
                version(&self.python())
            )
        })
    }
}

/// A Python's version string.
fn version(python: &Path) -> String {
    let output = Command::new(python).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "this Python".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_reused_only_with_the_same_list_and_a_working_python() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment {
            folder: folder.path().to_path_buf(),
        };
        assert!(!environment.has("a==1\n"));
        std::fs::write(environment.installed(), "a==1\n").unwrap();
        // Only the list exists, and no Python.
        assert!(!environment.has("a==1\n"));
        let python = environment.python();
        std::fs::create_dir_all(python.parent().unwrap()).unwrap();
        std::fs::copy("/bin/true", &python).unwrap();
        assert!(environment.has("a==1\n"));
        assert!(!environment.has("a==2\n"));
    }

    #[test]
    fn a_missing_list_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let needs = Needs {
            task: "bench",
            what: "peers",
            list: "no/such/list.txt",
        };
        let error = python(folder.path(), folder.path().join("python"), &needs).unwrap_err();
        assert!(error.to_string().contains("no/such/list.txt"), "{error}");
    }

    #[test]
    fn every_package_is_pinned() {
        let root = crate::workspace::root();
        for list in [
            crate::bench::PEERS.list,
            crate::conformance::PACKAGES.list,
            crate::conformance::CROSS_CHECK.list,
            crate::exporters::TORCH.list,
            crate::python_package::TESTS.list,
            crate::serve_clients::CLIENTS.list,
            crate::stores::EMULATORS[0].needs.list,
            crate::stores::EMULATORS[1].needs.list,
            crate::ray::ENGINE.list,
            crate::bench::serving::SERVERS.list,
            crate::python_package::TORCH.list,
        ] {
            let text = std::fs::read_to_string(root.join(list)).unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                assert!(line.contains("=="), "{list}: {line}");
            }
        }
    }
}
