//! Models in bundles: saved with everything they need, and opened without a compiler.
//!
//! A bundle contains code. It is opened by an unsafe function, for which the caller vouches, or because it was sealed
//! with the caller's key; never by a function that loads data.
#![allow(
    unsafe_code,
    reason = "opening a bundle on the caller's word is unsafe"
)]

use super::executable::Executable;
use super::instance::Instance;
use super::instances::Instances;
use super::signature::Signature;
use super::{Inner, Model};
use crate::compiled::load_bundle;
use crate::error::{Error, Failure};
use crate::guard::guarded;
use crate::options::Options;
use crate::recording::building;
use kiln_kernel_cache::{Bundle, CacheError, SealKey};
use std::path::Path;
use std::sync::Arc;

impl Model {
    /// Writes everything that calls of the model may need into one file: the program, its kernels' code, its weights.
    /// Another process with the same version of Kiln and the same instruction-set level opens it without LLVM and without
    /// compiling: with [`open_sealed_bundle`](Self::open_sealed_bundle) and the same key if it was sealed with one, and
    /// otherwise with [`open_bundle`](Self::open_bundle). Returns the file's size in bytes.
    ///
    /// # Errors
    /// When the model is interpreted or the rank of an input is open, a kernel does not compile, or the file cannot be
    /// written.
    ///
    /// ```no_run
    /// use kiln::{Model, Options, SealKey};
    ///
    /// let key = SealKey::read("bundles.key")?;
    /// Model::load("model.onnx")?.save_bundle("model.kiln-bundle", Some(&key))?;
    /// let same = Model::open_sealed_bundle("model.kiln-bundle", &key, Options::new())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[cfg(feature = "llvm")]
    pub fn save_bundle(
        &self,
        path: impl AsRef<Path>,
        seal: Option<&SealKey>,
    ) -> Result<u64, Error> {
        self.save(path.as_ref(), seal)
    }

    #[cfg(feature = "llvm")]
    fn save(&self, path: &Path, seal: Option<&SealKey>) -> Result<u64, Error> {
        guarded("saving a bundle", || {
            match self.only_instance()?.executable().native() {
                Some(compiled) => crate::compiled::save_bundle(
                    &compiled.program,
                    &compiled.shared,
                    &self.0.options,
                    path,
                    seal,
                ),
                None => Err(Failure::not_compiled("a bundle")),
            }
        })
    }

    /// Opens the model of a bundle, and runs the machine code in it. Its graph is the one that was compiled; the
    /// imported graph is not in the bundle. Options set how it runs: dimensions and inputs are those set when the
    /// bundle was made.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, was made by a different version, or for a level that this machine
    /// lacks; when an option does not apply. A damaged weight is an error when a call first needs it.
    ///
    /// # Safety
    /// The file was made by [`save_bundle`](Self::save_bundle) (`kiln compile -o`) and not tampered with: its digests
    /// detect accidents, not malice. Trust it as you would a program.
    ///
    /// ```no_run
    /// let model = kiln::Model::load("model.onnx")?;
    /// model.save_bundle("model.kiln-bundle", None)?;
    /// // SAFETY: the file was written by the line above, to a folder of our own.
    /// let same = unsafe { kiln::Model::open_bundle("model.kiln-bundle", kiln::Options::new())? };
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// ```compile_fail,E0133
    /// let model = kiln::Model::open_bundle("model.kiln-bundle", kiln::Options::new());
    /// ```
    pub unsafe fn open_bundle(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        // SAFETY: promised by the caller.
        Self::of_bundle(options, || unsafe { Bundle::open_trusted(path) })
    }

    /// Opens the model of a bundle that was sealed with this key, by [`save_bundle`](Self::save_bundle) or
    /// `kiln compile -o FILE --seal KEY`. Otherwise as [`open_bundle`](Self::open_bundle).
    ///
    /// # Errors
    /// As [`open_bundle`](Self::open_bundle); E0711 for a bundle without a seal, or sealed with a different key.
    pub fn open_sealed_bundle(
        path: impl AsRef<Path>,
        key: &SealKey,
        options: Options,
    ) -> Result<Self, Error> {
        Self::of_bundle(options, || Bundle::open_sealed(path, key))
    }

    fn of_bundle(
        options: Options,
        open: impl FnOnce() -> Result<Bundle, CacheError>,
    ) -> Result<Self, Error> {
        guarded("loading", || {
            let options = options.started();
            let timing = options.timing().clone();
            let _inside = timing.enter();
            if let Some(name) = options.dims.keys().next() {
                return Err(Failure::UnknownDim {
                    name: name.escape_debug().to_string(),
                    expected: "a bundle has the dimensions that it was made with".to_owned(),
                }
                .into());
            }
            options.import.refuse_for_graph()?;
            let bundled = {
                let _time = building(&timing, "load_bundle", "Loading a program from a bundle");
                load_bundle(open()?, &options)?
            };
            let graph = bundled.program.graph().clone();
            let executable = Executable::of_bundle(&graph, bundled, &options)?;
            let signature = Signature::of_graph(&graph)?;
            let instance = Box::new(Instance::of_graph(graph, executable));
            Ok(Self(Arc::new(Inner {
                options,
                signature,
                instances: Instances::Only(instance),
            })))
        })
    }
}
