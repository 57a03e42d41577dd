//! The validator rejects wrong kernels: values, accesses out of bounds, leaks, gradients, speed.
//!
//! The faults are real: compilers that compile another kernel, an executor that loses memory, a modified gradient. This
//! program is also its own guard program, since the devices with faults must be registered there too.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stdout, reason = "this program is its own test harness")]
#![allow(
    unsafe_code,
    reason = "an artifact is given the buffers of another, to be caught"
)]

use kiln::internals::autodiff::{Cotangents, GradientRequest, differentiate};
use kiln::internals::backend::{
    Artifact, CompileError, CompileObserver, CompilerWrapper, ExecuteError, ExecutorWrapper,
    IsaLevel, KernelCompiler, KernelExecutor, Memory, Schedule, Target,
};
use kiln::internals::codegen_llvm::LlvmCompiler;
use kiln::internals::device::{DeviceEntry, DeviceProblem, DeviceSetup};
use kiln::internals::ir::Graph;
use kiln::internals::kernel::{VerifiedKernel, text, verify};
use kiln::internals::native::NativeExecutor;
use kiln::{Cache, Device, Model, Options, Source};
use kiln_service::validate::guard::{GuardProgram, main_if_guard};
use kiln_service::{CheckFailure, KernelOptimizer, KernelValidator, Outcome, PerformanceBounds};
use std::sync::Arc;
use std::time::Duration;

/// A fault of a device.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// Sums become differences.
    WrongValue,
    /// Loops run 64 elements too far.
    OutOfBounds,
    /// Memory is never freed.
    Leak,
}

impl Fault {
    const ALL: [Self; 3] = [Self::WrongValue, Self::OutOfBounds, Self::Leak];

    fn key(self) -> &'static str {
        match self {
            Self::WrongValue => "wrong-value",
            Self::OutOfBounds => "out-of-bounds",
            Self::Leak => "leak",
        }
    }
}

/// The CPU with a fault.
struct Faulty(Fault);

impl DeviceEntry for Faulty {
    fn key(&self) -> &str {
        self.0.key()
    }

    fn levels(&self) -> Vec<String> {
        vec!["portable".to_owned()]
    }

    fn target(&self, _level: Option<&str>) -> Result<Target, DeviceProblem> {
        Ok(LlvmCompiler::target(IsaLevel::Portable))
    }

    fn compiler(&self, _setup: &DeviceSetup) -> Result<Box<dyn KernelCompiler>, DeviceProblem> {
        Ok(Box::new(FaultyCompiler(LlvmCompiler::new(), self.0)))
    }

    fn executor(&self, setup: &DeviceSetup) -> Result<Arc<dyn KernelExecutor>, DeviceProblem> {
        let cpu = NativeExecutor::new().with_memory_limits(setup.memory);
        Ok(match self.0 {
            Fault::Leak => Arc::new(Leaking(cpu)),
            _ => Arc::new(cpu),
        })
    }
}

struct FaultyCompiler(LlvmCompiler, Fault);

impl CompilerWrapper for FaultyCompiler {
    type Inner = LlvmCompiler;

    fn inner(&self) -> &LlvmCompiler {
        &self.0
    }

    fn version(&self) -> String {
        format!("{} {}", KernelCompiler::version(&self.0), self.1.key())
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let right = self.0.compile(kernel, target, schedule, observer)?;
        let printed = text::print(kernel.kernel());
        let altered = match self.1 {
            Fault::WrongValue => printed.replace(" + ", " - "),
            Fault::OutOfBounds => printed
                .replace("[s0]", "[s0 + 64]")
                .replace("< s0", "< s0 + 64"),
            Fault::Leak => return Ok(right),
        };
        assert_ne!(altered, printed, "the fault has to be in the kernel");
        let altered = verify(text::read(&altered).unwrap()).unwrap();
        let schedules = self.0.schedules(&altered, target);
        let wrong = self.0.compile(
            &altered,
            target,
            &schedules.last().unwrap().schedule,
            observer,
        )?;
        let mut parts = wrong.to_parts();
        parts.buffers = right.buffers.clone();
        parts.contract = right.contract.clone();
        // SAFETY: none; the process that runs this is expected to crash.
        Ok(unsafe { Artifact::trusted(parts) })
    }
}

