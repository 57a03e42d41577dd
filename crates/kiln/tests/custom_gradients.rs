//! Custom gradients: recorded, eager, compiled; first and second order; in loops; and what is rejected.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{
    Cache, Device, GradientTape, Gradients, GraphCompiler, Options, Recording, Source, Step,
    Tensor, Var, custom_gradient,
};

fn on(device: Device) -> Options {
    Options::new().cache(Cache::off()).device(device)
}

fn floats(values: &[f64]) -> Tensor {
    Tensor::from_slice(&[values.len()], values).unwrap()
}

/// `floor(x)`, whose gradient is that of `scale * x`.
fn rounded(x: &Var, scale: f64) -> Var {
    let [y] = custom_gradient(
        [x],
        |[x]| [x.floor()],
        move |rule| rule.cotangents.map(|g| g * scale),
    );
    y
}

#[test]
fn a_compiled_function_has_the_gradient_that_was_given() {
    for device in [Device::cpu(), Device::interpreter()] {
        let step = kiln::jit(|x: Var, w: Var| (rounded(&(x * &w), 2.0) + w).square().sum(..))
            .with_options(on(device))
            .value_and_grad()
            .with_respect_to(&[1]);
        for n in [1_usize, 3] {
            let x = floats(&vec![1.5; n]);
            let w = floats(&vec![3.0; n]);
            let (loss, gradients) = step.call([&x, &w]).unwrap();
            // y = floor(4.5) + 3 = 7; dy/dw = 2 * 1.5 + 1 = 4.
            assert_eq!(loss.to_vec::<f64>().unwrap(), [49.0 * n as f64]);
            assert_eq!(gradients[0].to_vec::<f64>().unwrap(), vec![56.0; n]);
        }
    }
}

#[test]
fn tapes_with_other_gradients_are_other_graphs() {
    let compiler = GraphCompiler::new(on(Device::cpu()));
    for (scale, n) in [(2.0, 2), (2.0, 5), (5.0, 2)] {
        let tape = GradientTape::new();
        let x = tape.watch("x", &floats(&vec![1.5; n]));
        let loss = rounded(&x, scale).sum(..);
        assert_eq!(
            tape.value(&loss).unwrap().to_vec::<f64>().unwrap(),
            [n as f64]
        );
        let eager = tape.gradients(&loss, &[&x]).unwrap();
        assert_eq!(eager[0].to_vec::<f64>().unwrap(), vec![scale; n]);
        let compiled = tape.compile(&compiler, &loss, &[&x]).unwrap();
        let (_, gradients) = compiled.run(&tape.inputs()).unwrap();
        assert_eq!(gradients[0].to_vec::<f64>().unwrap(), vec![scale; n]);
    }
    assert_eq!(compiler.n_graphs(), 2);
}

/// `x * y` and `x + y`, with the gradients of another function, which read the inputs, outputs and cotangents.
fn pair(x: &Var, y: &Var) -> [Var; 2] {
    custom_gradient(
        [x, y],
        |[x, y]| [&x * &y, x + y],
        |rule| {
            let ([x, _], [product, _], [g, h]) = (rule.inputs, rule.outputs, rule.cotangents);
            [&g * product, g * x.square() + h]
        },
    )
}

#[test]
fn rules_read_inputs_outputs_and_cotangents_and_can_be_differentiated() {
    let tape = GradientTape::new();
    let (x, y) = (
        tape.watch("x", &floats(&[3.0])),
        tape.watch("y", &floats(&[5.0])),
    );
    let [product, _] = pair(&x, &y);
    let loss = (product * 2.0).sum(..);
    let [dx, dy] = loss.gradients([&x, &y]);
    let of = |variable: &Var| tape.value(variable).unwrap().to_vec::<f64>().unwrap();
    // g = 2: dx = g * x * y, dy = g * x^2; the sum contributes nothing.
    assert_eq!((of(&dx), of(&dy)), (vec![30.0], vec![18.0]));
    // dx = 2 * product, whose gradient is the custom one again; dy = 2 x^2.
    let [ddx, ddy] = (dx + dy).sum(..).gradients([&x, &y]);
    assert_eq!((of(&ddx), of(&ddy)), (vec![30.0 + 12.0], vec![18.0]));
}

