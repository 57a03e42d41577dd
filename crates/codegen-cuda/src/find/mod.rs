//! Finding NVIDIA's libraries: the driver, NVRTC, cuBLASLt and NCCL.
//!
//! Search order: the folder or file named by the library's own variable, then the folders in `KILN_CUDA`, the loader's
//! path, CUDA toolkits and Python packages. A library is opened by its absolute path and kept open, so that `cudarc`,
//! which uses bare names only, gets the same library; NVRTC's builtins are opened first, since NVRTC could not find
//! them itself.
#![allow(unsafe_code, reason = "opening a library runs its initialisers")]

mod places;

use std::path::{Path, PathBuf};

use kiln_fork_lock::{ForkLazy, ForkLock};

use crate::error::CudaError;
pub use places::Places;

/// An NVIDIA library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CudaLibrary {
    /// The driver, which is part of the system.
    Driver,
    /// The compiler of CUDA C.
    Nvrtc,
    /// Matrix products.
    CublasLt,
    /// Collective operations across GPUs and machines.
    Nccl,
}

impl CudaLibrary {
    /// Its description in messages.
    fn what(self) -> &'static str {
        match self {
            CudaLibrary::Driver => "NVIDIA's driver (libcuda.so.1)",
            CudaLibrary::Nvrtc => "NVRTC (libnvrtc.so.12 or .13)",
            CudaLibrary::CublasLt => "cuBLASLt (libcublasLt.so.12 or .13)",
            CudaLibrary::Nccl => "NCCL (libnccl.so.2)",
        }
    }

    /// The environment variable that names its file or folder.
    pub const fn variable(self) -> &'static str {
        match self {
            CudaLibrary::Driver => "KILN_CUDA_DRIVER",
            CudaLibrary::Nvrtc => "KILN_NVRTC",
            CudaLibrary::CublasLt => "KILN_CUBLASLT",
            CudaLibrary::Nccl => "KILN_NCCL",
        }
    }

    /// The names of its files, best first.
    fn file_names(self) -> &'static [&'static str] {
        match self {
            CudaLibrary::Driver => &["libcuda.so.1"],
            CudaLibrary::Nvrtc => &["libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so"],
            CudaLibrary::CublasLt => &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"],
            CudaLibrary::Nccl => &["libnccl.so.2", "libnccl.so"],
        }
    }

    /// What to do if it is missing.
    fn next(self) -> String {
        let variable = self.variable();
        match self {
            CudaLibrary::Driver => {
                format!("install NVIDIA's driver, or set {variable} to the library")
            }
            CudaLibrary::Nvrtc => format!(
                "install `nvidia-cuda-nvrtc-cu12` with pip or a CUDA toolkit, or set {variable} to the library"
            ),
            CudaLibrary::CublasLt => format!(
                "install `nvidia-cublas-cu12` with pip or a CUDA toolkit, or set {variable} to the library"
            ),
            CudaLibrary::Nccl => format!(
                "install `nvidia-nccl-cu12` with pip or the package `libnccl2`, or set {variable} to the library"
            ),
        }
    }
}

/// A library that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLibrary {
    /// Its file.
    pub path: PathBuf,
    /// The files that must be opened before it.
    pub before: Vec<PathBuf>,
}

/// The first file of a library found in these places.
///
/// # Errors
/// If there is none: every place that was searched.
pub fn locate(library: CudaLibrary, places: &Places) -> Result<FoundLibrary, CudaError> {
    let mut looked = Vec::new();
    for folder in places.of(library) {
        match in_folder(library, &folder) {
            Ok(found) => return Ok(found),
            Err(why) => looked.push(format!("{} ({why})", folder.display())),
        }
    }
    Err(missing(library, looked))
}

fn missing(library: CudaLibrary, mut looked: Vec<String>) -> CudaError {
    if looked.is_empty() {
        looked.push("no place to look at".to_owned());
    }
    CudaError::Environment {
        what: library.what(),
        looked,
        next: library.next(),
    }
}

