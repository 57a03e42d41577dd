//! Compares the model's stated types of inner values and results with the inferred types.
//!
//! In strict mode each must be confirmed. In lenient mode unconfirmed types are ignored: exporters leave stale sizes
//! behind, and inferred types need no statement. Names of sizes that inputs do not have are ignored.

use kiln_ir::ValueId;
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use super::WrongType;
use super::inputs::ModelSizes;
use super::names::Names;
use crate::{Dim, Error, Model, Name, ValueType};

/// The model's statement about one value.
struct Stated<'a> {
    name: &'a str,
    value: ValueId,
    dtype: Option<DType>,
    dims: Vec<Option<DimId>>,
}

/// Compares stated with inferred types of outputs and other values; returns the ignored ones.
pub(super) fn annotate(
    builder: &mut GraphBuilder,
    model: &Model,
    sizes: &ModelSizes,
    names: &Names,
) -> Result<Vec<WrongType>, Error> {
    let mut wrong_types = Vec::new();
    for stated in statements(builder, model, sizes, names) {
        let known = builder.disagreements().len();
        let result = builder.annotate(stated.value, stated.dtype, &stated.dims);
        result.map_err(|source| Error::Infer {
            node: format!("stated type of {}", Name::from(stated.name)),
            source,
        })?;
        let found = builder.disagreements().iter().skip(known);
        wrong_types.extend(found.map(|disagreement| WrongType {
            value: Name::from(stated.name),
            inferred: disagreement.inferred.clone(),
            stated: disagreement.stated.clone(),
        }));
    }
    Ok(wrong_types)
}

fn statements<'a>(
    builder: &mut GraphBuilder,
    model: &'a Model,
    sizes: &ModelSizes,
    names: &Names,
) -> Vec<Stated<'a>> {
    let graph = model.graph();
    let all = graph.annotations().iter().chain(graph.outputs());
    let stated = all.filter_map(|stated| {
        let value = names.value(&stated.name)?;
        let Some(ValueType::Tensor {
            element,
            shape: Some(shape),
        }) = &stated.ty
        else {
            return None;
        };
        let dims = shape.iter().map(|dim| match dim {
            Dim::Known(size) => Some(builder.size(i64::try_from(*size).unwrap_or(i64::MAX))),
            Dim::Named(name) => sizes.get(name),
            Dim::Anonymous => None,
        });
        Some(Stated {
            name: &stated.name,
            value,
            dtype: element.dtype(),
            dims: dims.collect(),
        })
    });
    stated.collect()
}
