//! Every public entry point is called with an injected panic.
#![allow(unsafe_code, reason = "one of the entry points is unsafe")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::diagnose::{self, Stage};
use crate::{Cache, DType, Device, Donations, Inputs, Model, Options, Source, Tensor, Var};
use std::cell::Cell;
use std::collections::BTreeSet;

thread_local! {
    /// Whether the next guarded operation of this thread panics.
    static IS_ARMED: Cell<bool> = const { Cell::new(false) };
}

const INJECTED: &str = "injected into an entry point";

pub(super) fn panic_if_armed() {
    assert!(!IS_ARMED.take(), "{INJECTED}");
}

/// Entry points that cannot fail: they inspect, count and free, and run no code supplied by the caller.
const WITHOUT_RESULT: [&str; 27] = [
    "Call::cancel_when",
    "Call::cancellation",
    "Call::profile",
    "Call::time_limit",
    "Jit::compilation_stats",
    "Jit::n_recordings",
    "Jit::name",
    "Jit::named",
    "Jit::timing",
    "Jit::value_and_grad",
    "Jit::with_options",
    "Jit::with_sizes",
    "Model::call",
    "Model::clear_cache",
    "Model::compilation_stats",
    "Model::device",
    "Model::device_counts",
    "Model::inputs",
    "Model::is_healthy",
    "Model::memory_stats",
    "Model::metadata",
    "Model::outputs",
    "Model::session",
    "Model::timing",
    "Model::trim_memory",
    "Model::wait_for_compiles",
    "Session::call",
];

/// Entry points in `diagnose`, listed under a separate path.
const TOOLS_WITHOUT_RESULT: [&str; 2] = ["diagnose::compile_records", "diagnose::variant_records"];

const TEXT: &str = "graph @f(%x: f32[N]) -> f32[N] {
  %y = exp %x
  return %y
}";

fn options() -> Options {
    Options::new().device(Device::default()).cache(Cache::off())
}

