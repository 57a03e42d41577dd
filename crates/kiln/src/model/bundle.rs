//! Models in bundles: saved with all they need, and loaded without a compiler.

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
use std::path::Path;
use std::sync::Arc;

impl Model {
    /// Writes all that calls of the model may need into one file: the program, its kernels' code, its weights. Whoever has
    /// the same version of Kiln and the same instruction-set level loads it with [`from_bundle`](Self::from_bundle), with
    /// no LLVM and no compiling. Answers with the file's size in bytes.
    ///
    /// # Errors
    /// When the model is interpreted or the rank of an input is open, a kernel does not compile, or the file cannot be
    /// written.
    ///
    /// ```no_run
    /// let model = kiln::Model::load("model.onnx")?;
    /// model.save_bundle("model.kiln-bundle")?;
    /// let same = kiln::Model::from_bundle("model.kiln-bundle")?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[cfg(feature = "llvm")]
    pub fn save_bundle(&self, path: impl AsRef<Path>) -> Result<u64, Error> {
        guarded("saving a bundle", || {
            match self.only_instance()?.executable() {
                Executable::Compiled(compiled) => crate::compiled::save_bundle(
                    &compiled.program,
                    &compiled.shared,
                    &self.0.options,
                    path.as_ref(),
                ),
                Executable::Interpreted => Err(Failure::NotCompiled {
                    what: "a bundle",
                    next: "ask for `Backend::Llvm` (on the command line, --backend llvm)",
                }
                .into()),
            }
        })
    }

    /// Loads a model from a bundle. Its graph is the one that was compiled; how it was imported is not in the bundle.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, was made by another version, or for a level that this machine lacks.
    /// What is wrong with a weight shows when a call first needs it.
    pub fn from_bundle(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_bundle_with(path, Options::new())
    }

    /// [`from_bundle`](Self::from_bundle) with options: those that say how to run it. Dimensions and inputs are as they
    /// were when it was made.
    ///
    /// # Errors
    /// As [`from_bundle`](Self::from_bundle), and when an option does not fit.
    pub fn from_bundle_with(path: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        guarded("loading", || {
            let options = options.started();
            let timing = options.clockwork().clone();
            let _inside = timing.enter();
            if let Some(name) = options.dims.keys().next() {
                return Err(Failure::UnknownDim {
                    name: name.escape_debug().to_string(),
                    expected: "a bundle has the dimensions that it was made with".to_owned(),
                }
                .into());
            }
            options.importing.refuse_for_graph()?;
            let bundled = {
                let _time = building(&timing, "load_bundle", "Loading a program from a bundle");
                load_bundle(path.as_ref(), &options)?
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
