//! Workers' results equal those of the in-process compiler.

use std::time::{Duration, Instant};

use kiln_backend::{CompileObserver, CompilePhase, KernelCompiler, Listing, Schedule};
use kiln_codegen_llvm::LlvmCompiler;
use kiln_kernel::{VerifiedKernel, text, verify};
use kiln_symbolic_shape::DimLimits;

use crate::support::{compile, compiler, kernel, limits};

fn kernels() -> Vec<VerifiedKernel> {
    let sources = [
        "kernel @linear(%x: in f32[M, K], %w: const f32[K, N], %y: out f32[M, N]) {
           outer m < M, n < N
           acc = reduce add[k < K] %x[m, k] * %w[k, n]
           store %y[m, n] = relu(acc)
         }",
        "kernel @sum(%x: in f32[M, K], %y: out f32[M]) {
           outer m < M
           acc = reduce add[k < K] %x[m, k]
           store %y[m] = acc
         }",
        "kernel @waves(%x: in f32[N], %y: out f32[N]) {
           outer i < N
           store %y[i] = tanh(exp(%x[i]) * 0.5)
         }",
    ];
    let read = |source: &&str| {
        let kernel = text::read(source).map_err(|errors| errors.render(source));
        verify(kernel.expect("the text of a kernel")).expect("a kernel that is right")
    };
    let mut kernels: Vec<_> = sources.iter().map(read).collect();
    kernels.push(kernel("double"));
    kernels
}

#[test]
fn workers_produce_the_same_artifacts_and_listings_as_in_process() {
    let (here, there) = (LlvmCompiler::new(), compiler(limits(), 2));
    let target = here.host();
    assert_eq!(
        (there.version(), there.host()),
        (here.version(), target.clone())
    );
    for kernel in kernels() {
        let candidates = here.schedules(&kernel, &target);
        assert_eq!(candidates.len(), there.schedules(&kernel, &target).len());
        for candidate in candidates {
            let schedule = &candidate.schedule;
            let made = |compiler: &dyn KernelCompiler| {
                compiler
                    .compile(&kernel, &target, schedule, &mut kiln_backend::Unobserved)
                    .expect("it compiles")
            };
            assert_eq!(made(&there), made(&here), "{} {schedule}", kernel.name());
            for listing in [Listing::Source, Listing::Assembly] {
                let text = |compiler: &dyn KernelCompiler| {
                    let text = compiler.listing(&kernel, &target, schedule, listing);
                    text.expect("it compiles")
                };
                assert_eq!(text(&there), text(&here));
            }
        }
    }
}

#[test]
fn errors_of_the_compiler_keep_their_codes_and_the_worker() {
    let there = compiler(limits(), 1);
    let kernel = kernel("double");
    let schedule = Schedule::new(kiln_backend::FALLBACK_SCHEDULE);
    let mut elsewhere = there.host();
    "no such level".clone_into(&mut elsewhere.level);
    let error = |compiler: &dyn KernelCompiler| {
        let made = compiler.compile(
            &kernel,
            &elsewhere,
            &schedule,
            &mut kiln_backend::Unobserved,
        );
        let error = made.unwrap_err();
        (error.code, error.to_string())
    };
    assert_eq!(error(&there), error(&LlvmCompiler::new()));
    assert_eq!(error(&there).0, "E0507");
    assert_eq!(there.n_lost(), 0);
}

#[derive(Default)]
struct Phases(Vec<(bool, CompilePhase)>);

impl CompileObserver for Phases {
    fn begin(&mut self, phase: CompilePhase) {
        self.0.push((true, phase));
    }

    fn end(&mut self, phase: CompilePhase) {
        self.0.push((false, phase));
    }
}

#[test]
fn compile_phases_are_reported_across_processes() {
    let kernel = kernel("double");
    let phases = |compiler: &dyn KernelCompiler| {
        let target = compiler.host();
        let schedule = compiler.schedules(&kernel, &target).remove(0).schedule;
        let mut phases = Phases::default();
        compiler
            .compile(&kernel, &target, &schedule, &mut phases)
            .expect("it compiles");
        phases.0
    };
    let there = phases(&compiler(limits(), 1));
    assert_eq!(there, phases(&LlvmCompiler::new()));
    assert_eq!(there.len(), 8);
}

struct Unwanted;

impl CompileObserver for Unwanted {
    fn begin(&mut self, _phase: CompilePhase) {}
    fn end(&mut self, _phase: CompilePhase) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn an_abandoned_compile_is_killed_and_not_remembered() {
    let compiler = compiler(limits(), 1);
    let (target, hang) = (compiler.host(), kernel("hang"));
    compile(&compiler, &kernel("good")).expect("it compiles");
    let schedule = compiler.schedules(&hang, &target).remove(0).schedule;
    for _ in 0..2 {
        let begin = Instant::now();
        let error = compiler
            .compile(&hang, &target, &schedule, &mut Unwanted)
            .unwrap_err();
        assert_eq!(error.code, "E0515", "{error}");
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "long before its limit"
        );
    }
}

#[test]
fn a_kernel_of_raised_limits_is_compiled_in_a_worker() {
    let sum: Vec<String> = (0..80).map(|i| format!("S{i}")).collect();
    let n = sum.join(" + ");
    let source = format!(
        "kernel @long(%x: in f32[{n}], %y: out f32[{n}]) {{
           outer i < {n}
           store %y[i] = relu(%x[i])
         }}"
    );
    let raised = DimLimits {
        max_terms: 100,
        max_size: 1000,
        ..DimLimits::default()
    };
    let kernel = text::read_within(&source, raised).map_err(|errors| errors.render(&source));
    let kernel = verify(kernel.expect("the text of a kernel")).expect("a kernel that is right");
    // Within the default limits, part of the sum becomes a separate size.
    let within = text::read(&source).map_err(|errors| errors.render(&source));
    let within = within.expect("the text of a kernel");
    assert_ne!(text::print(&within), text::print(&kernel));
    let expected = compile(&LlvmCompiler::new(), &kernel).expect("it compiles");
    let made = compile(&compiler(limits(), 1), &kernel).expect("it compiles");
    assert_eq!(made, expected);
}

/// Interleaves many rounds of both and compares the medians, so that other load on the machine affects both.
#[test]
fn compiling_in_a_worker_adds_little_overhead() {
    let (here, there) = (LlvmCompiler::new(), compiler(limits(), 1));
    for kernel in kernels() {
        let (mut direct, mut remote) = (Vec::new(), Vec::new());
        for _ in 0..21 {
            for (times, compiler) in [
                (&mut direct, &here as &dyn KernelCompiler),
                (&mut remote, &there),
            ] {
                let begin = Instant::now();
                compile(compiler, &kernel).expect("it compiles");
                times.push(begin.elapsed());
            }
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        let (direct, remote) = (median(&mut direct), median(&mut remote));
        println!(
            "@{}: {direct:?} in process, {remote:?} in a worker",
            kernel.name()
        );
        // The target is 2 ms; the rest is for development builds on busy machines.
        assert!(
            remote < direct * 2 + Duration::from_millis(20),
            "{direct:?} {remote:?}"
        );
    }
}
