//! Inspecting a model: stages, explanations, comparisons.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::diagnose::{self, Stage, Verdict};
use kiln::{Device, ErrorKind, Model, Options, Source, Tensor, internals};

const BLOCK: &str = "graph @block(%x: f32[B, S, 8], %w: f32[8, 8]) -> (f32[B, S, 8], f32[B, 8]) {
  %product = matmul %x, %w
  %scores = softmax_like %product
  return %scores, %scores
}";

fn block() -> String {
    BLOCK
        .replace(
            "  %scores = softmax_like %product\n",
            "  %e = exp %product\n  %t = sqrt %e\n  %m = reduce %t {function = mean, axes = [1]}\n",
        )
        .replace("return %scores, %scores", "return %t, %m")
}

fn model() -> Model {
    Model::load(Source::text(&block())).unwrap()
}

#[test]
fn every_stage_prints() {
    let model = model();
    for stage in Stage::all() {
        let compiled = [Stage::Loops, Stage::Llvm, Stage::Assembly].contains(&stage);
        match diagnose::inspect(&model, stage) {
            Ok(text) => {
                let interpreted = model.device() == Device::interpreter();
                assert!(!text.is_empty(), "{stage}");
                assert!(!compiled || !interpreted, "{stage}");
            }
            Err(error) => assert!(compiled && error.code() == "E0983", "{stage}: {error}"),
        }
    }
    assert!(
        diagnose::inspect(&model, Stage::Import)
            .unwrap()
            .starts_with("graph @block")
    );
    assert!(
        diagnose::inspect(&model, Stage::Fusion)
            .unwrap()
            .starts_with("fusion @block")
    );
    assert!(
        diagnose::inspect(&model, Stage::Kernels)
            .unwrap()
            .contains("kernel @")
    );
    assert!(
        diagnose::inspect(&model, Stage::Program)
            .unwrap()
            .starts_with("program @block")
    );
    let error = "soul".parse::<Stage>().unwrap_err();
    assert_eq!(error.code(), "E0973");
    assert!(
        error.to_string().contains("optimized, fusion, kernels"),
        "{error}"
    );
    let error = diagnose::inspect_kernel(&model, Stage::Kernels, "nope").unwrap_err();
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::InvalidInput, "E0982")
    );
}

#[test]
fn an_explanation_counts_steps() {
    let explained = diagnose::explain(&model()).unwrap();
    assert_eq!(explained.ops, 4);
    assert_eq!(explained.count("kernel"), explained.steps.len());
    assert_eq!(explained.count("interpret"), 0);
    let text = explained.to_string();
    assert!(text.starts_with("4 ops became "), "{text}");
    assert!(text.contains("near misses"), "{text}");
    assert!(text.contains("compiles: none"), "{text}");
}

#[test]
fn two_ops_are_explained_by_any_of_their_names() {
    let model = model();
    let why = diagnose::explain_pair(&model, "e", "%t").unwrap();
    assert!(why.together.is_some(), "{why}");
    let why = diagnose::explain_pair(&model, "e", "m").unwrap();
    assert!(why.to_string().lines().count() >= 1);
    let error = diagnose::explain_pair(&model, "e", "prod").unwrap_err();
    assert_eq!(error.code(), "E0982");
    assert!(error.to_string().contains("%product"), "{error}");
}

#[test]
fn steps_with_data_dependent_sizes_are_interpreted_and_compared_whole() {
    let text = "graph @found(%x: f32[N]) -> i64[1, K] {
      %y = non_zero %x
      return %y
    }";
    let Ok(model) = Model::load(Source::text(text)) else {
        return;
    };
    let x = Tensor::from_slice(&[3], &[0.0f32, 1.0, 2.0]).unwrap();
    let comparison =
        diagnose::compare(&model, &diagnose::reference(&model, [("x", &x)]).unwrap()).unwrap();
    assert!(comparison.agrees());
}

#[test]
fn the_interpreter_agrees_with_itself() {
    let options = Options::new().device(Device::interpreter());
    let model = options.load(Source::text(&block())).unwrap();
    let x = Tensor::full(&[2, 3, 8], 0.25f32).unwrap();
    let w = Tensor::full(&[8, 8], 0.5f32).unwrap();
    let reference = diagnose::reference(&model, [("x", &x), ("w", &w)]).unwrap();
    assert_eq!(reference.declared().len(), 2);
    assert_eq!(reference.promoted()[0].dtype(), kiln::DType::F64);
    let comparison = diagnose::compare(&model, &reference).unwrap();
    assert!(comparison.agrees());
    assert!(
        comparison
            .outputs
            .iter()
            .all(|output| output.verdict == Verdict::Equal)
    );
    assert_eq!(comparison.first_unlike(&comparison.clone()).unwrap(), None);
}

