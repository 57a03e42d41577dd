//! Plan facts: recorded functions, whose arguments have a separate symbol on each axis, are planned as if symbols for
//! equal sizes were one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::diagnose::{self, Stage};
use kiln::{ArgumentType, DType, Device, Options, Source, Tensor, Var, jit};

fn options() -> Options {
    Options::new()
        .device(Device::interpreter())
        .shared_kernels(false)
}

/// The text of a recorded function.
macro_rules! recorded {
    ($function:expr, $ranks:expr) => {{
        let types: Vec<_> = $ranks
            .iter()
            .map(|&rank| ArgumentType::new(DType::F32, rank))
            .collect();
        let model = jit($function)
            .with_options(options())
            .model(&types)
            .unwrap();
        diagnose::inspect(&model, Stage::Import).unwrap()
    }};
}

/// The same text with one symbol for each group of symbols.
fn with_shared_symbols(text: &str, groups: &[(&str, &[&str])]) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut result = String::new();
    for line in text.lines() {
        let first = line.trim_start();
        if first.starts_with("plan ") {
            // With these symbols, its expectation holds trivially.
            if line.trim_end().ends_with('{') {
                result.push_str("{\n");
            }
            continue;
        }
        let mut rest = line;
        while !rest.is_empty() {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            let group = groups.iter().find(|(_, members)| members.contains(&word));
            result.push_str(group.map_or(word, |&(name, _)| name));
            let next = after.find(is_word).unwrap_or(after.len());
            let (between, after) = after.split_at(next);
            result.push_str(between);
            rest = after;
        }
        result.push('\n');
    }
    result
}

