//! Writes a folder that reproduces a difference, with the command to run it.
//!
//! It is written once per command, for the first difference: a defect often shows in every case.

use crate::report;
use anyhow::Error;
use kiln::diagnose::Comparison;
use std::path::{Path, PathBuf};

/// Where the reproduction is written.
pub(crate) struct ReproWriter {
    /// `None` once it was written, or if it is not wanted.
    folder: Option<PathBuf>,
}

impl ReproWriter {
    /// Into that folder; nowhere if it is `off`.
    pub(crate) fn new(folder: &Path) -> Self {
        let is_wanted = folder.as_os_str() != "off";
        Self {
            folder: is_wanted.then(|| folder.to_owned()),
        }
    }

    /// Writes the result of a comparison, if it is the first, and reports it on standard error.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn write(
        &mut self,
        comparison: &Comparison,
        target: Option<&str>,
        threads: usize,
    ) -> Result<(), Error> {
        let Some(repro) = &comparison.repro else {
            return Ok(());
        };
        let Some(folder) = self.folder.take() else {
            return Ok(());
        };
        repro.write(&folder)?;
        let what = repro.to_string();
        let what = what.lines().next().unwrap_or_default().to_owned();
        report::note(format!(
            "  written to {}: {what}\n  reproduce with: {}",
            folder.display(),
            command(&folder, target, threads)
        ));
        Ok(())
    }
}

/// The reproduction.
fn command(folder: &Path, target: Option<&str>, threads: usize) -> String {
    let (graph, cases) = (folder.join("graph.kiln"), folder.join("cases"));
    let target = target.map_or_else(String::new, |target| format!(" --target {target}"));
    format!(
        "kiln compare {} --cases {} --device cpu{target} --threads {threads} --repro off",
        quoted(&graph),
        quoted(&cases)
    )
}

/// A path quoted for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
#[cfg(feature = "llvm")]
mod tests {
    use super::*;
    use kiln::internals::backend::{
        Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Schedule, Target,
    };
    use kiln::internals::codegen_llvm::LlvmCompiler;
    use kiln::internals::kernel::{VerifiedKernel, text, verify};
    use kiln::internals::lazy_runtime::{Runtime, RuntimeOptions};
    use kiln::internals::native::NativeExecutor;
    use kiln::{Device, Options, Source, Tensor, diagnose, internals};
    use std::sync::Arc;

    /// Compiles every `sqrt` in a kernel as `sigmoid`.
    struct Wrong(LlvmCompiler);

    impl CompilerWrapper for Wrong {
        type Inner = LlvmCompiler;

        fn inner(&self) -> &LlvmCompiler {
            &self.0
        }

        fn version(&self) -> String {
            "wrong".to_owned()
        }

        fn compile(
            &self,
            kernel: &VerifiedKernel,
            target: &Target,
            schedule: &Schedule,
            observer: &mut dyn CompileObserver,
        ) -> Result<Artifact, CompileError> {
            let wrong = text::print(kernel.kernel()).replace("sqrt(", "sigmoid(");
            let wrong = text::read(&wrong).ok().and_then(|wrong| verify(wrong).ok());
            let Some(wrong) = wrong else {
                unreachable!("one function replaces another")
            };
            self.0.compile(&wrong, target, schedule, observer)
        }
    }

    fn wrong() -> Options {
        let runtime = Runtime::new(
            Some(Arc::new(Wrong(LlvmCompiler::new()))),
            Arc::new(NativeExecutor::new()),
            RuntimeOptions::new(),
        );
        internals::on_runtime(Options::new().device(Device::cpu()), Arc::new(runtime))
    }

    #[test]
    fn the_first_difference_is_written_once_and_reproduced_from_its_files() {
        let text = "graph @block(%x: f32[B, 8]) -> (f32[B, 8], f32[B]) {
          %e = exp %x
          %t = sqrt %e
          %m = reduce %t {function = sum, axes = [1]}
          return %t, %m
        }";
        let model = wrong().load(Source::text(text)).unwrap();
        let x = Tensor::from_vec(&[2, 8], (0..16).map(|i| i as f32 / 16.0).collect()).unwrap();
        let comparison =
            diagnose::compare(&model, &diagnose::reference(&model, [("x", &x)]).unwrap()).unwrap();
        assert!(!comparison.agrees());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("re pro");
        let mut writer = ReproWriter::new(&path);
        writer.write(&comparison, None, 1).unwrap();
        let command = command(&path, Some("portable"), 2);
        assert!(
            command.contains("re pro/graph.kiln' --cases '"),
            "{command}"
        );
        assert!(
            command.ends_with("--target portable --threads 2 --repro off"),
            "{command}"
        );

        // As the command does: with the defect the outputs differ again, without it they do not.
        for (options, agrees) in [(wrong(), false), (Options::new(), true)] {
            let again = options.load(path.join("graph.kiln")).unwrap();
            let cases = crate::cases::Case::all(&path.join("cases")).unwrap();
            let inputs = cases[0].inputs(&again).unwrap();
            let comparison =
                diagnose::compare(&again, &diagnose::reference(&again, &inputs).unwrap()).unwrap();
            assert_eq!(comparison.agrees(), agrees);
        }

        // It is not written a second time, nor with `off`.
        std::fs::remove_dir_all(&path).unwrap();
        writer.write(&comparison, None, 1).unwrap();
        ReproWriter::new(Path::new("off"))
            .write(&comparison, None, 1)
            .unwrap();
        assert!(!path.exists() && !Path::new("off").exists());
    }
}
