//! Weights in safetensors files, as PyTorch reads and writes them.

use crate::error::TrainError;
use kiln::{DType, Tensor};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::BTreeMap;
use std::path::Path;

/// Writes named tensors to a file.
///
/// # Errors
/// E0626 when the file cannot be written, E0627 for a dtype that the format lacks.
pub fn write<'a>(
    path: &Path,
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
) -> Result<(), TrainError> {
    let damaged = |reason: String| TrainError::Weights {
        file: shown(path),
        reason,
    };
    let dense: Vec<(&str, Tensor)> = tensors
        .into_iter()
        .map(|(name, tensor)| Ok((name, tensor.contiguous()?)))
        .collect::<Result<_, TrainError>>()?;
    let mut views = Vec::with_capacity(dense.len());
    for (name, tensor) in &dense {
        let dtype = stored(tensor.dtype())
            .ok_or_else(|| damaged(format!("it has no dtype {}", tensor.dtype())))?;
        let view = TensorView::new(dtype, tensor.shape().to_vec(), tensor.as_bytes()?);
        views.push((*name, view.map_err(|error| damaged(error.to_string()))?));
    }
    let bytes = safetensors::serialize(views, None).map_err(|error| damaged(error.to_string()))?;
    std::fs::write(path, bytes).map_err(|source| TrainError::File {
        file: shown(path),
        source,
    })
}

/// The tensors of a file, by name.
///
/// # Errors
/// E0626 when the file cannot be read; E0627 when it is damaged, or has a dtype that Kiln lacks.
pub fn read(path: &Path) -> Result<BTreeMap<String, Tensor>, TrainError> {
    let damaged = |reason: String| TrainError::Weights {
        file: shown(path),
        reason,
    };
    let bytes = std::fs::read(path).map_err(|source| TrainError::File {
        file: shown(path),
        source,
    })?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| damaged(error.to_string()))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter() {
        let dtype = loaded(view.dtype())
            .ok_or_else(|| damaged(format!("the tensor has dtype {:?}", view.dtype())))?;
        let tensor = Tensor::from_bytes(dtype, view.shape(), view.data())?;
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(tensors)
}

/// The dtypes of Kiln that the format has.
const DTYPES: [(DType, Dtype); 13] = [
    (DType::Bool, Dtype::BOOL),
    (DType::U8, Dtype::U8),
    (DType::I8, Dtype::I8),
    (DType::U16, Dtype::U16),
    (DType::I16, Dtype::I16),
    (DType::U32, Dtype::U32),
    (DType::I32, Dtype::I32),
    (DType::U64, Dtype::U64),
    (DType::I64, Dtype::I64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

fn stored(dtype: DType) -> Option<Dtype> {
    let mut dtypes = DTYPES.iter();
    Some(dtypes.find(|(ours, _)| *ours == dtype)?.1)
}

fn loaded(dtype: Dtype) -> Option<DType> {
    let mut dtypes = DTYPES.iter();
    Some(dtypes.find(|(_, theirs)| *theirs == dtype)?.0)
}

fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}
