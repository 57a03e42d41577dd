//! Layers: compiled steps equal interpreted ones, for changing batch sizes; parameters are saved and reloaded.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Cache, DType, Device, Options, Tensor, Var, WindowOptions};
use kiln_train::{
    Adam, AttentionSizes, ConvSizes, Initial, Network, Predictor, TrainError, Trainer, losses,
};

fn on(device: Device) -> Options {
    Options::new().cache(Cache::off()).device(device)
}

fn values(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 31 + seed * 17) % 23) as f32 / 11.0 - 1.0;
    Tensor::from_slice(shape, &(0..count).map(value).collect::<Vec<_>>()).unwrap()
}

fn labels(count: usize, classes: usize) -> Tensor {
    let labels: Vec<i64> = (0..count)
        .map(|index| (index * 5 % classes) as i64)
        .collect();
    Tensor::from_slice(&[count], &labels).unwrap()
}

fn convolutional(network: &Network, x: &Var) -> Var {
    let padded = WindowOptions::default().padding(1);
    let h = network.conv("conv1", x, ConvSizes::new(2, 6, 3), padded);
    let h = network.batch_norm("norm1", &h, 6).relu();
    let h = h.max_pool(2, WindowOptions::default().stride(2));
    let h = network.conv("conv2", &h, ConvSizes::new(6, 4, 3), padded.groups(2));
    let up = network.conv_transpose(
        "up",
        &h,
        ConvSizes::new(4, 3, 2),
        padded.padding(0).stride(2),
    );
    let pooled = up.relu().mean([2, 3]);
    let h = network.dropout(&pooled, 0.1);
    network.linear("out", &h, 3, 3)
}

fn attentive(network: &Network, x: &Var) -> Var {
    let h = network.layer_norm("norm", x, 8);
    let sizes = AttentionSizes {
        width: 8,
        heads: 2,
        is_causal: true,
    };
    let h = x + network.attention("attention", &h, sizes);
    let h = network.rms_norm("norm2", &h, 8);
    network.linear("out", &h.mean(1), 8, 3)
}

fn recurrent(network: &Network, x: &Var) -> Var {
    let all = network.lstm("lstm", &x.permute(&[1, 0, 2]), 8, 5);
    network.linear("out", &all.mean(0), 5, 3)
}

type Body = fn(&Network, &Var) -> Var;

