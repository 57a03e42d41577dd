//! Every public entrance is walked through with a panic behind it.
#![allow(unsafe_code, reason = "one of the entrances is unsafe")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::{Cache, CallOptions, DType, Device, Model, Options, Tensor, Var};
use std::cell::Cell;
use std::collections::BTreeSet;

thread_local! {
    /// Whether the next guarded work of this thread panics.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
}

const INJECTED: &str = "injected behind an entrance";

pub(super) fn panic_if_armed() {
    assert!(!IS_ARMED.take(), "{INJECTED}");
}

/// Entrances that cannot fail: they look at what is there, count and free, and run nothing that was given.
const WITHOUT_RESULT: [&str; 22] = [
    "Jit::compilation_stats",
    "Jit::n_recordings",
    "Jit::name",
    "Jit::named",
    "Jit::timing",
    "Jit::with_options",
    "Model::all_stages",
    "Model::clear_cache",
    "Model::compilation_stats",
    "Model::compile_records",
    "Model::device",
    "Model::inputs",
    "Model::memory_stats",
    "Model::metadata",
    "Model::options",
    "Model::outputs",
    "Model::session",
    "Model::stages",
    "Model::timing",
    "Model::trim_memory",
    "Model::variant_records",
    "Model::wait_for_compiles",
];

const TEXT: &str = "graph @f(%x: f32[N]) -> f32[N] {
  %y = exp %x
  return %y
}";

fn options() -> Options {
    Options::new().device(Device::default()).cache(Cache::off())
}

/// What an entrance gives, if it gives an error.
type Walked = (&'static str, Option<Error>);

fn walk(name: &'static str, enter: impl FnOnce() -> Option<Error>) -> Walked {
    IS_ARMED.set(true);
    let error = enter();
    IS_ARMED.set(false);
    (name, error)
}

/// Goes through each entrance once, armed.
fn walk_all() -> Vec<Walked> {
    let model = Model::from_text_with(TEXT, options()).unwrap();
    let graph = model.graph().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("model.kiln-bundle");
    let key = crate::SealKey::of_secret(&[7; 32]);
    let x = Tensor::full(&[3], 0.5f32).unwrap();
    let given = [("x", &x)];
    let call = CallOptions::new();
    let reference = model.reference(given).unwrap();
    let profile = model.shape_profile().unwrap();
    let double = crate::jit(|x: Var| x.clone() + x).with_options(options());
    let signature = [crate::ArgumentType::of(&x)];
    let into = |with: Option<&CallOptions>| {
        let mut outputs = [Tensor::zeros(DType::F32, &[3]).unwrap()];
        match with {
            Some(call) => model.run_into_with(std::slice::from_ref(&x), &mut outputs, call),
            None => model.run_into(std::slice::from_ref(&x), &mut outputs),
        }
    };
    let session = || model.session().build().unwrap();
    vec![
        walk("Jit::call", || double.call([&x]).err()),
        walk("Jit::model", || double.model(&signature).err()),
        walk("Model::call_memory", || model.call_memory(&[vec![3]]).err()),
        walk("Model::compare", || model.compare(&reference).err()),
        walk("Model::compile", || model.compile().err()),
        walk("Model::explain", || model.explain().err()),
        walk("Model::explain_pair", || model.explain_pair("y", "y").err()),
        walk("Model::from_graph", || {
            Model::from_graph(graph.clone()).err()
        }),
        walk("Model::from_graph_with", || {
            Model::from_graph_with(graph.clone(), options()).err()
        }),
        walk("Model::open_bundle", || {
            // SAFETY: there is no such file.
            unsafe { Model::open_bundle(&bundle, options()) }.err()
        }),
        walk("Model::open_sealed_bundle", || {
            Model::open_sealed_bundle(&bundle, &key, options()).err()
        }),
        walk("Model::from_bytes", || {
            Model::from_bytes(b"no model", &kiln_onnx::NoFiles).err()
        }),
        walk("Model::from_bytes_with", || {
            Model::from_bytes_with(b"no model", &kiln_onnx::NoFiles, options()).err()
        }),
        walk("Model::save_bundle", || model.save_bundle(&bundle).err()),
        walk("Model::save_sealed_bundle", || {
            model.save_sealed_bundle(&bundle, &key).err()
        }),
        walk("Model::from_text", || Model::from_text(TEXT).err()),
        walk("Model::from_text_with", || {
            Model::from_text_with(TEXT, options()).err()
        }),
        walk("Model::graph", || model.graph().err()),
        walk("Model::inspect", || model.inspect("import").err()),
        walk("Model::inspect_kernels", || {
            model.inspect_kernels("kernels", None).err()
        }),
        walk("Model::load", || Model::load("no such.kiln").err()),
        walk("Model::load_with", || {
            Model::load_with("no such.kiln", options()).err()
        }),
        walk("Model::precompile", || model.precompile(&[vec![3]]).err()),
        walk("Model::precompile_in_background", || {
            model.precompile_in_background(&profile).err()
        }),
        walk("Model::reference", || model.reference(given).err()),
        walk("Model::run", || model.run(given).err()),
        walk("Model::run_donating", || {
            let (inputs, outputs) = (&mut [x.clone()], &mut [x.clone()]);
            let donations = &mut kiln_lazy_runtime::Donations::default();
            model.run_donating(inputs, donations, outputs).err()
        }),
        walk("Model::run_into", || into(None).err()),
        walk("Model::run_into_with", || into(Some(&call)).err()),
        walk("Model::run_profiled", || model.run_profiled(given).err()),
        walk("Model::run_with", || model.run_with(given, &call).err()),
        walk("Model::shape_profile", || model.shape_profile().err()),
        walk("Model::stage", || model.stage("import").err()),
        walk("Session::run", || session().run(given).err()),
        walk("Session::run_into", || {
            let mut outputs = [x.clone()];
            session()
                .run_into(std::slice::from_ref(&x), &mut outputs)
                .err()
        }),
        walk("Session::run_with", || {
            session().run_with(given, &call).err()
        }),
    ]
}

#[test]
fn a_panic_behind_any_public_entrance_is_a_typed_error() {
    for (name, error) in walk_all() {
        let error = error.unwrap_or_else(|| panic!("{name}: no error"));
        assert_eq!(error.code(), "E0991", "{name}");
        assert!(error.to_string().contains(INJECTED), "{name}: {error}");
    }
}

#[test]
fn every_public_entrance_is_walked_through() {
    let list = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/public-items/kiln.txt"
    );
    let list = std::fs::read_to_string(list).unwrap();
    let entrances = list.lines().filter_map(|line| line.strip_prefix("fn "));
    let is_entrance = |name: &&str| {
        ["Model::", "Jit::", "Session::run"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let entrances: BTreeSet<&str> = entrances.filter(is_entrance).collect();
    let walked = walk_all().into_iter().map(|(name, _)| name);
    let known: BTreeSet<&str> = walked.chain(WITHOUT_RESULT).collect();
    assert_eq!(entrances, known);
}
