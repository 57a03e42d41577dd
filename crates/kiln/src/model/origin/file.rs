//! An ONNX model, read on demand: a model whose file is recognised by its identity can be called without reading the
//! file.

use super::ModelDigest;
use super::hashed::{self, Digested};
use super::known;
use super::opened::OpenedFiles;
use crate::error::{Error, Failure};
use kiln_fork_lock::ForkCell;
use kiln_kernel_cache::Tier;
use kiln_onnx::{Limits, Model, ValueType};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
#[cfg(feature = "native")]
use {
    super::ConstantPlace,
    kiln_ir::{Constant, Digest},
    kiln_onnx::{Location, TensorPlace},
    kiln_tensor::{DType, Tensor},
    std::collections::BTreeMap,
};

/// A model and its source.
pub(crate) struct OnnxOrigin {
    model: ForkCell<Box<Model>>,
    digest: Option<ModelDigest>,
    /// The source to read on demand; `None` once it was read.
    unread: Option<Unread>,
}

struct Unread {
    path: PathBuf,
    limits: Limits,
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "used by the store of programs")
    )]
    files: Arc<OpenedFiles>,
}

impl OnnxOrigin {
    /// A model that was read.
    pub(super) fn of_model(model: Model) -> Self {
        Self {
            model: ForkCell::from(Box::new(model)),
            digest: None,
            unread: None,
        }
    }

    /// The model of a file, with a digest: read and digested, unless a store knows the file.
    ///
    /// # Errors
    /// As reading the model.
    pub(super) fn open(
        path: &Path,
        limits: &Limits,
        disk: &dyn Tier,
        now: SystemTime,
    ) -> Result<Self, Error> {
        // If it cannot be opened this way, the model's loader reports the error.
        let plain = || Ok(Self::of_model(Model::load_with(path, limits)?));
        let Some(own) = known::open(path, limits) else {
            return plain();
        };
        let own = match known::recognise(path, own, disk) {
            Ok((digest, files)) => {
                return Ok(Self {
                    model: ForkCell::new(),
                    digest: Some(digest),
                    unread: Some(Unread {
                        path: path.to_owned(),
                        limits: limits.clone(),
                        files: Arc::new(files),
                    }),
                });
            }
            Err(own) => own,
        };
        let Some(digested) = hashed::read(path, &own, limits)? else {
            return plain();
        };
        let Digested {
            model,
            digest,
            seen,
        } = digested;
        // For a model whose inputs leave ranks open, the digest is not enough.
        if let Some(seen) = seen
            && is_closed(&model)
        {
            known::note(path, &digest, &seen, disk, now);
        }
        Ok(Self {
            model: ForkCell::from(Box::new(model)),
            digest: Some(digest),
            unread: None,
        })
    }

    /// The model, read now if necessary.
    ///
    /// # Errors
    /// As reading it; when the file is no longer the same.
    pub(super) fn model(&self) -> Result<&Model, Error> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let Some(Unread { path, limits, .. }) = &self.unread else {
            unreachable!("a model that was not read has a file");
        };
        let own = known::open(path, limits);
        let digested = match &own {
            Some(own) => hashed::read(path, own, limits)?,
            None => None,
        };
        match digested {
            Some(digested) if Some(digested.digest) == self.digest => {
                Ok(self.model.get_or_init(|| Box::new(digested.model)))
            }
            _ => Err(Failure::Changed {
                file: super::file_name(path),
            }
            .into()),
        }
    }

    /// The model, if it was read.
    pub(super) fn read(&self) -> Option<&Model> {
        self.model.get().map(|model| &**model)
    }

    /// The digest of all its parts, if known.
    #[cfg_attr(
        not(feature = "native"),
        allow(dead_code, reason = "used by the store of programs")
    )]
    pub(super) fn digest(&self) -> Option<&ModelDigest> {
        self.digest.as_ref()
    }

    /// A constant of its files.
    #[cfg(feature = "native")]
    pub(super) fn constant(
        &self,
        place: &ConstantPlace,
        dtype: DType,
        shape: &[usize],
        digest: Digest,
    ) -> Option<Tensor> {
        let initializer = |model: &Model| {
            let found = model.graph().initializers().get(&place.name)?;
            found.tensor().ok().cloned()
        };
        match &self.unread {
            None => initializer(self.read()?),
            Some(unread) => {
                let file = place.file.as_deref().map(Location::parse).transpose();
                let place = TensorPlace {
                    file: file.ok()?,
                    offset: place.offset,
                };
                unread.files.tensor(&place, dtype, shape, digest)
            }
        }
    }

    /// Where the large constants that its files contain verbatim are, by digest; only for a model that was read.
    #[cfg(feature = "native")]
    pub(super) fn constant_places(&self) -> BTreeMap<Digest, ConstantPlace> {
        let initializers = self.read().map(|model| model.graph().initializers().iter());
        let places = initializers
            .into_iter()
            .flatten()
            .filter_map(|(name, tensor)| {
                let constant = Constant::new(tensor.tensor().ok()?.clone()).ok()?;
                let place = tensor.place().filter(|_| !constant.is_inline())?;
                let place = ConstantPlace {
                    name: name.clone(),
                    file: place.file.as_ref().map(|file| file.as_str().to_owned()),
                    offset: place.offset,
                };
                Some((constant.digest(), place))
            });
        places.collect()
    }
}

/// Whether every input states its rank.
fn is_closed(model: &Model) -> bool {
    let mut inputs = model.graph().required_inputs();
    inputs.all(|input| matches!(input.ty, Some(ValueType::Tensor { shape: Some(_), .. })))
}
