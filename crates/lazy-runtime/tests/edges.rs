//! Edge cases of calls: integers of every width that become sizes, custom ops with invalid results, profiles of every
//! kind of step.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod support;

use std::sync::Arc;

use kiln_interpreter::{CustomOp, CustomOps, InterpretLimits, InterpretOptions, interpret};
use kiln_lazy_runtime::{CompiledProgram, Runtime, RuntimeOptions};
use kiln_tensor::{DType, Element, Tensor};
use support::{
    FakeCompiler, FakeDevice, compiled, error_of, expect_same, graph, ramp, runtime, runtime_with,
};

/// A graph that removes as many elements as an integer specifies.
fn cut_by(dtype: DType) -> kiln_ir::Graph {
    graph(&format!(
        "graph @cut(%x: f32[A], %n: {dtype}[]) -> f32[m] where m <= A, m >= 0 {{
          bind %n -> (m)
          %y = slice %x {{starts = [0], sizes = [m], steps = [1]}}
          %z = neg %y
          return %z
        }}"
    ))
}

fn cuts<T: Element + TryFrom<u8>>() {
    let graph = cut_by(T::DTYPE);
    let program = compiled(&runtime(), &graph, true);
    for n in [3, 0, 5] {
        let Ok(n) = T::try_from(n) else { continue };
        expect_same(&program, &graph, &[ramp(&[5]), Tensor::scalar(n)]);
    }
}

#[test]
fn integers_of_every_width_become_sizes() {
    cuts::<i16>();
    cuts::<i32>();
    cuts::<i64>();
    cuts::<u8>();
    cuts::<u16>();
    cuts::<u32>();
    cuts::<u64>();
    let graph = cut_by(DType::I8);
    let program = compiled(&runtime(), &graph, true);
    expect_same(&program, &graph, &[ramp(&[5]), Tensor::scalar(2_i8)]);
    let program = compiled(&runtime(), &cut_by(DType::U64), true);
    let error = error_of(&program, &[ramp(&[5]), Tensor::scalar(u64::MAX)]);
    assert_eq!(error.code(), "E0825", "{error}");
}

/// Returns the value that it was created with.
struct Gives(Result<Vec<Tensor>, String>);

impl CustomOp for Gives {
    fn evaluate(&self, _arguments: &str, _operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
        self.0.clone()
    }
}

fn with_custom_op(text: &str, gives: Result<Vec<Tensor>, String>) -> CompiledProgram {
    let graph = kiln_ir::text::read(text, &kiln_ir::BlobMap::new()).unwrap();
    let mut custom_ops = CustomOps::new();
    custom_ops.register("gives", Arc::new(Gives(gives)));
    let options = RuntimeOptions::new().with_custom_ops(custom_ops);
    compiled(
        &runtime_with(FakeCompiler::default(), options),
        &graph,
        true,
    )
}

#[test]
fn results_of_custom_ops_are_checked() {
    let text = "graph @f(%x: f32[A]) -> f32[A] {
      %0: f32[A] = custom %x {name = \"gives\", arguments = \"\"}
      return %0
    }";
    let sized = "graph @f(%x: f32[A]) -> f32[n] where n >= 2 {
      %0: f32[n] = custom %x {name = \"gives\", arguments = \"\"} -> (n)
      return %0
    }";
    let run = |text, gives| {
        let program = with_custom_op(text, gives);
        program.run(&[ramp(&[3])]).map_err(|error| {
            let text = error.to_string();
            (error.code(), text)
        })
    };
    assert!(run(text, Ok(vec![ramp(&[3])])).is_ok());
    assert_eq!(run(sized, Ok(vec![ramp(&[7])])).unwrap()[0].shape(), [7]);
    let wrong_dtype = Tensor::zeros(DType::F64, &[3]).unwrap();
    for (text, gives) in [
        (text, Ok(vec![ramp(&[4])])),
        (text, Ok(vec![ramp(&[3, 1])])),
        (text, Ok(vec![wrong_dtype])),
        (text, Ok(Vec::new())),
        (text, Err("not today".to_owned())),
        (sized, Ok(vec![ramp(&[1])])),
        (sized, Ok(vec![ramp(&[2, 2])])),
    ] {
        let (code, message) = run(text, gives).unwrap_err();
        assert!(code.starts_with("E08"), "{code} {message}");
        assert!(message.contains("custom"), "{code} {message}");
    }
}

#[test]
fn every_kind_of_step_is_in_a_profile() {
    let text = "graph @all(%c: bool[], %x: f32[A, 4]) -> (f32[A, 2], i64[1], f32[A, 4], f32[n]) {
      %top, %at = top_k %x {k = 2, axis = 1, extremum = max}
      %sizes = dims {sizes = [A]}
      %y: f32[A, 4] = if %c, %x
        region(%a: f32[A, 4]) {
          %e: f32[A, 4] = exp %a
          yield %e
        }
        region(%b: f32[A, 4]) {
          yield %b
        }
      %row = reduce %x {function = max, axes = [1]}
      %places: i64[1, A], %count: i64[] = non_zero %row
      bind %count -> (n)
      %p = slice %places {starts = [0, 0], sizes = [1, n], steps = [1, 1]}
      %flat = reshape %p {dims = [n]}
      %found = gather %row, %flat {axis = 0}
      return %top, %sizes, %y, %found
    }";
    let graph = graph(text);
    let inputs = [Tensor::scalar(true), ramp(&[3, 4])];
    let program = compiled(&runtime(), &graph, false);
    expect_same(&program, &graph, &inputs);
    let (_, profile) = program.run_profiled(&inputs).unwrap();
    let kinds: Vec<_> = profile.iter().map(|step| step.kind).collect();
    for kind in ["kernel", "builtin", "dims", "bind", "if"] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    for step in &profile {
        let is_kernel = step.kind == "kernel";
        assert_eq!(step.class.is_some(), is_kernel, "{step:?}");
        assert!(step.bytes > 0, "{step:?}");
    }

    // Without a compiler every kernel is interpreted.
    let device = Arc::new(FakeDevice::default());
    let without = Arc::new(Runtime::new(None, device, RuntimeOptions::new()));
    let program = compiled(&without, &graph, false);
    expect_same(&program, &graph, &inputs);
    let (_, profile) = program.run_profiled(&inputs).unwrap();
    let kernels = profile.iter().filter(|step| step.kind == "kernel");
    let variants: Vec<_> = kernels.map(|step| step.variant.as_deref()).collect();
    assert!(
        variants
            .iter()
            .all(|variant| *variant == Some("interpreter")),
        "{variants:?}"
    );
}

