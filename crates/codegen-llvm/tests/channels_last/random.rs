//! Random networks over images of one size: values with and without innermost channels meet in all kinds of ops.
//!
//! `KILN_TEST_NETS=FIRST..END` checks other seeds than the first ones.

use std::fmt::Write as _;
use std::ops::Range;

use kiln_testkit::random::SplitMix64;

use super::{Elements, compare};

/// A network under construction.
struct Net {
    text: String,
    random: SplitMix64,
    /// The images so far: names, and their channels.
    pictures: Vec<(String, u64)>,
    n_names: usize,
}

impl Net {
    fn name(&mut self) -> String {
        self.n_names += 1;
        format!("%v{}", self.n_names)
    }

    fn op(&mut self, op: &str) -> String {
        let name = self.name();
        writeln!(self.text, "  {name} = {op}").unwrap();
        name
    }

    fn weights(&mut self, shape: &str) -> String {
        let name = self.name();
        writeln!(self.text, "  {name}: f32[{shape}] = weights").unwrap();
        name
    }

    /// One of the most recent images, most often the last one.
    fn pick(&mut self) -> (String, u64) {
        let back = self.random.below(2) * self.random.below(4);
        let at = self.pictures.len().saturating_sub(1 + back as usize);
        self.pictures[at].clone()
    }

    fn channels(&mut self) -> u64 {
        [1, 3, 7, 8, 12, 16, 24, 32, 40][self.random.below(9) as usize]
    }

    fn conv(&mut self, x: &str, c: u64, o: u64, groups: u64) -> String {
        let size = [1, 1, 3, 3, 5][self.random.below(5) as usize];
        let dilation = 1 + self.random.below(2);
        let padding = dilation * (size - 1) / 2;
        let w = self.weights(&format!("{o}, {}, {size}, {size}", c / groups));
        self.op(&format!(
            "conv {x}, {w} {{window(1, {dilation}, {padding}), groups = {groups}, out = f32}}"
        ))
    }

    fn grow(&mut self) {
        let (x, c) = self.pick();
        let (name, channels) = match self.random.below(16) {
            0..=3 => {
                let o = self.channels();
                let sum = self.conv(&x, c, o, 1);
                let bias = self.weights(&format!("{o}, 1, 1"));
                let sum = self.op(&format!("add {sum}, {bias}"));
                (self.op(&format!("tanh {sum}")), o)
            }
            4 => (self.conv(&x, c, c, c), c),
            5 => {
                let factor = 1 + self.random.below(2);
                let groups = if c % 4 == 0 { 4 } else { 1 };
                (self.conv(&x, c, c * factor, groups), c * factor)
            }
            6 => {
                let function = ["relu", "sigmoid", "neg"][self.random.below(3) as usize];
                (self.op(&format!("{function} {x}")), c)
            }
            7 => {
                let (y, d) = self.pick();
                let y = if c == d { y } else { self.conv(&y, d, c, 1) };
                (self.op(&format!("add {x}, {y}")), c)
            }
            8 | 9 => {
                let (y, d) = self.pick();
                let w = self.conv(&x, c, 8, 1);
                let w = self.op(&format!("tanh {w}"));
                (
                    self.op(&format!("concat {x}, {y}, {w} {{axis = 1}}")),
                    c + d + 8,
                )
            }
            10 => {
                let mean = self.op(&format!(
                    "reduce {x} {{function = max, axes = [2, 3], keep_dims}}"
                ));
                let w = self.weights(&format!("{c}, {c}, 1, 1"));
                let gate = self.op(&format!(
                    "conv {mean}, {w} {{window(1, 1, 0), groups = 1, out = f32}}"
                ));
                let gate = self.op(&format!("sigmoid {gate}"));
                (self.op(&format!("mul {x}, {gate}")), c)
            }
            11 => {
                let function = ["max", "mean"][self.random.below(2) as usize];
                (
                    self.op(&format!(
                        "pool {x} {{function = {function}, size = [3, 3], window(1, 1, 1)}}"
                    )),
                    c,
                )
            }
            12 if c > 1 => {
                let start = self.random.below(2);
                let size = c - 1;
                (
                    self.op(&format!(
                        "slice {x} {{starts = [0, {start}, 0, 0], sizes = [N, {size}, A, B], steps = [1, 1, 1, 1]}}"
                    )),
                    size,
                )
            }
            12 | 13 => {
                let mean = self.op(&format!(
                    "reduce {x} {{function = mean, axes = [1], keep_dims}}"
                ));
                (self.op(&format!("sub {x}, {mean}")), c)
            }
            14 => {
                let flat = self.op(&format!("reshape {x} {{dims = [N, {c}, A*B]}}"));
                let turned = self.op(&format!("transpose {flat} {{permutation = [0, 2, 1]}}"));
                let w = self.weights(&format!("{c}, 8"));
                let product = self.op(&format!("matmul {turned}, {w}"));
                let back = self.op(&format!("transpose {product} {{permutation = [0, 2, 1]}}"));
                (
                    self.op(&format!("reshape {back} {{dims = [N, 8, A, B]}}")),
                    8,
                )
            }
            _ => {
                let turned = self.op(&format!("transpose {x} {{permutation = [0, 2, 3, 1]}}"));
                let scale = self.weights(&format!("{c}"));
                let scaled = self.op(&format!("mul {turned}, {scale}"));
                (
                    self.op(&format!(
                        "transpose {scaled} {{permutation = [0, 3, 1, 2]}}"
                    )),
                    c,
                )
            }
        };
        // Keeps sums over many channels small.
        let name = match self.random.below(3) {
            0 => self.op(&format!("tanh {name}")),
            _ => name,
        };
        if channels <= 64 {
            self.pictures.push((name, channels));
        }
    }
}