#[cfg(feature = "llvm")]
mod compiled {
    use super::*;
    use kiln::Cache;
    use kiln::internals::backend::{
        Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Schedule, Target,
    };
    use kiln::internals::codegen_llvm::LlvmCompiler;
    use kiln::internals::kernel::VerifiedKernel;
    use kiln::internals::lazy_runtime::{Runtime, RuntimeOptions};
    use kiln::internals::native::NativeExecutor;
    use std::sync::Arc;

    /// Compiles every `sqrt` as `sigmoid`.
    struct Wrong(LlvmCompiler);

    fn changed(kernel: &VerifiedKernel) -> VerifiedKernel {
        let text =
            kiln::internals::kernel::text::print(kernel.kernel()).replace("sqrt(", "sigmoid(");
        let kernel = kiln::internals::kernel::text::read(&text).unwrap();
        kiln::internals::kernel::verify(kernel).unwrap()
    }

    impl CompilerWrapper for Wrong {
        type Inner = LlvmCompiler;

        fn inner(&self) -> &LlvmCompiler {
            &self.0
        }

        fn version(&self) -> String {
            "wrong".to_owned()
        }

        fn compile(
            &self,
            kernel: &VerifiedKernel,
            target: &Target,
            schedule: &Schedule,
            observer: &mut dyn CompileObserver,
        ) -> Result<Artifact, CompileError> {
            self.0.compile(&changed(kernel), target, schedule, observer)
        }
    }

    fn compare(text: &str, options: Options) -> diagnose::Comparison {
        let model = options
            .device(Device::cpu())
            .load(Source::text(text))
            .unwrap();
        let x = Tensor::from_vec(&[2, 3, 8], (0..48).map(|i| i as f32 / 48.0).collect()).unwrap();
        let w = Tensor::full(&[8, 8], 0.25f32).unwrap();
        let inputs = [("x", &x), ("w", &w)];
        let inputs = &inputs[..model.inputs().len()];
        diagnose::compare(&model, &diagnose::reference(&model, inputs).unwrap()).unwrap()
    }

    fn own() -> Options {
        Options::new().shared_kernels(false).cache(Cache::off())
    }

    #[test]
    fn compiled_code_agrees_at_any_number_of_threads() {
        let one = compare(&block(), own().threads(1));
        let two = compare(&block(), own().threads(2));
        assert!(one.agrees() && two.agrees());
        assert_eq!(one.first_unlike(&two).unwrap(), None);
    }

    #[test]
    fn a_wrong_step_is_named_with_what_it_read() {
        let right = compare(&block(), own());
        let wrong = compare(&block(), wrong());
        assert!(!wrong.agrees());
        assert_eq!(wrong.outputs[0].verdict, Verdict::Different);
        assert_eq!(right.first_unlike(&wrong).unwrap(), Some("t"));
        let first = wrong.first_difference.unwrap();
        assert!(first.value.starts_with("%t: f32[B, S, 8]"), "{first}");
        assert!(first.op.contains("sqrt"), "{first}");
        assert!(first.own_error.is_some_and(|error| error > 0.01), "{first}");
        assert!(first.worst.is_some() && !first.reads.is_empty(), "{first}");
        assert!(wrong.amplified_at.is_none());
    }

    fn wrong() -> Options {
        let runtime = Runtime::new(
            Some(Arc::new(Wrong(LlvmCompiler::new()))),
            Arc::new(NativeExecutor::new()),
            RuntimeOptions::new(),
        );
        internals::on_runtime(own(), Arc::new(runtime))
    }

    #[test]
    fn a_wrong_step_is_reduced_to_the_op_that_is_wrong() {
        assert!(compare(&block(), own()).repro.is_none());
        let comparison = compare(&block(), wrong());
        let repro = comparison.repro.unwrap();
        assert_eq!(repro.extent(), diagnose::Extent::Ops, "{repro}");
        let ops: Vec<_> = repro.graph().ops().map(|(_, data)| &data.op).collect();
        assert_eq!(ops.len(), 1, "{repro}");
        assert_eq!(repro.inputs().len(), 1);
        assert!(repro.to_string().starts_with("1 ops, wrong"), "{repro}");
        assert!(repro.to_string().contains("x0 is %"), "{repro}");
        // Its symbols are those of the model.
        let text = kiln::internals::ir::text::print(repro.graph());
        assert!(text.contains("%x0: f32[B, S, 8]"), "{text}");
        assert!(text.contains("sqrt"), "{text}");
    }

