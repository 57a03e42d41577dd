//! The cost of a row for each register tile, by its number of vectors: the table that schedule selection uses.
//!
//! `cargo bench -p kiln-benches --bench tile_costs` prints it for the instruction-set levels of this machine;
//! `cargo xtask tune` writes it where the compiler reads it. Nothing else may run on the machine.
//!
//! Each tile of a level is compiled for products and for windows whose weights are as wide and stay in a near cache, so the
//! column remainders and the image borders are included. The unit is a hundredth of the time of a vector multiply-add at
//! its fastest.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops when its set-up is wrong, and prints what it saw"
)]

mod fixed;
mod work;

use fixed::Fixed;
use kiln::internals::backend::IsaLevel;
use kiln::internals::schedule_cpu::{TILED_VECTORS, contraction_tiles};
use kiln_benches::rounds::{Contender, Rounds, in_rounds, timed};
use std::time::Duration;
use work::{STEPS, Work};

/// Repetitions of each measurement: a busy neighbour rarely disturbs all of them.
const PASSES: usize = 3;

const ROUNDS: Rounds = Rounds {
    least: 10,
    most: 200,
    time: Duration::from_millis(150),
    round: Duration::from_micros(400),
};

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("nothing is measured in a test run; say: cargo xtask tune");
        return;
    }
    for level in IsaLevel::of_host() {
        for work in Work::ALL {
            print(level, work, &least(level, work));
        }
    }
}

/// Seconds of each tile at each width, the minimum seen.
fn least(level: IsaLevel, work: Work) -> Vec<Vec<f64>> {
    let tiles = contraction_tiles(level).len();
    let mut least = vec![vec![f64::INFINITY; tiles]; TILED_VECTORS as usize];
    for _ in 0..PASSES {
        for (width, least) in (1..).zip(&mut least) {
            for (least, time) in least.iter_mut().zip(times(level, work, width)) {
                *least = least.min(time);
            }
        }
    }
    least
}

/// One line per tile and width.
fn print(level: IsaLevel, work: Work, least: &[Vec<f64>]) {
    let widths = || (1..).zip(least);
    let of_a_vector =
        widths().flat_map(|(width, times)| times.iter().map(move |time| time / f64::from(width)));
    let unit = of_a_vector.fold(f64::INFINITY, f64::min);
    for (width, times) in widths() {
        for (&(rows, vectors), time) in contraction_tiles(level).iter().zip(times) {
            let cost = (time / unit * 100.0).round();
            println!("{level} {} {rows} {vectors} {width} {cost}", work.name());
        }
    }
}

/// Seconds per reduction step of each tile for a row of this many vectors.
fn times(level: IsaLevel, work: Work, width: u32) -> Vec<f64> {
    let tiles = contraction_tiles(level).iter();
    let mut contenders: Vec<_> = tiles
        .map(|&(rows, vectors)| {
            let compiler = Fixed::new(level, rows, vectors);
            let (program, inputs, mut outputs) = work.program(compiler, level.lanes(32) * width);
            timed(move || {
                let ran = program.run_into(&inputs, &mut outputs);
                ran.expect("it runs");
            })
        })
        .collect();
    let contenders = contenders.iter_mut();
    let mut rounds: Vec<&mut Contender<'_>> = Vec::new();
    rounds.extend(contenders.map(|contender| contender as &mut Contender<'_>));
    let steps = (work.rows() * STEPS) as f64;
    let best = in_rounds(&mut rounds, ROUNDS);
    best.iter().map(|time| time / steps).collect()
}
