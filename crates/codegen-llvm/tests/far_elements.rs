//! Elements whose offset, in elements or in bytes, exceeds 32 bits: read, written and counted correctly.
//!
//! Operands of several GiB reserve address space but hardly any memory, since untouched pages are not backed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::sync::Arc;

use kiln_backend::{
    Builtin, BuiltinOperand, CallerOnly, Fault, FaultCause, KernelExecutor, Launch, LaunchContext,
    Memory, MemorySlice, TaskPool,
};
use kiln_kernel::VerifiedKernel;
use kiln_native::NativeExecutor;
use kiln_tensor::{DType, Element, Tensor};
use kiln_testkit::kernels::{BackwardPool, Variant};
use support::{compiled, kernel, symbols};

/// One past 31 bits; twice it is past 32 bits.
const FAR: i64 = (1 << 31) + 1;

/// An operand: its memory, of which only some elements are touched.
struct Operand {
    memory: Memory,
    dtype: DType,
}

impl Operand {
    /// Zeros, for elements at offsets up to `last`.
    fn reaching<T: Element>(device: &NativeExecutor, last: i64) -> Self {
        let bytes = usize::try_from(last + 1).unwrap() * size_of::<T>();
        Self {
            memory: device.alloc(bytes).unwrap(),
            dtype: T::DTYPE,
        }
    }

    /// An operand of these contiguous elements.
    fn of<T: Element>(device: &NativeExecutor, elements: &[T]) -> Self {
        let operand = Self::reaching::<T>(device, elements.len() as i64 - 1);
        operand.put(device, 0, elements);
        operand
    }

    /// Writes elements at an offset from the start, without compiled code.
    fn put<T: Element>(&self, device: &NativeExecutor, distance: i64, elements: &[T]) {
        let source = Tensor::from_slice(&[elements.len()], elements).unwrap();
        let uploaded = device.upload(&source).unwrap();
        let shape = [elements.len()];
        let operand = BuiltinOperand {
            dtype: T::DTYPE,
            shape: &shape,
        };
        let bytes = size_of_val(elements);
        let from = whole(&uploaded);
        let to = MemorySlice {
            memory: &self.memory,
            offset: distance as usize * size_of::<T>(),
            bytes,
        };
        let mut execution = device.begin();
        // SAFETY: only this test uses the memory.
        let copied =
            unsafe { execution.run_builtin(&Builtin::Copy, &[(from, operand)], &[(to, operand)]) };
        copied.unwrap();
        execution.finish().unwrap();
    }

    /// The elements at some offsets.
    fn at<T: Element>(&self, device: &NativeExecutor, distances: &[i64]) -> Vec<T> {
        assert_eq!(self.dtype, T::DTYPE);
        let element = |&distance: &i64| {
            let offset = distance as usize * size_of::<T>();
            let element = device.download(&self.memory, offset, T::DTYPE, &[]);
            element.unwrap().item::<T>().unwrap()
        };
        distances.iter().map(element).collect()
    }
}

fn whole(memory: &Memory) -> MemorySlice<'_> {
    MemorySlice {
        memory,
        offset: 0,
        bytes: memory.bytes(),
    }
}

/// Runs one variant of a kernel on the given operands.
fn run(
    device: &NativeExecutor,
    variant: &Variant,
    pool: &Arc<dyn TaskPool>,
    symbols: &[i64],
    operands: &[&Operand],
) -> Option<Fault> {
    let context = LaunchContext {
        symbols,
        threads: pool.threads(),
        caches: device.caches(),
    };
    let memories = operands.iter().map(|operand| &operand.memory);
    let buffers: Vec<_> = memories.map(whole).collect();
    let launch = Launch {
        buffers: &buffers,
        numbers: &variant.artifact.numbers(&context).unwrap(),
    };
    let mut execution = device.clone().with_pool(Arc::clone(pool)).begin();
    // SAFETY: each operand has separate memory, which only this test uses.
    unsafe { execution.launch(&variant.loaded, &launch) }.unwrap();
    execution.finish().unwrap()
}

fn pools() -> [Arc<dyn TaskPool>; 2] {
    [Arc::new(CallerOnly), Arc::new(BackwardPool::new(3))]
}

/// Every variant of a kernel at some sizes, on one thread and as if on three.
fn for_each_variant(
    kernel: &VerifiedKernel,
    sizes: &[(&str, i64)],
    mut check: impl FnMut(&dyn Fn(&[&Operand]) -> Option<Fault>, &str),
) {
    let device = NativeExecutor::new();
    let symbols = symbols(kernel, sizes);
    for variant in compiled(kernel) {
        let name = format!("{} {}", variant.artifact.target, variant.artifact.schedule);
        for pool in pools() {
            check(
                &|operands| run(&device, &variant, &pool, &symbols, operands),
                &name,
            );
        }
    }
}

