//! Models of one product, their inputs, and the duration of calls.

use kiln::internals::shape_inference::{GraphBuilder, InferError};
use kiln::{DType, Device, Model, Options, Source, Tensor};
use kiln_benches::rounds::timed;
use std::time::Duration;

/// `f32[M, K]` times `f32[K, N]`, both inputs of the call.
pub(crate) fn of_inputs(options: Options) -> Model {
    let text = "graph @product(%x: f32[M, K], %y: f32[K, N]) -> f32[M, N] {
      %z = matmul %x, %y
      return %z
    }";
    options
        .load(Source::text(text))
        .expect("the text is a graph")
}

/// `f32[M, K]` times weights that the model holds.
pub(crate) fn of_weights(k: usize, n: usize, options: Options) -> Model {
    let build = || -> Result<_, InferError> {
        let mut builder = GraphBuilder::new("weights");
        let (rows, inner) = (builder.symbol("M")?, builder.size(k as i64));
        let x = builder.input("x", DType::F32, &[rows, inner]);
        let y = builder.constant(ripple(&[k, n]))?;
        let z = builder.matmul(x, y)?;
        builder.finish(&[("z", z)])
    };
    options
        .load(Source::graph(build().expect("the types are right")))
        .expect("the graph is right")
}

/// Compiled, on this many threads; for the level that `KILN_BENCH_TARGET` names, or for this machine.
pub(crate) fn options(threads: usize) -> Options {
    let options = Options::new().device(Device::cpu()).threads(threads);
    match std::env::var("KILN_BENCH_TARGET") {
        Ok(level) => options.target(level),
        Err(_) => options,
    }
}

/// Numbers between -0.5 and 0.5, in memory owned by the tensor.
pub(crate) fn ripple(shape: &[usize]) -> Tensor {
    let mut tensor = Tensor::full(shape, 0.0_f32).expect("the shape fits memory");
    let elements = tensor.as_mut_slice::<f32>().expect("it is not shared");
    for (i, element) in elements.iter_mut().enumerate() {
        *element = ((i * 37) % 101) as f32 / 101.0 - 0.5;
    }
    tensor
}

/// A contender: calls of a model into existing tensors, as for the peers.
pub(crate) fn calls<'a>(
    model: &'a Model,
    inputs: &'a [(&'a str, &'a Tensor)],
) -> impl FnMut(u32) -> Duration + 'a {
    let outputs = model.run(inputs).expect("it runs");
    let own = |(_, output): (&str, &Tensor)| output.copied().expect("there is memory");
    let mut outputs: Vec<Tensor> = outputs.iter().map(own).collect();
    let inputs: Vec<Tensor> = inputs.iter().map(|&(_, tensor)| tensor.clone()).collect();
    timed(move || {
        let ran = model.call(&inputs).run_into(&mut outputs);
        ran.expect("it runs");
    })
}

/// A contender: the steps of such calls without the call overhead.
pub(crate) fn steps<'a>(
    model: &'a Model,
    inputs: &'a [(&'a str, &'a Tensor)],
) -> impl FnMut(u32) -> Duration + 'a {
    move |calls| {
        let mut time = Duration::ZERO;
        for _ in 0..calls {
            let mut steps = Vec::new();
            let call = model.call(inputs).profile(&mut steps);
            call.run().expect("it runs");
            time += steps.iter().map(|step| step.time).sum::<Duration>();
        }
        time
    }
}
