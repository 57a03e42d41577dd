//! The graph's inputs, and its sizes by name.
//!
//! Names of sizes are kept where they are identifiers; equal names are one symbol. An unnamed size is a separate symbol,
//! named after its input and axis.

use std::collections::BTreeMap;

use kiln_ir::Dims;
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::{DimError, DimId};
use kiln_tensor::{DType, Tensor};

use super::ImportOptions;
use super::graph::typed;
use super::item::Item;
use super::names::{Binding, Names};
use crate::{Dim, ElementType, Error, LimitKind, Model, Name, ValueInfo, ValueType};

/// The model's named sizes.
pub(super) struct ModelSizes(BTreeMap<String, DimId>);

impl ModelSizes {
    /// Declares a symbol for each name in an input's type, narrowed by the caller's constraints; the sizes of inputs that
    /// the caller fixes are constants.
    pub(super) fn declare(
        builder: &mut GraphBuilder,
        model: &Model,
        options: &ImportOptions,
    ) -> Result<Self, Error> {
        let mut sizes = Self(BTreeMap::new());
        for input in model.graph().required_inputs() {
            if let Some(tensor) = options.fixed.get(&input.name) {
                sizes.fix(builder, input, tensor)?;
            }
        }
        for name in model.graph().required_inputs().flat_map(dim_names) {
            if sizes.0.contains_key(name) {
                continue;
            }
            let dim = declare(builder, name, options).map_err(|source| Error::Size {
                node: format!("size {}", Name::from(name)),
                source,
            })?;
            sizes.0.insert(name.to_owned(), dim);
        }
        if let Some(name) = options
            .dims
            .keys()
            .find(|&name| !sizes.0.contains_key(name))
        {
            let known = sizes.0.keys().map(|name| Name::from(name.as_str()));
            return Err(Error::UnknownSize {
                name: Name::from(name.as_str()),
                known: known.collect(),
            });
        }
        Ok(sizes)
    }

    /// The size with this name, if an input has it.
    pub(super) fn get(&self, name: &str) -> Option<DimId> {
        self.0.get(name).copied()
    }