/// Strides as a constant and as a size, for fewer elements than a vector has and for more.
#[test]
fn strides_beyond_32_bits_reach_their_elements() {
    let device = NativeExecutor::new();
    for (n, stride, written) in [
        (3, FAR, "S"),
        (3, FAR, "2147483649"),
        (20, (1 << 28) + 1, "S"),
        (20, (1 << 28) + 1, "268435457"),
    ] {
        let sizes = [("N", n), ("S", stride)];
        let text = |operands: &str| {
            let where_clause = if written == "S" { " where S >= 1" } else { "" };
            let operands = operands.replace("STRIDE", written);
            let kernel = format!(
                "kernel @far({operands}){where_clause} {{
                  outer i < N
                  store %y[i] = %x[i] + 1
                }}"
            );
            self::kernel(&kernel)
        };
        let distances: Vec<i64> = (0..n).map(|i| i * stride).collect();
        let near: Vec<i8> = (0..n as i8).map(|i| 3 * i - 7).collect();
        let next: Vec<i8> = near.iter().map(|x| x + 1).collect();

        let spread = text("%x: in i8[N], %y: out i8[N] strides [STRIDE]");
        for_each_variant(&spread, &sizes, |run, name| {
            let x = Operand::of(&device, &near);
            let y = Operand::reaching::<i8>(&device, (n - 1) * stride);
            assert_eq!(run(&[&x, &y]), None);
            assert_eq!(y.at::<i8>(&device, &distances), next, "{name}");
        });

        let far = Operand::reaching::<i8>(&device, (n - 1) * stride);
        for (&distance, &element) in distances.iter().zip(&near) {
            far.put(&device, distance, &[element]);
        }
        let collect = text("%x: in i8[N] strides [STRIDE], %y: out i8[N]");
        for_each_variant(&collect, &sizes, |run, name| {
            let y = Operand::reaching::<i8>(&device, n - 1);
            assert_eq!(run(&[&far, &y]), None);
            let places: Vec<i64> = (0..n).collect();
            assert_eq!(y.at::<i8>(&device, &places), next, "{name}");
        });
    }
}

/// The elements that an affine index reaches, in bounds and out of bounds.
#[test]
fn guards_compare_all_bits_of_indices_beyond_32_bits() {
    let device = NativeExecutor::new();
    let kernel = kernel(
        "kernel @guarded(%x: in i8[N], %y: out i8[K]) {
          outer i < K
          store %y[i] = %x[i * 2147483649 - 1] if inside else 7
        }",
    );
    let x = Operand::reaching::<i8>(&device, 2 * FAR + 1);
    x.put(&device, FAR - 1, &[1_i8]);
    x.put(&device, 2 * FAR - 1, &[2_i8, 3]);
    // The last index truncated to 32 bits.
    x.put(&device, (3 * FAR - 1) % (1 << 32), &[99_i8]);
    for (n, expected) in [
        (2 * FAR + 2, [7, 1, 2, 7]),
        (2 * FAR, [7, 1, 2, 7]),
        (2 * FAR - 1, [7, 1, 7, 7]),
        (FAR - 1, [7, 7, 7, 7]),
    ] {
        for_each_variant(&kernel, &[("N", n), ("K", 4)], |run, name| {
            let y = Operand::reaching::<i8>(&device, 3);
            assert_eq!(run(&[&x, &y]), None);
            let found = y.at::<i8>(&device, &[0, 1, 2, 3]);
            assert_eq!(found, expected, "{name}, {n} elements");
        });
    }
}

