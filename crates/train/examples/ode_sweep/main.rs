//! A million trajectories of the Lorenz system at once, by the classical Runge-Kutta method, from one traced right-hand side;
//! and the gradient of where they end with respect to a parameter, by the discrete adjoint.
//!
//! `cargo run --release -p kiln-train --example ode_sweep [TRAJECTORIES]`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use indicatif::{ProgressBar, ProgressStyle};
use kiln::timing::Verbosity;
use kiln::{DType, Device, Observation, Options, Tensor, Var, jit};
use std::error::Error;
use std::time::Instant;

/// The length of a step.
const STEP: f64 = 0.005;
/// Steps of the sweep, each a call.
const STEPS: usize = 100;
/// Steps that the adjoint goes back through, in one call.
const ADJOINT_STEPS: usize = 10;

/// The Lorenz system: `dx/dt = s (y - x)`, `dy/dt = x (r - z) - y`, `dz/dt = x y - b z`, with the usual `s = 10` and `b = 8 / 3`.
fn slope([x, y, z]: [&Var; 3], r: &Var) -> [Var; 3] {
    [(y - x) * 10.0, x * (r - z) - y, x * y - z * (8.0 / 3.0)]
}

/// One step of the Runge-Kutta method of order 4.
fn advance(state: &[Var; 3], r: &Var) -> [Var; 3] {
    let along = |by: &[Var; 3], length: f64| -> [Var; 3] {
        std::array::from_fn(|axis| &state[axis] + &by[axis] * length)
    };
    let at = |state: &[Var; 3]| slope(state.each_ref(), r);
    let k1 = at(state);
    let k2 = at(&along(&k1, STEP / 2.0));
    let k3 = at(&along(&k2, STEP / 2.0));
    let k4 = at(&along(&k3, STEP));
    std::array::from_fn(|axis| {
        let middle = (&k2[axis] + &k3[axis]) * 2.0;
        &state[axis] + (&k1[axis] + middle + &k4[axis]) * (STEP / 6.0)
    })
}

/// The mean height `z` after some steps.
fn mean_height(x: Var, y: Var, z: Var, r: Var) -> Var {
    let mut state = [x, y, z];
    for _ in 0..ADJOINT_STEPS {
        state = advance(&state, &r);
    }
    state[2].mean(..)
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = match std::env::args().nth(1) {
        Some(count) => count.parse()?,
        None => 1_000_000,
    };
    // One line of the report for each kernel.
    let observation = Observation::new().timing(Verbosity::Verbose);
    let options = Options::new().device(Device::cpu()).observe(observation);
    let step = jit(|x: Var, y: Var, z: Var, r: Var| advance(&[x, y, z], &r))
        .named("lorenz")
        .with_options(options.clone());
    let first = |index: usize, axis: usize| ((index * (axis + 7)) % 1000) as f32 / 100.0 - 5.0;
    let begin_at = |axis: usize| -> Result<Tensor, Box<dyn Error>> {
        let values: Vec<f32> = (0..count).map(|index| first(index, axis)).collect();
        Ok(Tensor::from_slice(&[count], &values)?)
    };
    let start = [begin_at(0)?, begin_at(1)?, begin_at(2)?];
    let r = Tensor::from_f64_slice(DType::F32, &[], &[28.0])?;

    let bar = ProgressBar::new(STEPS as u64);
    bar.set_style(ProgressStyle::with_template(
        "{bar:40} {pos}/{len} steps, {elapsed}",
    )?);
    let begin = Instant::now();
    let mut state = start.clone();
    for _ in 0..STEPS {
        let [x, y, z] = &state;
        state = step.call([x, y, z, &r])?;
        bar.inc(1);
    }
    bar.finish();
    let time = begin.elapsed().as_secs_f64();
    println!(
        "{count} trajectories, {STEPS} steps: {time:.2} s, {:.0} million steps per second, compile included",
        (count * STEPS) as f64 / time / 1e6
    );
    println!("{}", step.timing().report().to_text());
    check(&start, &state, first)?;

    let gradient = jit(mean_height)
        .named("mean_height")
        .with_options(options)
        .value_and_grad()
        .with_respect_to(&[3]);
    let begin = Instant::now();
    let [x, y, z] = &start;
    let (height, slopes) = gradient.call([x, y, z, &r])?;
    let first_call = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    gradient.call([x, y, z, &r])?;
    let time = begin.elapsed().as_secs_f64();
    let (height, slope) = (scalar(&height)?, scalar(&slopes[0])?);
    println!(
        "mean height after {ADJOINT_STEPS} steps: {height:.5}, its derivative by r: {slope:.6} ({first_call:.2} s, again {time:.3} s)"
    );
    // A central difference.
    let h = 0.5;
    let at = |r: f64| -> Result<f64, Box<dyn Error>> {
        let r = Tensor::from_f64_slice(DType::F32, &[], &[r])?;
        scalar(&gradient.call([x, y, z, &r])?.0)
    };
    let difference = (at(28.0 + h)? - at(28.0 - h)?) / (2.0 * h);
    println!("the difference quotient: {difference:.6}");
    if (slope - difference).abs() > 1e-3 * difference.abs().max(1e-3) {
        return Err("expected the adjoint to agree with the difference quotient".into());
    }
    Ok(())
}

fn scalar(tensor: &Tensor) -> Result<f64, Box<dyn Error>> {
    let values = tensor.to_vec::<f32>()?;
    Ok(values.first().copied().map_or(f64::NAN, f64::from))
}

/// Compares some trajectories with the same arithmetic in `f64`.
fn check(
    start: &[Tensor; 3],
    end: &[Tensor; 3],
    first: impl Fn(usize, usize) -> f32,
) -> Result<(), Box<dyn Error>> {
    let count = start[0].len();
    let mut worst = 0.0_f64;
    for index in (0..count).step_by(count / 50 + 1) {
        let mut state: [f64; 3] = std::array::from_fn(|axis| f64::from(first(index, axis)));
        for _ in 0..STEPS {
            state = plain_step(state);
        }
        for (axis, tensor) in end.iter().enumerate() {
            let found = f64::from(tensor.as_slice::<f32>()?[index]);
            worst = worst.max((found - state[axis]).abs() / state[axis].abs().max(1.0));
        }
    }
    println!("largest difference from the same steps in f64: {worst:.1e}");
    match worst < 1e-3 {
        true => Ok(()),
        false => Err("expected trajectories that agree with the same steps in f64".into()),
    }
}

fn plain_step(state: [f64; 3]) -> [f64; 3] {
    let slope = |[x, y, z]: [f64; 3]| [(y - x) * 10.0, x * (28.0 - z) - y, x * y - z * (8.0 / 3.0)];
    let along = |by: [f64; 3], length: f64| -> [f64; 3] {
        std::array::from_fn(|axis| state[axis] + by[axis] * length)
    };
    let k1 = slope(state);
    let k2 = slope(along(k1, STEP / 2.0));
    let k3 = slope(along(k2, STEP / 2.0));
    let k4 = slope(along(k3, STEP));
    std::array::from_fn(|axis| {
        state[axis] + (k1[axis] + 2.0 * (k2[axis] + k3[axis]) + k4[axis]) * (STEP / 6.0)
    })
}