/// Memory that is allocated and never freed.
struct Leaking(NativeExecutor);

impl ExecutorWrapper for Leaking {
    type Inner = NativeExecutor;

    fn inner(&self) -> &NativeExecutor {
        &self.0
    }

    fn alloc(&self, bytes: usize) -> Result<Memory, ExecuteError> {
        let memory = self.0.alloc(bytes)?;
        std::mem::forget(memory.clone());
        Ok(memory)
    }
}

const SUM: &str = "graph @sum(%x: f32[N], %y: f32[N]) -> f32[N] {
  %z = add %x, %y
  return %z
}";

fn graph(text: &str) -> Graph {
    let model = Options::new()
        .device(Device::interpreter())
        .load(Source::text(text))
        .unwrap();
    kiln::diagnose::graph(&model, kiln::diagnose::Stage::Import).unwrap()
}

fn model(graph: &Graph, device: Device) -> Model {
    let options = Options::new()
        .device(device)
        .cache(Cache::off())
        .threads(1)
        .shared_kernels(false);
    let model = options.load(Source::graph(graph.clone())).unwrap();
    model.compile().unwrap();
    model
}

fn faulty(fault: Fault) -> Device {
    fault.key().parse().unwrap()
}

fn options() -> Options {
    Options::new().device(Device::cpu()).cache(Cache::off())
}

fn validator() -> KernelValidator {
    KernelValidator::default().with_guard_program(GuardProgram::current().unwrap())
}

fn failure(outcome: Outcome) -> CheckFailure {
    match outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("expected a failed check, found {other:?}"),
    }
}

fn a_good_kernel_passes_every_check() {
    let graph = graph(SUM);
    let model = model(&graph, Device::cpu());
    let validator = validator();
    for outcome in [
        validator.check_correctness(&graph, &model).unwrap(),
        validator.check_memory(&graph, &model).unwrap(),
        validator.check_gradients(&graph, &options()).unwrap(),
    ] {
        assert!(matches!(outcome, Outcome::Passed(_)), "{outcome:?}");
    }
}

fn a_wrong_value_is_rejected() {
    let graph = graph(SUM);
    let model = model(&graph, faulty(Fault::WrongValue));
    let failure = failure(validator().check_correctness(&graph, &model).unwrap());
    assert_eq!(failure.what, "output z");
    assert!(failure.place.contains("element "), "{failure}");
    assert!(failure.amount.contains("an error of"), "{failure}");
}

fn an_access_out_of_bounds_is_rejected() {
    let graph = graph(SUM);
    let model = model(&graph, faulty(Fault::OutOfBounds));
    let failure = failure(validator().check_memory(&graph, &model).unwrap());
    assert_eq!(failure.what, "an access out of bounds");
    assert!(failure.place.starts_with("inputs [["), "{failure}");
}

fn a_leak_is_rejected() {
    let graph = graph(SUM);
    let model = model(&graph, faulty(Fault::Leak));
    let failure = failure(validator().check_memory(&graph, &model).unwrap());
    assert_eq!(failure.what, "memory that is not freed");
}

fn a_wrong_gradient_is_rejected() {
    let graph = graph(
        "graph @f(%x: f32[N], %w: f32[N]) -> f32[N] {
      %p = mul %x, %w
      %y = tanh %p
      return %y
    }",
    );
    let request = GradientRequest {
        outputs: vec![0],
        inputs: vec![0, 1],
        cotangents: Cotangents::Inputs,
    };
    let mut joint = differentiate(&graph, &request).unwrap();
    let right = validator()
        .check_joint(&graph, &joint, &request, &options())
        .unwrap();
    assert!(matches!(right, Outcome::Passed(_)), "{right:?}");
    // The gradients of x and w, swapped.
    joint.gradients.swap(0, 1);
    let failure = failure(
        validator()
            .check_joint(&graph, &joint, &request, &options())
            .unwrap(),
    );
    assert!(
        failure.what.starts_with("the gradient with respect to x"),
        "{failure}"
    );
    assert!(failure.amount.contains("expected a slope of"), "{failure}");
}