/// Indices that are data: in bounds, and rejected if only their low bits are in bounds.
#[test]
fn checked_indices_beyond_32_bits_are_reached_or_faults() {
    let device = NativeExecutor::new();
    let kernel = kernel(
        "kernel @gather(%at: in i64[K], %x: in i8[N], %y: out i8[K]) {
          outer k < K
          store %y[k] = %x[%at[k]]
        }",
    );
    let n = 2 * FAR + 6;
    let x = Operand::reaching::<i8>(&device, n - 1);
    let inside = [0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, n - 1, 5];
    let elements = [1_i8, 2, 3, 4, 5, 6, 7];
    for (&at, &element) in inside.iter().zip(&elements) {
        x.put(&device, at, &[element]);
    }
    // Enough to fill vectors, and a remainder.
    let many: Vec<i64> = inside.iter().cycle().take(37).copied().collect();
    let outside = [-1, n, n + (1 << 32), 1 << 40, i64::MAX, i64::MIN];
    for_each_variant(&kernel, &[("N", n), ("K", 37)], |run, name| {
        let y = Operand::reaching::<i8>(&device, 36);
        assert_eq!(run(&[&Operand::of(&device, &many), &x, &y]), None);
        let expected: Vec<i8> = elements.iter().cycle().take(37).copied().collect();
        let places: Vec<i64> = (0..37).collect();
        assert_eq!(y.at::<i8>(&device, &places), expected, "{name}");
        for (position, index) in outside.into_iter().enumerate() {
            let mut bad = many.clone();
            bad[6 * position + 1] = index;
            let fault = run(&[&Operand::of(&device, &bad), &x, &y]);
            let cause = fault.map(|fault| fault.cause);
            assert_eq!(cause, Some(FaultCause::IndexOutOfRange), "{name}, {index}");
        }
    });
}

/// Elements that are adjacent within a row, in rows that are far apart: products, row reductions and windows.
#[test]
fn rows_beyond_32_bits_are_read_by_every_schedule() {
    let device = NativeExecutor::new();
    let (m, k, stride) = (18, 8, (1 << 26) + 16);
    let row = |i: i64| -> Vec<f32> { (0..k).map(|r| ((i * 3 + r) % 5 - 2) as f32).collect() };
    let x = Operand::reaching::<f32>(&device, (m - 1) * stride + k - 1);
    for i in 0..m {
        x.put(&device, i * stride, &row(i));
    }
    let operand = format!("%x: in f32[M, 8] strides [{stride}, 1]");

    // Every row times the identity, doubled: opaque to the compiler.
    let product = kernel(&format!(
        "kernel @product({operand}, %w: in f32[8, N], %y: out f32[M, N]) {{
          outer m < M, n < N
          s = reduce add[k < 8] %x[m, k] * %w[k, n]
          store %y[m, n] = s
        }}"
    ));
    let doubled: Vec<f32> = (0..k * k)
        .map(|at| if at / k == at % k { 2.0 } else { 0.0 })
        .collect();
    for_each_variant(&product, &[("M", m), ("N", k)], |run, name| {
        let w = Operand::of(&device, &doubled);
        let y = Operand::reaching::<f32>(&device, m * k - 1);
        assert_eq!(run(&[&x, &w, &y]), None);
        for i in 0..m {
            let places: Vec<i64> = (i * k..(i + 1) * k).collect();
            let expected: Vec<f32> = row(i).iter().map(|x| 2.0 * x).collect();
            assert_eq!(y.at::<f32>(&device, &places), expected, "{name}, row {i}");
        }
    });

    let sums = kernel(&format!(
        "kernel @rows({operand}, %y: out f32[M, 8] strides [{stride}, 1]) {{
          outer m < M
          s = reduce add[r < 8] %x[m, r]
          store %y[m, j < 8] = %x[m, j] - s
        }}"
    ));
    for_each_variant(&sums, &[("M", m)], |run, name| {
        let y = Operand::reaching::<f32>(&device, (m - 1) * stride + k - 1);
        assert_eq!(run(&[&x, &y]), None);
        for i in 0..m {
            let places: Vec<i64> = (0..k).map(|j| i * stride + j).collect();
            let sum: f32 = row(i).iter().sum();
            let expected: Vec<f32> = row(i).iter().map(|x| x - sum).collect();
            assert_eq!(y.at::<f32>(&device, &places), expected, "{name}, row {i}");
        }
    });

    let windows = kernel(&format!(
        "kernel @windows({operand}, %y: out f32[M, 8]) {{
          outer h < M, w < 8
          s = reduce add[p < 3, q < 3] %x[h + p - 1, w + q - 1] if inside else 0.0
          store %y[h, w] = s
        }}"
    ));
    let around = |h: i64, w: i64| -> f32 {
        let rows = (h - 1).max(0)..(h + 2).min(m);
        let columns = (w - 1).max(0)..(w + 2).min(k);
        rows.map(|i| columns.clone().map(|j| row(i)[j as usize]).sum::<f32>())
            .sum()
    };
    let expected: Vec<f32> = (0..m * k).map(|at| around(at / k, at % k)).collect();
    for_each_variant(&windows, &[("M", m)], |run, name| {
        let y = Operand::reaching::<f32>(&device, m * k - 1);
        assert_eq!(run(&[&x, &y]), None);
        let places: Vec<i64> = (0..m * k).collect();
        assert_eq!(y.at::<f32>(&device, &places), expected, "{name}");
    });
}

