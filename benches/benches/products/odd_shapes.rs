//! Products of many arbitrary shapes, each against the fastest available library, on one thread.
//!
//! Every dimension is between 1 and 4000, its logarithm uniform, from a fixed seed; no shape is left out. The figure is the
//! geometric mean of Kiln's time of a call over that of the fastest peer: with the one kernel that is right for every
//! shape, and *settled*: after calls have repeated the same sizes for a while and have kernels for them.

use super::gemm_crate::Product;
use super::numpy::Numpy;
use super::{Row, Table, graphs};
use kiln::internals::lazy_runtime::VariantOptions;
use kiln::{Compiling, Model, Tensor};
use kiln_benches::rounds::{Contender, Rounds, in_rounds, timed};
use std::time::{Duration, Instant};

const SHAPES: usize = 120;

const LARGEST: f64 = 4000.0;

const SEED: u64 = 0x6b69_6c6e;

const ROUNDS: Rounds = Rounds {
    least: 3,
    most: 40,
    time: Duration::from_millis(150),
    round: Duration::from_millis(1),
};

/// A kernel gets a variant for its sizes after this time; the default is a second.
const HOT: Duration = Duration::from_millis(50);

/// How long a shape is called before its call time is considered stable.
const SETTLING: Duration = Duration::from_millis(600);

/// As a multiple of the time of the fastest peer.
const BAR: f64 = 1.1;

/// Below this many seconds the fixed cost of a call matters.
const LONG: f64 = 20e-6;

/// The number of shapes that are printed: those for which Kiln is slowest relative to its peers.
const WORST: usize = 5;

/// One measured shape; seconds of a call.
struct Measured {
    shape: [usize; 3],
    kiln: f64,
    /// Kiln's time once call times are stable.
    settled: f64,
    /// The time of Kiln's steps without the call overhead.
    within: f64,
    gemm: f64,
    numpy: Option<f64>,
}

/// Measures both operands as inputs, and the second one as a constant.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let rows = ["inputs", "weights"].map(|kind| (kind, format!("odd_shapes/{kind}")));
    if !rows.iter().any(|(_, name)| wanted(name)) {
        return;
    }
    let mut numpy = Numpy::start();
    match &numpy {
        Ok(numpy) => println!("odd_shapes: peers are gemm and {}", numpy.version()),
        Err(why) => println!("odd_shapes: the peer is gemm; numpy is left out: {why}"),
    }
    for (kind, name) in rows {
        if !wanted(&name) {
            continue;
        }
        let mut all: Vec<Measured> = shapes()
            .map(|shape| measured(shape, kind, numpy.as_mut().ok()))
            .collect();
        table.add(&row(&name, &all, &Measured::ratio));
        let settled = format!("{name}_settled");
        table.add(&row(&settled, &all, &Measured::ratio_settled));
        all.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
        print_worst("of calls", all.iter());
        let long = all.iter().filter(|one| one.is_long());
        print_worst("of those that are no matter of what a call costs", long);
        all.sort_by(|a, b| b.ratio_within().total_cmp(&a.ratio_within()));
        print_worst("of the steps alone", all.iter());
    }
}

fn print_worst<'a>(what: &str, all: impl Iterator<Item = &'a Measured>) {
    println!("  the worst {what}:");
    for worst in all.take(WORST) {
        println!("  {worst}");
    }
}

/// The shapes, always the same ones.
fn shapes() -> impl Iterator<Item = [usize; 3]> {
    let mut state = SEED;
    let mut dimension = move || {
        // SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        ((uniform * (LARGEST + 1.0).ln()).exp() as usize).clamp(1, LARGEST as usize)
    };
    (0..SHAPES).map(move |_| [dimension(), dimension(), dimension()])
}

