//! The arguments that configure a model's inputs on import.

use crate::cases;
use anyhow::{Context, Error, anyhow};
use clap::Args;
use kiln::{Import, Tensor};
use std::path::PathBuf;
use std::str::FromStr;

/// Ranks, constants, lengths of sequences, and omitted optionals.
#[derive(Args, Debug)]
pub(crate) struct ImportArguments {
    /// Set the rank of an input whose rank the model does not specify: x=4
    #[arg(long = "rank", value_name = "INPUT=RANK")]
    ranks: Vec<NamedCount>,
    /// Make an input a constant, such as one that determines axes; calls then omit it: axes=axes.npy
    #[arg(long, value_name = "INPUT=FILE")]
    fix: Vec<NamedFile>,
    /// Set the number of entries of a sequence input, which become inputs xs.0, xs.1, …: xs=3
    #[arg(long = "length", value_name = "INPUT=ENTRIES")]
    lengths: Vec<NamedCount>,
    /// Omit an optional input
    #[arg(long, value_name = "INPUT")]
    absent: Vec<String>,
}

impl ImportArguments {
    /// The decisions made by these arguments.
    pub(crate) fn import(&self) -> Result<Import, Error> {
        let mut import = Import::new();
        for NamedCount { name, count } in &self.ranks {
            import = import.rank(name, *count);
        }
        for (name, tensor) in self.fixed()? {
            import = import.fix(name, tensor);
        }
        for NamedCount { name, count } in &self.lengths {
            import = import.length(name, *count);
        }
        for name in &self.absent {
            import = import.absent(name);
        }
        Ok(import)
    }

    /// The same, for an import only.
    #[cfg(all(feature = "llvm", feature = "onnx"))]
    pub(crate) fn apply_to_import(
        &self,
        mut options: kiln::internals::onnx::ImportOptions,
    ) -> Result<kiln::internals::onnx::ImportOptions, Error> {
        for NamedCount { name, count } in &self.ranks {
            options = options.rank(name, *count);
        }
        for (name, tensor) in self.fixed()? {
            options = options.fix(name, tensor);
        }
        for NamedCount { name, count } in &self.lengths {
            options = options.length(name, *count);
        }
        for name in &self.absent {
            options = options.absent(name);
        }
        Ok(options)
    }

    fn fixed(&self) -> Result<Vec<(&str, Tensor)>, Error> {
        let read = |fixed: &'_ NamedFile| cases::read(&fixed.file);
        let fixed = self.fix.iter();
        fixed
            .map(|fixed| Ok((fixed.name.as_str(), read(fixed)?)))
            .collect()
    }
}

/// `x=4`.
#[derive(Clone, Debug)]
struct NamedCount {
    name: String,
    count: usize,
}

impl FromStr for NamedCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, count) = text
            .rsplit_once('=')
            .ok_or_else(|| anyhow!("expected INPUT=NUMBER"))?;
        Ok(Self {
            name: name.to_owned(),
            count: count.parse().context("expected INPUT=NUMBER")?,
        })
    }
}

/// `axes=axes.npy`.
#[derive(Clone, Debug)]
struct NamedFile {
    name: String,
    file: PathBuf,
}

impl FromStr for NamedFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, file) = text
            .rsplit_once('=')
            .ok_or_else(|| anyhow!("expected INPUT=FILE, the file a .npy"))?;
        Ok(Self {
            name: name.to_owned(),
            file: PathBuf::from(file),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_by_input() {
        let parse = |text: &str| {
            text.parse::<NamedCount>()
                .map(|named| (named.name, named.count))
                .ok()
        };
        assert_eq!(parse("a=b=4"), Some(("a=b".into(), 4)));
        assert_eq!(parse("x=four"), None);
        assert_eq!(parse("x"), None);
    }

    #[test]
    fn files_are_given_by_input() {
        let named: NamedFile = "a=b=axes.npy".parse().unwrap();
        assert_eq!(
            (named.name.as_str(), named.file),
            ("a=b", "axes.npy".into())
        );
        assert!("axes.npy".parse::<NamedFile>().is_err());
    }
}