fn trainer(body: Body, sizes: &[&'static str], width: &[usize], device: Device) -> Trainer {
    let mut axes: Vec<kiln::AxisSize> = sizes.iter().map(|&size| size.into()).collect();
    axes.extend(width.iter().map(|&size| kiln::AxisSize::from(size)));
    Trainer::new("layers", Adam::default())
        .learning_rate(0.02)
        .seed(5)
        .input("x", DType::F32, axes)
        .input("labels", DType::I64, ["B".into()])
        .options(on(device))
        .build(|network, inputs| losses::cross_entropy(&body(network, &inputs[0]), &inputs[1]))
        .unwrap()
}

/// Inputs whose magnitude depends on the label.
fn separable(shape: &[usize], labels: &Tensor) -> Tensor {
    let labels = labels.to_vec::<i64>().unwrap();
    let each: usize = shape[1..].iter().product();
    let noise = values(shape, 3).to_vec::<f32>().unwrap();
    let level = |index: usize| labels[index / each.max(1)] as f32 - 1.0;
    let x: Vec<f32> = noise
        .iter()
        .enumerate()
        .map(|(index, noise)| 0.3 * noise + level(index))
        .collect();
    Tensor::from_slice(shape, &x).unwrap()
}

/// Trains on batches of these shapes, compiled and interpreted.
fn learns_alike(body: Body, sizes: &[&'static str], width: &[usize], shapes: &[&[usize]]) {
    let mut compiled = trainer(body, sizes, width, Device::cpu());
    let mut interpreted = trainer(body, sizes, width, Device::interpreter());
    let mut losses = Vec::new();
    for round in 0..30 {
        let shape = shapes[round % shapes.len()];
        let labels = labels(shape[0], 3);
        let x = separable(shape, &labels);
        let batch = [("x", &x), ("labels", &labels)];
        let loss = compiled.step(batch).unwrap();
        if round < 4 {
            let expected = interpreted.step(batch).unwrap();
            assert!(
                (loss - expected).abs() < 1e-4 * expected.abs().max(1.0),
                "step {round}: {loss}, expected {expected}"
            );
        }
        losses.push(loss);
    }
    let sum = |losses: &[f64]| losses.iter().sum::<f64>();
    assert!(sum(&losses[24..]) < 0.8 * sum(&losses[..6]), "{losses:?}");
}

#[test]
fn a_convolutional_network_learns_alike_compiled_and_interpreted() {
    learns_alike(
        convolutional,
        &["B"],
        &[2, 8, 8],
        &[&[5, 2, 8, 8], &[3, 2, 8, 8], &[1, 2, 8, 8]],
    );
}

#[test]
fn attention_learns_alike_compiled_and_interpreted() {
    learns_alike(
        attentive,
        &["B", "T"],
        &[8],
        &[&[4, 7, 8], &[3, 2, 8], &[1, 1, 8]],
    );
}

#[test]
fn an_lstm_learns_alike_compiled_and_interpreted() {
    learns_alike(
        recurrent,
        &["B", "T"],
        &[8],
        &[&[4, 7, 8], &[3, 2, 8], &[1, 1, 8]],
    );
}

#[test]
fn saved_parameters_give_the_same_predictions_and_a_checkpoint_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (weights, checkpoint) = (
        folder.path().join("w.safetensors"),
        folder.path().join("c.safetensors"),
    );
    let make = || trainer(convolutional, &["B"], &[2, 8, 8], Device::cpu());
    let (x, labels) = (values(&[5, 2, 8, 8], 1), labels(5, 3));
    let batch = [("x", &x), ("labels", &labels)];
    let mut first = make();
    for _ in 0..3 {
        first.step(batch).unwrap();
    }
    first.save(&weights).unwrap();
    first.save_checkpoint(&checkpoint).unwrap();
    let predictor = Predictor::new("predict", &first)
        .input("x", DType::F32, ["B".into(), 2.into(), 8.into(), 8.into()])
        .options(on(Device::cpu()))
        .build(|network, inputs| vec![("logits", convolutional(network, &inputs[0]))])
        .unwrap();
    let logits = |trainer: &Trainer| {
        let outputs = predictor.run(trainer, [("x", &x)]).unwrap();
        outputs.get("logits").unwrap().to_vec::<f32>().unwrap()
    };
    let mut second = make();
    assert_ne!(logits(&first), logits(&second));
    second.load(&weights).unwrap();
    assert_eq!(logits(&first), logits(&second));
    // The running statistics are saved too.
    let mean = first
        .parameter("norm1.running_mean")
        .unwrap()
        .to_vec::<f32>()
        .unwrap();
    assert!(mean.iter().any(|&mean| mean != 0.0), "{mean:?}");
    let mut third = make();
    third.load_checkpoint(&checkpoint).unwrap();
    assert_eq!(third.n_steps(), 3);
    // Dropout and the optimiser continue where they were.
    assert_eq!(first.step(batch).unwrap(), third.step(batch).unwrap());
    assert_eq!(logits(&first), logits(&third));
}

#[test]
fn mistakes_with_files_are_typed_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let mut small = Trainer::new("small", Adam::default())
        .input("x", DType::F32, [2.into()])
        .options(on(Device::interpreter()))
        .build(|network, inputs| {
            (network.parameter("w", &[2], Initial::Constant(3.0)) * &inputs[0]).sum(..)
        })
        .unwrap();
    assert_eq!(small.load(&path).unwrap_err().code(), "E0626");
    std::fs::write(&path, b"not weights").unwrap();
    assert_eq!(small.load(&path).unwrap_err().code(), "E0627");
    let other = Tensor::full(&[3], 1.0_f32).unwrap();
    kiln_train::weights::write(&path, [("w", &other)]).unwrap();
    assert!(matches!(
        small.load(&path),
        Err(TrainError::ParameterType { .. })
    ));
    kiln_train::weights::write(&path, [("v", &other)]).unwrap();
    assert_eq!(small.load(&path).unwrap_err().code(), "E0622");
    let half = Tensor::from_f64_slice(DType::F16, &[2], &[0.5, 2.0]).unwrap();
    kiln_train::weights::write(&path, [("w", &half)]).unwrap();
    assert_eq!(
        small.parameter("w").unwrap().to_vec::<f32>().unwrap(),
        [3.0, 3.0]
    );
    small.load(&path).unwrap();
    assert_eq!(
        small.parameter("w").unwrap().to_vec::<f32>().unwrap(),
        [0.5, 2.0]
    );
}

