//! Quantises ONNX models: products are rewritten in the file itself, so that other programs can run the result too.
//!
//! If only weights are quantised, products become `MatMulNBits` of `com.microsoft`, with codes of 4 or 8 bits and a
//! scale per block of rows. If activations are quantised too, both become 8-bit codes between `QuantizeLinear` and
//! `DequantizeLinear`, with the ranges of activations observed on examples. The caller computes the codes of weights
//! (`Quantize`), and runs the examples ([`ProtoModel::with_observed`]). Products of the main graph are rewritten:
//! `MatMul` and `Gemm` by constant matrices, and in the second form also `Conv` by constant windows.

mod form;
mod products;
mod statically;
mod weights;
mod write;

use std::collections::BTreeMap;
use std::path::Path;

use kiln_tensor::Tensor;
use prost::Message;
use prost::bytes::Bytes;

pub use self::form::{
    Quantize, QuantizeRequest, QuantizedForm, QuantizedProduct, QuantizedWeights,
};
use self::products::{Kind, Product};
use self::write::Names;
use crate::files::read_model_file;
use crate::model::Model;
use crate::proto::ModelProto;
use crate::proto::census::{Kind as MessageKind, take_census};
use crate::{Error, Fs, Limits};

/// The size from which a file cannot be a model.
const MOST_BYTES: usize = i32::MAX as usize;

/// A model file to rewrite.
#[derive(Debug)]
pub struct ProtoModel {
    proto: ModelProto,
    model: Model,
}

impl ProtoModel {
    /// Reads a model's file and those that it names.
    ///
    /// # Errors
    /// Those of a model file.
    pub fn load(path: &Path, limits: &Limits) -> Result<Self, Error> {
        let (bytes, folder) = read_model_file(path, limits)?;
        Self::read(&bytes, &folder, limits)
    }

    /// Reads a model and the files that it names.
    ///
    /// # Errors
    /// Those of a model file.
    pub fn read(bytes: &[u8], files: &dyn Fs, limits: &Limits) -> Result<Self, Error> {
        let model = Model::from_bytes_with(bytes, files, limits)?;
        take_census(bytes, MessageKind::Model, limits)?;
        let decoded = ModelProto::decode(Bytes::copy_from_slice(bytes));
        let mut proto = decoded.map_err(|error| Error::NotAModel {
            reason: error.to_string(),
        })?;
        write::inline_external(&mut proto, &model)?;
        Ok(Self { proto, model })
    }

    /// The model with additional outputs, one per activation that a product reads, and the activations' names, in
    /// order.
    ///
    /// # Errors
    /// [`Error::NotQuantized`] when no product can be quantised, or the file would be too large.
    pub fn with_observed(&self) -> Result<(Vec<u8>, Vec<String>), Error> {
        let mut proto = self.proto.clone();
        let mut names: Vec<String> = Vec::new();
        for product in self.products() {
            if product.weights.is_some() && !names.contains(&product.activation) {
                names.push(product.activation);
            }
        }
        if names.is_empty() {
            return Err(nothing());
        }
        let mut known = Names::of(&proto);
        let graph = proto.graph.get_or_insert_default();
        for name in &names {
            let output = known.fresh(&format!("{name}_observed"));
            graph
                .node
                .push(write::node("", "Identity", &[name], &[&output], Vec::new()));
            graph.output.push(write::output(&output));
        }
        Ok((encoded(&proto)?, names))
    }

    /// The model with its products rewritten, and the result for each.
    ///
    /// # Errors
    /// [`Error::NotQuantized`] when no product could be rewritten, or the file would be too large.
    pub fn quantized(
        &self,
        form: &QuantizedForm,
        quantize: &Quantize<'_>,
    ) -> Result<(Vec<u8>, Vec<QuantizedProduct>), Error> {
        let mut proto = self.proto.clone();
        let mut names = Names::of(&proto);
        let products = self.products();
        let mut done = Vec::new();
        let mut replaced = BTreeMap::new();
        let mut shared = BTreeMap::new();
        for product in products {
            let name = product.name.clone();
            let rewritten = match form {
                &QuantizedForm::Weights {
                    bits,
                    block,
                    zero_points,
                    int8_activations,
                } => {
                    let form = weights::Form {
                        bits,
                        block,
                        zero_points,
                        int8_activations,
                    };
                    weights::rewrite(&product, form, quantize, &mut names)
                }
                QuantizedForm::Int8(ranges) => {
                    let version = self.model.opsets().version("").unwrap_or(0);
                    statically::rewrite(
                        &product,
                        ranges,
                        version,
                        quantize,
                        (&mut names, &mut shared),
                    )
                }
            };
            let outcome = rewritten.map(|rewritten| {
                let error = rewritten.error;
                replaced.insert(product.index, rewritten);
                error
            });
            done.push(QuantizedProduct { name, outcome });
        }
        if replaced.is_empty() {
            return Err(nothing());
        }
        write::replace_nodes(&mut proto, replaced);
        write::drop_unread(&mut proto);
        if matches!(form, QuantizedForm::Weights { .. }) {
            write::import_domain(&mut proto, "com.microsoft", 1);
        }
        Ok((encoded(&proto)?, done))
    }

    /// The products of the main graph.
    fn products(&self) -> Vec<Product> {
        let nodes = self.proto.graph.iter().flat_map(|graph| &graph.node);
        let tensor = |name: &str| -> Option<Tensor> {
            let initializer = self.model.graph().initializers().get(name)?;
            initializer.tensor().ok().cloned()
        };
        let products = nodes.enumerate().filter_map(|(index, node)| {
            let kind = Kind::of(node)?;
            Some(Product::read(index, node, kind, &tensor))
        });
        products.collect()
    }
}

fn encoded(proto: &ModelProto) -> Result<Vec<u8>, Error> {
    let length = proto.encoded_len();
    if length > MOST_BYTES {
        return Err(Error::NotQuantized {
            reason: format!(
                "its file would have {length} bytes, and a model has at most {MOST_BYTES}"
            ),
        });
    }
    Ok(proto.encode_to_vec())
}

fn nothing() -> Error {
    Error::NotQuantized {
        reason: "it has no product by constant finite weights that this form applies to".to_owned(),
    }
}
