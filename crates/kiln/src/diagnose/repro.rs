//! A minimal reproduction of a miscompiled model: a few ops, their inputs as tensors, and files that reproduce the
//! difference.
//!
//! The search is in `compare/reduce.rs`.

use crate::error::{Error, Failure};
use kiln_ir::{Graph, Op, text};
use kiln_tensor::{Tensor, write_npy, write_npz};
use std::fmt;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// A graph and inputs for which compiled code and the interpreter differ, with as few ops as the search found sufficient.
///
/// Found in [`Comparison::repro`](super::Comparison::repro).
#[derive(Clone, Debug)]
pub struct Repro {
    pub(crate) graph: Graph,
    pub(crate) inputs: Vec<(String, Tensor)>,
    /// The value of the model that each input represents, if not the input of that name.
    pub(crate) stands_for: Vec<String>,
    pub(crate) extent: Extent,
}

/// How far the model was reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extent {
    /// A few ops that are wrong in isolation, with symbolic sizes of their inputs.
    Ops,
    /// A few ops with the sizes of this call as constants in the graph: with symbolic sizes, nothing is wrong.
    SizedOps,
    /// The whole optimised graph: no part was found to be wrong in isolation.
    Whole,
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ops => "wrong in isolation",
            Self::SizedOps => "wrong in isolation when these sizes are constants",
            Self::Whole => "the whole model: no part of it was found to be wrong in isolation",
        })
    }
}

impl Repro {
    /// The ops.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Its inputs, by name.
    pub fn inputs(&self) -> &[(String, Tensor)] {
        &self.inputs
    }

    /// How far the model was reduced.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Writes it into a folder, created if needed: `graph.kiln`; `graph.npz` if it has large constants;
    /// `cases/0/INPUT.npy`; and `about.txt`, which lists what the inputs represent. `kiln compare graph.kiln --cases
    /// cases` in that folder then reproduces the difference.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        let case = folder.join("cases").join("0");
        fs::create_dir_all(&case).map_err(failed(&case))?;
        let path = folder.join("graph.kiln");
        fs::write(&path, text::print(&self.graph)).map_err(failed(&path))?;
        let constants = self.large_constants();
        let archive = folder.join("graph.npz");
        if constants.is_empty() {
            // A leftover from an earlier repro would be read with this graph.
            match fs::remove_file(&archive) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&archive)(error));
                }
                _ => {}
            }
        } else {
            let file = File::create(&archive).map_err(failed(&archive))?;
            let named = constants.iter();
            let named = named.map(|(name, tensor)| (name.as_str(), tensor));
            write_npz(named, BufWriter::new(file))?;
        }
        for (name, tensor) in self.inputs() {
            let path = case.join(format!("{}.npy", name.replace('/', "_")));
            let mut file = BufWriter::new(File::create(&path).map_err(failed(&path))?);
            write_npy(tensor, &mut file)?;
            file.flush().map_err(failed(&path))?;
        }
        let path = folder.join("about.txt");
        fs::write(&path, self.to_string()).map_err(failed(&path))
    }

    /// The constants that the text refers to by digest.
    fn large_constants(&self) -> Vec<(String, Tensor)> {
        let constants = self.graph.ops().filter_map(|(_, data)| match &data.op {
            Op::Constant(constant) if !constant.is_inline() => Some(constant),
            _ => None,
        });
        let numbered = constants.enumerate();
        numbered
            .map(|(index, constant)| (format!("constant{index}"), constant.tensor()))
            .collect()
    }
}

impl fmt::Display for Repro {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.graph.ops().count();
        writeln!(f, "{n} ops, {}", self.extent)?;
        for ((name, _), origin) in self.inputs.iter().zip(&self.stands_for) {
            writeln!(f, "{} is {origin}", name.escape_debug())?;
        }
        Ok(())
    }
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> Error {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let file = name.to_string_lossy().escape_debug().to_string();
    move |source| {
        Failure::Write {
            file: file.clone(),
            source,
        }
        .into()
    }
}
