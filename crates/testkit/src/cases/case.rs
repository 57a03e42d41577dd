//! A case file: found, read, checked, and rewritten.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::also::Also;
use super::directive::{AtLine, Directive, Parts, split, with_blocks};
use super::form::{Engine, Form};
use super::graph::{GRAPH_STAGES, GraphForm};
use super::kernel::{KERNEL_STAGES, KernelForm};
use super::literal;
use super::run::{Run, result_name};
use crate::kernels::Elements;

/// The kind of a case's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Graph,
    Kernel,
    /// A kernel with the loops with which it is compiled.
    Loops,
}

impl Kind {
    /// The kind, by the extension of a file.
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "kiln" => Some(Kind::Graph),
            "kernel" => Some(Kind::Kernel),
            "loops" => Some(Kind::Loops),
            _ => None,
        }
    }

    /// The word with which a program begins.
    fn word(self) -> &'static str {
        match self {
            Kind::Graph => "graph",
            Kind::Kernel | Kind::Loops => "kernel",
        }
    }

    /// The number of texts of which a program consists.
    fn n_texts(self) -> usize {
        match self {
            Kind::Graph | Kind::Kernel => 1,
            Kind::Loops => 2,
        }
    }

    fn stages(self) -> String {
        match self {
            Kind::Graph => format!("{}, after PASS", GRAPH_STAGES.join(", ")),
            Kind::Kernel | Kind::Loops => KERNEL_STAGES.join(", "),
        }
    }

    fn read(self, text: &str) -> Result<Box<dyn Form>, String> {
        Ok(match self {
            Kind::Graph => Box::new(GraphForm::read(text)?),
            Kind::Kernel => Box::new(KernelForm::read(text)?),
            Kind::Loops => Box::new(KernelForm::read_with_loops(text)?),
        })
    }
}

/// A problem of a case, or of the tested code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {message}", .path.display())]
pub struct CaseError {
    /// The file, beneath [`folder`].
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The problem.
    pub message: String,
}

/// A file of `testdata/`.
#[derive(Clone)]
pub struct Case {
    path: PathBuf,
    source: String,
    kind: Kind,
    parts: Parts,
    /// Each with the position of its directive.
    also: Vec<(usize, Also)>,
    /// Each with the position of its directive.
    runs: Vec<(usize, Run)>,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Case").field(&self.path).finish()
    }
}

/// The folder of the cases.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

/// The topics: the names of the folders with cases, in order.
///
/// # Errors
/// When the folder cannot be read.
pub fn topics() -> io::Result<Vec<String>> {
    names(&folder())
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?;
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    let mut names = entries.map(name).collect::<io::Result<Vec<String>>>()?;
    names.sort();
    Ok(names)
}

/// The cases of a topic, by name.
///
/// # Errors
/// A file that cannot be read or does not follow the rules.
pub fn topic(name: &str) -> Result<Vec<Case>, CaseError> {
    let within = PathBuf::from(name);
    let unread = |path: &Path, error: io::Error| CaseError {
        path: path.to_owned(),
        line: 1,
        message: error.to_string(),
    };
    let files = names(&folder().join(&within)).map_err(|error| unread(&within, error))?;
    let read = |file: String| {
        let path = within.join(file);
        let source =
            fs::read_to_string(folder().join(&path)).map_err(|error| unread(&path, error))?;
        Case::read(path, source)
    };
    files.into_iter().map(read).collect()
}

impl Case {
    /// A case from a file's text.
    ///
    /// # Errors
    /// The first line that does not follow the rules.
    pub fn read(path: PathBuf, source: String) -> Result<Self, CaseError> {
        let at = |(line, message): AtLine| CaseError {
            path: path.clone(),
            line,
            message,
        };
        let Some(kind) = Kind::of(&path) else {
            return Err(at((
                1,
                "expected a file with the extension .kiln, .kernel or .loops".to_owned(),
            )));
        };
        let parts = split(&source, kind.word(), kind.n_texts()).map_err(at)?;
        let (mut also, mut runs) = (Vec::new(), Vec::new());
        for (position, directive) in parts.directives.iter().enumerate() {
            let here = |message| at((directive.line, message));
            match directive.word.as_str() {
                "also" => {
                    let text = [directive.rest.as_str()]
                        .into_iter()
                        .chain(directive.block.iter().map(String::as_str));
                    let text = text.collect::<Vec<_>>().join(" ");
                    also.push((position, Also::read(&text).map_err(here)?));
                }
                "run" | "gradient" => runs.push((position, Run::read(directive).map_err(at)?)),
                _ if directive.rest.is_empty() => {}
                word => {
                    let expected = format!(
                        "also, run, gradient, or a stage with nothing behind it ({})",
                        kind.stages()
                    );
                    return Err(here(format!("expected {expected}, found `{word}`")));
                }
            }
        }
        Ok(Self {
            path,
            source,
            kind,
            parts,
            also,
            runs,
        })
    }