/// An entry point, and the error that it returned.
type Walked = (&'static str, Option<Error>);

fn walk(name: &'static str, enter: impl FnOnce() -> Option<Error>) -> Walked {
    IS_ARMED.set(true);
    let error = enter();
    IS_ARMED.set(false);
    (name, error)
}

/// Calls each entry point once, with a panic armed.
fn walk_all() -> Vec<Walked> {
    let model = options().load(Source::text(TEXT)).unwrap();
    let graph = diagnose::graph(&model, Stage::Optimized).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("model.kiln-bundle");
    let key = crate::SealKey::of_secret(&[7; 32]);
    let x = Tensor::full(&[3], 0.5f32).unwrap();
    let given = [("x", &x)];
    let reference = diagnose::reference(&model, given).unwrap();
    let profile = model.shape_profile().unwrap();
    let double = crate::jit(|x: Var| x.clone() + x).with_options(options());
    let signature = [crate::ArgumentType::of(&x)];
    let session = || model.session().build().unwrap();
    let tools = [
        walk("diagnose::call_memory", || {
            diagnose::call_memory(&model, &[vec![3]]).err()
        }),
        walk("diagnose::compare", || {
            diagnose::compare(&model, &reference).err()
        }),
        walk("diagnose::compare_precision", || {
            let precision = crate::Format::BF16.into();
            diagnose::compare_precision(&model, &precision, given).err()
        }),
        walk("diagnose::draw_inputs", || {
            diagnose::draw_inputs(&model, &std::collections::BTreeMap::new(), 0).err()
        }),
        walk("diagnose::explain", || diagnose::explain(&model).err()),
        walk("diagnose::explain_pair", || {
            diagnose::explain_pair(&model, "y", "y").err()
        }),
        walk("diagnose::graph", || {
            diagnose::graph(&model, Stage::Import).err()
        }),
        walk("diagnose::inspect", || {
            diagnose::inspect(&model, Stage::Import).err()
        }),
        walk("diagnose::inspect_kernel", || {
            diagnose::inspect_kernel(&model, Stage::Kernels, "y").err()
        }),
        walk("diagnose::reference", || {
            diagnose::reference(&model, given).err()
        }),
        walk("diagnose::step_nodes", || {
            diagnose::step_nodes(&model, &[]).err()
        }),
    ];
    let mut walked = vec![
        walk("Call::run", || model.call(given).run().err()),
        walk("Call::run_into", || {
            let mut outputs = [Tensor::zeros(DType::F32, &[3]).unwrap()];
            model.call([&x]).run_into(&mut outputs).err()
        }),
        walk("Call::run_into", || {
            let (mut inputs, mut donations) = ([x.clone()], Donations::default());
            let inputs = Inputs::donated(&mut inputs, &mut donations);
            model.call(inputs).run_into(&mut [x.clone()]).err()
        }),
        walk("Call::run_into", || {
            session().call(given).run_into(&mut [x.clone()]).err()
        }),
        walk("Jit::call", || double.call([&x]).err()),
        walk("Jit::call_into", || {
            double.call_into([&x], &mut [x.clone()]).err()
        }),
        walk("Jit::model", || double.model(&signature).err()),
        walk("Model::compile", || model.compile().err()),
        walk("Model::graph", || model.graph().err()),
        walk("Model::load", || Model::load("no such.kiln").err()),
        walk("Model::load", || Model::load(Source::text(TEXT)).err()),
        walk("Model::load", || Model::load(graph.clone()).err()),
        walk("Model::load", || {
            Model::load(Source::onnx(b"no model", None)).err()
        }),
        walk("Model::open_bundle", || {
            // SAFETY: the file does not exist.
            unsafe { Model::open_bundle(&bundle, options()) }.err()
        }),
        walk("Model::open_sealed_bundle", || {
            Model::open_sealed_bundle(&bundle, &key, options()).err()
        }),
        walk("Model::precompile", || model.precompile(&[vec![3]]).err()),
        walk("Model::precompile_in_background", || {
            model.precompile_in_background(&profile).err()
        }),
        walk("Model::run", || model.run(given).err()),
        walk("Model::save_bundle", || {
            model.save_bundle(&bundle, None).err()
        }),
        walk("Model::shape_profile", || model.shape_profile().err()),
        walk("Options::load", || options().load("no such.kiln").err()),
        walk("Session::run", || session().run(given).err()),
    ];
    walked.extend(tools);
    walked
}

#[test]
fn a_panic_in_any_public_entry_point_is_a_typed_error() {
    for (name, error) in walk_all() {
        let error = error.unwrap_or_else(|| panic!("{name}: no error"));
        assert_eq!(error.code(), "E0991", "{name}");
        assert!(error.to_string().contains(INJECTED), "{name}: {error}");
    }
}

#[test]
fn every_public_entry_point_is_called() {
    let list = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/public-items/kiln.txt"
    );
    let list = std::fs::read_to_string(list).unwrap();
    let entrances = list.lines().filter_map(|line| line.strip_prefix("fn "));
    let prefixes = [
        "Call::",
        "Jit::",
        "Model::",
        "Options::load",
        "Session::call",
        "Session::run",
    ];
    let is_tool = |name: &str| {
        let name = name.strip_prefix("diagnose::");
        name.is_some_and(|name| !name.contains("::"))
    };
    let is_entrance =
        |name: &&str| is_tool(name) || prefixes.iter().any(|prefix| name.starts_with(prefix));
    let entrances: BTreeSet<&str> = entrances.filter(is_entrance).collect();
    let walked = walk_all().into_iter().map(|(name, _)| name);
    let known: BTreeSet<&str> = walked
        .chain(WITHOUT_RESULT)
        .chain(TOOLS_WITHOUT_RESULT)
        .collect();
    assert_eq!(entrances, known);
}
