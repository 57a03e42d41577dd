//! Gradients that a model computes in addition to its outputs.

use crate::error::{Error, Failure};
use kiln_autodiff::{Cotangents, GradientRequest, differentiate};
use kiln_ir::{Graph, ValueId};
use kiln_tensor::DType;
use kiln_trace::Recorded;
use std::sync::Arc;

/// Gradients that a model computes in addition to its outputs, in reverse mode: the forward and backward passes are one
/// graph, which is fused, compiled and cached as a whole.
///
/// Each gradient is an additional output, `d_w` for an input `w`, of the input's type; they follow the outputs, in the
/// order in which the inputs are named, or by default in the order of the model's inputs.
///
/// ```
/// use kiln::{Gradients, Options, Source, Tensor};
///
/// let text = "graph @loss(%x: f32[N], %w: f32[N]) -> f32[] {
///   %p = mul %x, %w
///   %e = square %p
///   %loss = reduce %e {function = sum, axes = [0]}
///   return \"loss\" = %loss
/// }";
/// let model = Options::new()
///     .gradients(Gradients::of("loss").with_respect_to(["w"]))
///     .load(Source::text(text))?;
/// let x = Tensor::from_slice(&[2], &[1.0f32, 3.0])?;
/// let w = Tensor::from_slice(&[2], &[2.0f32, 1.0])?;
/// let outputs = model.run([("x", &x), ("w", &w)])?;
/// assert_eq!(outputs.get("loss")?.to_vec::<f32>()?, [13.0]);
/// assert_eq!(outputs.get("d_w")?.to_vec::<f32>()?, [4.0, 18.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gradients {
    outputs: Vec<Arc<str>>,
    inputs: Option<Vec<Arc<str>>>,
    has_cotangents: bool,
}

impl Gradients {
    /// Gradients of an output, such as a loss: a scalar, unless [cotangents](Self::with_cotangents) are given; with
    /// respect to every floating-point input, unless [some are named](Self::with_respect_to).
    pub fn of(output: impl AsRef<str>) -> Self {
        Self {
            outputs: vec![output.as_ref().into()],
            inputs: None,
            has_cotangents: false,
        }
    }

    /// Adds another output: the gradients are those of the sum.
    #[must_use]
    pub fn and(mut self, output: impl AsRef<str>) -> Self {
        self.outputs.push(output.as_ref().into());
        self
    }

    /// Sets the inputs with respect to which gradients are computed.
    #[must_use]
    pub fn with_respect_to<N: AsRef<str>>(self, inputs: impl IntoIterator<Item = N>) -> Self {
        let inputs = inputs.into_iter().map(|name| name.as_ref().into());
        Self {
            inputs: Some(inputs.collect()),
            ..self
        }
    }

    /// Makes each output's cotangent an additional input, `d_y` for an output `y`: a vector-Jacobian product.
    #[must_use]
    pub fn with_cotangents(self) -> Self {
        Self {
            has_cotangents: true,
            ..self
        }
    }

    /// The number of gradients, for inputs of these dtypes.
    pub(crate) fn count(&self, dtypes: impl Iterator<Item = DType>) -> usize {
        match &self.inputs {
            Some(inputs) => inputs.len(),
            None => dtypes.filter(|dtype| dtype.is_float()).count(),
        }
    }

    /// The graph with these gradients.
    pub(crate) fn apply(&self, graph: &Graph) -> Result<Graph, Error> {
        Ok(differentiate(graph, &self.request(graph)?)?.graph)
    }

    /// The graph of a recording with these gradients.
    pub(crate) fn apply_to(&self, recorded: &Recorded) -> Result<Graph, Error> {
        let request = self.request(recorded.graph())?;
        Ok(recorded.differentiate(&request)?.graph)
    }

    /// The requested gradients, by position.
    fn request(&self, graph: &Graph) -> Result<GradientRequest, Error> {
        let outputs = self.outputs.iter().map(|name| {
            let mut names = graph.output_names().iter();
            let position = names.position(|other| other == name);
            position.ok_or_else(|| unknown("output", name, graph.output_names()))
        });
        let names: Vec<Arc<str>> = graph
            .inputs()
            .iter()
            .map(|&input| graph.input_name(input).into())
            .collect();
        let is_float = |input: ValueId| graph.ty(input).innermost().dtype.is_float();
        let inputs = match &self.inputs {
            Some(chosen) => chosen
                .iter()
                .map(|name| {
                    let position = names.iter().position(|other| other == name);
                    position.ok_or_else(|| unknown("input", name, &names))
                })
                .collect::<Result<Vec<usize>, Error>>()?,
            None => {
                let inputs = graph.inputs().iter().enumerate();
                let floats = inputs.filter(|&(_, &input)| is_float(input));
                floats.map(|(position, _)| position).collect()
            }
        };
        Ok(GradientRequest {
            outputs: outputs.collect::<Result<_, Error>>()?,
            inputs,
            cotangents: match self.has_cotangents {
                true => Cotangents::Inputs,
                false => Cotangents::Ones,
            },
        })
    }
}

fn unknown(kind: &'static str, name: &str, known: &[Arc<str>]) -> Error {
    let known: Vec<String> = known
        .iter()
        .map(|name| name.escape_debug().to_string())
        .collect();
    Failure::NoGradient {
        kind,
        name: name.escape_debug().to_string(),
        known: known.join(", "),
    }
    .into()
}
