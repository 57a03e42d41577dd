//! The inputs on which a command runs a model: case folders, single files, or drawn at random.

mod files;
mod picture;

use crate::cases::Case;
use crate::report;
use anyhow::{Context, Error};
use clap::Args;
use kiln::{Model, Tensor, diagnose};
use picture::PictureArguments;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// Inputs by name.
pub(crate) type Inputs = Vec<(String, Tensor)>;

/// The arguments that name inputs.
#[derive(Args, Debug)]
#[command(next_help_heading = "Inputs")]
pub(crate) struct InputArguments {
    /// A folder of case folders, each with a file INPUT.npy per input
    #[arg(long, value_name = "DIR", conflicts_with_all = ["inputs", "sizes"])]
    pub(crate) cases: Option<PathBuf>,
    /// An input for a single call, from a .npy file, a .npz file or an image (.png, .jpg): x=x.npy; without a name, all
    /// inputs in a .npz file
    #[arg(long = "input", value_name = "[NAME=]FILE")]
    inputs: Vec<NamedFile>,
    #[command(flatten)]
    sizes: SizeArguments,
    #[command(flatten)]
    pictures: PictureArguments,
}

/// The sizes of inputs that are drawn at random.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SizeArguments {
    /// Sizes of symbols, for inputs without a file, which are random: batch=8,seq=128. By default, the likely sizes, or
    /// else the smallest that the model allows
    #[arg(
        long = "size",
        id = "sizes",
        value_name = "NAME=SIZE",
        value_delimiter = ','
    )]
    sizes: Vec<NamedSize>,
    /// The seed for random inputs: the same seed gives the same inputs
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// One call's inputs, not yet read.
#[derive(Debug)]
pub(crate) enum Call<'a> {
    /// A case folder.
    Case(Case),
    /// What the arguments name; the rest is drawn.
    Named(&'a InputArguments),
}

impl InputArguments {
    /// The calls to make, cases in the order of their names.
    pub(crate) fn calls(&self) -> Result<Vec<Call<'_>>, Error> {
        match &self.cases {
            Some(folder) => Ok(Case::all(folder)?.into_iter().map(Call::Case).collect()),
            None => Ok(vec![Call::Named(self)]),
        }
    }

    /// Whether nothing says what to call the model with.
    pub(crate) fn are_absent(&self) -> bool {
        self.cases.is_none() && self.inputs.is_empty() && self.sizes.sizes.is_empty()
    }

    /// The tensors of the files, then those drawn for inputs without one.
    fn read(&self, model: &Model) -> Result<Inputs, Error> {
        let given = self.sizes.by_name();
        let mut tensors = Inputs::new();
        for NamedFile { name, file } in &self.inputs {
            tensors.extend(files::read(
                model,
                name.as_deref(),
                file,
                &given,
                &self.pictures,
            )?);
        }
        // A forgotten file is an error of the call, unless sizes say that the rest is drawn.
        let draws = tensors.is_empty() || !given.is_empty();
        let is_given = |name: &str| tensors.iter().any(|(given, _)| given == name);
        let missing = model
            .inputs()
            .iter()
            .filter(|input| !is_given(input.name()));
        let missing: Vec<String> = missing.map(|input| input.name().to_owned()).collect();
        if draws && !missing.is_empty() {
            let sizes = with_sizes_of(model, &tensors, given);
            tensors.extend(self.sizes.draw(model, &sizes, &missing)?);
        }
        Ok(tensors)
    }
}

impl SizeArguments {
    pub(crate) fn by_name(&self) -> BTreeMap<String, i64> {
        let sizes = self.sizes.iter();
        sizes
            .map(|named| (named.name.clone(), named.size))
            .collect()
    }

    /// The sizes, as they were given.
    #[cfg(all(feature = "llvm", feature = "onnx"))]
    pub(crate) fn texts(&self) -> Vec<String> {
        let sizes = self.sizes.iter();
        sizes
            .map(|named| format!("{}={}", named.name, named.size))
            .collect()
    }