#[test]
fn dropout_keeps_the_share_and_the_mean() {
    let f = kiln::jit(|x: Var, key: Var| x.dropout(key, 0.25)).with_options(on(Device::cpu()));
    for count in [0_usize, 1, 7, 20_000] {
        let x = Tensor::full(&[count], 1.0_f32).unwrap();
        let key = Tensor::from_slice(&[2], &[9_u64, 4]).unwrap();
        let y = f.call([&x, &key]).unwrap().to_vec::<f32>().unwrap();
        assert!(y.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-6));
        if count > 1000 {
            let kept = y.iter().filter(|&&y| y != 0.0).count() as f64 / count as f64;
            assert!((kept - 0.75).abs() < 0.02, "{kept}");
        }
    }
}

#[test]
fn constants_of_a_model_become_parameters_by_name() {
    let text = "graph @scale(%x: f32[B, 2]) -> f32[B, 2] {
      %scale: f32[2] = constant [1.0, 1.0]
      %shift: f32[2] = constant [0.5, 0.5]
      %s = mul %x, %scale
      %y = add %s, %shift
      return \"y\" = %y
    }";
    let model = on(Device::interpreter())
        .load(kiln::Source::text(text))
        .unwrap();
    let graph = model.graph().unwrap();
    let mut trainer = Trainer::new("scale", Adam::default())
        .learning_rate(0.05)
        .model(&graph, |name| name == "scale")
        .unwrap()
        .input("wanted", DType::F32, ["B".into(), 2.into()])
        .options(on(Device::cpu()))
        .build(|network, inputs| {
            losses::mean_squared_error(&network.model_output("y").unwrap(), &inputs[0])
        })
        .unwrap();
    assert_eq!(trainer.parameters().collect::<Vec<_>>(), ["scale"]);
    for step in 0..300 {
        let rows = 3 + step % 4;
        let x = values(&[rows, 2], step);
        let wanted: Vec<f32> = x
            .to_vec::<f32>()
            .unwrap()
            .chunks(2)
            .flat_map(|row| [3.0 * row[0] + 0.5, -row[1] + 0.5])
            .collect();
        let wanted = Tensor::from_slice(&[rows, 2], &wanted).unwrap();
        trainer.step([("x", &x), ("wanted", &wanted)]).unwrap();
    }
    let scale = trainer.parameter("scale").unwrap().to_vec::<f32>().unwrap();
    assert!(
        (scale[0] - 3.0).abs() < 0.05 && (scale[1] + 1.0).abs() < 0.05,
        "{scale:?}"
    );
    let predictor = Predictor::new("scaled", &trainer)
        .model(&graph)
        .unwrap()
        .options(on(Device::cpu()))
        .build(|network, _| vec![("y", network.model_output("y").unwrap())])
        .unwrap();
    let x = Tensor::full(&[1, 2], 1.0_f32).unwrap();
    let y = predictor.run(&trainer, [("x", &x)]).unwrap();
    let y = y.get("y").unwrap().to_vec::<f32>().unwrap();
    assert!((y[0] - 3.5).abs() < 0.05, "{y:?}");
    // Control flow is rejected.
    let text = "graph @loop(%x: f32[N], %n: i64[]) -> f32[N] {
      %on: bool[] = constant [true]
      %y: f32[N] = loop %n, %on, %x {carried = 1}
        region(%i: i64[], %s: f32[N]) {
          %go: bool[] = constant [true]
          %r = sin %s
          yield %go, %r
        }
      return \"y\" = %y
    }";
    let model = on(Device::interpreter())
        .load(kiln::Source::text(text))
        .unwrap();
    let refused = Trainer::new("loop", Adam::default()).model(&model.graph().unwrap(), |_| true);
    assert_eq!(refused.unwrap_err().code(), "E0899");
}
