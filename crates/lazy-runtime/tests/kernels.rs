//! Kernels by themselves: compiled when needed, ahead, once; run on tensors.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use kiln_kernel::VerifiedKernel;
use kiln_lazy_runtime::{LazyCompilationContext, LazyCompilationManager, RuntimeOptions};
use kiln_tensor::Tensor;
use support::{FakeCompiler, Offer, ramp, runtime, runtime_with};

fn kernel(text: &str) -> VerifiedKernel {
    let kernel = kiln_kernel::text::read(text).unwrap_or_else(|errors| panic!("{errors}"));
    kiln_kernel::verify(kernel).unwrap_or_else(|errors| panic!("{errors}"))
}

const SUM: &str = "kernel @sum(%x: in f32[B, N], %y: out f32[B]) {
  outer i < B
  s = reduce add[j < N] %x[i, j]
  store %y[i] = s
}";

#[test]
fn a_context_compiles_once_and_executes() {
    let runtime = runtime();
    let context = LazyCompilationContext::new(&kernel(SUM), &[2, 3]).unwrap();
    assert_eq!(context.operation(), "sum");
    assert_eq!(
        (context.input_shapes(), context.output_shapes()),
        (&[vec![2, 3]][..], &[vec![2]][..])
    );
    assert!(
        !context.is_compiled() && context.kernel().is_none() && context.compile_time().is_none()
    );
    let x = Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    let outputs = context.execute(&runtime, &[x]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [6.0, 15.0]);
    assert!(
        context.is_compiled() && context.kernel().is_some() && context.compile_time().is_some()
    );
    context.ensure_compiled(&runtime).unwrap();
    assert_eq!(runtime.stats().compilations, 1);
    assert_eq!(
        context
            .execute(&runtime, &[ramp(&[3, 2])])
            .unwrap_err()
            .code(),
        "E0869"
    );
    assert_eq!(
        LazyCompilationContext::new(&kernel(SUM), &[-1, 3])
            .unwrap_err()
            .code(),
        "E0864"
    );
}

#[test]
fn an_inout_buffer_starts_from_what_is_given() {
    let text = "kernel @add_to(%x: in f32[N], %y: inout f32[N]) {
      outer i < N
      store add %y[i] = %x[i]
    }";
    let context = LazyCompilationContext::new(&kernel(text), &[2]).unwrap();
    let tensor = |values: [f32; 2]| Tensor::from_slice(&[2], &values).unwrap();
    let held = tensor([10.0, 20.0]);
    let outputs = context
        .execute(&runtime(), &[tensor([1.0, 2.0]), held.clone()])
        .unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [11.0, 22.0]);
    assert_eq!(held.to_vec::<f32>().unwrap(), [10.0, 20.0]);
}

#[test]
fn a_fault_is_an_error() {
    let text = "kernel @pick(%x: in f32[N], %i: in i64[M], %y: out f32[M]) {
      outer m < M
      store %y[m] = %x[%i[m]]
    }";
    let kernel = kernel(text);
    let symbols: Vec<i64> = kernel.kernel().dims().symbols().map(|_| 2).collect();
    let context = LazyCompilationContext::new(&kernel, &symbols).unwrap();
    let indices = Tensor::from_slice(&[2], &[0i64, 7]).unwrap();
    let error = context
        .execute(&runtime(), &[ramp(&[2]), indices])
        .unwrap_err();
    assert_eq!(error.code(), "E0822");
    assert!(
        error
            .to_string()
            .starts_with("an index is out of range in kernel (pick)"),
        "{error}"
    );
}

#[test]
fn the_manager_compiles_each_variant_once() {
    let compiler = FakeCompiler {
        offer: Offer::MultipleOfFour,
        ..FakeCompiler::default()
    };
    let compiles = Arc::clone(&compiler.compiles);
    let manager = LazyCompilationManager::new(runtime_with(compiler, RuntimeOptions::new()));
    let kernel = kernel(SUM);
    let variants = [vec![4, 1], vec![3, 1], vec![8, 2], vec![5, 5]];
    assert_eq!(manager.precompile(&kernel, &variants).unwrap(), 2);
    thread::scope(|scope| {
        for n in 0..8 {
            let (manager, kernel) = (&manager, &kernel);
            scope.spawn(move || manager.get_or_compile(kernel, &[n, 3]).map(drop));
        }
    });
    assert_eq!(compiles.load(Ordering::SeqCst), 2);
    let stats = manager.compilation_stats();
    assert_eq!(
        (stats.compilations, stats.unique_kernels, stats.hits),
        (2, 1, 10)
    );
    assert!(stats.to_report().contains("hit rate"));
    manager.clear_cache();
    assert_eq!(manager.runtime().stats().unique_kernels, 0);
    manager.get_or_compile(&kernel, &[4, 3]).unwrap();
    assert_eq!(compiles.load(Ordering::SeqCst), 3);
}