#[test]
fn steps_of_a_loop_keep_their_gradients() {
    let recording = Recording::new("loop");
    let x = recording.input("x", kiln::DType::F64, ["T".into(), "N".into()]);
    let first = x.sum(0) * 0.0;
    let results = x.scan(&[&first], &[], |row, states, _| Step {
        states: vec![rounded(&(&states[0] + row), 0.5)],
        outputs: vec![],
    });
    let [slope] = results[0].sum(..).gradients([&x]);
    let graph = recording
        .finish(&[("y", &results[0]), ("slope", &slope)])
        .unwrap();
    for device in [Device::cpu(), Device::interpreter()] {
        let model = on(device).load(Source::graph(graph.clone())).unwrap();
        let x = Tensor::from_slice(&[3, 1], &[1.5, 2.25, 0.5]).unwrap();
        let outputs = model.run([("x", &x)]).unwrap();
        assert_eq!(outputs.get("y").unwrap().to_vec::<f64>().unwrap(), [3.0]);
        let slope = outputs.get("slope").unwrap();
        assert_eq!(slope.to_vec::<f64>().unwrap(), [0.125, 0.25, 0.5]);
    }
    // The same on a tape.
    let tape = GradientTape::new();
    let x = tape.watch("x", &Tensor::from_slice(&[2, 1], &[1.5, 2.25]).unwrap());
    let first = x.sum(0) * 0.0;
    let results = x.scan(&[&first], &[], |row, states, _| Step {
        states: vec![rounded(&(&states[0] + row), 0.5)],
        outputs: vec![],
    });
    let slopes = tape.gradients(&results[0].sum(..), &[&x]).unwrap();
    assert_eq!(slopes[0].to_vec::<f64>().unwrap(), [0.25, 0.5]);
}

#[test]
fn gradients_that_would_be_lost_are_refused() {
    let recording = Recording::new("capture");
    let x = recording.input("x", kiln::DType::F64, ["N".into()]);
    let w = recording.input("w", kiln::DType::F64, ["N".into()]);
    let mask = w.greater(0.0);
    let [y] = custom_gradient(
        [&x],
        |[x]| [mask.select(&(x * &w), &w)],
        |rule| rule.cotangents,
    );
    let error = recording.finish(&[("y", &y)]).unwrap_err();
    assert_eq!(error.code(), "E0615");
    assert!(error.to_string().contains("f64[N]"), "{error}");
    // Unless they are declared not to have one.
    let recording = Recording::new("stopped");
    let x = recording.input("x", kiln::DType::F64, ["N".into()]);
    let w = recording.input("w", kiln::DType::F64, ["N".into()]);
    let stopped = w.stop_gradient();
    let [y] = custom_gradient(
        [&x],
        |[x]| [x * &stopped + w.stop_gradient()],
        |rule| rule.cotangents,
    );
    assert!(recording.finish(&[("y", &y)]).is_ok());

    // A graph does not store the custom gradients, and reports that.
    let recording = Recording::new("graph");
    let x = recording.input("x", kiln::DType::F64, ["N".into()]);
    let loss = rounded(&x, 1.0).sum(..);
    let graph = recording.finish(&[("loss", &loss)]).unwrap();
    let model = on(Device::interpreter()).load(Source::graph(graph.clone()));
    assert!(model.is_ok());
    let with_gradients = on(Device::interpreter()).gradients(Gradients::of("loss"));
    let error = with_gradients.load(Source::graph(graph)).unwrap_err();
    assert_eq!(error.code(), "E0613");
}

#[test]
fn mistakes_of_a_rule_are_errors_of_the_gradient() {
    let tape = GradientTape::new();
    let x = tape.watch("x", &floats(&[1.0, 2.0]));
    let [y] = custom_gradient([&x], |x| x, |rule| rule.cotangents.map(|g| g.reshape([3])));
    let error = tape.gradients(&y.sum(..), &[&x]).unwrap_err();
    assert!(error.code().starts_with("E03"), "{error}");
    assert!(error.to_string().contains("custom_gradients.rs"), "{error}");

    let tape = GradientTape::new();
    let x = tape.watch("x", &floats(&[1.0, 2.0]));
    let [y] = custom_gradient(
        [&x],
        |x| x,
        |rule| rule.cotangents.map(|g| g.cast(kiln::DType::F32)),
    );
    let error = tape.gradients(&y.sum(..), &[&x]).unwrap_err();
    assert_eq!(error.code(), "E0614");
}
