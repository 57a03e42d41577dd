//! The crate `gemm` as a peer: a library of matrix products in Rust, on one thread.

use gemm::Parallelism;

/// Two operands and a result, by rows.
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
    /// When there are fewer or more elements than that.
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
        // SAFETY: `new` saw to it that the three hold `m * k`, `k * n` and `m * n` elements, so with these strides (one
        // from column to column, a row's length from row to row) all that is read or written lies within them; `z` is
        // borrowed mutably and is neither of the others.
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

    /// What the last `run` came to.
    pub(crate) fn result(&self) -> &[f32] {
        &self.z
    }
}
