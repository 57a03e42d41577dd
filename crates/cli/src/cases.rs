//! Case folders: one folder per call, one `.npy` file per tensor.
//!
//! A file is named after its tensor; a `/` in the name becomes `_`.

use anyhow::{Context, Error, bail};
use kiln::internals::kernel_cache::open_regular;
use kiln::internals::tensor::{read_npy, write_npy};
use kiln::{Model, Outputs, Tensor};
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A folder with the inputs of one call.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    folder: PathBuf,
}

impl Case {
    /// The cases in a folder, in the order of their names.
    pub(crate) fn all(folder: &Path) -> Result<Vec<Self>, Error> {
        let context = || format!("cannot read the cases in {}", folder.display());
        let mut cases = Vec::new();
        for entry in fs::read_dir(folder).with_context(context)? {
            let path = entry.with_context(context)?.path();
            let Some(name) = path.file_name() else {
                continue;
            };
            if path.is_dir() {
                cases.push(Self {
                    name: name.to_string_lossy().into_owned(),
                    folder: path,
                });
            }
        }
        if cases.is_empty() {
            bail!(
                "no case in {}: expected one folder per case, with a file INPUT.npy each",
                folder.display()
            );
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(cases)
    }

    /// The tensors for the model's inputs.
    pub(crate) fn inputs(&self, model: &Model) -> Result<Vec<(String, Tensor)>, Error> {
        let names = model.inputs().iter().map(|input| input.name());
        names
            .map(|name| Ok((name.to_owned(), read(&self.folder.join(file_name(name)))?)))
            .collect()
    }
}

/// Reads a tensor.
pub(crate) fn read(path: &Path) -> Result<Tensor, Error> {
    let context = || format!("cannot read {}", path.display());
    let file = open_regular(path).with_context(context)?;
    read_npy(&mut BufReader::new(file))
        .map_err(kiln::Error::from)
        .with_context(context)
}

/// Writes each output to its file in `folder`, which is created if it is missing.
pub(crate) fn write(folder: &Path, outputs: &Outputs) -> Result<(), Error> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, tensor) in outputs.iter() {
        let path = folder.join(file_name(name));
        let context = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(&path).with_context(context)?);
        write_npy(tensor, &mut file)
            .map_err(kiln::Error::from)
            .with_context(context)?;
        file.flush().with_context(context)?;
    }
    Ok(())
}

fn file_name(tensor: &str) -> String {
    format!("{}.npy", tensor.replace('/', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_file_names_cannot_escape_the_folder() {
        assert_eq!(file_name("a/b"), "a_b.npy");
        assert_eq!(file_name("../../x"), ".._.._x.npy");
    }
}
