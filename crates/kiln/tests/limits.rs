//! Limits set on the facade reach the layer that enforces them.

use kiln::diagnose::{self, Stage};
use kiln::{ErrorKind, Limits, Model, Options, Source};

const TEXT: &str = "graph @id(%x: f32[A, B, A * B + A]) -> f32[A, B, A * B + A] { return %x }";

fn limited(set: impl FnOnce(&mut Limits)) -> Options {
    let mut limits = Limits::default();
    set(&mut limits);
    Options::new().limits(limits)
}

#[test]
fn a_text_beyond_its_limit_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kiln");
    std::fs::write(&path, TEXT).unwrap();
    let bytes = TEXT.len() as u64;
    limited(|limits| limits.text.bytes = bytes)
        .load(&path)
        .unwrap();
    let short = limited(|limits| limits.text.bytes = bytes - 1);
    for error in [
        short.load(&path).unwrap_err(),
        short.load(Source::text(TEXT)).unwrap_err(),
    ] {
        assert_eq!((error.code(), error.kind()), ("E0134", ErrorKind::Limit));
        let message = error.to_string();
        assert!(message.contains(&format!("found {bytes}")), "{message}");
    }
    // A sparse file of 1 TiB takes up no disk space.
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    assert_eq!(Model::load(&path).unwrap_err().code(), "E0134");
}

#[test]
fn the_table_of_sizes_obeys_the_facades_limits() {
    Model::load(Source::text(TEXT)).unwrap();
    let error = limited(|limits| limits.dims.max_nodes = 2).load(Source::text(TEXT));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_archive_beyond_the_limit_of_a_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.kiln");
    std::fs::write(&path, TEXT).unwrap();
    let archive = std::fs::File::create(path.with_extension("npz")).unwrap();
    let tensor = kiln::Tensor::from_slice(&[64], &[0.5_f32; 64]).unwrap();
    kiln::internals::tensor::write_npz([("w", &tensor)], archive).unwrap();
    Model::load(&path).unwrap();
    let options = limited(|limits| limits.text.constant_bytes = 255);
    let error = options.load(&path).unwrap_err();
    let message = error.to_string();
    assert_eq!(error.code(), "E0941");
    assert!(message.contains("255"), "{message}");
}

#[test]
fn pipes_and_device_files_are_refused_for_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(at(name)).status();
        assert!(made.unwrap().success());
    };
    pipe("model.kiln");
    pipe("model.onnx");
    pipe("constants.npz");
    std::fs::write(at("constants.kiln"), TEXT).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero.kiln")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("zero.onnx")).unwrap();
    for name in [
        "model.kiln",
        "model.onnx",
        "constants.kiln",
        "zero.kiln",
        "zero.onnx",
    ] {
        let cache = kiln::Cache::folder(at("cache"));
        let error = Options::new().cache(cache).load(at(name)).unwrap_err();
        assert!(
            error.to_string().contains("regular file"),
            "{name}: {error}"
        );
    }
}

#[test]
fn inspected_plans_obey_the_limits_of_planning() {
    let text = "graph @two(%x: f32[N]) -> f32[N] {\n  %a = exp %x\n  %b = neg %a\n  return %b\n}";
    let roomy = Model::load(Source::text(text)).unwrap();
    assert!(
        diagnose::inspect(&roomy, Stage::Fusion)
            .unwrap()
            .contains("1 kernels")
    );
    assert!(diagnose::explain(&roomy).unwrap().cut_short.is_empty());
    let tight = limited(|limits| limits.fusion.plan_work = 1);
    let tight = tight.load(Source::text(text)).unwrap();
    let shown = diagnose::inspect(&tight, Stage::Fusion).unwrap();
    assert!(
        shown.contains("2 kernels") && shown.contains("budget: all 1 steps"),
        "{shown}"
    );
    let explained = diagnose::explain(&tight).unwrap();
    assert_eq!(explained.count("kernel"), 2, "{explained}");
    assert!(
        explained.to_string().contains("budgets spent: 1"),
        "{explained}"
    );
    let pair = diagnose::explain_pair(&tight, "a", "b").unwrap();
    assert!(pair.together.is_none(), "{pair}");
}

#[test]
fn recorded_functions_obey_the_limits_of_sizes() {
    let add = || kiln::jit(|x: kiln::Var, y: kiln::Var| x + y);
    let x = kiln::Tensor::from_slice(&[2], &[1.0_f32, 2.0]).unwrap();
    add().call([&x, &x]).unwrap();
    let options = limited(|limits| limits.dims.max_nodes = 2);
    let error = add().with_options(options).call([&x, &x]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}
