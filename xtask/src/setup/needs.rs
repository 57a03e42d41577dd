//! The table of what the build needs from the system. A new need is one more row.
//!
//! Not here: Rust itself (defined by `rust-toolchain.toml`), and anything that cargo can build.

use std::process::{Command, Stdio};

use super::manager::Manager;

/// One requirement of the build.
pub(crate) struct Need {
    /// Its name, for human readers.
    pub(crate) name: &'static str,
    /// Its purpose.
    pub(crate) why: &'static str,
    /// Commands that must all succeed when the need is met.
    probes: &'static [&'static [&'static str]],
    /// Its packages under apt-get, dnf, pacman, zypper and brew, in this order.
    packages: [&'static [&'static str]; 5],
}

/// All requirements of the build.
pub(crate) const ALL: &[Need] = &[
    Need {
        name: "a C linker (cc)",
        why: "rustc links every program with it",
        probes: &[&["cc", "--version"]],
        packages: [
            &["gcc", "libc6-dev"],
            &["gcc", "glibc-devel"],
            &["gcc", "glibc"],
            &["gcc", "glibc-devel"],
            &["gcc"],
        ],
    },
    Need {
        name: "python3 with pip",
        why: "`cargo xtask models` fetches the pinned example models with it",
        probes: &[
            &["python3", "-m", "pip", "--version"],
            &["python3", "-c", "import zipfile, zlib"],
        ],
        packages: [
            &["python3", "python3-pip"],
            &["python3", "python3-pip"],
            &["python", "python-pip"],
            &["python3", "python3-pip"],
            &["python"],
        ],
    },
    Need {
        name: "LLVM 19 with its headers",
        why: "kernels become machine code through it",
        // The names of the tool on different systems, in the order in which the build looks for them.
        probes: &[&[
            "sh",
            "-c",
            "for tool in \"${LLVM_SYS_191_PREFIX:+$LLVM_SYS_191_PREFIX/bin/llvm-config}\" \
             llvm-config llvm-config-19 llvm-config19 llvm-config-19.1 llvm-config19.1; do \
             case \"$($tool --version 2>/dev/null)\" in \
             19.1.*) test -e \"$($tool --includedir)/llvm-c/Core.h\" && exit 0 ;; \
             esac; done; exit 1",
        ]],
        packages: [
            &["llvm-19-dev", "libpolly-19-dev"],
            &["llvm19-devel"],
            &["llvm19"],
            &["llvm19-devel"],
            &["llvm@19"],
        ],
    },
];

/// The names under which the browser is installed.
pub(crate) const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The additional requirements for viewing pages.
pub(crate) const BROWSER: &[Need] = &[Need {
    name: "a browser",
    why: "pages are opened and photographed by it",
    probes: &[&[
        "sh",
        "-c",
        "chromium --version || chromium-browser --version || google-chrome --version",
    ]],
    packages: [
        &["chromium"],
        &["chromium"],
        &["chromium"],
        &["chromium"],
        &["chromium"],
    ],
}];

/// The additional requirements for training over MPI.
pub(crate) const MPI: &[Need] = &[
    Need {
        name: "an implementation of MPI",
        why: "ranks are its processes",
        probes: &[&["mpicc", "--version"], &["mpirun", "--version"]],
        packages: [
            &["libopenmpi-dev", "openmpi-bin"],
            &["openmpi-devel"],
            &["openmpi"],
            &["openmpi4-devel"],
            &["open-mpi"],
        ],
    },
    Need {
        name: "libclang",
        why: "MPI's header is read with it",
        probes: &[&[
            "sh",
            "-c",
            "ls ${LIBCLANG_PATH:+\"$LIBCLANG_PATH\"/libclang*} /usr/lib/llvm-*/lib/libclang*.so* /usr/lib*/libclang*.so* \
             /opt/homebrew/opt/llvm/lib/libclang.dylib 2>/dev/null | grep -v cpp | grep -q .",
        ]],
        packages: [
            &["libclang-dev"],
            &["clang-devel"],
            &["clang"],
            &["clang-devel"],
            &["llvm"],
        ],
    },
];

impl Need {
    /// Whether it is installed.
    pub(crate) fn is_met(&self) -> bool {
        self.probes.iter().all(|probe| succeeds(probe))
    }

    /// `manager`'s name for it.
    pub(crate) fn packages(&self, manager: Manager) -> &'static [&'static str] {
        let [apt, dnf, pacman, zypper, brew] = self.packages;
        match manager {
            Manager::Apt => apt,
            Manager::Dnf => dnf,
            Manager::Pacman => pacman,
            Manager::Zypper => zypper,
            Manager::Brew => brew,
        }
    }
}

/// Whether a command exists and succeeds; its output is discarded.
pub(crate) fn succeeds(command: &[&str]) -> bool {
    let Some((program, arguments)) = command.split_first() else {
        return false;
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_fails_or_is_absent_is_an_unmet_need() {
        assert!(succeeds(&["sh", "-c", "exit 0"]));
        assert!(!succeeds(&["sh", "-c", "exit 3"]));
        assert!(!succeeds(&["surely-no-such-program"]));
        let unmet = Need {
            name: "x",
            why: "y",
            probes: &[&["surely-no-such-program"]],
            packages: [&["x"]; 5],
        };
        assert!(!unmet.is_met());
    }
}
