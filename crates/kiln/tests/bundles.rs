//! Bundles: a model in one file, run without a compiler; damage, versions and levels.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

use kiln::internals::shape_inference::GraphBuilder;
use kiln::{
    Cache, CompilePolicy, DType, Device, ErrorKind, Model, Options, SealKey, Source, Tensor,
    diagnose,
};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn options() -> Options {
    Options::new()
        .device(Device::cpu())
        .shared_kernels(false)
        .cache(Cache::off())
}

/// Compiling fails.
fn ahead() -> Options {
    options().compiling(CompilePolicy::AheadOfTime)
}

/// `y = relu(x w) + b` with a weight that kernels read in packed form.
fn small() -> Model {
    let weight: Vec<f32> = (0..8 * 32).map(|i| (i % 7) as f32 - 2.0).collect();
    let bias: Vec<f32> = (0..32).map(|i| i as f32).collect();
    let mut builder = GraphBuilder::new("small");
    let rows = builder.symbol("B").unwrap();
    let eight = builder.size(8);
    let x = builder.input("x", DType::F32, &[rows, eight]);
    let weight = builder
        .constant(Tensor::from_vec(&[8, 32], weight).unwrap())
        .unwrap();
    let bias = builder
        .constant(Tensor::from_vec(&[32], bias).unwrap())
        .unwrap();
    let product = builder.matmul(x, weight).unwrap();
    let positive = builder.map("relu", &[product]).unwrap();
    let y = builder.add(positive, bias).unwrap();
    options()
        .load(Source::graph(builder.finish(&[("y", y)]).unwrap()))
        .unwrap()
}

/// Opens a bundle written by these tests.
fn open(path: &Path, options: Options) -> Result<Model, kiln::Error> {
    // SAFETY: it was saved here; if a test damaged it since, its digests do not match.
    unsafe { Model::open_bundle(path, options) }
}

fn call(model: &Model, rows: usize) -> Vec<f32> {
    let x: Vec<f32> = (0..rows * 8).map(|i| i as f32 * 0.25 - 3.0).collect();
    let x = Tensor::from_vec(&[rows, 8], x).unwrap();
    model.run([("x", &x)]).unwrap()[0].to_vec().unwrap()
}

fn saved(folder: &Path) -> PathBuf {
    let path = folder.join("small.kiln-bundle");
    let bytes = small().save_bundle(&path, None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    path
}

/// Ten pairs of inputs, each of which gives one kernel if their sizes are equal.
fn pairs() -> String {
    let numbers = || 0..10;
    let inputs = numbers().map(|i| format!("%x{i}: f32[A{i}], %y{i}: f32[B{i}]"));
    let types = numbers().map(|i| format!("f32[bcast(A{i}, B{i})]"));
    let ops = numbers().map(|i| format!("  %n{i} = exp %x{i}\n  %s{i} = add %n{i}, %y{i}\n"));
    let results = numbers().map(|i| format!("%s{i}"));
    format!(
        "graph @pairs({}) -> ({}) {{\n{}  return {}\n}}",
        inputs.collect::<Vec<_>>().join(", "),
        types.collect::<Vec<_>>().join(", "),
        ops.collect::<String>(),
        results.collect::<Vec<_>>().join(", "),
    )
}

#[test]
fn a_bundle_serves_every_call_whichever_plan_facts_fail() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("pairs.kiln-bundle");
    let model = options().load(Source::text(&pairs())).unwrap();
    model.save_bundle(&path, None).unwrap();
    let bundle = open(&path, ahead()).unwrap();
    for failing in [0, 1, 0b10, 0b11, 0b1111, 0b10_1010_1010, 0b11_1111_1111] {
        let sizes = |i: usize| {
            if failing & (1 << i) == 0 {
                [4, 4]
            } else {
                [4, 1]
            }
        };
        let tensors: Vec<(String, Tensor)> = (0..10)
            .flat_map(|i| {
                let [a, b] = sizes(i);
                let (x, y) = (Tensor::full(&[a], 1.5f32), Tensor::full(&[b], i as f32));
                [(format!("x{i}"), x.unwrap()), (format!("y{i}"), y.unwrap())]
            })
            .collect();
        let outputs = bundle.run(&tensors).unwrap();
        for i in 0..10 {
            let found = outputs[i].to_vec::<f32>().unwrap();
            let expected = 1.5f32.exp() + i as f32;
            assert_eq!(found.len(), 4);
            assert!(found.iter().all(|found| (found - expected).abs() < 1e-5));
        }
    }
    let stats = bundle.compilation_stats();
    assert_eq!((stats.compilations, stats.interpreted_steps), (0, 0));
    assert_eq!(stats.other_plans, 0, "no plan was made");
    let explained = diagnose::explain(&bundle).unwrap().to_string();
    assert!(
        explained.contains("without any fact: 20 launches"),
        "{explained}"
    );
}

