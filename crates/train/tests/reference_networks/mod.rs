//! The networks of `reference/make.py`, built from variables.

use kiln::{Step, Var, WindowOptions};

/// A network, the sizes of its input, and its parameters with their sizes, in the order of `make.py`.
pub(crate) struct Network {
    pub(crate) name: &'static str,
    pub(crate) function: fn(&Parameters, &Var) -> Var,
    pub(crate) input: &'static [usize],
    pub(crate) parameters: &'static [(&'static str, &'static [usize])],
}

/// Parameters by name.
pub(crate) struct Parameters(Vec<(&'static str, Var)>);

impl Parameters {
    pub(crate) fn new(network: &Network, variables: &[Var]) -> Self {
        let names = network.parameters.iter().map(|(name, _)| *name);
        Self(names.zip(variables.iter().cloned()).collect())
    }

    fn get(&self, name: &str) -> &Var {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found
            .unwrap_or_else(|| panic!("there is no parameter {name}"))
            .1
    }

    fn linear(&self, name: &str, x: &Var) -> Var {
        let weight = self.get(&format!("{name}.weight")).transpose();
        x.matmul(weight) + self.get(&format!("{name}.bias"))
    }

    fn conv(&self, name: &str, x: &Var, padding: i64) -> Var {
        let options = WindowOptions::default().padding(padding);
        x.conv(self.get(&format!("{name}.weight")), options)
            + self.channels(&format!("{name}.bias"))
    }

    fn channels(&self, name: &str) -> Var {
        self.get(name).unsqueeze(1).unsqueeze(2)
    }
}

pub(crate) const NETWORKS: &[Network] = &[
    Network {
        name: "mlp",
        function: |p, x| p.linear("fc2", &p.linear("fc1", x).tanh()),
        input: &[5, 3],
        parameters: &[
            ("fc1.weight", &[4, 3]),
            ("fc1.bias", &[4]),
            ("fc2.weight", &[2, 4]),
            ("fc2.bias", &[2]),
        ],
    },
    Network {
        name: "cnn",
        function: cnn,
        input: &[3, 2, 4, 4],
        parameters: &[
            ("conv.weight", &[3, 2, 3, 3]),
            ("conv.bias", &[3]),
            ("norm.weight", &[3]),
            ("norm.bias", &[3]),
            ("out.weight", &[2, 12]),
            ("out.bias", &[2]),
        ],
    },
    Network {
        name: "unet",
        function: unet,
        input: &[2, 1, 4, 6],
        parameters: &[
            ("down.weight", &[2, 1, 3, 3]),
            ("down.bias", &[2]),
            ("low.weight", &[3, 2, 3, 3]),
            ("low.bias", &[3]),
            ("up.weight", &[3, 2, 2, 2]),
            ("up.bias", &[2]),
            ("out.weight", &[1, 4, 1, 1]),
            ("out.bias", &[1]),
        ],
    },
    Network {
        name: "transformer",
        function: transformer,
        input: &[2, 3, 4],
        parameters: &[
            ("norm.weight", &[4]),
            ("norm.bias", &[4]),
            ("attention.in_proj_weight", &[12, 4]),
            ("attention.in_proj_bias", &[12]),
            ("attention.out_proj.weight", &[4, 4]),
            ("attention.out_proj.bias", &[4]),
            ("linear1.weight", &[6, 4]),
            ("linear1.bias", &[6]),
            ("linear2.weight", &[4, 6]),
            ("linear2.bias", &[4]),
        ],
    },
    Network {
        name: "lstm",
        function: lstm,
        input: &[4, 2, 3],
        parameters: &[
            ("lstm.weight_ih_l0", &[12, 3]),
            ("lstm.weight_hh_l0", &[12, 3]),
            ("lstm.bias_ih_l0", &[12]),
            ("lstm.bias_hh_l0", &[12]),
        ],
    },
    Network {
        name: "experts",
        function: experts,
        input: &[4, 3],
        parameters: &[
            ("gate.weight", &[3, 3]),
            ("gate.bias", &[3]),
            ("expert0.weight", &[2, 3]),
            ("expert0.bias", &[2]),
            ("expert1.weight", &[2, 3]),
            ("expert1.bias", &[2]),
            ("expert2.weight", &[2, 3]),
            ("expert2.bias", &[2]),
        ],
    },
];

fn halved() -> WindowOptions {
    WindowOptions::default().stride(2)
}

fn cnn(p: &Parameters, x: &Var) -> Var {
    let h = p.conv("conv", x, 1);
    let centred = &h - h.mean_keep([0, 2, 3]);
    let variance = centred.square().mean_keep([0, 2, 3]);
    let h =
        centred * (variance + 1e-5).rsqrt() * p.channels("norm.weight") + p.channels("norm.bias");
    let pooled = h.relu().max_pool(2, halved());
    p.linear("out", &pooled.reshape([3, 12]))
}

fn unet(p: &Parameters, x: &Var) -> Var {
    let down = p.conv("down", x, 1).tanh();
    let low = p.conv("low", &down.max_pool(2, halved()), 1).tanh();
    let up = low.conv_transpose(p.get("up.weight"), halved(), 0) + p.channels("up.bias");
    p.conv("out", &up.concat(&[&down], 1), 0)
}

fn transformer(p: &Parameters, x: &Var) -> Var {
    let centred = x - x.mean_keep(-1);
    let variance = centred.square().mean_keep(-1);
    let h = centred * (variance + 1e-5).rsqrt() * p.get("norm.weight") + p.get("norm.bias");
    let weight = p.get("attention.in_proj_weight").transpose();
    let projected = h.matmul(weight) + p.get("attention.in_proj_bias");
    let split = projected.reshape([2, 3, 3, 2, 2]).permute(&[2, 0, 3, 1, 4]);
    let part = |index: i64| split.slice(0, index, index + 1).squeeze(&[0]);
    let scores = part(0).matmul(part(1).transpose()) * 2.0_f64.sqrt().recip();
    let (row, column) = (x.positions(3).unsqueeze(1), x.positions(3));
    let scores = row
        .less(column)
        .select(scores.scalar(f64::NEG_INFINITY), &scores);
    let mixed = scores.softmax(-1).matmul(part(2)).permute(&[0, 2, 1, 3]);
    let x = x + p.linear("attention.out_proj", &mixed.reshape([2, 3, 4]));
    let wide = p.linear("linear1", &x).gelu();
    &x + p.linear("linear2", &wide)
}

fn lstm(p: &Parameters, x: &Var) -> Var {
    let biases = p.get("lstm.bias_ih_l0") + p.get("lstm.bias_hh_l0");
    let projected = x.matmul(p.get("lstm.weight_ih_l0").transpose()) + biases;
    let of_state = p.get("lstm.weight_hh_l0").transpose();
    let zero = x.scalar(0.0).broadcast_to([2, 3]);
    let results = projected.scan(&[&zero, &zero], &[&of_state], |row, states, captures| {
        let sums = row + states[0].matmul(&captures[0]);
        let gate = |index: i64| sums.slice(1, 3 * index, 3 * index + 3);
        let c = gate(1).sigmoid() * &states[1] + gate(0).sigmoid() * gate(2).tanh();
        let h = gate(3).sigmoid() * c.tanh();
        Step {
            states: vec![h.clone(), c],
            outputs: vec![h],
        }
    });
    results[2].clone()
}

fn experts(p: &Parameters, x: &Var) -> Var {
    let gates = p.linear("gate", x).softmax(1);
    let mut sum = x.scalar(0.0);
    for index in 0..3 {
        let share = gates.slice(1, index, index + 1);
        sum = p.linear(&format!("expert{index}"), x).tanh() * share + sum;
    }
    sum
}
