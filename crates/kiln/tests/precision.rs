//! `Options::precision`: compiled code computes the same as the interpreter on the rewritten graph, at every level.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::backend::IsaLevel;
use kiln::{Cache, Compiling, Device, Format, Model, Options, Precision, Source, Tensor, diagnose};

const FORMATS: [&str; 11] = [
    "bf16",
    "f16",
    "int8",
    "int8-weights",
    "int8-weights/32/zero-points",
    "int4-weights",
    "int4-weights/32",
    "int4-weights/32/zero-points",
    "int4-int8",
    "int4-int8/32",
    "int4-int8/32/zero-points",
];

fn numbers(count: usize) -> Vec<f32> {
    let number = |place: usize| ((place * 31) % 97) as f32 / 97.0 - 0.45;
    (0..count).map(number).collect()
}

/// Two layers with a bias and an activation: `f32[B, depth] -> f32[B, columns]`.
fn perceptron(depth: usize, columns: usize) -> String {
    let constant = |rows: usize, columns: usize| {
        let numbers: Vec<String> = numbers(rows * columns)
            .iter()
            .map(|number| format!("{number:?}"))
            .collect();
        format!("f32[{rows}, {columns}] = constant [{}]", numbers.join(", "))
    };
    format!(
        "graph @mlp(%x: f32[B, {depth}]) -> f32[B, {columns}] {{
          %w: {}
          %v: {}
          %a = matmul %x, %w
          %b = relu %a
          %c = matmul %b, %v
          return \"y\" = %c
        }}",
        constant(depth, columns),
        constant(columns, columns)
    )
}

fn load(text: &str, format: &str, device: Device, level: Option<IsaLevel>) -> Model {
    let format: Format = format.parse().unwrap();
    let mut options = Options::new()
        .device(device)
        .cache(Cache::off())
        .precision(format)
        .compiling(Compiling {
            variants: None,
            ..Compiling::default()
        });
    if let Some(level) = level {
        options = options.target(level.name());
    }
    options.load(Source::text(text)).unwrap()
}

fn elements(model: &Model, x: &Tensor) -> Vec<f32> {
    model.run([("x", x)]).unwrap()[0].to_vec().unwrap()
}