/// Eight inputs, the last of which has this weight in a sum of terms.
fn of_eight_inputs(weight: f64) -> Graph {
    graph(&format!(
        "graph @f(%a: f32[N], %b: f32[N], %c: f32[N], %d: f32[N], %e: f32[N], %f: f32[N], %g: f32[N], %h: f32[N]) -> f32[N] {{
      %weight: f32[] = constant [{weight}]
      %ab = mul %a, %b
      %cd = mul %c, %d
      %ef = mul %e, %f
      %tanh = tanh %ab
      %exp = exp %cd
      %left = add %tanh, %exp
      %right = mul %ef, %g
      %sum = add %left, %right
      %last = mul %h, %weight
      %y = add %sum, %last
      return %y
    }}"
    ))
}

fn one_wrong_gradient_among_eight_is_named() {
    let graph = of_eight_inputs(1.0);
    let request = GradientRequest {
        outputs: vec![0],
        inputs: (0..8).collect(),
        cotangents: Cotangents::Inputs,
    };
    let joint = differentiate(&graph, &request).unwrap();
    let right = validator()
        .check_joint(&graph, &joint, &request, &options())
        .unwrap();
    let Outcome::Passed(how) = right else {
        panic!("expected a passed check, found {right:?}");
    };
    assert!(how.starts_with("24 gradients"), "{how}");
    // Each gradient in turn is replaced by another one.
    for (place, name) in ["a", "b", "c", "d", "e", "f", "g", "h"].iter().enumerate() {
        let mut wrong = joint.clone();
        wrong.gradients[place] = joint.gradients[(place + 1) % 8];
        let failure = failure(
            validator()
                .check_joint(&graph, &wrong, &request, &options())
                .unwrap(),
        );
        let expected = format!("the gradient with respect to {name}, as defined");
        assert_eq!(failure.what, expected, "{failure}");
    }
    // One is too large by a thousandth, and is found in a group as it would be alone.
    let wrong = differentiate(&of_eight_inputs(1.001), &request).unwrap();
    let failure = failure(
        validator()
            .check_joint(&graph, &wrong, &request, &options())
            .unwrap(),
    );
    let expected = "the gradient with respect to h, as defined";
    assert_eq!(failure.what, expected, "{failure}");
}

fn a_kernel_that_is_too_slow_is_rejected() {
    let graph = graph(SUM);
    let options = Options::new().device(Device::cpu()).cache(Cache::off());
    let optimizer = KernelOptimizer {
        measuring: Duration::from_millis(5),
        ..KernelOptimizer::default()
    };
    let mut kernel = optimizer.optimize_cpu_kernel(&graph, &options).unwrap();
    let bounds = PerformanceBounds::default();
    kernel.profile.time = kernel.plain.time * 2;
    let failure = failure(bounds.check(&kernel.profile, &kernel.plain));
    assert!(failure.amount.contains("found 2.0"), "{failure}");
}

fn another_program_is_no_guard() {
    let graph = graph(SUM);
    let model = model(&graph, Device::cpu());
    let validator = KernelValidator::default().with_guard_program(GuardProgram::at("/bin/echo"));
    assert_eq!(
        validator.check_memory(&graph, &model).unwrap_err().code(),
        "E1424"
    );
}

fn main() {
    for fault in Fault::ALL {
        Device::register(Faulty(fault)).unwrap();
    }
    main_if_guard();
    let tests: [(&str, fn()); 8] = [
        (
            "a_good_kernel_passes_every_check",
            a_good_kernel_passes_every_check,
        ),
        ("a_wrong_value_is_rejected", a_wrong_value_is_rejected),
        (
            "an_access_out_of_bounds_is_rejected",
            an_access_out_of_bounds_is_rejected,
        ),
        ("a_leak_is_rejected", a_leak_is_rejected),
        ("a_wrong_gradient_is_rejected", a_wrong_gradient_is_rejected),
        (
            "one_wrong_gradient_among_eight_is_named",
            one_wrong_gradient_among_eight_is_named,
        ),
        (
            "a_kernel_that_is_too_slow_is_rejected",
            a_kernel_that_is_too_slow_is_rejected,
        ),
        ("another_program_is_no_guard", another_program_is_no_guard),
    ];
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    for (name, test) in tests {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}
