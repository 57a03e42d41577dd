//! The folders that are searched for libraries.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::CudaLibrary;

/// The variables that name places.
const VARIABLES: [&str; 11] = [
    "KILN_CUDA_DRIVER",
    "KILN_NVRTC",
    "KILN_CUBLASLT",
    "KILN_NCCL",
    "KILN_CUDA",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "HOME",
];

/// The places to search for libraries: those named by environment variables, and the usual folders.
#[derive(Clone, Debug, Default)]
pub struct Places {
    variables: HashMap<&'static str, OsString>,
    /// Whether the usual folders of systems are searched.
    usual: bool,
}

impl Places {
    /// The places of this process.
    pub fn of_process() -> Self {
        let set = VARIABLES
            .iter()
            .filter_map(|&name| Some((name, std::env::var_os(name)?)));
        Self {
            variables: set.filter(|(_, value)| !value.is_empty()).collect(),
            usual: true,
        }
    }

    /// One folder.
    pub fn only(folder: &Path) -> Self {
        Self {
            variables: HashMap::from([("KILN_CUDA", folder.as_os_str().to_owned())]),
            usual: false,
        }
    }

    /// The files and folders for a library, best first.
    pub fn of(&self, library: CudaLibrary) -> Vec<PathBuf> {
        let mut all = Vec::new();
        if let Some(explicit) = self.path(library.variable()) {
            // A mistake in the variable must not be hidden by finding another library.
            return vec![explicit];
        }
        if let Some(folder) = self.path("KILN_CUDA") {
            all.push(folder.clone());
            all.extend(wheel_folders(&folder));
            all.push(folder.join("lib64"));
        }
        if let Some(list) = self.variables.get("LD_LIBRARY_PATH") {
            all.extend(std::env::split_paths(list).filter(|path| path.is_absolute()));
        }
        for name in ["CUDA_HOME", "CUDA_PATH"] {
            all.extend(self.path(name).map(|folder| folder.join("lib64")));
        }
        for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
            if let Some(prefix) = self.path(name) {
                all.extend(site_packages(&prefix.join("lib")));
            }
        }
        if self.usual {
            all.extend(self.usual());
        }
        let mut seen = Vec::new();
        all.retain(|place| {
            let is_new = !seen.contains(place);
            seen.push(place.clone());
            is_new
        });
        all
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.variables.get(name).map(PathBuf::from)
    }

    /// The usual folders: those of toolkits, of the system, of Python's packages.
    fn usual(&self) -> Vec<PathBuf> {
        let mut all = vec![PathBuf::from("/usr/local/cuda/lib64")];
        let mut toolkits = matching(Path::new("/usr/local"), "cuda-");
        toolkits.reverse();
        all.extend(toolkits.into_iter().map(|folder| folder.join("lib64")));
        let system = [
            "/usr/lib/x86_64-linux-gnu",
            "/usr/lib/aarch64-linux-gnu",
            "/usr/lib64",
            "/usr/lib",
            "/usr/local/nvidia/lib64",
            "/usr/lib/wsl/lib",
            "/opt/cuda/lib64",
        ];
        all.extend(system.map(PathBuf::from));
        for folder in ["/usr/local/lib", "/usr/lib"] {
            all.extend(site_packages(Path::new(folder)));
        }
        if let Some(home) = self.path("HOME") {
            all.extend(site_packages(&home.join(".local/lib")));
        }
        all
    }
}

/// The subfolders whose names begin with a prefix, in order.
fn matching(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let is_match = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(prefix))
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> = paths.filter(is_match).collect();
    paths.sort();
    paths
}

/// The folders of NVIDIA's packages for the versions of Python under `lib`.
fn site_packages(lib: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for python in matching(lib, "python3") {
        for packages in ["site-packages", "dist-packages"] {
            all.extend(wheel_folders(&python.join(packages)));
        }
    }
    all
}

/// The folders of NVIDIA's packages in a folder of packages that exist.
fn wheel_folders(packages: &Path) -> Vec<PathBuf> {
    let nvidia = packages.join("nvidia");
    let folders = ["cuda_nvrtc", "cublas", "nccl", "cu13", "cu12"];
    let folders = folders.map(|name| nvidia.join(name).join("lib"));
    folders
        .into_iter()
        .filter(|folder| folder.is_dir())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_variable_is_the_only_place() {
        let mut places = Places::only(Path::new("/folder"));
        let before = places.of(CudaLibrary::Nvrtc);
        assert!(before.contains(&PathBuf::from("/folder")));
        places.variables.insert("KILN_NVRTC", "/explicit".into());
        assert_eq!(places.of(CudaLibrary::Nvrtc), [PathBuf::from("/explicit")]);
        assert_eq!(places.of(CudaLibrary::CublasLt), before);
    }

    #[test]
    fn packages_of_python_are_looked_at() {
        let prefix = tempfile::tempdir().unwrap();
        let lib = prefix
            .path()
            .join("lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib");
        std::fs::create_dir_all(&lib).unwrap();
        let places = Places {
            variables: HashMap::from([("VIRTUAL_ENV", prefix.path().as_os_str().to_owned())]),
            usual: false,
        };
        assert_eq!(places.of(CudaLibrary::Nvrtc), [lib]);
    }
}
