//! The blueprints of layers.

use crate::blueprint::{
    Blueprint, BlueprintInput, BlueprintNode, BlueprintOutput, InputRole, Size, VERSION,
};
use serde_json::{Value, json};

/// The name of a kernel's input that is data; all others are parameters.
pub(super) const DATA: &str = "x";

/// A dense layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenseOptions {
    /// Features of an input.
    pub inputs: usize,
    /// Features of an output.
    pub outputs: usize,
    /// Whether there is a `bias`.
    pub bias: bool,
    /// A scalar function applied to the result, such as `relu`: a separate kernel.
    pub activation: Option<String>,
}

/// A convolution over images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConvOptions {
    /// Channels of an input.
    pub channels: usize,
    /// Channels of an output.
    pub filters: usize,
    /// Height and width of a filter.
    pub size: usize,
    /// Elements of zeros around the input.
    pub padding: usize,
    /// The step of the filter; 0 counts as 1.
    pub stride: usize,
    /// Whether there is a `bias`.
    pub bias: bool,
    /// Whether a batch normalisation with given statistics follows: a separate kernel.
    pub norm: bool,
    /// A scalar function applied to the result, such as `relu`: a separate kernel.
    pub activation: Option<String>,
}

fn fixed(size: usize) -> Size {
    Size::Fixed(i64::try_from(size).unwrap_or(i64::MAX))
}

fn symbol(name: &str) -> Size {
    Size::Expression(name.to_owned())
}

fn parameter(name: &str, shape: Vec<Size>) -> BlueprintInput {
    BlueprintInput {
        name: name.to_owned(),
        dtype: "f32".to_owned(),
        shape,
        role: InputRole::Parameter,
    }
}

/// A blueprint of one node, whose operands are its inputs.
fn one_node(
    name: &str,
    kind: &str,
    x: Vec<Size>,
    parameters: Vec<BlueprintInput>,
    attributes: &[(&str, Value)],
) -> Blueprint {
    let mut inputs = vec![BlueprintInput {
        role: InputRole::Data,
        ..parameter(DATA, x)
    }];
    inputs.extend(parameters);
    let attributes = attributes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Blueprint {
        version: VERSION,
        name: name.to_owned(),
        nodes: vec![BlueprintNode {
            kind: kind.to_owned(),
            operands: inputs.iter().map(|input| input.name.clone()).collect(),
            results: vec!["y".to_owned()],
            attributes: attributes.collect(),
        }],
        inputs,
        outputs: vec![BlueprintOutput {
            name: "y".to_owned(),
            value: "y".to_owned(),
        }],
        ..Blueprint::default()
    }
}

impl DenseOptions {
    /// The layer's kernels, in order.
    pub fn blueprints(&self) -> Vec<Blueprint> {
        let (inputs, outputs) = (fixed(self.inputs), fixed(self.outputs));
        let mut parameters = vec![parameter("w", vec![inputs.clone(), outputs.clone()])];
        if self.bias {
            parameters.push(parameter("bias", vec![outputs.clone()]));
        }
        let mut kernels = vec![one_node(
            "dense",
            "dense",
            vec![symbol("N"), inputs],
            parameters,
            &[],
        )];
        if let Some(activation) = &self.activation {
            let x = vec![symbol("N"), outputs];
            kernels.push(one_node("activation", activation, x, Vec::new(), &[]));
        }
        kernels
    }
}

impl ConvOptions {
    /// The layer's kernels, in order.
    pub fn blueprints(&self) -> Vec<Blueprint> {
        let image = |channels: usize| vec![symbol("N"), fixed(channels), symbol("H"), symbol("W")];
        let filters = fixed(self.filters);
        let window = vec![
            filters.clone(),
            fixed(self.channels),
            fixed(self.size),
            fixed(self.size),
        ];
        let mut parameters = vec![parameter("w", window)];
        if self.bias {
            parameters.push(parameter("bias", vec![filters.clone()]));
        }
        let attributes = [
            ("padding", json!(self.padding)),
            ("stride", json!(self.stride.max(1))),
        ];
        let x = image(self.channels);
        let mut kernels = vec![one_node("conv2d", "conv2d", x, parameters, &attributes)];
        if self.norm {
            let statistics = ["scale", "shift", "mean", "variance"];
            let statistics = statistics.map(|name| parameter(name, vec![filters.clone()]));
            let x = image(self.filters);
            kernels.push(one_node("norm", "batch_norm", x, statistics.to_vec(), &[]));
        }
        if let Some(activation) = &self.activation {
            kernels.push(one_node(
                "activation",
                activation,
                image(self.filters),
                Vec::new(),
                &[],
            ));
        }
        kernels
    }
}