fn measured(shape: [usize; 3], kind: &str, mut numpy: Option<&mut Numpy>) -> Measured {
    let [m, k, n] = shape;
    let model = |variants| {
        let options = graphs::options(1).compiling(Compiling {
            variants,
            ..Compiling::default()
        });
        match kind {
            "inputs" => graphs::of_inputs(options),
            _ => graphs::of_weights(k, n, options),
        }
    };
    let (model, specialising) = (
        model(None),
        model(Some(VariantOptions::new().with_after(HOT))),
    );
    let (x, y) = (graphs::ripple(&[m, k]), graphs::ripple(&[k, n]));
    let inputs = [("x", &x), ("y", &y)];
    let inputs = &inputs[..model.inputs().len()];
    let elements = |tensor: &Tensor| tensor.to_vec::<f32>().expect("floats");
    let mut product = Product::new(shape, elements(&x), elements(&y));
    product.run();
    compare(shape, &model, inputs, product.result());

    if let Some(numpy) = &mut numpy {
        numpy.shape(shape);
    }
    let mut by_numpy = numpy.map(|numpy| |calls| numpy.time(calls));
    let mut kiln = graphs::calls(&model, inputs);
    let mut settled = graphs::calls(&specialising, inputs);
    let start = Instant::now();
    while start.elapsed() < SETTLING {
        settled(1);
    }
    let mut steps = graphs::steps(&model, inputs);
    let mut gemm = timed(|| product.run());
    let mut contenders: Vec<&mut Contender<'_>> =
        vec![&mut kiln, &mut settled, &mut steps, &mut gemm];
    if let Some(numpy) = &mut by_numpy {
        contenders.push(numpy);
    }
    let best = in_rounds(&mut contenders, ROUNDS);
    Measured {
        shape,
        kiln: best[0],
        settled: best[1],
        within: best[2],
        gemm: best[3],
        numpy: best.get(4).copied(),
    }
}

/// Two results, each with its own rounding errors.
fn compare(shape: [usize; 3], model: &Model, inputs: &[(&str, &Tensor)], expected: &[f32]) {
    let outputs = model.run(inputs).expect("it runs");
    let found = outputs[0].to_vec::<f32>().expect("floats");
    let allowed = 1e-6 * shape[1] as f32 + 1e-6;
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() <= allowed,
            "{shape:?}: {found} is not {expected}"
        );
    }
}

fn row(name: &str, all: &[Measured], ratio: &dyn Fn(&Measured) -> f64) -> Row {
    let mean = |of: &dyn Fn(&Measured) -> f64| geometric_mean(all.iter().map(of));
    let over =
        |peer: &dyn Fn(&Measured) -> f64| mean(&|one| ratio(one) * one.fastest() / peer(one));
    let numpy = if all.iter().all(|one| one.numpy.is_some()) {
        let ratio = over(&|one| one.numpy.unwrap_or(f64::NAN));
        format!(", {ratio:.2} over numpy")
    } else {
        String::new()
    };
    let long = || all.iter().filter(|one| one.is_long());
    let slower = all.iter().filter(|one| ratio(one) > BAR).count();
    Row {
        name: name.to_owned(),
        measured: mean(ratio),
        bar: BAR,
        unit: "x",
        at_least: false,
        is_compute_bound: false,
        detail: format!(
            "{} shapes: {:.3} over the fastest, {:.2} over gemm{numpy}; {:.2} of the steps alone; {slower} shapes above the bar; {:.2} over the {} shapes that take {:.0} us or more",
            all.len(),
            mean(ratio),
            over(&|one| one.gemm),
            mean(&Measured::ratio_within),
            geometric_mean(long().map(ratio)),
            long().count(),
            LONG * 1e6,
        ),
    }
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| {
        (sum + ratio.ln(), count + 1)
    });
    (sum / f64::from(count)).exp()
}

impl Measured {
    fn is_long(&self) -> bool {
        self.fastest() >= LONG
    }

    fn fastest(&self) -> f64 {
        self.gemm.min(self.numpy.unwrap_or(f64::INFINITY))
    }

    fn ratio(&self) -> f64 {
        self.kiln / self.fastest()
    }

    fn ratio_settled(&self) -> f64 {
        self.settled / self.fastest()
    }

    fn ratio_within(&self) -> f64 {
        self.within / self.fastest()
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [m, k, n] = self.shape;
        let micro = |seconds: f64| seconds * 1e6;
        write!(
            f,
            "{:>5.2} x at {m} x {k} x {n}: Kiln {:.1} us ({:.1} settled, {:.1} within), gemm {:.1} us",
            self.ratio(),
            micro(self.kiln),
            micro(self.settled),
            micro(self.within),
            micro(self.gemm)
        )?;
        self.numpy
            .map_or(Ok(()), |numpy| write!(f, ", numpy {:.1} us", micro(numpy)))
    }
}