    #[test]
    fn a_difference_that_no_part_reproduces_is_kept_whole() {
        // The loop is a separate step, and the wrong op is inside it.
        let text = "graph @rolled(%x: f32[B, S, 8], %w: f32[8, 8]) -> f32[B, S, 8] {
          %n: i64[] = constant [2]
          %go: bool[] = constant [true]
          %y = loop %n, %go, %x {carried = 1}
            region(%i: i64[], %a: f32[B, S, 8]) {
              %on: bool[] = constant [true]
              %b = exp %a
              %c = sqrt %b
              yield %on, %c
            }
          return %y
        }";
        let Ok(_) = Model::load(Source::text(text)) else {
            panic!("{}", Model::load(Source::text(text)).unwrap_err());
        };
        let repro = compare(text, wrong()).repro.unwrap();
        assert_eq!(repro.extent(), diagnose::Extent::Whole);
        assert_eq!(repro.inputs().len(), 2);
    }

    #[test]
    fn large_constants_of_a_repro_are_written_beside_its_text() {
        let ramp: Vec<f32> = (0..512).map(|i| i as f32 / 512.0).collect();
        let large = Tensor::from_vec(&[64, 8], ramp).unwrap();
        let mut builder = kiln::internals::shape_inference::GraphBuilder::new("large");
        let (n, eight) = (builder.symbol("N").unwrap(), builder.size(8));
        let x = builder.input("x", kiln::DType::F32, &[n, eight]);
        let constant = builder.constant(large).unwrap();
        let weights = builder.transpose(constant, &[1, 0]).unwrap();
        let product = builder.matmul(x, weights).unwrap();
        let y = builder.map("sqrt", &[product]).unwrap();
        let graph = builder.finish(&[("y", y)]).unwrap();
        let model = wrong()
            .device(Device::cpu())
            .load(Source::graph(graph))
            .unwrap();
        let x = Tensor::full(&[3, 8], 0.25f32).unwrap();
        let comparison =
            diagnose::compare(&model, &diagnose::reference(&model, [("x", &x)]).unwrap());
        let repro = comparison.unwrap().repro.unwrap();
        let folder = tempfile::tempdir().unwrap();
        repro.write(folder.path()).unwrap();
        // However small it is, the written graph loads and reproduces the results.
        let again = own().load(folder.path().join("graph.kiln")).unwrap();
        let before = own().load(Source::graph(repro.graph().clone())).unwrap();
        let run = |model: &Model| {
            model.run(repro.inputs()).unwrap()[0]
                .to_vec::<f32>()
                .unwrap()
        };
        assert_eq!(run(&again), run(&before));
        let file = folder.path().join("graph.kiln");
        assert_eq!(repro.write(&file).unwrap_err().code(), "E0985");
    }

    #[test]
    fn amplified_rounding_is_distinguished_from_a_wrong_step() {
        // exp of an argument of about a hundred multiplies its rounding error.
        let text = "graph @steep(%x: f32[B, S, 8]) -> f32[B, S, 8] {
          %third: f32[] = constant [0.33333334]
          %y = mul %x, %third
          %sum = reduce %y {function = sum, axes = [2], keep_dims}
          %steep: f32[] = constant [3000.0]
          %z = mul %sum, %steep
          %s = sin %z
          %e = add %s, %y
          return %e
        }";
        let Ok(_) = Model::load(Source::text(text)) else {
            panic!("{}", Model::load(Source::text(text)).unwrap_err());
        };
        let comparison = compare(text, own());
        assert!(comparison.agrees());
        assert_eq!(comparison.outputs[0].verdict, Verdict::Amplified);
        let at = comparison.amplified_at.unwrap();
        assert!(at.error > 1e-5, "{at}");
        assert!(at.to_string().contains("from what the step read"), "{at}");
    }

    #[test]
    fn code_is_shown_per_kernel() {
        let options = own().device(Device::cpu());
        let model = options.load(Source::text(&block())).unwrap();
        assert!(
            diagnose::inspect(&model, Stage::Llvm)
                .unwrap()
                .contains("define void")
        );
        let assembly = diagnose::inspect(&model, Stage::Assembly).unwrap();
        assert!(assembly.starts_with("# @"), "{assembly}");
        let x = Tensor::full(&[1, 1, 8], 0.0f32).unwrap();
        let w = Tensor::full(&[8, 8], 0.0f32).unwrap();
        model.run([("x", &x), ("w", &w)]).unwrap();
        let text = diagnose::explain(&model).unwrap().to_string();
        assert!(text.contains("first use"), "{text}");
        assert!(text.contains("compilations"), "{text}");
    }
}
