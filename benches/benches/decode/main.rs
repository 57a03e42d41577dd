//! Decoding, token by token, as a table: for each format of the weights, the share of the rate at which the machine could read
//! the weights of each token once.
//!
//! `cargo bench -p kiln-benches --bench decode [-- NAME…]` runs those rows whose names contain one of the names. Reading is
//! measured in the same rounds, by a loop that reads as many bytes and does nothing else.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark stops when its set-up is wrong, and prints what it saw"
)]

use kiln::diagnose::{self, Stage};
use kiln::internals::ir::{Graph, Op};
use kiln::{DType, Device, Format, Model, Options, Session, Source, Tensor};
use kiln_benches::read::{Reader, STREAMS};
use kiln_benches::rounds::{Contender, Rounds, in_rounds, timed};
use kiln_benches::table::{Row, Table};
use kiln_language_model::cache;
use kiln_language_model::llama::{self, Shape};
use std::time::Duration;

/// The decoders: of about 100 million weights, and of about a billion.
const SHAPES: [Shape; 2] = [
    Shape {
        name: "100M",
        width: 768,
        layers: 12,
        heads: 12,
        kv_heads: 4,
        hidden: 2048,
        vocabulary: 32_000,
    },
    Shape {
        name: "1B",
        width: 2048,
        layers: 16,
        heads: 32,
        kv_heads: 8,
        hidden: 8192,
        vocabulary: 32_000,
    },
];

/// The formats of the weights.
const FORMATS: [&str; 6] = [
    "f32",
    "bf16",
    "int8-weights",
    "int8",
    "int4-weights/32",
    "int4-int8/32",
];

/// The capacity of a cache in tokens.
const CAPACITY: usize = 256;

const ROUNDS: Rounds = Rounds {
    least: 10,
    most: 60,
    time: Duration::from_secs(3),
    round: Duration::from_millis(20),
};

/// Percent of the reading rate.
const BAR: f64 = 85.0;

fn main() {
    kiln_benches::wanted::run("decode", &[measure]);
}

fn measure(wanted: &dyn Fn(&str) -> bool, table: &mut Table) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if all > 1 { vec![1, all] } else { vec![1] };
    for shape in &SHAPES {
        let rows: Vec<(String, &str, usize)> = FORMATS
            .iter()
            .flat_map(|&format| threads.iter().map(move |&threads| (format, threads)))
            .map(|(format, threads)| {
                (
                    format!("decode/{}/{format}/{threads}", shape.name),
                    format,
                    threads,
                )
            })
            .filter(|(name, ..)| wanted(name))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let graph = llama::graph(shape, CAPACITY.into()).expect("sizes fit");
        for (name, format, threads) in rows {
            table.add(&row(name, (shape, &graph), format, threads));
        }
    }
}

fn row(name: String, (shape, graph): (&Shape, &Graph), format: &str, threads: usize) -> Row {
    let format: Format = format.parse().expect("a format");
    let options = Options::new().device(Device::cpu()).threads(threads);
    let options = match format {
        Format::F32 => options,
        _ => options.precision(format),
    };
    let model = options
        .load(Source::graph(graph.clone()))
        .expect("it loads");
    let bytes = bytes_read(shape, &model);
    let mut session = session(shape, &model);
    let reader = Reader::new(bytes / size_of::<f32>(), threads);
    let mut ways = [0, 1, 2].map(|way| {
        let reader = &reader;
        timed(move || reader.run(way))
    });
    let token = Tensor::from_slice(&[1], &[7_i64]).expect("memory");
    let mask = Tensor::full(&[CAPACITY], 1_i64).expect("memory");
    let mut at = 0;
    let mut decode = timed(move || {
        let here = Tensor::from_slice(&[1], &[at as i64]).expect("memory");
        session
            .run([("tokens", &token), ("at", &here), ("attention_mask", &mask)])
            .expect("it runs");
        at = (at + 1) % CAPACITY;
    });
    let mut contenders: Vec<&mut Contender<'_>> = vec![&mut decode];
    contenders.extend(ways.iter_mut().map(|way| way as &mut Contender<'_>));
    let best = in_rounds(&mut contenders, ROUNDS);
    let (call, reads) = (best[0], &best[1..]);
    let (read, streams) = reads
        .iter()
        .copied()
        .zip(STREAMS)
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("there is a way to read");
    let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
    Row {
        name,
        measured: read / call * 100.0,
        bar: BAR,
        unit: "%",
        at_least: true,
        is_compute_bound: false,
        detail: format!(
            "{:.1} tokens/s: {:.2} ms of a call, {:.0} MB at {:.1} GB/s, beside reads at {:.1} ({streams} streams a thread)",
            1.0 / call,
            call * 1e3,
            bytes as f64 / 1e6,
            rate(call),
            rate(read),
        ),
    }
}

/// A session with empty caches.
fn session(shape: &Shape, model: &Model) -> Session {
    let mut builder = model.session();
    for layer in 0..shape.layers {
        for part in ["keys", "values"] {
            let name = cache(layer, part);
            let empty = Tensor::zeros(DType::F32, &shape.cache_sizes(CAPACITY)).expect("memory");
            builder = builder.state(&name, &format!("next.{name}"), empty);
        }
    }
    builder.build().expect("the caches are states")
}

/// Bytes of constants that each token reads: all except the embedding table, of which one row is read.
fn bytes_read(shape: &Shape, model: &Model) -> usize {
    let graph = diagnose::graph(model, Stage::Optimized).expect("it has a graph");
    let bytes = graph.ops().filter_map(|(_, data)| match &data.op {
        Op::Constant(constant) => Some(constant.tensor().byte_len()),
        _ => None,
    });
    let table = shape.vocabulary * shape.width * size_of::<f32>();
    let bytes = bytes.sum::<usize>() - table;
    assert!(
        bytes * 8 >= shape.n_weights() * 4,
        "weights of {bytes} bytes for {} of them",
        shape.n_weights()
    );
    bytes
}
