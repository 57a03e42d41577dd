//! The networks that are measured: the same sizes, initial spreads and optimisers as in the scripts of the peers.

use kiln::{DType, Options, Tensor, Var, WindowOptions};
use kiln_train::{Adam, AttentionSizes, ConvSizes, Network, Sgd, Trainer, losses};

/// One network.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The size of its batches.
    pub(crate) size: usize,
    pub(crate) trainer: fn(Options) -> Trainer,
    pub(crate) batch: fn(usize) -> Vec<(&'static str, Tensor)>,
}

pub(crate) const CASES: &[Case] = &[
    Case {
        name: "mlp",
        size: 128,
        trainer: mlp,
        batch: |size| classified(&[size, 784], 10),
    },
    Case {
        name: "cnn",
        size: 64,
        trainer: cnn,
        batch: |size| classified(&[size, 1, 28, 28], 10),
    },
    Case {
        name: "transformer",
        size: 8,
        trainer: transformer,
        batch: |size| pair(&[size, 128, 256], &[size, 128, 256]),
    },
    Case {
        name: "lstm",
        size: 8,
        trainer: lstm,
        batch: |size| pair(&[50, size, 128], &[50, size, 128]),
    },
];

/// 784-512-512-10, cross-entropy, SGD.
fn mlp(options: Options) -> Trainer {
    Trainer::new("mlp", Sgd::default())
        .learning_rate(0.01)
        .input("x", DType::F32, ["B".into(), 784.into()])
        .input("labels", DType::I64, ["B".into()])
        .options(options)
        .build(|network, inputs| {
            let h = network.linear("fc1", &inputs[0], 784, 512).relu();
            let h = network.linear("fc2", &h, 512, 512).relu();
            losses::cross_entropy(&network.linear("fc3", &h, 512, 10), &inputs[1])
        })
        .unwrap()
}

/// Two convolutions of 3x3 with 16 and 32 channels, pooled by 2 each, and a linear layer; Adam.
fn cnn(options: Options) -> Trainer {
    Trainer::new("cnn", Adam::default())
        .input(
            "x",
            DType::F32,
            ["B".into(), 1.into(), 28.into(), 28.into()],
        )
        .input("labels", DType::I64, ["B".into()])
        .options(options)
        .build(|network, inputs| {
            let padded = WindowOptions::default().padding(1);
            let halved = WindowOptions::default().stride(2);
            let h = network.conv("conv1", &inputs[0], ConvSizes::new(1, 16, 3), padded);
            let h = h.relu().max_pool(2, halved);
            let h = network.conv("conv2", &h, ConvSizes::new(16, 32, 3), padded);
            let h = h.relu().max_pool(2, halved);
            let h = h.reshape([h.size(0), (32_usize * 7 * 7).into()]);
            losses::cross_entropy(&network.linear("out", &h, 32 * 7 * 7, 10), &inputs[1])
        })
        .unwrap()
}

fn feed_forward(network: &Network, x: &Var) -> Var {
    let h = network.linear("linear1", x, 256, 1024).relu();
    network.linear("linear2", &h, 1024, 256)
}

/// A block of width 256 with 4 heads and a feed-forward of 1024, norms first.
pub(crate) fn block(network: &Network, x: &Var) -> Var {
    let sizes = AttentionSizes {
        width: 256,
        heads: 4,
        is_causal: false,
    };
    let h = network.layer_norm("norm1", x, 256);
    let x = x + network.attention("self_attn", &h, sizes);
    let h = network.layer_norm("norm2", &x, 256);
    &x + feed_forward(network, &h)
}

/// A block of width 256 with 4 heads and a feed-forward of 1024, norms first; mean squared error; Adam.
fn transformer(options: Options) -> Trainer {
    Trainer::new("transformer", Adam::default())
        .input("x", DType::F32, ["B".into(), "T".into(), 256.into()])
        .input("y", DType::F32, ["B".into(), "T".into(), 256.into()])
        .options(options)
        .build(|network, inputs| {
            losses::mean_squared_error(&block(network, &inputs[0]), &inputs[1])
        })
        .unwrap()
}

/// 50 steps, batches of 8, 128 inputs and states; mean squared error; Adam.
fn lstm(options: Options) -> Trainer {
    Trainer::new("lstm", Adam::default())
        .input("x", DType::F32, ["T".into(), "B".into(), 128.into()])
        .input("y", DType::F32, ["T".into(), "B".into(), 128.into()])
        .options(options)
        .build(|network, inputs| {
            let all = network.lstm("lstm", &inputs[0], 128, 128);
            losses::mean_squared_error(&all, &inputs[1])
        })
        .unwrap()
}

fn values(shape: &[usize], seed: usize) -> Tensor {
    let count: usize = shape.iter().product();
    let value = |index: usize| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    Tensor::from_slice(shape, &(0..count).map(value).collect::<Vec<_>>()).unwrap()
}

fn classified(shape: &[usize], classes: usize) -> Vec<(&'static str, Tensor)> {
    let count = shape.first().copied().unwrap_or(0);
    let labels: Vec<i64> = (0..count)
        .map(|index| (index * 7 % classes) as i64)
        .collect();
    let labels = Tensor::from_slice(&[count], &labels).unwrap();
    vec![("x", values(shape, 1)), ("labels", labels)]
}

pub(crate) fn pair(x: &[usize], y: &[usize]) -> Vec<(&'static str, Tensor)> {
    vec![("x", values(x, 1)), ("y", values(y, 2))]
}
