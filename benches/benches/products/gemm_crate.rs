//! The crate `gemm` as a peer: a library of matrix products in Rust, on one thread.

use gemm::Parallelism;

/// Two operands and a result, row-major.
pub(crate) struct Product {
    shape: [usize; 3],
    x: Vec<f32>,
    y: Vec<f32>,
    z: Vec<f32>,
}

impl Product {
    /// `x` is `m` by `k`, `y` is `k` by `n`.
    ///
    /// # Panics
    /// If there are fewer or more elements.
    pub(crate) fn new([m, k, n]: [usize; 3], x: Vec<f32>, y: Vec<f32>) -> Self {
        assert_eq!((x.len(), y.len()), (m * k, k * n), "elements of a shape");
        let z = vec![0.0; m * n];
        Self {
            shape: [m, k, n],
            x,
            y,
            z,
        }
    }

    /// Multiplies.
    pub(crate) fn run(&mut self) {
        let [m, k, n] = self.shape;
        // SAFETY: `new` checked that the three hold `m * k`, `k * n` and `m * n` elements, so with these strides (one from
        // column to column, a row's length from row to row) all accesses are in bounds; `z` is borrowed mutably and aliases
        // neither of the others.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                self.z.as_mut_ptr(),
                1,
                n as isize,
                false,
                self.x.as_ptr(),
                1,
                k as isize,
                self.y.as_ptr(),
                1,
                n as isize,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }

    /// The result of the last `run`.
    pub(crate) fn result(&self) -> &[f32] {
        &self.z
    }
}