/// Finds a library in a folder, or the file itself.
fn in_folder(library: CudaLibrary, place: &Path) -> Result<FoundLibrary, &'static str> {
    let file = match place.is_dir() {
        true => {
            let files = library.file_names().iter().map(|name| place.join(name));
            files.into_iter().find(|file| file.is_file())
        }
        false => Some(place.to_owned()).filter(|file| file.is_file()),
    };
    let Some(path) = file else {
        return Err(match place.exists() {
            true => "no such library there",
            false => "does not exist",
        });
    };
    let before = match library {
        CudaLibrary::Nvrtc => builtins_beside(&path)?,
        _ => Vec::new(),
    };
    Ok(FoundLibrary { path, before })
}

/// NVRTC's builtins library, which is in the same folder.
fn builtins_beside(nvrtc: &Path) -> Result<Vec<PathBuf>, &'static str> {
    let without = "libnvrtc-builtins is not beside it";
    // A link may lead to another folder.
    let real = nvrtc.canonicalize().map_err(|_| without)?;
    let folders = [nvrtc.parent(), real.parent()];
    for folder in folders.into_iter().flatten() {
        let Ok(entries) = std::fs::read_dir(folder) else {
            continue;
        };
        let is_builtins = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("libnvrtc-builtins.so."))
        };
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files: Vec<PathBuf> = files.filter(is_builtins).collect();
        files.sort();
        if !files.is_empty() {
            return Ok(files);
        }
    }
    Err(without)
}

/// The libraries that are open, for as long as the process runs.
static OPEN: ForkLazy<ForkLock<Vec<(CudaLibrary, FoundLibrary)>>> =
    ForkLazy::new(ForkLock::default);

/// Finds a library and opens it; once per process.
///
/// # Errors
/// If it is in none of the places, or cannot be opened: every place, with the reason.
pub fn open(library: CudaLibrary) -> Result<FoundLibrary, CudaError> {
    let mut open = OPEN.lock();
    if let Some((_, found)) = open.iter().find(|(other, _)| *other == library) {
        return Ok(found.clone());
    }
    let mut looked = Vec::new();
    for folder in Places::of_process().of(library) {
        let opened = in_folder(library, &folder)
            .map_err(str::to_owned)
            .and_then(|found| open_files(&found).map(|()| found));
        match opened {
            Ok(found) => {
                tracing::debug!(path = %found.path.display(), "cuda.open");
                open.push((library, found.clone()));
                return Ok(found);
            }
            Err(why) => looked.push(format!("{} ({why})", folder.display())),
        }
    }
    Err(missing(library, looked))
}

/// Opens files and keeps them open.
fn open_files(found: &FoundLibrary) -> Result<(), String> {
    for path in found.before.iter().chain([&found.path]) {
        // SAFETY: these are NVIDIA's libraries, in places that the user or the system vouches for; their initialisers need
        // nothing from us.
        let library = unsafe { libloading::Library::new(path) };
        std::mem::forget(library.map_err(|error| format!("cannot be opened: {error}"))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvrtc_is_found_with_its_builtins() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let places = Places::only(folder.path());
        let error = locate(CudaLibrary::Nvrtc, &places).unwrap_err();
        assert_eq!(error.code(), "E0551");
        assert!(
            error.to_string().contains("no such library there"),
            "{error}"
        );
        let library = file("libnvrtc.so.12");
        file("libnvrtc-builtins.alt.so.12.9");
        let error = locate(CudaLibrary::Nvrtc, &places).unwrap_err();
        assert!(
            error.to_string().contains("builtins is not beside"),
            "{error}"
        );
        let builtins = file("libnvrtc-builtins.so.12.9");
        let found = locate(CudaLibrary::Nvrtc, &places).unwrap();
        assert_eq!(found.path, library);
        assert_eq!(found.before, [builtins]);
    }

    #[test]
    fn every_place_is_named_with_the_next_step() {
        let places = Places::only(Path::new("/does/not/exist"));
        for library in [
            CudaLibrary::Driver,
            CudaLibrary::Nvrtc,
            CudaLibrary::CublasLt,
            CudaLibrary::Nccl,
        ] {
            let message = locate(library, &places).unwrap_err().to_string();
            assert!(
                message.contains("/does/not/exist (does not exist)"),
                "{message}"
            );
            assert!(message.contains(library.variable()), "{message}");
        }
    }
}