/// The network of a seed.
fn net(seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let channels = [1, 3, 8, 24][random.below(4) as usize];
    let mut net = Net {
        text: String::new(),
        random,
        pictures: vec![("%x".to_owned(), channels)],
        n_names: 0,
    };
    for _ in 0..10 {
        net.grow();
    }
    let (y, c) = net.pictures.last().cloned().unwrap();
    let (z, d) = net.pick();
    let z = net.op(&format!("neg {z}"));
    format!(
        "graph @random(%x: f32[N, {channels}, A, B]) -> (f32[N, {c}, A, B], f32[N, {d}, A, B]) where A >= 1, B >= 1 {{\n{}  return {y}, {z}\n}}",
        net.text
    )
}

/// Non-finite numbers for some of the seeds.
fn elements(seed: u64) -> Elements {
    match seed % 7 {
        5 => Elements::With(f32::NAN),
        6 => Elements::With(f32::INFINITY),
        _ => Elements::Smooth,
    }
}

fn check_seeds(seeds: Range<u64>, check: impl Fn(u64) -> Result<(), String>) {
    let given = std::env::var("KILN_TEST_NETS").ok();
    let seeds = given.map_or(seeds, |given| {
        let (first, end) = given.split_once("..").unwrap();
        first.parse().unwrap()..end.parse().unwrap()
    });
    let mut broken = Vec::new();
    for seed in seeds {
        if let Err(message) = check(seed) {
            broken.push(format!("seed {seed}: {message}"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

#[test]
fn random_nets_do_what_they_mean() {
    check_seeds(0..8, |seed| {
        let own = [1, 1 + seed as usize % 8, 1 + seed as usize % 13];
        let sizes = [[1, 3, 17], [2, 9, 2], own];
        compare(&net(seed), elements(seed), seed % 4 != 0, &sizes)
    });
}

/// A convolution and a pooling over random windows, between convolutions that prefer channels innermost.
fn windows(seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut one_of = |numbers: &[usize]| numbers[random.below(numbers.len() as u64) as usize];
    let mut sizes = ["A".to_owned(), "B".to_owned()];
    let mut window = |ks: [usize; 2], is_pool: bool| {
        let strides = [(); 2].map(|()| one_of(&[1, 1, 2, 3]));
        let dilations = [(); 2].map(|()| one_of(&[1, 1, 2]));
        // A pool's padding is narrower than its window.
        let most = |axis: usize| if is_pool { ks[axis] - 1 } else { 4 };
        let low = [0, 1].map(|axis| one_of(&[0, 1, 2, 4]).min(most(axis)));
        let high = [0, 1].map(|axis| one_of(&[0, 1, 2, 4]).min(most(axis)));
        for axis in 0..2 {
            let reach = dilations[axis] * (ks[axis] - 1) + 1;
            let size = std::mem::take(&mut sizes[axis]);
            let (border, stride) = (low[axis] + high[axis], strides[axis]);
            sizes[axis] = format!("(({size} + {border} - {reach}) / {stride} + 1)");
        }
        format!("strides = {strides:?}, dilations = {dilations:?}, low = {low:?}, high = {high:?}")
    };
    let (kernel, pool) = match seed % 4 {
        0 => ([1, 3], [2, 2]),
        1 => ([3, 3], [3, 2]),
        2 => ([2, 5], [3, 3]),
        _ => ([3, 1], [1, 2]),
    };
    let conv = window(kernel, false);
    let pooling = window(pool, true);
    let [channels, o] =
        [8, 7, 16, 24].map(|c| [c, [8, 12, 24, 1][seed as usize / 4 % 4]])[seed as usize % 4];
    let (groups, within, o) = match seed % 3 {
        0 => (channels, 1, channels),
        _ => (1, channels, o),
    };
    let function = ["max", "mean", "mean_with_padding"][seed as usize % 3];
    let [height, width] = sizes;
    format!(
        "graph @windows(%x: f32[N, 3, A, B]) -> f32[N, 8, {height}, {width}] where A >= 21, B >= 21 {{
  %w: f32[{channels}, 3, 1, 1] = weights
  %v: f32[{o}, {within}, {}, {}] = weights
  %u: f32[8, {o}, 1, 1] = weights
  %a = conv %x, %w {{window(1, 1, 0), groups = 1, out = f32}}
  %b = conv %a, %v {{{conv}, groups = {groups}, out = f32}}
  %c = pool %b {{function = {function}, size = {pool:?}, {pooling}}}
  %d = conv %c, %u {{window(1, 1, 0), groups = 1, out = f32}}
  return %d
}}",
        kernel[0], kernel[1]
    )
}

#[test]
fn random_windows_do_what_they_mean() {
    check_seeds(0..8, |seed| {
        let own = [1, 21 + seed as usize % 9, 21 + seed as usize % 23];
        let sizes = [[1, 21, 26], [2, 22, 21], own];
        compare(&windows(seed), elements(seed), seed % 5 != 4, &sizes)
    });
}
