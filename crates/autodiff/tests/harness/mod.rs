//! Cases of gradients: a graph in `f64`, shapes of its inputs, and values.

use kiln_autodiff::{CheckOptions, GradientRequest, check_gradients, differentiate, tangents};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{BlobMap, Graph, Type};
use kiln_shape_inference::{check_types, read_graph};
use kiln_tensor::{DType, Tensor};

/// A graph and what to call it with.
pub(crate) struct Case {
    /// The body of a graph: `(%x: f64[N]) -> f64[N] { ... }`.
    pub(crate) text: &'static str,
    /// Shapes of all inputs, per call.
    pub(crate) calls: &'static [&'static [&'static [usize]]],
    /// The range of float elements.
    pub(crate) range: (f64, f64),
    /// The exclusive bound of integer elements.
    pub(crate) below: i64,
}

impl Case {
    pub(crate) const fn new(
        text: &'static str,
        calls: &'static [&'static [&'static [usize]]],
    ) -> Self {
        Self {
            text,
            calls,
            range: (-2.0, 2.0),
            below: 1,
        }
    }

    pub(crate) const fn within(self, low: f64, high: f64) -> Self {
        Self {
            range: (low, high),
            ..self
        }
    }

    pub(crate) const fn below(self, below: i64) -> Self {
        Self { below, ..self }
    }

    pub(crate) fn graph(&self) -> Graph {
        let text = format!("graph @main{}", self.text);
        match read_graph(&text, &BlobMap::new()) {
            Ok(graph) => graph,
            Err(errors) => panic!("{}\n{text}", errors.render(&text)),
        }
    }
}

/// A small generator of values, the same on every run.
pub(crate) struct Values(u64);

impl Values {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn floats(&mut self, shape: &[usize], (low, high): (f64, f64)) -> Tensor {
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count)
            .map(|_| low + (high - low) * self.next())
            .collect();
        Tensor::from_slice(shape, &values).unwrap()
    }

    fn integers(&mut self, shape: &[usize], below: i64) -> Tensor {
        let count: usize = shape.iter().product();
        let values: Vec<i64> = (0..count)
            .map(|_| (self.next() * below as f64) as i64)
            .collect();
        Tensor::from_slice(shape, &values).unwrap()
    }