#[test]
fn a_bundle_runs_and_compiles_nothing() {
    let folder = TempDir::new().unwrap();
    let path = saved(folder.path());
    let model = small();
    let bundle = open(&path, ahead()).unwrap();
    assert_eq!(bundle.device(), Device::cpu());
    assert_eq!(format!("{bundle:?}"), format!("{model:?}"));
    for rows in [1, 5, 0, 64] {
        assert_eq!(call(&bundle, rows), call(&model, rows));
    }
    let stats = bundle.compilation_stats();
    assert_eq!(
        (
            stats.compilations,
            stats.interpreted_steps,
            stats.constants_packed
        ),
        (0, 0, 0)
    );
    let interpreted = open(&path, options().device(Device::interpreter()));
    assert_eq!(call(&interpreted.unwrap(), 3), call(&model, 3));
    // The same model makes the same bundle.
    let first = fs::read(&path).unwrap();
    saved(folder.path());
    assert_eq!(fs::read(&path).unwrap().len(), first.len());
}

#[test]
fn a_bundle_is_not_loaded_as_a_model() {
    let folder = TempDir::new().unwrap();
    let error = Model::load(saved(folder.path())).unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0997", ErrorKind::InvalidInput)
    );
    assert!(
        error.to_string().contains("`Model::open_bundle`"),
        "{error}"
    );
}

#[test]
fn a_sealed_bundle_opens_only_with_its_key() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sealed.kiln-bundle");
    let key = SealKey::of_secret(&[7; 32]);
    let bytes = small().save_bundle(&path, Some(&key)).unwrap();
    let whole = fs::read(&path).unwrap();
    assert_eq!(whole.len() as u64, bytes);
    let expected = call(&small(), 5);
    let opened = Model::open_sealed_bundle(&path, &key, ahead()).unwrap();
    assert_eq!(call(&opened, 5), expected);
    assert_eq!(opened.compilation_stats().compilations, 0);
    // A caller that trusts the file does not need a key.
    assert_eq!(call(&open(&path, ahead()).unwrap(), 5), expected);
    let code = |path: &Path, key| {
        let error = Model::open_sealed_bundle(path, &key, ahead()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Environment, "{error}");
        error.code()
    };
    assert_eq!(code(&path, SealKey::of_secret(&[8; 32])), "E0711");
    assert_eq!(code(&saved(folder.path()), key), "E0711");
}

#[test]
fn code_injected_into_a_sealed_bundle_does_not_run() {
    use kiln::internals::kernel_cache::{Bundle, EntryKind};
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sealed.kiln-bundle");
    let key = SealKey::of_secret(&[7; 32]);
    small().save_bundle(&path, Some(&key)).unwrap();
    let whole = fs::read(&path).unwrap();
    // An attacker without the key can fix every digest, but not the authentication codes.
    let mut refused = 0;
    for at in (0..whole.len()).step_by(173) {
        let mut planted = whole.clone();
        planted[at] ^= 1;
        kiln_testkit::reseal::reseal_bundle(&mut planted);
        fs::write(&path, &planted).unwrap();
        let opened = Bundle::open_sealed(&path, &key);
        let checked =
            opened.and_then(|bundle| bundle.verify(|kind| kind == EntryKind::KERNEL.name()));
        refused += usize::from(checked.is_err());
        if checked.is_ok() {
            let model = Model::open_sealed_bundle(&path, &key, ahead()).unwrap();
            let x = Tensor::full(&[2, 8], 0.5_f32).unwrap();
            // A call reads only the constants that it needs.
            match model.run([("x", &x)]) {
                Ok(found) => assert!(found[0].bit_equal(&small().run([("x", &x)]).unwrap()[0])),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Environment, "{error}"),
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn options_about_the_graph_are_refused_for_a_bundle() {
    let folder = TempDir::new().unwrap();
    let path = saved(folder.path());
    let narrowed = options().dim("B", kiln::Dim::fixed(2));
    let error = open(&path, narrowed).unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0972", ErrorKind::InvalidInput)
    );
    let error = Options::new()
        .device(Device::interpreter())
        .load(Source::text(
            "graph @id(%x: f32[N]) -> f32[N] { return %x }",
        ));
    let error = error
        .unwrap()
        .save_bundle(folder.path().join("no"), None)
        .unwrap_err();
    assert_eq!(error.code(), "E0983");
}

#[test]
fn damage_anywhere_is_an_error_that_names_the_place() {
    let folder = TempDir::new().unwrap();
    let path = saved(folder.path());
    let whole = fs::read(&path).unwrap();
    let expected = call(&small(), 3);
    let look = || {
        let bundle = open(&path, ahead())?;
        let x: Vec<f32> = (0..3 * 8).map(|i| i as f32 * 0.25 - 3.0).collect();
        let x = Tensor::from_vec(&[3, 8], x).unwrap();
        Ok::<Vec<f32>, kiln::Error>(bundle.run([("x", &x)])?[0].to_vec().unwrap())
    };
    assert_eq!(look().unwrap(), expected);
    for length in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..length]).unwrap();
        let error = look().unwrap_err();
        assert_eq!(
            (error.code(), error.kind()),
            ("E0707", ErrorKind::Environment),
            "{error}"
        );
    }
    let mut unread = 0;
    for bit in (0..8 * whole.len()).step_by(8 * 61 + 3) {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        match look() {
            // A call reads only the constants that it needs.
            Ok(found) => {
                assert_eq!(found, expected);
                unread += 1;
            }
            Err(error) => {
                assert!(
                    ["E0707", "E0708", "E0943"].contains(&error.code()),
                    "{error}"
                );
                assert_eq!(error.kind(), ErrorKind::Environment, "{error}");
                assert!(error.to_string().contains("small.kiln-bundle"), "{error}");
            }
        }
    }
    println!("{unread} bit flips in bytes that no call reads");
}