    /// Takes sizes from a constant that replaces an input.
    fn fix(
        &mut self,
        builder: &mut GraphBuilder,
        input: &ValueInfo,
        tensor: &Tensor,
    ) -> Result<(), Error> {
        let mismatch = || Error::FixedInput {
            input: Name::from(input.name.as_str()),
            expected: input
                .ty
                .as_ref()
                .map_or_else(String::new, ToString::to_string),
            found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
        };
        let (dtype, shape) = tensor_type(input)?;
        let same_rank = shape.is_none_or(|shape| shape.len() == tensor.rank());
        if dtype != tensor.dtype() || !same_rank {
            return Err(mismatch());
        }
        for (dim, &size) in shape.unwrap_or_default().iter().zip(tensor.shape()) {
            let given = builder.size(i64::try_from(size).unwrap_or(i64::MAX));
            match dim {
                Dim::Known(known) if *known != size => return Err(mismatch()),
                Dim::Named(name) if *self.0.entry(name.clone()).or_insert(given) != given => {
                    return Err(mismatch());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn declare(
    builder: &mut GraphBuilder,
    name: &str,
    options: &ImportOptions,
) -> Result<DimId, DimError> {
    let given = options.dims.get(name);
    if let Some(size) = given.and_then(|dimension| dimension.value()) {
        return Ok(builder.dims_mut().constant(size));
    }
    let symbol = builder.dims_mut().fresh(name);
    if let Some(dimension) = given {
        builder.dims_mut().constrain(symbol, dimension.clone())?;
    }
    Ok(builder.dims().dim(symbol))
}

fn dim_names(input: &ValueInfo) -> impl Iterator<Item = &str> {
    let dims = match &input.ty {
        Some(ValueType::Tensor {
            shape: Some(shape), ..
        }) => shape.as_slice(),
        _ => &[],
    };
    dims.iter().filter_map(|dim| match dim {
        Dim::Named(name) => Some(name.as_str()),
        Dim::Known(_) | Dim::Anonymous => None,
    })
}

/// Adds the model's inputs, in order.
pub(super) fn add_inputs(
    builder: &mut GraphBuilder,
    model: &Model,
    options: &ImportOptions,
    sizes: &ModelSizes,
    names: &mut Names,
) -> Result<(), Error> {
    check_names(model, options)?;
    for input in model.graph().required_inputs() {
        let item = add_input(builder, input, options, sizes)?;
        if !names.bind(&input.name, Binding::Value(item)) {
            return Err(Error::Structure {
                reason: format!(
                    "two inputs have the name {}",
                    Name::from(input.name.as_str())
                ),
            });
        }
    }
    Ok(())
}

/// The import of an input.
enum Parts {
    /// No import: an optional that calls omit.
    Nothing,
    Tensor(ValueInfo),
    /// The entries of a sequence.
    Sequence(Vec<ValueInfo>),
}

impl Parts {
    fn of(input: &ValueInfo, options: &ImportOptions) -> Result<Self, Error> {
        let mut ty = input.ty.as_ref();
        if let Some(ValueType::Optional(content)) = ty {
            if options.absent.contains(&input.name) {
                return Ok(Self::Nothing);
            }
            ty = Some(content.as_ref());
        }
        let Some(ValueType::Sequence(entry)) = ty else {
            return Ok(Self::Tensor(ValueInfo {
                name: input.name.clone(),
                ty: ty.cloned(),
            }));
        };
        let Some(&length) = options.lengths.get(&input.name) else {
            return Err(Error::UnknownLength {
                input: Name::from(input.name.as_str()),
            });
        };
        options.limits.check(LimitKind::Messages, length as u64)?;
        // The type is that of every entry, but a named size may differ between them.
        let mut entry = (**entry).clone();
        if let ValueType::Tensor {
            shape: Some(shape), ..
        } = &mut entry
        {
            for dim in shape {
                if matches!(dim, Dim::Named(_)) {
                    *dim = Dim::Anonymous;
                }
            }
        }
        let entries = (0..length).map(|index| ValueInfo {
            name: super::entry_name(&input.name, index),
            ty: Some(entry.clone()),
        });
        Ok(Self::Sequence(entries.collect()))
    }
}

/// The tensors passed in calls of an imported model, in order: without those that [`ImportOptions`] make constant or
/// omit, and with a sequence replaced by its entries. Types are those stated by the model.
///
/// # Errors
/// When the options name inputs that do not exist, or do not state how many entries a sequence has.
///
/// ```
/// use kiln_onnx::{ImportOptions, Model, NoFiles, graph_inputs};
///
/// # let bytes = b"\x08\x08\x3a\x30\x0a\x0c\x0a\x01x\x12\x01y\x22\x04Relu\x12\x01g\
/// #               \x5a\x18\x0a\x01x\x12\x13\x0a\x11\x08\x01\x12\x0d\
/// #               \x0a\x07\x12\x05batch\x0a\x02\x08\x03\x62\x03\x0a\x01y\x42\x02\x10\x11";
/// let model = Model::from_bytes(bytes, &NoFiles)?;
/// let inputs = graph_inputs(&model, &ImportOptions::new())?;
/// assert_eq!(inputs[0].name, "x");
/// # Ok::<(), kiln_onnx::Error>(())
/// ```
pub fn graph_inputs(model: &Model, options: &ImportOptions) -> Result<Vec<ValueInfo>, Error> {
    check_names(model, options)?;
    let mut inputs = Vec::new();
    for input in model.graph().required_inputs() {
        match Parts::of(input, options)? {
            Parts::Nothing => {}
            Parts::Tensor(tensor) => inputs.push(tensor),
            Parts::Sequence(entries) => inputs.extend(entries),
        }
    }
    inputs.retain(|input| !options.fixed.contains_key(&input.name));
    Ok(inputs)
}

fn add_input(
    builder: &mut GraphBuilder,
    input: &ValueInfo,
    options: &ImportOptions,
    sizes: &ModelSizes,
) -> Result<Item, Error> {
    match Parts::of(input, options)? {
        Parts::Nothing => Ok(Item::Nothing),
        Parts::Tensor(tensor) => add_tensor(builder, &tensor, options, sizes),
        Parts::Sequence(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|entry| add_tensor(builder, entry, options, sizes));
            Ok(Item::Sequence(entries.collect::<Result<_, Error>>()?))
        }
    }
}

fn add_tensor(
    builder: &mut GraphBuilder,
    input: &ValueInfo,
    options: &ImportOptions,
    sizes: &ModelSizes,
) -> Result<Item, Error> {
    let element = match &input.ty {
        Some(ValueType::Tensor { element, .. }) => *element,
        _ => ElementType::Unsupported(0),
    };
    let (dtype, shape) = tensor_type(input)?;
    if let Some(tensor) = options.fixed.get(&input.name) {
        let value = builder.constant(tensor.clone());
        let value = value.map_err(|source| Error::Infer {
            node: format!("input {}", Name::from(input.name.as_str())),
            source,
        })?;
        return Ok(typed(value, element));
    }
    let dims = match (shape, options.ranks.get(&input.name)) {
        (Some(shape), _) => input_dims(builder, input, shape, sizes),
        (None, Some(&rank)) => {
            options.limits.check(LimitKind::Rank, rank as u64)?;
            input_dims(builder, input, &vec![Dim::Anonymous; rank], sizes)
        }
        (None, None) => {
            return Err(Error::UnknownRank {
                input: Name::from(input.name.as_str()),
            });
        }
    };
    Ok(typed(builder.input(&input.name, dtype, &dims), element))
}

/// Checks that the caller refers to inputs that exist.
fn check_names(model: &Model, options: &ImportOptions) -> Result<(), Error> {
    let mut inputs: Vec<String> = Vec::new();
    for input in model.graph().required_inputs() {
        let entries = options.lengths.get(&input.name).copied().unwrap_or(0);
        options.limits.check(LimitKind::Messages, entries as u64)?;
        inputs.extend((0..entries).map(|index| super::entry_name(&input.name, index)));
        inputs.push(input.name.clone());
    }
    let spoken_of = options.ranks.keys().chain(options.fixed.keys());
    let mut spoken_of = spoken_of
        .chain(options.lengths.keys())
        .chain(&options.absent);
    match spoken_of.find(|&name| !inputs.contains(name)) {
        None => Ok(()),
        Some(name) => Err(Error::UnknownInput {
            name: Name::from(name.as_str()),
            known: inputs
                .iter()
                .map(|name| Name::from(name.as_str()))
                .collect(),
        }),
    }
}

fn input_dims(
    builder: &mut GraphBuilder,
    input: &ValueInfo,
    shape: &[Dim],
    sizes: &ModelSizes,
) -> Dims {
    let dims = shape.iter().enumerate().map(|(axis, dim)| match dim {
        // A size of the address space fits, and reading has checked that.
        Dim::Known(size) => builder.size(i64::try_from(*size).unwrap_or(i64::MAX)),
        Dim::Named(name) if sizes.0.contains_key(name) => sizes.0[name],
        Dim::Named(_) | Dim::Anonymous => {
            let symbol = builder.dims_mut().fresh(&format!("{}_{axis}", input.name));
            builder.dims().dim(symbol)
        }
    });
    dims.collect()
}

fn tensor_type(input: &ValueInfo) -> Result<(DType, Option<&[Dim]>), Error> {
    let unsupported = |found: String| Error::InputType {
        input: Name::from(input.name.as_str()),
        found,
    };
    match &input.ty {
        Some(ValueType::Tensor { element, shape }) => match element.dtype() {
            Some(dtype) => Ok((dtype, shape.as_deref())),
            None => Err(unsupported(format!("a tensor of {element}"))),
        },
        Some(other) => Err(unsupported(other.to_string())),
        None => Err(unsupported("no type".to_owned())),
    }
}
