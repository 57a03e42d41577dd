//! Files that inputs are read from, by their extension.

use super::Inputs;
use super::picture::{self, PictureArguments};
use crate::cases;
use anyhow::{Context, Error, bail};
use kiln::Model;
use kiln::internals::kernel_cache::open_regular;
use kiln::internals::tensor::read_npz;
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

/// The most bytes that the tensors of an archive may have together.
const ARCHIVE_LIMIT: usize = 16 << 30;

/// Whether a file may hold several tensors.
pub(super) fn is_archive(file: &Path) -> bool {
    extension(file) == "npz"
}

fn extension(file: &Path) -> String {
    let extension = file.extension().unwrap_or_default();
    extension.to_string_lossy().to_lowercase()
}

/// The tensor of a file for an input, or every input that an archive has.
pub(super) fn read(
    model: &Model,
    name: Option<&str>,
    file: &Path,
    sizes: &BTreeMap<String, i64>,
    pictures: &PictureArguments,
) -> Result<Inputs, Error> {
    if is_archive(file) {
        return from_archive(model, name, file);
    }
    let name = name.with_context(|| format!("{}: expected NAME=FILE", file.display()))?;
    let tensor = match extension(file).as_str() {
        "png" | "jpg" | "jpeg" => {
            let input = model.inputs().iter().find(|input| input.name() == name);
            let names = || {
                let names = model.inputs().iter();
                let names = names.map(|input| input.name().escape_debug().to_string());
                names.collect::<Vec<_>>().join(", ")
            };
            let input = input.with_context(|| {
                format!(
                    "unknown input {}, expected one of: {}",
                    name.escape_debug(),
                    names()
                )
            })?;
            picture::read(file, input, sizes, pictures)?
        }
        _ => cases::read(file)?,
    };
    Ok(vec![(name.to_owned(), tensor)])
}

fn from_archive(model: &Model, name: Option<&str>, file: &Path) -> Result<Inputs, Error> {
    let context = || format!("cannot read {}", file.display());
    let opened = open_regular(file).with_context(context)?;
    let mut tensors = read_npz(BufReader::new(opened), ARCHIVE_LIMIT)
        .map_err(kiln::Error::from)
        .with_context(context)?;
    let held: Vec<String> = tensors
        .keys()
        .map(|name| name.escape_debug().to_string())
        .collect();
    match name {
        Some(name) => {
            let tensor = match tensors.remove(name) {
                Some(tensor) => tensor,
                None if tensors.len() == 1 => match tensors.pop_first() {
                    Some((_, tensor)) => tensor,
                    None => bail!("{} is empty", file.display()),
                },
                None => bail!(
                    "{}: expected an array {}, found {}",
                    file.display(),
                    name.escape_debug(),
                    held.join(", ")
                ),
            };
            Ok(vec![(name.to_owned(), tensor)])
        }
        None => {
            let inputs = model.inputs().iter().map(|input| input.name());
            let found = inputs.filter_map(|name| Some((name.to_owned(), tensors.remove(name)?)));
            let found: Inputs = found.collect();
            if found.is_empty() {
                bail!(
                    "{}: expected arrays named after inputs, found {}",
                    file.display(),
                    held.join(", ")
                );
            }
            Ok(found)
        }
    }
}