/// The plan of a text: the classes and numbers of ops of its launches, and how many different kernels they use.
fn planned(text: &str) -> (Vec<(&'static str, usize)>, usize) {
    let model = options()
        .load(Source::text(text))
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let explained = diagnose::explain(&model).unwrap();
    let launches = explained.steps.iter().filter(|step| step.kind == "kernel");
    let launches = launches.map(|step| (step.class.unwrap_or(""), step.ops));
    (launches.collect(), explained.kernels)
}

fn expect_alike(own: &str, groups: &[(&str, &[&str])]) {
    let shared = with_shared_symbols(own, groups);
    let (of_own, of_shared) = (planned(own), planned(&shared));
    assert_eq!(
        (of_own.0.len(), of_own.1),
        (of_shared.0.len(), of_shared.1),
        "{own}\nbecame {of_own:?}, and\n{shared}\nbecame {of_shared:?}"
    );
}

/// One step of the classical Runge-Kutta method for `dy/dt = slope(y)`.
fn runge_kutta<const N: usize>(
    state: [Var; N],
    step: &Var,
    slope: impl Fn(&[Var; N]) -> [Var; N],
) -> [Var; N] {
    let moved = |by: &[Var; N], share: f64| -> [Var; N] {
        std::array::from_fn(|i| &state[i] + &(step * &by[i] * share))
    };
    let first = slope(&state);
    let second = slope(&moved(&first, 0.5));
    let third = slope(&moved(&second, 0.5));
    let fourth = slope(&moved(&third, 1.0));
    std::array::from_fn(|i| {
        let sum = &first[i] + &(&second[i] * 2.0) + &(&third[i] * 2.0) + &fourth[i];
        &state[i] + &(step * &sum / 6.0)
    })
}

#[test]
fn a_runge_kutta_step_of_four_arguments_is_one_kernel() {
    let step = |y: Var, growth: Var, limit: Var, h: Var| {
        let [y] = runge_kutta([y], &h, |[y]| [&growth * y * (1.0 - y / &limit)]);
        y
    };
    let text = recorded!(step, [1, 1, 1, 1]);
    assert_eq!(planned(&text).0.len(), 1, "{text}");
    expect_alike(&text, &[("N", &["x0_0", "x1_0", "x2_0", "x3_0"])]);
}

#[test]
fn a_lorenz_step_plans_as_with_shared_symbols() {
    let step = |x: Var, y: Var, z: Var, sigma: Var, rho: Var, beta: Var, h: Var| {
        runge_kutta([x, y, z], &h, |[x, y, z]| {
            [&sigma * (y - x), x * (&rho - z) - y, x * y - &beta * z]
        })
    };
    let text = recorded!(step, [1, 1, 1, 1, 1, 1, 1]);
    let all = ["x0_0", "x1_0", "x2_0", "x3_0", "x4_0", "x5_0", "x6_0"];
    expect_alike(&text, &[("N", &all)]);
}

#[test]
fn soft_k_means_plans_as_with_shared_symbols() {
    let step = |points: Var, means: Var, scale: Var| {
        let apart = points.unsqueeze(1) - means.unsqueeze(0);
        let squared = (&apart * &apart * &scale).sum(-1);
        let shares = (-squared).softmax(-1);
        let weights = shares.sum(0).unsqueeze(1);
        shares.transpose().matmul(points) / weights
    };
    let text = recorded!(step, [2, 2, 1]);
    let groups: [(&str, &[&str]); 1] = [("D", &["x0_1", "x1_1", "x2_0"])];
    expect_alike(&text, &groups);
}

#[test]
fn life_on_a_torus_plans_as_with_shared_symbols() {
    let step = |board: Var, walls: Var| {
        let roll = |board: &Var, axis: i64, by: i64| {
            let size = board.size(axis);
            let (low, high) = match by {
                1 => (size.clone() - 1, size),
                _ => (kiln::Size::from(1), size),
            };
            let rest = board.slice(axis, 0, low.clone());
            board.slice(axis, low, high).concat(&[&rest], axis)
        };
        let rows = &board + &roll(&board, 0, 1) + &roll(&board, 0, -1);
        let near = &rows + &roll(&rows, 1, 1) + &roll(&rows, 1, -1) - &board;
        let alive = (3.5 - &near).relu() * (&near - 1.5).relu();
        alive * (&board + 0.5) * (1.0 - walls)
    };
    let text = recorded!(step, [2, 2]);
    let groups: [(&str, &[&str]); 2] = [("H", &["x0_0", "x1_0"]), ("W", &["x0_1", "x1_1"])];
    expect_alike(&text, &groups);
}

#[test]
fn layers_plan_as_with_shared_symbols() {
    let network = |x: Var, w: Var, b: Var, v: Var, c: Var| {
        let hidden = (x.matmul(w) + b).relu();
        (hidden.matmul(v) + c).softmax(-1)
    };
    let text = recorded!(network, [2, 2, 1, 2, 1]);
    let groups: [(&str, &[&str]); 3] = [
        ("K", &["x0_1", "x1_0"]),
        ("H", &["x1_1", "x2_0", "x3_0"]),
        ("O", &["x3_1", "x4_0"]),
    ];
    expect_alike(&text, &groups);
}

#[test]
fn attention_plans_as_with_shared_symbols() {
    let attend = |q: Var, k: Var, v: Var, mask: Var| {
        let scores = q.matmul(k.permute(&[0, 1, 3, 2])) / 8.0 + mask;
        scores.softmax(-1).matmul(v)
    };
    let text = recorded!(attend, [4, 4, 4, 4]);
    let groups: [(&str, &[&str]); 5] = [
        ("B", &["x0_0", "x1_0", "x2_0", "x3_0"]),
        ("H", &["x0_1", "x1_1", "x2_1", "x3_1"]),
        ("S", &["x0_2", "x3_2"]),
        ("T", &["x1_2", "x2_2", "x3_3"]),
        ("D", &["x0_3", "x1_3"]),
    ];
    expect_alike(&text, &groups);
}

#[test]
fn facts_that_a_plan_rests_on_are_named_and_may_fail() {
    let f = |x: Var, y: Var| ((-x) + y).exp();
    let text = recorded!(f, [1, 1]);
    let model = options().load(Source::text(&text)).unwrap();
    assert!(
        diagnose::explain(&model)
            .unwrap()
            .to_string()
            .contains("x0_0 == x1_0")
    );
    let (x, y) = (
        Tensor::full(&[3], 1.0f32).unwrap(),
        Tensor::full(&[1], 1.0f32).unwrap(),
    );
    let outputs = model.run([("x0", &x), ("x1", &y)]).unwrap();
    assert_eq!(outputs[0].to_vec::<f32>().unwrap(), [1.0; 3]);
}
