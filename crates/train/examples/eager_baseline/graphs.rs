//! The functions that are measured: losses of some inputs.

use kiln::{Tensor, Var, WindowOptions};
use kiln_train::losses;

/// A scalar function of tensors.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The least speed-up that is aimed at.
    pub(crate) aim: f64,
    /// The inputs' sizes; gradients are taken with respect to all.
    pub(crate) shapes: &'static [&'static [usize]],
    pub(crate) loss: fn(&[Var]) -> Var,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "tiny: 6 ops, 64 elements",
        aim: 20.0,
        shapes: &[&[64], &[64]],
        loss: |x| ((&x[0] * &x[1] + 1.0).tanh() * &x[1]).square().sum(..),
    },
    Case {
        name: "simple: 4 ops, 64 K elements",
        aim: 5.0,
        shapes: &[&[256, 256], &[256]],
        loss: |x| (&x[0] * 0.5 + &x[1]).relu().mean(..),
    },
    Case {
        name: "chain: 14 ops, 64 K elements",
        aim: 10.0,
        shapes: &[&[256, 256], &[256, 256]],
        loss: |x| {
            let mut y = x[0].clone();
            for _ in 0..3 {
                y = (y * &x[1] + 0.1).tanh().square();
            }
            (y - &x[0]).mean(..)
        },
    },
    Case {
        name: "matmul + bias + relu: 32 x 256 x 256",
        aim: 15.0,
        shapes: &[&[32, 256], &[256, 256], &[256]],
        loss: |x| (x[0].matmul(&x[1]) + &x[2]).relu().sum(..),
    },
    Case {
        name: "perceptron: 32 x 64-128-128-10",
        aim: 10.0,
        shapes: &[
            &[32, 64],
            &[64, 128],
            &[128],
            &[128, 128],
            &[128],
            &[128, 10],
            &[32, 10],
        ],
        loss: |x| {
            let h = (x[0].matmul(&x[1]) + &x[2]).relu();
            let h = (h.matmul(&x[3]) + &x[4]).relu();
            losses::mean_squared_error(&h.matmul(&x[5]).softmax(-1), &x[6])
        },
    },
    Case {
        name: "convolutions: 8 x 3 x 16 x 16",
        aim: 10.0,
        shapes: &[&[8, 3, 16, 16], &[16, 3, 3, 3], &[16, 16, 3, 3]],
        loss: |x| {
            let padded = WindowOptions::default().padding(1);
            let h = x[0].conv(&x[1], padded).relu();
            let h = h.max_pool(2, WindowOptions::default().stride(2));
            h.conv(&x[2], padded).relu().mean(..)
        },
    },
    Case {
        name: "attention: 4 x 32 x 64",
        aim: 10.0,
        shapes: &[&[4, 32, 64], &[64, 64], &[64, 64], &[64, 64]],
        loss: |x| {
            let (q, k, v) = (x[0].matmul(&x[1]), x[0].matmul(&x[2]), x[0].matmul(&x[3]));
            let weights = (q.matmul(k.transpose()) * 0.125).softmax(-1);
            (weights.matmul(v) + &x[0]).square().mean(..)
        },
    },
];

/// The inputs of a case.
pub(crate) fn inputs(case: &Case) -> Vec<Tensor> {
    // Without equal elements, whose maximum would depend on rounding.
    let mut state = 1_u32;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    let tensors = case.shapes.iter().map(|shape| {
        let count: usize = shape.iter().product();
        Tensor::from_vec(shape, (0..count).map(|_| next()).collect())
    });
    tensors.collect::<Result<_, _>>().unwrap_or_default()
}