#[test]
fn another_version_and_another_level_are_refused_with_the_next_step() {
    use kiln::internals::kernel_cache::Bundle;
    let folder = TempDir::new().unwrap();
    let path = saved(folder.path());
    let manifest = String::from_utf8(Bundle::open(&path).unwrap().manifest().to_vec()).unwrap();
    let value: &str = manifest.split('"').nth(3).unwrap();
    let other = manifest.replacen(value, "0.0.1", 1);
    Bundle::write(&path, other.as_bytes(), &[], None).unwrap();
    let error = open(&path, Options::new()).unwrap_err();
    assert_eq!(error.code(), "E0988");
    assert!(
        error
            .to_string()
            .ends_with("found one of 0.0.1; rebuild it with this version"),
        "{error}"
    );
    let level = manifest.split("\"level\":\"").nth(1).unwrap();
    let level = level.split('"').next().unwrap();
    let other = manifest.replacen(&format!("\"level\":\"{level}\""), "\"level\":\"sve9\"", 1);
    Bundle::write(&path, other.as_bytes(), &[], None).unwrap();
    let error = open(&path, Options::new()).unwrap_err();
    assert_eq!(
        (error.code(), error.kind()),
        ("E0989", ErrorKind::Environment)
    );
    let text = error.to_string();
    assert!(
        text.contains("found one for sve9") && text.contains("--target"),
        "{text}"
    );
    Bundle::write(&path, b"{}", &[], None).unwrap();
    assert_eq!(open(&path, Options::new()).unwrap_err().code(), "E0707");
}

#[test]
fn real_model_bundles_give_the_results_of_the_model() {
    let Some(models) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        println!("SKIPPED: bundles of real models need KILN_MODELS, their folder");
        return;
    };
    let folder = TempDir::new().unwrap();
    for (name, shape) in [("minilm", &[2, 12][..]), ("ocr-cls", &[1, 3, 48, 192])] {
        let file = models.join(name).join("model.onnx");
        let model = options().load(file).unwrap();
        let path = folder.path().join(format!("{name}.kiln-bundle"));
        println!("{name}: {} bytes", model.save_bundle(&path, None).unwrap());
        let bundle = open(&path, ahead()).unwrap();
        assert_eq!(bundle.metadata(), model.metadata());
        let inputs: Vec<(String, Tensor)> = model
            .inputs()
            .iter()
            .map(|input| {
                let tensor = match input.dtype() {
                    Some(DType::I64) => Tensor::full(shape, 1_i64),
                    _ => Tensor::full(shape, 0.25_f32),
                };
                (input.name().to_owned(), tensor.unwrap())
            })
            .collect();
        let run = |model: &Model| {
            let outputs = model.run(&inputs).unwrap();
            outputs[0].clone()
        };
        assert!(run(&model).bit_equal(&run(&bundle)));
        let stats = bundle.compilation_stats();
        assert_eq!(
            (stats.compilations, stats.constants_packed),
            (0, 0),
            "{stats:?}"
        );
        assert_eq!(stats.interpreted_steps, 0);
    }
}