    /// Its name: that of the file, without the extension.
    pub fn name(&self) -> String {
        self.path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Whether it is a kernel.
    pub fn is_kernel(&self) -> bool {
        self.kind == Kind::Kernel
    }

    /// The file's text without its directives: prose and program.
    pub fn text(&self) -> String {
        let end = self
            .parts
            .directives
            .first()
            .map_or(usize::MAX, |first| first.line - 1);
        let lines: Vec<&str> = self.source.lines().take(end).collect();
        format!("{}\n", lines.join("\n").trim_end())
    }

    /// The program unchanged, then with the words of each `also`.
    ///
    /// # Errors
    /// Words that are not in the program.
    pub fn programs(&self) -> Result<Vec<String>, CaseError> {
        let programs = self.introduced()?;
        Ok(programs.into_iter().map(|(_, program)| program).collect())
    }

    /// The programs, each with the position of the directive that introduces it; 0 for the unchanged program.
    fn introduced(&self) -> Result<Vec<(usize, String)>, CaseError> {
        let mut programs = vec![(0, self.parts.program.clone())];
        for (position, also) in &self.also {
            let texts: Vec<String> = programs
                .iter()
                .flat_map(|(_, program)| also.texts(program))
                .collect();
            if texts.is_empty() {
                let line = self.parts.directives[*position].line;
                return Err(self.error(
                    line,
                    "expected these words in the program, found none".to_owned(),
                ));
            }
            for text in texts {
                if programs.iter().all(|(_, known)| *known != text) {
                    programs.push((*position, text));
                }
            }
        }
        Ok(programs)
    }

    /// The distribution of the operands of its first run.
    pub fn elements(&self) -> Elements {
        self.runs
            .first()
            .map_or_else(Elements::default, |(_, run)| run.elements)
    }

    /// Checks what the file states: every stage has its text, and every run agrees with the interpreter.
    ///
    /// # Errors
    /// All problems.
    pub fn check(&self, engine: &Engine) -> Result<(), Vec<CaseError>> {
        let (blocks, mut errors) = self.blocks(engine);
        for (directive, block) in self.parts.directives.iter().zip(&blocks) {
            errors.extend(self.difference(directive, block));
        }
        errors.extend(self.run_others(engine));
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Rewrites the file with its current stages and results; returns whether that changes it.
    ///
    /// # Errors
    /// Why a stage cannot be printed, and files that cannot be written.
    pub fn bless(&self, engine: &Engine) -> Result<bool, Vec<CaseError>> {
        let (blocks, errors) = self.blocks(engine);
        if !errors.is_empty() {
            return Err(errors);
        }
        let blessed = with_blocks(&self.source, &self.parts.directives, &blocks);
        let is_changed = blessed != self.source;
        if is_changed {
            let written = fs::write(folder().join(&self.path), blessed);
            written.map_err(|error| vec![self.error(1, error.to_string())])?;
        }
        Ok(is_changed)
    }

    /// The expected block of each directive, computed from the program, and the problems found.
    fn blocks(&self, engine: &Engine) -> (Vec<Vec<String>>, Vec<CaseError>) {
        let form = match self.kind.read(&self.parts.program) {
            Ok(form) => form,
            Err(message) => return (Vec::new(), vec![self.error(1, message)]),
        };
        let (mut blocks, mut errors) = (Vec::new(), Vec::new());
        for (position, directive) in self.parts.directives.iter().enumerate() {
            let run = self.runs.iter().find(|(at, _)| *at == position);
            let block = match run {
                Some((_, run)) => form
                    .run(run, engine)
                    .and_then(|results| with_results(directive, &results)),
                None if directive.word == "also" => Ok(directive.block.clone()),
                None => self.stage(&*form, directive, engine),
            };
            blocks.push(block.unwrap_or_else(|message| {
                errors.push(self.error(directive.line, message));
                directive.block.clone()
            }));
        }
        (blocks, errors)
    }

    fn stage(
        &self,
        form: &dyn Form,
        directive: &Directive,
        engine: &Engine,
    ) -> Result<Vec<String>, String> {
        let text = form.stage(&directive.word, engine)?.ok_or_else(|| {
            let stages = self.kind.stages();
            format!(
                "expected also, run, gradient or a stage ({stages}), found `{}`",
                directive.word
            )
        })?;
        Ok(text.trim_end().lines().map(str::to_owned).collect())
    }

    /// Runs the program with the words of each `also`, in the runs that follow it and do not give elements.
    fn run_others(&self, engine: &Engine) -> Vec<CaseError> {
        let programs = match self.introduced() {
            Ok(programs) => programs,
            Err(error) => return vec![error],
        };
        let mut errors = Vec::new();
        for (introduced, program) in &programs[1..] {
            let at = |position: usize, message: String| {
                self.error(
                    self.parts.directives[position].line,
                    format!("{message}\nof\n{program}"),
                )
            };
            let form = match self.kind.read(program) {
                Ok(form) => form,
                Err(message) => {
                    errors.push(at(*introduced, message));
                    continue;
                }
            };
            for (position, run) in &self.runs {
                if position > introduced
                    && run.given.is_empty()
                    && let Err(message) = form.run(run, engine)
                {
                    errors.push(at(*position, message));
                }
            }
        }
        errors
    }

    fn difference(&self, directive: &Directive, block: &[String]) -> Option<CaseError> {
        if directive.block == block {
            return None;
        }
        let pairs = directive.block.iter().zip(block);
        let place = pairs
            .take_while(|(expected, found)| expected == found)
            .count();
        let shown = |lines: &[String]| match lines.get(place) {
            Some(line) => format!("`{}`", line.trim()),
            None => "its end".to_owned(),
        };
        let message = format!(
            "{}: expected {}, found {}; it is\n{}\n`cargo xtask bless --files` accepts it",
            directive.word,
            shown(&directive.block),
            shown(block),
            block.join("\n")
        );
        Some(self.error(directive.line + 1 + place, message))
    }

    fn error(&self, line: usize, message: String) -> CaseError {
        CaseError {
            path: self.path.clone(),
            line,
            message,
        }
    }
}

/// The block of a run with the current values of the results that it states.
fn with_results(
    directive: &Directive,
    results: &[(String, kiln_tensor::Tensor)],
) -> Result<Vec<String>, String> {
    let line = |text: &String| {
        let Some(name) = result_name(text) else {
            return Ok(text.clone());
        };
        let Some((_, tensor)) = results.iter().find(|(result, _)| result == name) else {
            return Err(format!("expected the name of a result, found %{name}"));
        };
        let elements = literal::print(tensor).map_err(|error| error.to_string())?;
        Ok(format!("%{name} == {elements}"))
    };
    directive.block.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: &str = "kernel @sum(%x: in f32[N], %y: out f32[]) {\n  s = reduce add[r < N] %x[r]\n  store %y[] = s\n}\n";

    fn read(name: &str, source: &str) -> Result<Case, String> {
        let case = Case::read(PathBuf::from(name), source.to_owned());
        case.map_err(|error| error.to_string())
    }

    #[test]
    fn malformed_files_are_errors_with_file_and_line() {
        let named = "topic/sum.kernel";
        for (name, source, expected) in [
            (
                "topic/sum.nests",
                SUM.to_owned(),
                "topic/sum.nests:1: expected a file with the extension",
            ),
            (
                "topic/sum.loops",
                SUM.to_owned(),
                "topic/sum.loops:1: expected the program to end",
            ),
            (
                named,
                "// prose\n".to_owned(),
                "topic/sum.kernel:1: expected a line that begins with `kernel @`",
            ),
            (
                named,
                format!("// run: edges\n{SUM}"),
                "topic/sum.kernel:1: expected prose",
            ),
            (
                named,
                SUM.trim_end_matches("}\n").to_owned(),
                "topic/sum.kernel:1: expected the program to end",
            ),
            (
                named,
                format!("{SUM}// Prose behind.\n"),
                "topic/sum.kernel:5: expected `// word: ...`",
            ),
            (
                named,
                format!("{SUM}{SUM}"),
                "topic/sum.kernel:5: expected a comment after the program",
            ),
            (
                named,
                format!("{SUM}// rnu: edges\n"),
                "topic/sum.kernel:5: expected also, run, gradient, or a stage",
            ),
            (
                named,
                format!("{SUM}\n// also: f32 | f64\n"),
                "topic/sum.kernel:6: expected `words -> words | words`",
            ),
            (
                named,
                format!("{SUM}// run: edges\n//   x = [1]\n"),
                "topic/sum.kernel:6: expected `%name = [...]`",
            ),
        ] {
            let error = read(name, &source).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let absent = read(named, &format!("{SUM}// also: f16 -> f64\n")).unwrap();
        let error = absent.programs().unwrap_err().to_string();
        assert_eq!(
            error,
            "topic/sum.kernel:5: expected these words in the program, found none"
        );
    }

    #[test]
    fn the_text_of_a_case_is_prose_and_program() {
        let text = format!("// A sum.\n{SUM}");
        let case = read(
            "topic/sum.kernel",
            &format!("{text}\n// also: add -> max | mul\n// run: edges\n"),
        )
        .unwrap();
        assert_eq!((case.text(), case.name()), (text, "sum".to_owned()));
        let programs = case.programs().unwrap();
        assert_eq!(
            programs,
            [SUM, &SUM.replace("add", "max"), &SUM.replace("add", "mul")]
        );
    }
}