    fn bools(&mut self, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let values: Vec<bool> = (0..count).map(|_| self.next() < 0.5).collect();
        Tensor::from_slice(shape, &values).unwrap()
    }
}

fn dtype_of(ty: &Type) -> DType {
    ty.innermost().dtype
}

pub(crate) fn evaluate(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>, String> {
    interpret(graph, inputs, &InterpretOptions::default()).map_err(|error| error.to_string())
}

/// Inputs of a call.
pub(crate) fn inputs(
    case: &Case,
    graph: &Graph,
    shapes: &[&[usize]],
    values: &mut Values,
) -> Vec<Tensor> {
    let inputs = graph.inputs().iter().zip(shapes);
    inputs
        .map(|(&input, shape)| match dtype_of(graph.ty(input)) {
            DType::I64 => values.integers(shape, case.below),
            DType::Bool => values.bools(shape),
            _ => values.floats(shape, case.range),
        })
        .collect()
}

/// Float inputs and outputs by position.
pub(crate) fn float_positions(graph: &Graph) -> (Vec<usize>, Vec<usize>) {
    let floats = |values: &[kiln_ir::ValueId]| {
        (0..values.len())
            .filter(|&index| dtype_of(graph.ty(values[index])).is_float())
            .collect()
    };
    (floats(graph.outputs()), floats(graph.inputs()))
}

/// Checks the gradients of a case with random cotangents on every call, and the tangents against them.
pub(crate) fn check(name: &str, case: &Case) {
    let graph = case.graph();
    let (outputs, wrt) = float_positions(&graph);
    let request = GradientRequest::with_cotangents(&outputs, &wrt);
    let joint = differentiate(&graph, &request).unwrap_or_else(|error| panic!("{name}: {error}"));
    let forward =
        tangents(&graph, &outputs, &wrt).unwrap_or_else(|error| panic!("{name}: {error}"));
    for graph in [&joint.graph, &forward.graph] {
        kiln_ir::verify(graph).unwrap_or_else(|errors| panic!("{name}: {errors}"));
        check_types(graph).unwrap_or_else(|errors| panic!("{name}: {errors}"));
    }
    for (index, shapes) in case.calls.iter().enumerate() {
        let mut values = Values::new(index as u64 + 1);
        let inputs = inputs(case, &graph, shapes, &mut values);
        let results = evaluate(&graph, &inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        let cotangents: Vec<Tensor> = outputs
            .iter()
            .map(|&output| values.floats(results[output].shape(), (-1.0, 1.0)))
            .collect();
        let report = check_gradients(
            &graph,
            &joint,
            &request,
            (&inputs, &cotangents),
            &CheckOptions::default(),
            &mut |graph, inputs| evaluate(graph, inputs),
        )
        .unwrap_or_else(|error| panic!("{name} {shapes:?}: {error}"));
        assert!(report.passes(), "{name} {shapes:?}:\n{report}");

        // <c, J v> = <J^T c, v> for any direction v.
        let directions: Vec<Tensor> = wrt
            .iter()
            .map(|&input| values.floats(inputs[input].shape(), (-1.0, 1.0)))
            .collect();
        let all = [inputs.clone(), cotangents.clone()].concat();
        let backward =
            evaluate(&joint.graph, &all).unwrap_or_else(|error| panic!("{name}: {error}"));
        let all = [inputs.clone(), directions.clone()].concat();
        let pushed =
            evaluate(&forward.graph, &all).unwrap_or_else(|error| panic!("{name}: {error}"));
        let of = |tensors: &[Tensor], positions: &[usize], weights: &[Tensor]| -> f64 {
            let pairs = positions.iter().zip(weights);
            pairs
                .map(|(&position, weight)| dot(&tensors[position], weight))
                .sum()
        };
        let left = of(&pushed, &forward.tangent_outputs, &cotangents);
        let right = of(&backward, &joint.gradients, &directions);
        let scale = left.abs().max(right.abs()).max(1.0);
        assert!(
            (left - right).abs() <= 1e-9 * scale,
            "{name} {shapes:?}: <c, Jv> = {left}, <J^T c, v> = {right}"
        );
    }
}

fn dot(left: &Tensor, right: &Tensor) -> f64 {
    let (left, right): (Vec<f64>, Vec<f64>) = (left.to_vec().unwrap(), right.to_vec().unwrap());
    left.iter().zip(&right).map(|(a, b)| a * b).sum()
}

/// Checks the gradients of a case's gradients.
pub(crate) fn check_second(name: &str, case: &Case) {
    let graph = case.graph();
    let (outputs, wrt) = float_positions(&graph);
    let first = differentiate(&graph, &GradientRequest::with_cotangents(&outputs, &wrt))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let wrt: Vec<usize> = wrt.iter().chain(&first.cotangents).copied().collect();
    let request = GradientRequest::with_cotangents(&first.gradients, &wrt);
    let second = differentiate(&first.graph, &request)
        .unwrap_or_else(|error| panic!("{name}, twice: {error}"));
    kiln_ir::verify(&second.graph).unwrap_or_else(|errors| panic!("{name}, twice: {errors}"));
    for (index, shapes) in case.calls.iter().enumerate() {
        let mut values = Values::new(index as u64 + 100);
        let mut inputs = inputs(case, &graph, shapes, &mut values);
        let results = evaluate(&graph, &inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        for &output in &outputs {
            inputs.push(values.floats(results[output].shape(), (-1.0, 1.0)));
        }
        let gradients = evaluate(&first.graph, &inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
        let cotangents: Vec<Tensor> = first
            .gradients
            .iter()
            .map(|&output| values.floats(gradients[output].shape(), (-1.0, 1.0)))
            .collect();
        let report = check_gradients(
            &first.graph,
            &second,
            &request,
            (&inputs, &cotangents),
            &CheckOptions::default(),
            &mut |graph, inputs| evaluate(graph, inputs),
        )
        .unwrap_or_else(|error| panic!("{name} {shapes:?}, twice: {error}"));
        assert!(report.passes(), "{name} {shapes:?}, twice:\n{report}");
    }
}
