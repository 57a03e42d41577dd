//! Element-wise chain, row sum, softmax and layer norm over large arrays, against copies of the same bytes.
//!
//! The figure is the minimum number of bytes per second that an operation moves (each array once) over the bytes per second
//! of the better copy, or of a loop that only reads as many bytes, where an operation only reads and that loop is slower
//! than a copy: some cores write faster than they read. All are measured in interleaved rounds, and each counts with its best round, so
//! that a busy machine affects all of them equally. The median of the rounds' own figures is printed next to it: where
//! neighbours share the memory, a bandwidth that was available in only one round counts only once there.
//!
//! An operation may be slower than a copy because of its arithmetic. To prove this, the same kernel is timed on arrays of
//! two sizes that both fit the level-2 caches; the extra time of the longer ones is arithmetic alone. If that rate is below
//! the bound, and the large arrays run at nearly that rate, no memory would be fast enough.

use super::copy::{Copier, Stores};
use super::{Row, Table};
use kiln::{Device, Inputs, Options, Source, Tensor, diagnose};
use kiln_benches::read::{Reader, STREAMS};
use kiln_benches::rounds::median;
use std::time::{Duration, Instant};

const ROUNDS: usize = 40;

/// Short calls within each round.
const CACHED_TURNS: usize = 10;

/// Bytes of one array per thread; two of them fit a level-2 cache.
const CACHED: [usize; 2] = [48 << 10, 144 << 10];

/// From this fraction of the rate within the caches, arithmetic is considered the bottleneck.
const NEARLY: f64 = 0.85;

/// Elements of a row.
const WIDTH: usize = 1024;

struct Operation {
    name: &'static str,
    text: &'static str,
    /// The number of large arrays that it reads or writes.
    arrays: f64,
    bar: f64,
}

const OPERATIONS: [Operation; 4] = [
    Operation {
        name: "elementwise_chain",
        text: "graph @chain(%x: f32[M, N]) -> f32[M, N] {
          %half: f32[] = constant [0.5]
          %y = mul %x, %half
          %z = add %y, %x
          %r = relu %z
          %s = sub %r, %half
          return %s
        }",
        arrays: 2.0,
        bar: 85.0,
    },
    Operation {
        name: "row_sum",
        text: "graph @row_sum(%x: f32[M, N]) -> f32[M] {
          %y = reduce %x {function = sum, axes = [1]}
          return %y
        }",
        arrays: 1.0,
        bar: 85.0,
    },
    Operation {
        name: "softmax",
        text: "graph @softmax(%x: f32[M, N]) -> f32[M, N] {
          %max = reduce %x {function = max, axes = [1], keep_dims}
          %less = sub %x, %max
          %exp = exp %less
          %sum = reduce %exp {function = sum, axes = [1], keep_dims}
          %y = div %exp, %sum
          return %y
        }",
        arrays: 2.0,
        bar: 70.0,
    },
    Operation {
        name: "layer_norm",
        text: "graph @layer_norm(%x: f32[M, N], %scale: f32[N], %bias: f32[N]) -> f32[M, N] {
          %small: f32[] = constant [1e-5]
          %mean = reduce %x {function = mean, axes = [1], keep_dims}
          %centred = sub %x, %mean
          %square = mul %centred, %centred
          %variance = reduce %square {function = mean, axes = [1], keep_dims}
          %above = add %variance, %small
          %factor = rsqrt %above
          %normal = mul %centred, %factor
          %scaled = mul %normal, %scale
          %y = add %scaled, %bias
          return %y
        }",
        arrays: 2.0,
        bar: 80.0,
    },
];

/// Measures the selected operations, at both sizes, on one thread and on all.
pub(crate) fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if all > 1 { vec![1, all] } else { vec![1] };
    for operation in &OPERATIONS {
        for megabytes in [16, 64] {
            for &threads in &threads {
                let name = format!("{}/{megabytes}MB/{threads}", operation.name);
                if wanted(&name) {
                    table.add(&row(operation, name, megabytes, threads));
                }
            }
        }
    }
}

