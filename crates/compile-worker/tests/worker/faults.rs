//! Compilers that crash, hang and exhaust memory: one kernel gets a typed error, and nothing is left behind.
//!
//! `KILN_WORKER_ROUNDS` is the number of rounds per fault, 10 by default; `KILN_WORKER_HANG_MS` is the time limit for
//! compiles that hang, a second by default.

use std::time::Duration;

use kiln_backend::{CompileError, KernelCompiler};
use kiln_compile_worker::{CompileLimits, WorkerCompiler, WorkerError};

use crate::support::{
    children, compile, compiler, compiler_of, descriptors_at_rest, kernel, limits, program_at,
    resident,
};

fn rounds() -> usize {
    let rounds = std::env::var("KILN_WORKER_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(10)
}

fn error_of(error: &CompileError) -> &WorkerError {
    error.source.downcast_ref().expect("an error of the worker")
}

/// Compiles kernels named after a fault, each followed by a good one; then checks for leftovers.
fn survive(fault: &str, limits: CompileLimits, code: &str, check: impl Fn(&WorkerError)) {
    let compiler = compiler(limits, 2);
    let good = kernel("good");
    let expected = compile(&compiler, &good).expect("it compiles");
    let round = |number: usize| {
        let error = compile(&compiler, &kernel(&format!("{fault}_{number}"))).unwrap_err();
        assert_eq!(error.code, code, "{error}");
        check(error_of(&error));
        assert_eq!(compile(&compiler, &good).expect("the next one"), expected);
    };
    for number in 0..5 {
        round(number);
    }
    let before = (descriptors_at_rest(2), resident());
    for number in 0..rounds() {
        round(5 + number);
    }
    assert_eq!(descriptors_at_rest(2), before.0);
    let grown = resident().saturating_sub(before.1);
    // A remembered kernel takes a few hundred bytes; allocators take whole pages.
    assert!(
        grown < 8 << 20,
        "{grown} bytes more after {} rounds",
        rounds()
    );
    assert_eq!(compiler.n_lost() as usize, 5 + rounds());
    drop(compiler);
    assert_eq!(children(), [0_u32; 0]);
}

#[test]
fn a_compiler_that_aborts_is_an_error_of_one_kernel() {
    survive("abort", limits(), "E0509", |error| {
        assert!(error.to_string().contains("signal: 6"), "{error}");
    });
}

#[test]
fn a_compiler_that_exits_is_an_error_of_one_kernel() {
    survive("exit", limits(), "E0509", |error| {
        assert!(error.to_string().contains("exit status: 0"), "{error}");
    });
}

#[test]
fn a_compiler_that_writes_to_null_is_an_error_of_one_kernel() {
    survive("write_to_null", limits(), "E0509", |error| {
        assert!(error.to_string().contains("signal: 11"), "{error}");
    });
}

#[test]
fn a_compiler_that_hangs_is_killed_at_its_time_limit() {
    let limit_of_hangs = std::env::var("KILN_WORKER_HANG_MS").ok();
    let limit_of_hangs = limit_of_hangs.and_then(|limit| limit.parse().ok());
    let limit_of_hangs = Duration::from_millis(limit_of_hangs.unwrap_or(1000));
    let mut limits = limits();
    limits.wall_clock = limit_of_hangs;
    survive("hang", limits, "E0510", |error| {
        let WorkerError::Time { given, limit } = error else {
            panic!("{error}");
        };
        assert_eq!(*limit, limit_of_hangs);
        assert!(given >= limit, "{given:?}");
    });
}

#[test]
fn a_compiler_that_allocates_too_much_hits_the_memory_limit_of_its_worker() {
    let mut limits = limits();
    limits.address_space = 1 << 30;
    survive("eat_memory", limits, "E0511", |error| {
        assert!(matches!(error, WorkerError::Memory { limit, .. } if *limit == 1 << 30));
    });
}

#[test]
fn a_compiler_that_spins_is_ended_by_its_cpu_time_limit() {
    let mut limits = limits();
    limits.cpu = Duration::from_secs(1);
    let compiler = compiler(limits, 1);
    let error = compile(&compiler, &kernel("spin")).unwrap_err();
    assert_eq!(error.code, "E0510", "{error}");
    assert!(matches!(error_of(&error), WorkerError::Time { limit, .. } if *limit == limits.cpu));
    compile(&compiler, &kernel("good")).expect("the next one");
}

#[test]
fn a_compiler_panic_or_stack_overflow_is_reported() {
    let compiler = compiler(limits(), 1);
    for (name, said) in [
        ("panic", "a pass that panics"),
        ("overflow_the_stack", "overflow"),
    ] {
        let error = compile(&compiler, &kernel(name)).unwrap_err();
        assert_eq!(error.code, "E0509", "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
    compile(&compiler, &kernel("good")).expect("the next one");
}

#[test]
fn a_kernel_that_crashed_its_worker_is_remembered_and_fails_no_other_kernel() {
    let compiler = compiler(limits(), 1);
    let fatal = kernel("abort");
    let first = compile(&compiler, &fatal).unwrap_err().to_string();
    for _ in 0..3 {
        assert_eq!(compile(&compiler, &fatal).unwrap_err().to_string(), first);
    }
    assert_eq!(compiler.n_lost(), 1);
    // Another schedule of it is independent.
    let target = compiler.host();
    let fallback = kiln_backend::Schedule::new(kiln_backend::FALLBACK_SCHEDULE);
    let other = compiler.compile(&fatal, &target, &fallback, &mut kiln_backend::Unobserved);
    assert_eq!(other.unwrap_err().code, "E0509");
    assert_eq!(compiler.n_lost(), 2);
}

/// A remembered kernel is retried after a while, when it has been forgotten, and in workers of another program.
#[test]
fn a_kernel_that_crashed_its_worker_is_retried_after_a_change() {
    let fatal = kernel("abort");
    let is_tried = |compiler: &WorkerCompiler| {
        let before = compiler.n_lost();
        assert_eq!(compile(compiler, &fatal).unwrap_err().code, "E0509");
        compiler.n_lost() > before
    };
    let long = compiler(limits(), 1).with_retry_after(Duration::from_secs(86_400));
    assert!(is_tried(&long) && !is_tried(&long));
    long.forget_failures();
    assert!(is_tried(&long) && !is_tried(&long));

    let short = compiler(limits(), 1).with_retry_after(Duration::ZERO);
    assert!(is_tried(&short) && is_tried(&short));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("worker");
    let install = || {
        let fresh = folder.path().join("fresh");
        std::fs::copy(std::env::current_exe().unwrap(), &fresh).unwrap();
        std::fs::rename(&fresh, &path).unwrap();
    };
    install();
    let elsewhere = compiler_of(program_at(&path), limits(), 1);
    assert!(is_tried(&elsewhere) && !is_tried(&elsewhere));
    install();
    assert!(is_tried(&elsewhere));
}

#[test]
fn code_larger_than_a_message_is_an_error_of_one_kernel() {
    // The code of the good kernel fits in a message on every target.
    const MESSAGE: usize = 8 << 10;
    let mut limits = limits();
    limits.message = MESSAGE;
    let compiler = compiler(limits, 1);
    // The texts of both are short.
    let sum: Vec<String> = (0..100).map(|n| format!("sin(%x[i] * {n}.5)")).collect();
    let source = format!(
        "kernel @long(%x: in f32[N], %y: out f32[N]) {{ outer i < N store %y[i] = {} }}",
        sum.join(" + ")
    );
    let long = kiln_kernel::verify(kiln_kernel::text::read(&source).unwrap()).unwrap();
    let error = compile(&compiler, &long).unwrap_err();
    assert_eq!(error.code, "E0512", "{error}");
    let WorkerError::Message { given, limit } = error_of(&error) else {
        panic!("{error}");
    };
    assert!(*limit == MESSAGE && given > limit, "{given} {limit}");
    // The worker continues.
    assert_eq!(compiler.n_lost(), 0);
    assert_eq!(
        compile(&compiler, &kernel("good"))
            .map(|_| ())
            .map_err(|error| error.code),
        Ok(())
    );
}

#[test]
fn an_allocation_failure_inside_llvm_is_the_same_error() {
    let mut limits = limits();
    // Enough memory to start, but too little for the code of a long kernel.
    let sum: Vec<String> = (0..2_000).map(|n| format!("sin(%x[i] * {n}.5)")).collect();
    let source = format!(
        "kernel @long(%x: in f32[N], %y: out f32[N]) {{ outer i < N store %y[i] = {} }}",
        sum.join(" + ")
    );
    let read = kiln_kernel::text::read(&source);
    let Ok(long) = read.map_err(|errors| errors.render(&source)) else {
        return;
    };
    let long = kiln_kernel::verify(long).expect("a kernel that is right");
    limits.address_space = 400 << 20;
    let compiler = compiler(limits, 1);
    let error = compile(&compiler, &long).unwrap_err();
    assert_eq!(error.code, "E0511", "{error}");
    compile(&compiler, &kernel("good")).expect("the next one");
}