/// The last element of a row of more than 2^31 elements, and results without elements.
#[test]
fn sizes_beyond_32_bits_are_computed_correctly() {
    let device = NativeExecutor::new();
    let ends = kernel(
        "kernel @ends(%x: in u8[M, N], %y: out u8[M], %z: out i64[M]) where N >= 2 {
          outer i < M
          store %y[i] = %x[i, N - 1] - %x[i, 1]
          store %z[i] = i * N + N - 1
        }",
    );
    let n = FAR + 2;
    let x = Operand::reaching::<u8>(&device, 2 * n - 1);
    x.put(&device, n - 1, &[40_u8, 0, 10]);
    x.put(&device, 2 * n - 1, &[60_u8]);
    for_each_variant(&ends, &[("M", 2), ("N", n)], |run, name| {
        let y = Operand::reaching::<u8>(&device, 1);
        let z = Operand::reaching::<i64>(&device, 1);
        assert_eq!(run(&[&x, &y, &z]), None);
        assert_eq!(y.at::<u8>(&device, &[0, 1]), [40, 50], "{name}");
        assert_eq!(z.at::<i64>(&device, &[0, 1]), [n - 1, 2 * n - 1], "{name}");
    });

    let nothing = kernel(
        "kernel @nothing(%x: in f32[M, N], %y: out f32[M, N]) {
          outer i < M, j < N
          store %y[i, j] = %x[i, j]
        }",
    );
    for sizes in [[("M", FAR), ("N", 0)], [("M", 0), ("N", 1 << 40)]] {
        for_each_variant(&nothing, &sizes, |run, _| {
            let none = Operand::reaching::<f32>(&device, -1);
            let other = Operand::reaching::<f32>(&device, -1);
            assert_eq!(run(&[&none, &other]), None);
        });
    }
}

/// Loops of more than 2^31 iterations, over one element.
#[test]
fn loops_beyond_32_bits_run_every_iteration() {
    let device = NativeExecutor::new();
    let n = FAR + 2;
    let count = kernel(
        "kernel @count(%x: in u8[N] strides [0], %y: out i64[]) {
          s = reduce add[r < N] i64(%x[r])
          store %y[] = s
        }",
    );
    let last = kernel(
        "kernel @last(%x: in u8[N] strides [0], %y: out i64[]) where N >= 1 {
          s = reduce argmax_last[r < N] %x[r]
          store %y[] = s
        }",
    );
    // The second kernel takes seconds with any schedule.
    for (kernel, variants, expected) in [(count, usize::MAX, 3 * n), (last, 1, n - 1)] {
        let symbols = symbols(&kernel, &[("N", n)]);
        let [pool, _] = pools();
        for variant in compiled(&kernel).iter().take(variants) {
            let y = Operand::reaching::<i64>(&device, 0);
            let x = Operand::of(&device, &[3_u8]);
            assert_eq!(run(&device, variant, &pool, &symbols, &[&x, &y]), None);
            let name = &variant.artifact.schedule;
            assert_eq!(y.at::<i64>(&device, &[0]), [expected], "{name}");
        }
    }
}

/// Every element of a tensor of more than 2^31 elements.
#[test]
#[ignore = "writes two gigabytes"]
fn more_than_two_to_the_31_elements_are_computed() {
    let device = NativeExecutor::new();
    let kernel = kernel(
        "kernel @bytes(%x: in u8[N] strides [0], %y: out u8[N]) {
          outer i < N
          store %y[i] = %x[i] + u8(i)
        }",
    );
    const PART: usize = 1 << 24;
    let expected: Vec<u8> = (0..PART).map(|at| (at + 5) as u8).collect();
    for_each_variant(&kernel, &[("N", FAR + 4)], |run, name| {
        let y = Operand::reaching::<u8>(&device, FAR + 3);
        assert_eq!(run(&[&Operand::of(&device, &[5_u8]), &y]), None);
        for start in (0..FAR + 4).step_by(PART) {
            let length = (FAR + 4 - start).min(PART as i64) as usize;
            let part = device.download(&y.memory, start as usize, DType::U8, &[length]);
            let part = part.unwrap();
            let right = part.as_bytes().unwrap() == &expected[..length];
            assert!(right, "{name}, from {start}");
        }
    });
}