#[test]
fn compiled_products_of_every_format_equal_interpreted_ones_at_edge_sizes_on_every_level() {
    for (depth, columns) in [(1, 1), (33, 17), (64, 48)] {
        let text = perceptron(depth, columns);
        for format in FORMATS {
            let interpreted = load(&text, format, Device::interpreter(), None);
            for level in IsaLevel::of_host() {
                let compiled = load(&text, format, Device::cpu(), Some(level));
                for batch in [0, 1, 2, 13, 33] {
                    let x = Tensor::from_vec(&[batch, depth], numbers(batch * depth)).unwrap();
                    let found = elements(&compiled, &x);
                    let expected = elements(&interpreted, &x);
                    let largest = expected.iter().fold(1e-6_f32, |most, y| most.max(y.abs()));
                    // A sum between two 16-bit numbers may be rounded to either.
                    let bound = match format {
                        "bf16" => 1e-2,
                        "f16" => 2e-3,
                        // The same goes for activations that are rounded to 8 bits.
                        "int8" | "int4-int8" | "int4-int8/32" | "int4-int8/32/zero-points" => 1e-2,
                        _ => 1e-5,
                    };
                    for (found, expected) in found.iter().zip(&expected) {
                        let error = (found - expected).abs() / largest;
                        assert!(
                            error <= bound,
                            "{format} on {} at {batch}x{depth}x{columns}: {found} for {expected}",
                            level.name()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn quantised_weights_stay_narrow_in_the_program() {
    let text = perceptron(256, 128);
    let bytes = |format: &str| {
        let model = load(&text, format, Device::cpu(), None);
        let graph = diagnose::graph(&model, diagnose::Stage::Optimized).unwrap();
        let constants = graph.ops().filter_map(|(_, data)| match &data.op {
            kiln::internals::ir::Op::Constant(constant) => Some(constant.tensor().byte_len()),
            _ => None,
        });
        constants.sum::<usize>()
    };
    let whole = bytes("f32");
    assert_eq!(whole, (256 + 128) * 128 * 4);
    assert_eq!(bytes("bf16"), whole / 2);
    assert!(bytes("int8-weights") < whole / 4 + 2_000);
    assert!(bytes("int4-weights/32") < whole / 6);
}

#[test]
fn weights_of_four_bits_are_multiplied_by_bytes_as_integers() {
    let text = perceptron(256, 128);
    for format in ["int4-int8/32", "int4-int8/64/zero-points", "int4-int8"] {
        for level in IsaLevel::of_host() {
            let model = load(&text, format, Device::cpu(), Some(level));
            let loops = diagnose::inspect(&model, diagnose::Stage::Loops).unwrap();
            let n_products = loops.matches("scaled_fours").count();
            let has_them = level.multiplies_fours() || level.multiplies_byte_pairs();
            assert_eq!(n_products > 0, has_them, "{format} on {}", level.name());
        }
    }
}

#[test]
fn weights_are_unpacked_by_the_products_that_read_them() {
    let text = perceptron(256, 128);
    for format in FORMATS
        .into_iter()
        .filter(|format| format.contains("weights"))
    {
        let model = load(&text, format, Device::cpu(), None);
        let explained = diagnose::explain(&model).unwrap();
        let classes: Vec<_> = explained.steps.iter().map(|step| step.class).collect();
        assert_eq!(
            classes,
            [Some("contraction"), Some("contraction")],
            "{format}"
        );
    }
}

#[test]
fn a_precision_is_compared_with_f32_output_by_output_and_product_by_product() {
    let text = perceptron(64, 32);
    let model = load(&text, "f32", Device::cpu(), None);
    let x = Tensor::from_vec(&[5, 64], numbers(5 * 64)).unwrap();
    let errors = FORMATS.map(|format| {
        let precision = Precision::of(format.parse().unwrap());
        let comparison = diagnose::compare_precision(&model, &precision, [("x", &x)]).unwrap();
        assert_eq!(comparison.layers.len(), 2, "{format}");
        let (name, error) = &comparison.outputs[0];
        assert_eq!(name, "y");
        assert_eq!(
            comparison.layers[1].error, *error,
            "the last product is the output"
        );
        assert!(*error > 0.0 && *error < 0.5, "{format}: {error}");
        assert!(comparison.report.bytes_after() < comparison.report.bytes_before());
        *error
    });
    let of = |format: &str| errors[FORMATS.iter().position(|other| *other == format).unwrap()];
    assert!(of("int8-weights") < of("int4-weights/32"));
    assert!(of("f16") < of("bf16"));
}

#[test]
fn a_precision_that_does_not_apply_is_an_error_at_loading() {
    let precision = Precision::of(Format::BF16)
        .and("lm_head", Format::F32)
        .unwrap();
    let error = Options::new()
        .precision(precision)
        .load(Source::text(&perceptron(2, 2)))
        .unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0644", kiln::ErrorKind::InvalidInput)
    );
}

#[test]
fn gradients_pass_through_rounded_products() {
    let text = perceptron(8, 4);
    let text = text.replace(
        "return \"y\" = %c",
        "%s = reduce %c {function = sum, axes = [0, 1]}\nreturn \"s\" = %s",
    );
    let text = text.replace("-> f32[B, 4]", "-> f32[]");
    let gradient = |format: &str| {
        let model = Options::new()
            .device(Device::cpu())
            .cache(Cache::off())
            .precision(format.parse::<Format>().unwrap())
            .gradients(kiln::Gradients::of("s"))
            .load(Source::text(&text))
            .unwrap();
        let x = Tensor::from_vec(&[3, 8], numbers(24)).unwrap();
        let outputs = model.run([("x", &x)]).unwrap();
        outputs.get("d_x").unwrap().to_vec::<f32>().unwrap()
    };
    let exact = gradient("f32");
    for format in ["bf16", "int8-weights", "int4-weights"] {
        let found = gradient(format);
        let largest = exact.iter().fold(0.0_f32, |most, y| most.max(y.abs()));
        for (found, exact) in found.iter().zip(&exact) {
            assert!(
                (found - exact).abs() < 0.2 * largest,
                "{format}: {found} for {exact}"
            );
        }
    }
}
