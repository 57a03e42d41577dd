//! The inputs on which a command runs a model: case folders, or single files.

use crate::cases::{self, Case};
use anyhow::{Context, Error};
use clap::Args;
use kiln::{Model, Tensor};
use std::path::PathBuf;

/// Inputs by name.
pub(crate) type Inputs = Vec<(String, Tensor)>;

/// The arguments that name inputs.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(crate) struct InputArguments {
    /// A folder of case folders, each with a file INPUT.npy per input
    #[arg(long, value_name = "DIR", conflicts_with = "inputs")]
    pub(crate) cases: Option<PathBuf>,
    /// An input for a single call: x=x.npy
    #[arg(long = "input", value_name = "NAME=FILE")]
    pub(crate) inputs: Vec<String>,
}

/// One call's inputs, not yet read.
#[derive(Debug)]
pub(crate) enum Call {
    /// A case folder.
    Case(Case),
    /// Files by the name of their input.
    Files(Vec<(String, PathBuf)>),
}

impl InputArguments {
    /// The calls to make, cases in the order of their names.
    pub(crate) fn calls(&self) -> Result<Vec<Call>, Error> {
        match &self.cases {
            Some(folder) => Ok(Case::all(folder)?.into_iter().map(Call::Case).collect()),
            None => {
                let file = |input: &String| {
                    let (name, file) = input
                        .rsplit_once('=')
                        .with_context(|| format!("--input {input}: expected NAME=FILE"))?;
                    Ok((name.to_owned(), PathBuf::from(file)))
                };
                let files = self.inputs.iter().map(file);
                Ok(vec![Call::Files(files.collect::<Result<_, Error>>()?)])
            }
        }
    }
}

impl Call {
    /// The case's name; empty for single files.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Case(case) => &case.name,
            Self::Files(_) => "",
        }
    }

    /// The name, or a placeholder where a line needs one.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Case(case) => &case.name,
            Self::Files(_) => "inputs",
        }
    }

    /// Reads the tensors.
    pub(crate) fn inputs(&self, model: &Model) -> Result<Inputs, Error> {
        match self {
            Self::Case(case) => case.inputs(model),
            Self::Files(files) => files
                .iter()
                .map(|(name, file)| Ok((name.clone(), cases::read(file)?)))
                .collect(),
        }
    }
}