    /// Draws some inputs, and says at which sizes.
    fn draw(
        &self,
        model: &Model,
        sizes: &BTreeMap<String, i64>,
        names: &[String],
    ) -> Result<Inputs, Error> {
        let drawn = diagnose::draw_inputs(model, sizes, self.seed)?;
        let at: Vec<String> = drawn
            .sizes
            .iter()
            .map(|(name, size)| format!("{}={size}", name.escape_debug()))
            .collect();
        let at = match at.is_empty() {
            true => String::new(),
            false => format!(", at --size {}", at.join(",")),
        };
        let list: Vec<_> = names
            .iter()
            .map(|name| name.escape_debug().to_string())
            .collect();
        report::note(format!(
            "note: drew {} with --seed {}{at}",
            list.join(", "),
            self.seed
        ));
        let mut tensors = drawn.tensors;
        tensors.retain(|(name, _)| names.contains(name));
        Ok(tensors)
    }
}

impl Call<'_> {
    /// The case's name; empty for a single call.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Case(case) => &case.name,
            Self::Named(_) => "",
        }
    }

    /// The name, or a placeholder where a line needs one.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Case(case) => &case.name,
            Self::Named(_) => "inputs",
        }
    }

    /// Reads the tensors.
    pub(crate) fn inputs(&self, model: &Model) -> Result<Inputs, Error> {
        match self {
            Self::Case(case) => case.inputs(model),
            Self::Named(arguments) => arguments.read(model),
        }
    }
}

/// The sizes, and those that the shapes of tensors give to the symbols of their inputs.
fn with_sizes_of(
    model: &Model,
    tensors: &Inputs,
    mut sizes: BTreeMap<String, i64>,
) -> BTreeMap<String, i64> {
    for (name, tensor) in tensors {
        let input = model.inputs().iter().find(|input| input.name() == name);
        let Some(shape) = input.and_then(|input| input.shape()) else {
            continue;
        };
        for (dimension, &size) in shape.dimensions().iter().zip(tensor.shape()) {
            if !dimension.is_known() && !dimension.name().is_empty() {
                let size = i64::try_from(size).unwrap_or(i64::MAX);
                sizes.entry(dimension.name().to_owned()).or_insert(size);
            }
        }
    }
    sizes
}

/// `x=x.npy`, or only the file.
#[derive(Clone, Debug)]
struct NamedFile {
    name: Option<String>,
    file: PathBuf,
}

impl FromStr for NamedFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text.rsplit_once('=') {
            Some((name, file)) => Self {
                name: Some(name.to_owned()),
                file: PathBuf::from(file),
            },
            None if files::is_archive(text.as_ref()) => Self {
                name: None,
                file: PathBuf::from(text),
            },
            None => anyhow::bail!("expected NAME=FILE, or an .npz file"),
        })
    }
}

/// `batch=8`; the name may contain `=`.
#[derive(Clone, Debug)]
struct NamedSize {
    name: String,
    size: i64,
}

impl FromStr for NamedSize {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, size) = text
            .rsplit_once('=')
            .context("expected NAME=SIZE, as in batch=8")?;
        Ok(Self {
            name: name.trim().to_owned(),
            size: size
                .trim()
                .parse()
                .context("expected NAME=SIZE, as in batch=8")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_a_name_unless_they_have_several() {
        let parse = |text: &str| {
            let named = text.parse::<NamedFile>().ok()?;
            Some((named.name, named.file.display().to_string()))
        };
        assert_eq!(
            parse("a=b=x.npy"),
            Some((Some("a=b".into()), "x.npy".into()))
        );
        assert_eq!(parse("all.npz"), Some((None, "all.npz".into())));
        assert_eq!(parse("x.npy"), None);
    }

    #[test]
    fn sizes_are_given_by_name() {
        let parse = |text: &str| {
            text.parse::<NamedSize>()
                .map(|named| (named.name, named.size))
                .ok()
        };
        assert_eq!(parse("batch=8"), Some(("batch".into(), 8)));
        assert_eq!(parse("a=b = 8"), Some(("a=b".into(), 8)));
        assert_eq!(parse("batch"), None);
        assert_eq!(parse("batch=many"), None);
    }
}
