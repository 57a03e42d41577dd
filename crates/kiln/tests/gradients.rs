//! Gradients through the facade: compiled results equal the interpreter's, for every size.

use kiln::{Device, Gradients, Options, Source, Tensor};

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
