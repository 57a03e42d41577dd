//! The inputs and outputs of a model, independent of its instances.

use crate::description::ValueDescription;
use crate::error::{Error, Failure};
use kiln_ir::{Graph, Type};
use kiln_tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Inputs, outputs and metadata of a model.
#[derive(Debug)]
pub(crate) struct Signature {
    pub(super) inputs: Vec<ValueDescription>,
    /// Positions of the inputs whose rank is open.
    pub(super) open: Vec<usize>,
    pub(super) outputs: Vec<ValueDescription>,
    pub(super) output_names: Arc<[Arc<str>]>,
    pub(super) metadata: BTreeMap<String, String>,
}

impl Signature {
    pub(super) fn new(
        inputs: Vec<ValueDescription>,
        open: Vec<usize>,
        outputs: Vec<ValueDescription>,
        metadata: BTreeMap<String, String>,
    ) -> Self {
        let output_names = outputs
            .iter()
            .map(|output| Arc::clone(output.shared_name()))
            .collect();
        Self {
            inputs,
            open,
            outputs,
            output_names,
            metadata,
        }
    }

    /// The ranks of a call's inputs whose rank is open, by name.
    pub(super) fn open_ranks(&self, inputs: &[Tensor]) -> BTreeMap<String, usize> {
        let open = self.open.iter().filter_map(|&index| {
            let name = self.inputs.get(index)?.name().to_owned();
            Some((name, inputs.get(index)?.rank()))
        });
        open.collect()
    }

    /// The signature of a model that asks questions: the inputs of the question's graph, and the outputs as the model
    /// states them.
    ///
    /// # Errors
    /// When an input is not a tensor.
    pub(super) fn of_question(
        graph: &Graph,
        outputs: Vec<ValueDescription>,
    ) -> Result<Self, Error> {
        let question = Self::of_graph(graph)?;
        Ok(Self::new(
            question.inputs,
            Vec::new(),
            outputs,
            question.metadata,
        ))
    }

    /// The signature of a graph whose inputs and outputs are tensors.
    ///
    /// # Errors
    /// When one of them is not a tensor.
    pub(super) fn of_graph(graph: &Graph) -> Result<Self, Error> {
        let describe = |name: String, value| match graph.ty(value) {
            Type::Tensor(_) => Ok(ValueDescription::of(graph, &name, value)),
            ty => Err(Error::from(Failure::NotATensor {
                name: name.escape_debug().to_string(),
                found: ty.display(graph.dims()).to_string(),
            })),
        };
        let inputs = graph
            .inputs()
            .iter()
            .map(|&input| describe(graph.input_name(input), input));
        let outputs = graph.outputs().iter().zip(graph.output_names());
        let outputs = outputs.map(|(&output, name)| describe(name.to_string(), output));
        Ok(Self::new(
            inputs.collect::<Result<_, _>>()?,
            Vec::new(),
            outputs.collect::<Result<_, _>>()?,
            graph.metadata().clone(),
        ))
    }
}
