//! A warm call into given tensors allocates nothing.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Backend, Cache, DType, Model, Options, Tensor};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is the system allocator's doing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_call_into_given_tensors_allocates_nothing() {
    let text = "graph @mlp(%x: f32[B, 8], %w: f32[8, N], %b: f32[N]) -> (f32[B, N], f32[N]) {
      %0 = matmul %x, %w
      %1 = add %0, %b
      %2 = relu %1
      %3 = reduce %2 {function = sum, axes = [0]}
      return %2, %3
    }";
    let options = Options::new()
        .backend(Backend::Llvm)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    let model = Model::from_text_with(text, options).unwrap();
    let inputs = [
        Tensor::full(&[3, 8], 0.5f32).unwrap(),
        Tensor::full(&[8, 5], 0.25f32).unwrap(),
        Tensor::full(&[5], 1.0f32).unwrap(),
    ];
    let zeros = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
    let mut outputs = [zeros(&[3, 5]), zeros(&[5])];
    for _ in 0..3 {
        model.run_into(&inputs, &mut outputs).unwrap();
    }
    assert!(model.wait_for_compiles(std::time::Duration::from_secs(30)));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..100 {
        model.run_into(&inputs, &mut outputs).unwrap();
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [2.0; 15]);
    assert_eq!(outputs[1].to_vec::<f32>().unwrap(), [6.0; 5]);
    assert_eq!(allocations, 0, "in a hundred calls");
    // Tensors that do not fit are replaced, and shared ones are not written to.
    let kept = outputs[0].clone();
    let mut others = [outputs[0].clone(), zeros(&[1])];
    let inputs = [
        Tensor::full(&[3, 8], -1.0f32).unwrap(),
        inputs[1].clone(),
        inputs[2].clone(),
    ];
    model.run_into(&inputs, &mut others).unwrap();
    assert_eq!(kept.to_vec::<f32>().unwrap(), [2.0; 15]);
    assert_eq!(others[0].to_vec::<f32>().unwrap(), [0.0; 15]);
    assert_eq!(others[1].shape(), [5]);
    assert_eq!(
        model
            .run_into(&inputs, &mut others[..1])
            .unwrap_err()
            .code(),
        "E0893"
    );
}
