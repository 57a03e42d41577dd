//! A recording that continues a graph, such as an imported model, with some of its constants as inputs.

use crate::error::TraceError;
use crate::gradient_ops::engine;
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::var::Var;
use kiln_ir::{Graph, Op, ValueId};
use kiln_shape_inference::GraphBuilder;
use kiln_tensor::Tensor;
use std::collections::HashMap;

/// A recording that begins with the ops of a graph; see [`Recording::continuing`].
#[derive(Clone, Debug)]
pub struct Continued {
    /// The recording.
    pub recording: Recording,
    /// The graph's inputs, by name.
    pub inputs: Vec<(String, Var)>,
    /// The constants that became inputs: the name, the variable and the constant.
    pub parameters: Vec<(String, Var, Tensor)>,
    /// The graph's outputs, by name.
    pub outputs: Vec<(String, Var)>,
}

impl Recording {
    /// A recording of a graph's ops, to be continued, for example with a loss. Its floating-point constants whose names
    /// `is_parameter` accepts become inputs of that name, after the graph's own inputs.
    ///
    /// ```
    /// use kiln_ir::BlobMap;
    /// use kiln_shape_inference::read_graph;
    /// use kiln_trace::Recording;
    ///
    /// let graph = read_graph("graph @scale(%x: f32[N]) -> f32[N] {
    ///   %weight: f32[] = constant [2.0]
    ///   %y = mul %x, %weight
    ///   return \"y\" = %y
    /// }", &BlobMap::new()).map_err(|error| error.to_string())?;
    /// let begun = Recording::continuing(&graph, |name| name == "weight").map_err(|error| error.to_string())?;
    /// let loss = begun.outputs[0].1.square().sum(..);
    /// let [slope] = loss.gradients([&begun.parameters[0].1]);
    /// let graph = begun.recording.finish(&[("slope", &slope)]).map_err(|error| error.to_string())?;
    /// assert_eq!(graph.inputs().len(), 2);
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// E0899 for a graph with control flow, which cannot be continued yet.
    pub fn continuing(
        graph: &Graph,
        is_parameter: impl Fn(&str) -> bool,
    ) -> Result<Continued, TraceError> {
        let mut builder = GraphBuilder::over(graph, engine());
        let mut copies: HashMap<ValueId, ValueId> = HashMap::new();
        let mut inputs = Vec::with_capacity(graph.inputs().len());
        for &input in graph.inputs() {
            let copy = builder.copy_input(graph, input);
            copies.insert(input, copy);
            inputs.push((graph.input_name(input), copy));
        }
        let mut parameters = Vec::new();
        for &op in &graph.region(graph.body()).ops {
            let data = graph.op(op);
            if let (Op::Constant(constant), &[value]) = (&data.op, data.results.as_slice())
                && let Some(name) = graph.value(value).name.as_deref()
                && constant.tensor().dtype().is_float()
                && is_parameter(name)
            {
                let copy = builder.input_of_type(name, graph.ty(value).clone());
                copies.insert(value, copy);
                parameters.push((name.to_owned(), copy, constant.tensor()));
                continue;
            }
            if !data.regions.is_empty() {
                return Err(TraceError::ControlFlow {
                    op: data.op.mnemonic(),
                });
            }
            let operands: Vec<ValueId> = data
                .operands
                .iter()
                .filter_map(|operand| copies.get(operand).copied())
                .collect();
            let results = builder
                .copy_op(data, &operands)
                .map_err(|source| TraceError::Continue { source })?;
            copies.extend(data.results.iter().copied().zip(results));
        }
        let recorder = Recorder::new(builder);
        let variable = |value: Option<&ValueId>| Var::new(&recorder, value.copied());
        let names = graph.output_names().iter().map(ToString::to_string);
        let outputs = graph
            .outputs()
            .iter()
            .map(|value| variable(copies.get(value)));
        Ok(Continued {
            inputs: inputs
                .iter()
                .map(|(name, value)| (name.clone(), variable(Some(value))))
                .collect(),
            parameters: parameters
                .into_iter()
                .map(|(name, value, tensor)| (name, variable(Some(&value)), tensor))
                .collect(),
            outputs: names.zip(outputs).collect(),
            recording: Recording::of(&recorder),
        })
    }
}