fn row(operation: &Operation, name: String, megabytes: usize, threads: usize) -> Row {
    let count = (megabytes << 20) / size_of::<f32>();
    let options = Options::new().device(Device::cpu()).threads(threads);
    let model = options
        .load(Source::text(operation.text))
        .expect("the text is a graph");
    let ripple = |shape: &[usize]| {
        // In memory owned by the tensor, aligned like the memory of the copies.
        let mut tensor = Tensor::full(shape, 0.0_f32).expect("the shape fits memory");
        let elements = tensor.as_mut_slice::<f32>().expect("it is not shared");
        for (i, element) in elements.iter_mut().enumerate() {
            *element = ((i * 37) % 101) as f32 / 101.0 - 0.5;
        }
        tensor
    };
    let large = ripple(&[count / WIDTH, WIDTH]);
    let cached_counts = CACHED.map(|bytes| threads * bytes / size_of::<f32>());
    let cached = cached_counts.map(|count| ripple(&[count / WIDTH, WIDTH]));
    let (scale, bias) = (ripple(&[WIDTH]), ripple(&[WIDTH]));
    let inputs_of = |x| {
        let inputs = [("x", x), ("scale", &scale), ("bias", &bias)];
        let given = inputs.into_iter().take(model.inputs().len());
        given.collect::<Inputs<'_>>()
    };
    let within = |x| -> Duration {
        let mut steps = Vec::new();
        let call = model.call(inputs_of(x)).profile(&mut steps);
        call.run().expect("it runs");
        steps.iter().map(|step| step.time).sum()
    };

    let copier = Copier::new(count, threads);
    let only_reads = operation.arrays < 2.0;
    let reader = only_reads.then(|| Reader::new(count, threads));
    let (mut best, mut reading) = ([Duration::MAX; 3], Duration::MAX);
    let mut figures = Vec::with_capacity(ROUNDS);
    let (mut kernel, mut in_cache) = (Duration::MAX, [Duration::MAX; 2]);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let outputs = model.run(inputs_of(&large)).expect("it runs");
        let call = start.elapsed();
        drop(outputs);
        let round = [
            call,
            copier.time(Stores::Plain),
            copier.time(Stores::Streaming),
        ];
        for (best, time) in best.iter_mut().zip(round) {
            *best = (*best).min(time);
        }
        let read = reader.as_ref().map_or(Duration::ZERO, |reader| {
            let ways = (0..STREAMS.len()).map(|way| {
                let start = Instant::now();
                reader.run(way);
                start.elapsed()
            });
            ways.min().unwrap_or_default()
        });
        reading = reading.min(read);
        // The time for an equal number of bytes: a copy moves two arrays.
        let copied = round[1].min(round[2]).mul_f64(operation.arrays / 2.0);
        figures.push(copied.max(read).as_secs_f64() / call.as_secs_f64() * 100.0);
        kernel = kernel.min(within(&large));
        for _ in 0..CACHED_TURNS {
            for (best, x) in in_cache.iter_mut().zip(&cached) {
                *best = (*best).min(within(x));
            }
        }
    }
    let rate_of = |count: usize, arrays: f64, time: Duration| {
        arrays * (count * size_of::<f32>()) as f64 / time.as_secs_f64() / 1e9
    };
    let rate = |arrays, time| rate_of(count, arrays, time);
    let [call, plain, streaming] = best;
    let (plain, streaming) = (rate(2.0, plain), rate(2.0, streaming));
    let copy = plain.max(streaming);
    let reading = reader.map(|_| rate(1.0, reading));
    let limit = reading.map_or(copy, |reading| reading.min(copy));
    let reads = reading.map_or(String::new(), |rate| format!(", reads at {rate:.2} GB/s"));
    let kernel_rate = rate(operation.arrays, kernel);
    let cached_rate = rate_of(
        cached_counts[1] - cached_counts[0],
        operation.arrays,
        in_cache[1].saturating_sub(in_cache[0]),
    );
    let steps = diagnose::explain(&model)
        .expect("it has a plan")
        .count("kernel");
    Row {
        name,
        measured: rate(operation.arrays, call) / limit * 100.0,
        bar: operation.bar,
        unit: "%",
        at_least: true,
        is_compute_bound: cached_rate < operation.bar / 100.0 * limit
            && kernel_rate >= NEARLY * cached_rate,
        detail: format!(
            "{:.2} GB/s in {steps} kernel(s), {kernel_rate:.2} GB/s within ({cached_rate:.2} in cache), beside copies at {plain:.2} (plain) and {streaming:.2} GB/s (streaming){reads}; {:.1} % in the median round",
            rate(operation.arrays, call),
            median(figures),
        ),
    }
}
