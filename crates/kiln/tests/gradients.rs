//! Gradients through the facade: compiled results equal the interpreter's, for every size.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Device, Gradients, Options, Source, Tensor, Var};

/// Loads a text with gradients, compiled and interpreted.
fn both(text: &str, gradients: &Gradients) -> [kiln::Model; 2] {
    [Device::cpu(), Device::interpreter()].map(|device| {
        Options::new()
            .cache(kiln::Cache::off())
            .device(device)
            .gradients(gradients.clone())
            .load(Source::text(text))
            .unwrap()
    })
}

fn values(shape: &[usize], seed: usize) -> Tensor {
    let count = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|index| ((index * 7 + seed * 13) % 11) as f32 / 5.0 - 1.0)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
}

fn assert_agree(models: &[kiln::Model; 2], inputs: &[Tensor]) {
    let [compiled, interpreted] = models.each_ref().map(|model| model.run(inputs).unwrap());
    for (name, expected) in interpreted.iter() {
        let found: Vec<f32> = compiled.get(name).unwrap().to_vec().unwrap();
        let expected: Vec<f32> = expected.to_vec().unwrap();
        let scale = expected
            .iter()
            .fold(1.0_f32, |most, value| most.max(value.abs()));
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-5 * scale,
                "{name}[{index}]: compiled {found}, interpreted {expected}"
            );
        }
    }
}

#[test]
fn gradients_of_a_perceptron_are_compiled_for_every_batch_size() {
    let text = "graph @mlp(%x: f32[B, 6], %w1: f32[6, 5], %b1: f32[5], %w2: f32[5, 3], %t: f32[B, 3]) -> f32[] {
        %a = matmul %x, %w1
        %b = add %a, %b1
        %h = relu %b
        %y = matmul %h, %w2
        %e = sub %y, %t
        %s = square %e
        %l = reduce %s {function = mean, axes = [0, 1]}
        return \"loss\" = %l
    }";
    let models = both(
        text,
        &Gradients::of("loss").with_respect_to(["w1", "b1", "w2"]),
    );
    for batch in [1, 2, 7, 17] {
        let inputs = [
            values(&[batch, 6], 1),
            values(&[6, 5], 2),
            values(&[5], 3),
            values(&[5, 3], 4),
            values(&[batch, 3], 5),
        ];
        assert_agree(&models, &inputs);
    }
}

#[test]
fn a_training_step_is_one_recording_for_every_batch_size() {
    let step = |x: Var, w: Var, b: Var, target: Var| {
        let y = (x.matmul(&w) + &b).tanh();
        let loss = (y - target).square().mean(..);
        let [w_slope, b_slope] = loss.gradients([&w, &b]);
        (loss, w - w_slope * 0.5, b - b_slope * 0.5)
    };
    let step = kiln::jit(step).with_options(
        Options::new()
            .cache(kiln::Cache::off())
            .device(Device::cpu()),
    );
    let (mut w, mut b) = (values(&[3, 2], 1), values(&[2], 2));
    let mut losses = Vec::new();
    for round in 0..60 {
        let batch = [8, 5, 13][round % 3];
        let x = values(&[batch, 3], round);
        let sums: Vec<f32> = x
            .to_vec::<f32>()
            .unwrap()
            .chunks(3)
            .flat_map(|row| [(row[0] - row[1]) / 4.0, row[2] / 3.0])
            .collect();
        let target = Tensor::from_slice(&[batch, 2], &sums).unwrap();
        let loss;
        (loss, w, b) = step.call([&x, &w, &b, &target]).unwrap();
        losses.push(loss.to_vec::<f32>().unwrap()[0]);
    }
    assert!(
        losses[57..].iter().sum::<f32>() < 0.1 * losses[..3].iter().sum::<f32>(),
        "{losses:?}"
    );
    assert_eq!(step.n_recordings(), 1);
}