#[test]
fn interpreted_kernels_fault_like_the_interpreter() {
    let graph = graph(
        "graph @f(%x: f32[A], %i: i64[B]) -> f32[B] {
      %g = gather %x, %i {axis = 0}
      return %g
    }",
    );
    let device = Arc::new(FakeDevice::default());
    let without = Arc::new(Runtime::new(None, device, RuntimeOptions::new()));
    let program = compiled(&without, &graph, true);
    let call = |i: i64| [ramp(&[3]), Tensor::from_slice(&[1], &[i]).unwrap()];
    expect_same(&program, &graph, &call(2));
    let error = error_of(&program, &call(3));
    assert_eq!(error.code(), "E0822", "{error}");
    assert!(!error.is_out_of_memory());
    assert!(format!("{program:?}").starts_with("CompiledProgram"));
}

#[test]
fn a_loop_over_the_iteration_limit_is_stopped() {
    let text = "graph @f(%trips: i64[], %x: f32[A]) -> f32[A] {
      %on: bool[] = constant [true]
      %y: f32[A] = loop %trips, %on, %x {carried = 1}
        region(%i: i64[], %a: f32[A]) {
          %more: bool[] = constant [true]
          %n: f32[A] = neg %a
          yield %more, %n
        }
      return %y
    }";
    let graph = graph(text);
    let mut options = RuntimeOptions::new();
    options.loop_iterations = 3;
    let program = compiled(
        &runtime_with(FakeCompiler::default(), options),
        &graph,
        true,
    );
    let call = |trips: i64| [Tensor::scalar(trips), ramp(&[2])];
    expect_same(&program, &graph, &call(3));
    for trips in [4, i64::MAX] {
        let error = error_of(&program, &call(trips));
        assert!(error.to_string().contains("loop"), "{error}");
        assert_eq!(error.code(), "E0833", "{error}");
    }
    // The next call counts from zero.
    expect_same(&program, &graph, &call(2));
}

/// A loop that yields one layer per iteration, and continues according to the text.
fn stacking(more: &str) -> String {
    format!(
        "graph @f(%trips: i64[], %x: f32[A], %c: bool[]) -> f32[n, A] {{
           %on: bool[] = constant [true]
           %y: f32[n, A] = loop %trips, %on, %x, %c {{carried = 0}} -> (n)
             region(%i: i64[], %a: f32[A], %d: bool[]) {{
               %true: bool[] = constant [true]
               %t = cast %i {{to = f32}}
               %s = mul %a, %t
               yield {more}, %s
             }}
           return %y
         }}"
    )
}

#[test]
fn loop_layers_are_stacked_with_known_and_unknown_trip_counts() {
    for more in ["%true", "%d"] {
        let graph = graph(&stacking(more));
        let program = compiled(&runtime(), &graph, true);
        for (trips, size) in [(0, 3), (1, 3), (2, 0), (5, 2), (17, 3)] {
            let call = [
                Tensor::scalar(trips as i64),
                ramp(&[size]),
                Tensor::scalar(true),
            ];
            expect_same(&program, &graph, &call);
        }
    }
}

#[test]
fn too_many_iterations_or_layers_are_refused_before_they_run() {
    let run = |more: &str, trips: i64, options: RuntimeOptions| {
        let graph = graph(&stacking(more));
        let limits = InterpretLimits {
            live_bytes: options.live_bytes,
            iterations: options.loop_iterations,
            ..InterpretLimits::default()
        };
        let program = compiled(
            &runtime_with(FakeCompiler::default(), options),
            &graph,
            true,
        );
        let call = [Tensor::scalar(trips), ramp(&[256]), Tensor::scalar(true)];
        let options = InterpretOptions {
            limits,
            ..InterpretOptions::default()
        };
        let (compiled, interpreted) = (program.run(&call), interpret(&graph, &call, &options));
        let interpreted = interpreted.err().map(|error| error.code());
        assert_eq!(
            compiled.err().map(|error| error.code()),
            interpreted,
            "{trips} trips"
        );
        interpreted
    };
    // They would run for half an hour or more.
    let begin = std::time::Instant::now();
    assert_eq!(run("%true", i64::MAX, RuntimeOptions::new()), Some("E0833"));
    assert_eq!(run("%true", 1 << 31, RuntimeOptions::new()), Some("E0832"));
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
    // A loop whose condition is data runs up to its limits.
    let few = || {
        let mut options = RuntimeOptions::new();
        (options.loop_iterations, options.live_bytes) = (100, 1 << 20);
        options
    };
    assert_eq!(run("%d", i64::MAX, few()), Some("E0833"));
    assert_eq!(run("%true", 50, few()), None);
}
