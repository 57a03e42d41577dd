//! Decoding a model with fused attention over caches, as its exporter writes it: several conversations of different
//! lengths in a batch give the same results as each one alone, with growing caches and with caches of fixed capacity.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod onnx_writer;

use kiln::decode::Decoder;
use kiln::{Cache, Device, Dim, ErrorKind, Model, Options, Source, Tensor};
use onnx_writer::{
    F32, I64, constant, field, floats, graph, int_attribute, integer, node, untyped, value,
};

const CAPACITY: i64 = 16;

/// Numbers between -1 and 1 with a long period.
fn weights(name: &str, dims: &[i64]) -> Vec<u8> {
    let count: i64 = dims.iter().product();
    let seed = name.bytes().map(i64::from).sum::<i64>();
    let elements = (0..count).map(|k| ((k * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0);
    floats(name, dims, &elements.collect::<Vec<f32>>())
}

fn angles(name: &str, function: fn(f32) -> f32) -> Vec<u8> {
    let rows = (0..128).flat_map(|row| [row as f32, row as f32 * 0.1]);
    floats(name, &[128, 2], &rows.map(function).collect::<Vec<f32>>())
}

/// One layer with two heads that share one key-value head, and rotary embeddings.
fn onnx() -> Vec<u8> {
    let attention = [
        node(
            "y, present.0.key, present.0.value = GroupQueryAttention(q, k, v, past_key_values.0.key, \
             past_key_values.0.value, last, total, cos, sin)",
            &[
                int_attribute("num_heads", 2),
                int_attribute("kv_num_heads", 1),
                int_attribute("do_rotary", 1),
            ],
        ),
        field(7, b"com.microsoft"),
    ]
    .concat();
    let nodes = [
        node("x = Gather(table, input_ids)", &[]),
        node("q = MatMul(x, wq)", &[]),
        node("k = MatMul(x, wk)", &[]),
        node("v = MatMul(x, wv)", &[]),
        node(
            "sum = ReduceSum(attention_mask, one)",
            &[int_attribute("keepdims", 0)],
        ),
        node("less = Sub(sum, one)", &[]),
        node("last = Cast(less)", &[int_attribute("to", 6)]),
        node("shape = Shape(attention_mask)", &[]),
        node("wide = Gather(shape, one)", &[]),
        node("total = Cast(wide)", &[int_attribute("to", 6)]),
        attention,
        node("z = Add(x, y)", &[]),
        node("logits = MatMul(z, head)", &[]),
    ];
    let constants = [
        weights("table", &[7, 8]),
        weights("wq", &[8, 8]),
        weights("wk", &[8, 4]),
        weights("wv", &[8, 4]),
        weights("head", &[8, 7]),
        angles("cos", f32::cos),
        angles("sin", f32::sin),
        constant("one", &[1], &[1]),
    ];
    let cache = Some(&["batch", "1", "past", "4"][..]);
    let inputs = [
        value("input_ids", I64, Some(&["batch", "seq"])),
        value("attention_mask", I64, Some(&["batch", "total"])),
        value("past_key_values.0.key", F32, cache),
        value("past_key_values.0.value", F32, cache),
    ];
    let outputs = ["logits", "present.0.key", "present.0.value"].map(untyped);
    let graph = graph(&nodes, &constants, &inputs, &outputs);
    let domain = [field(1, b"com.microsoft"), integer(2, 1)].concat();
    [onnx_writer::model(&graph), field(8, &domain)].concat()
}

fn load(device: Device, in_place: bool) -> Model {
    let fixed = Dim::fixed(CAPACITY);
    load_with(device, in_place.then_some((fixed, fixed)))
}

/// With the sizes of the caches and of the mask, if given.
fn load_with(device: Device, sizes: Option<(Dim, Dim)>) -> Model {
    let options = Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    let options = match sizes {
        Some((past, total)) => options.dim("past", past).dim("total", total),
        None => options,
    };
    options.load(Source::onnx(&onnx(), None)).unwrap()
}

fn numbers(logits: &Tensor) -> Vec<f32> {
    logits.to_vec::<f32>().unwrap()
}

fn close(found: &[f32], expected: &[f32]) -> bool {
    let pairs = found.iter().zip(expected);
    found.len() == expected.len()
        && pairs
            .into_iter()
            .all(|(found, expected)| (found - expected).abs() <= 1e-4 * expected.abs().max(1.0))
}

/// Prompts of different lengths, and the tokens that follow them.
const PROMPTS: [&[i64]; 3] = [&[1, 2, 3], &[4], &[5, 6]];
const STEPS: [[i64; 3]; 4] = [[0, 1, 2], [3, 4, 5], [6, 0, 1], [2, 2, 2]];

#[test]
fn conversations_of_different_lengths_at_once_are_what_each_is_alone() {
    for in_place in [false, true] {
        let reference = load(Device::interpreter(), in_place);
        let mut alone: Vec<Decoder> = PROMPTS
            .iter()
            .map(|_| Decoder::new(&reference, 16).unwrap())
            .collect();
        let model = load(Device::cpu(), in_place);
        let mut together = Decoder::of_several(&model, 3, 16).unwrap();
        let mut check = |together: &mut Decoder, tokens: [&[i64]; 3]| {
            let found = numbers(&together.feed_all(&tokens).unwrap());
            for (row, (decoder, tokens)) in alone.iter_mut().zip(tokens).enumerate() {
                let expected = numbers(&decoder.feed(tokens).unwrap());
                assert!(
                    close(&found[row * 7..row * 7 + 7], &expected),
                    "in place: {in_place}, row {row}: {found:?}, {expected:?}"
                );
            }
        };
        check(&mut together, PROMPTS);
        for step in &STEPS {
            let [a, b, c] = step.map(|token| [token]);
            check(&mut together, [&a, &b, &c]);
        }
        assert_eq!(together.lengths(), [7, 5, 6]);
    }
}

#[test]
fn a_cache_of_a_capacity_is_written_in_place_and_not_beyond() {
    let model = load(Device::cpu(), true);
    let mut decoder = Decoder::new(&model, 100).unwrap();
    assert_eq!(decoder.capacity(), 16);
    let start = |decoder: &Decoder| {
        let cache = decoder.session().state("past_key_values.0.key").unwrap();
        cache.as_bytes().unwrap().as_ptr()
    };
    decoder.feed(&[1, 2, 3]).unwrap();
    let first = start(&decoder);
    for _ in 3..16 {
        decoder.feed(&[4]).unwrap();
        assert_eq!(start(&decoder), first);
    }
    let error = decoder.feed(&[4]).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("E0879", ErrorKind::Limit));
    assert_eq!(decoder.lengths(), [16]);
}

#[test]
fn attention_reads_what_there_is_of_a_capacity() {
    let sizes = (Dim::fixed(100), Dim::range(1..=100));
    let model = load_with(Device::cpu(), Some(sizes));
    let mut decoder = Decoder::new(&model, 100).unwrap();
    let mut reference = Decoder::new(&load(Device::interpreter(), false), 100).unwrap();
    let mut feed = |tokens: &[i64]| {
        let found = numbers(&decoder.feed(tokens).unwrap());
        let expected = numbers(&reference.feed(tokens).unwrap());
        assert!(close(&found, &expected), "{found:?}, {expected:?}");
    };
    let prompt: Vec<i64> = (0..60).map(|token| token * 5 % 7).collect();
    feed(&prompt);
    for token in 0..40 {
        feed(&[token % 7]);
    }
    // One for the prompt, one for single tokens with the first 64, and one with all 100.
    assert_eq!(model.compilation_stats().launch_plans, 3);
}

#[test]
fn what_was_forgotten_is_not_seen() {
    let model = load(Device::cpu(), true);
    let mut decoder = Decoder::new(&model, 16).unwrap();
    decoder.feed(&[1, 2, 3]).unwrap();
    let expected = numbers(&decoder.feed(&[4]).unwrap());
    decoder.feed(&[5, 6]).unwrap();
    decoder.rewind(3).unwrap();
    assert!(close(&numbers(&decoder.feed(&[4]).unwrap()), &expected));
    let mut growing = Decoder::new(&load(Device::cpu(), false), 16).unwrap();
    growing.feed(&[1, 2]).unwrap();
    assert_eq!(growing.rewind(1).unwrap_err().code(), "E0878");
}

#[test]
fn branches_share_their_beginning_until_they_go_on() {
    let model = load(Device::cpu(), true);
    let mut one = Decoder::new(&model, 16).unwrap();
    one.feed(&[1, 2, 3]).unwrap();
    let mut other = one.fork().unwrap();
    let cache = |decoder: &Decoder| {
        decoder
            .session()
            .state("past_key_values.0.key")
            .unwrap()
            .clone()
    };
    let place = |decoder: &Decoder| cache(decoder).as_bytes().unwrap().as_ptr();
    assert_eq!(place(&one), place(&other));
    let before = cache(&one).copied().unwrap();
    let first = numbers(&other.feed(&[4]).unwrap());
    assert_ne!(place(&one), place(&other));
    assert!(cache(&one).bit_equal(&before));
    assert!(close(&numbers(&one.feed(&[4]).unwrap()), &first));
    // Both are updated in place from here on.
    let places = [place(&one), place(&other)];
    one.feed(&[5]).unwrap();
    other.feed(&[6]).unwrap();
    assert_eq!([place(&one), place(&other)], places);
}

#[test]
fn what_is_no_decoder_is_refused_by_what_it_lacks() {
    let load = |text: &str| Model::load(Source::text(text)).unwrap();
    let models = [
        load("graph @m(%x: f32[N]) -> f32[N] { return \"logits\" = %x }"),
        load("graph @m(%tokens: i64[T]) -> i64[T] { return \"y\" = %tokens }"),
        load("graph @m(%tokens: i64[T]) -> i64[T] { return \"logits\" = %tokens }"),
    ];
    for (model, lacking) in models.iter().zip(["tokens (", "logits (", "caches ("]) {
        let error = Decoder::new(model, 8).unwrap_err();
        assert_eq!(error.code(), "E0878");
        assert!(error.to_string().contains(lacking), "{error}");
    }
}
