//! Long texts: nothing is compiled after the first tokens, no cache is copied except when it grows, and memory is what
//! the weights and caches need; compiled decoding equals interpreted decoding.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

use kiln::decode::{Decoder, Generation, Sampling};
use kiln::{Cache, Compiling, Device, Model, Options, Source, Tensor};
use kiln_language_model::{cache, gpt2, llama};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the system allocator's contract is upheld by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time, since memory is counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

fn options(device: Device) -> Options {
    Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off())
        // Variants are compiled in the background, once calls have shown which sizes take time.
        .compiling(Compiling {
            variants: None,
            ..Compiling::default()
        })
}

const LONG: llama::Shape = llama::Shape {
    name: "long",
    width: 512,
    layers: 4,
    heads: 8,
    kv_heads: 4,
    hidden: 1024,
    vocabulary: 2000,
};

const SMALL: llama::Shape = llama::Shape {
    name: "small",
    width: 16,
    layers: 2,
    heads: 4,
    kv_heads: 2,
    hidden: 24,
    vocabulary: 11,
};

const TOKENS: usize = 2000;
/// The length from which on the caches have their final size.
const FULL: usize = 1100;

fn start(decoder: &Decoder) -> *const u8 {
    let cache = decoder.session().state(&cache(0, "keys")).unwrap();
    cache.as_bytes().unwrap().as_ptr()
}

#[test]
fn two_thousand_tokens_compile_nothing_copy_nothing_and_need_no_more_memory() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = LIVE.load(Ordering::Relaxed);
    let graph = llama::graph(&LONG, "C".into()).unwrap();
    let model = options(Device::cpu()).load(Source::graph(graph)).unwrap();
    let mut decoder = Decoder::new(&model, 2048).unwrap();
    decoder.feed(&[1, 2, 3, 4, 5]).unwrap();
    decoder.feed(&[6]).unwrap();
    let compiled = model.compilation_stats().compilations;
    let (mut places, mut last) = (1, start(&decoder));
    let mut full = None;
    while decoder.lengths()[0] < TOKENS {
        let token = decoder.lengths()[0] as i64 * 31 % LONG.vocabulary as i64;
        decoder.feed(&[token]).unwrap();
        places += usize::from(start(&decoder) != last);
        last = start(&decoder);
        if decoder.lengths()[0] == FULL {
            full = Some(LIVE.load(Ordering::Relaxed));
        }
    }
    let stats = model.compilation_stats();
    println!(
        "{compiled} kernels, {} launch plans, {places} places of a cache",
        stats.launch_plans
    );
    assert_eq!(
        stats.compilations, compiled,
        "compiles after the first two calls"
    );
    assert_eq!(stats.interpreted_steps, 0);
    // 64, 128, 256, 512, 1024 and 2048 entries.
    assert_eq!(places, 6);
    // After the last growth only launch plans are added: four while the length doubles.
    let live = LIVE.load(Ordering::Relaxed);
    let more = live.saturating_sub(full.unwrap());
    assert!(more < 3 << 20, "{more} bytes more");
    // Weights that kernels read packed are in memory only in that form.
    let caches = 2 * LONG.layers * LONG.kv_heads * LONG.each() * 2048 * size_of::<f32>();
    let weights = (LONG.n_weights() + LONG.vocabulary * LONG.width) * size_of::<f32>();
    let live = live - before;
    println!("weights {weights}, caches {caches}, in use {live}");
    assert!(live as f64 <= 1.1 * (weights + caches) as f64);
}

#[test]
fn compiled_text_is_the_interpreters() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let gpt2 = gpt2::Shape {
        width: 16,
        layers: 2,
        heads: 4,
        positions: 128,
        vocabulary: 11,
    };
    let graphs = [
        llama::graph(&SMALL, "C".into()).unwrap(),
        gpt2::graph(&gpt2, "C".into()).unwrap(),
    ];
    for graph in graphs {
        let texts = [Device::interpreter(), Device::cpu()].map(|device| {
            let model = options(device).load(Source::graph(graph.clone())).unwrap();
            let mut decoder = Decoder::new(&model, 128).unwrap();
            let generation = Generation::new(30).sampling(Sampling::new().top_k(5).seed(3));
            let mut seen = Vec::new();
            let mut all = Vec::new();
            // Twice, so that the second text continues the first, and exceeds 64 entries.
            for prompt in [&[1, 2, 3][..], &[4]] {
                let each = |token| {
                    seen.push(token);
                    ControlFlow::Continue(())
                };
                all.extend(decoder.generate(prompt, &generation, each).unwrap());
            }
            assert_eq!(seen, all);
            // All tokens but the last have been fed: 3 + 30, and 1 + 30.
            assert_eq!(decoder.lengths(), [63]);
            all
        });
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0].len(), 60);
    }
}

#[test]
fn a_text_ends_where_it_is_told_to() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let graph = llama::graph(&SMALL, "C".into()).unwrap();
    let model = options(Device::cpu()).load(Source::graph(graph)).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let generate = |generation: &Generation| {
        let mut decoder = Decoder::new(&model, 64).unwrap();
        decoder.generate(&[1, 2], generation, go_on).unwrap()
    };
    let sampling = Sampling::new().seed(5);
    let all = generate(&Generation::new(12).sampling(sampling));
    assert_eq!(all.len(), 12);
    let stop = all[7];
    let first = all.iter().position(|&token| token == stop).unwrap();
    let stopped = generate(&Generation::new(12).sampling(sampling).stop(stop));
    assert_eq!(stopped, all[..first]);
    let mut decoder = Decoder::new(&model, 64).unwrap();
    let mut left = 3;
    let broken = decoder.generate(&[1, 2], &Generation::new(12).sampling(sampling), |_| {
        left -= 1;
        match left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    assert_eq!(broken.unwrap(), all[..3]);
    assert!(generate(&Generation::new(0)).is_empty());
    let error = Decoder::new(&model, 4)
        .unwrap()
        .feed(&[1, 2, 3, 4, 5])
        .unwrap_err();
    assert_eq!(error.code(), "E0879");
}

/// A text, and the sum of its log-probabilities.
type Scored = (f64, Vec<i64>);

/// The log-probability of each token.
fn log_probabilities(logits: &Tensor) -> Vec<f64> {
    let logits = logits.to_vec::<f32>().unwrap();
    let largest = logits.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|&logit| f64::from(logit - largest).exp())
        .sum();
    logits
        .iter()
        .map(|&logit| f64::from(logit - largest) - sum.ln())
        .collect()
}

/// The best `width` continuations of these texts by one token, each with the index of its parent.
fn best(beams: &[(Scored, Vec<f64>)], width: usize) -> Vec<(Scored, usize)> {
    let mut all = Vec::new();
    for (parent, ((score, text), next)) in beams.iter().enumerate() {
        for (token, more) in next.iter().enumerate() {
            let text: Vec<i64> = text.iter().copied().chain([token as i64]).collect();
            all.push(((score + more, text), parent));
        }
    }
    all.sort_by(|a, b| b.0.0.total_cmp(&a.0.0));
    all.truncate(width);
    all
}

/// Beam search over branches of a session.
fn over_branches(model: &Model, prompt: &[i64], (width, steps): (usize, usize)) -> Vec<Scored> {
    let mut root = Decoder::new(model, 64).unwrap();
    let logits = root.feed(prompt).unwrap();
    let mut beams = vec![((0.0, Vec::new()), log_probabilities(&logits))];
    let mut decoders = vec![root];
    for _ in 0..steps {
        let chosen = best(&beams, width);
        let mut next = Vec::new();
        beams = Vec::new();
        for (scored, parent) in chosen {
            let mut decoder = decoders[parent].fork().unwrap();
            let token = *scored.1.last().unwrap();
            let logits = decoder.feed(&[token]).unwrap();
            beams.push((scored, log_probabilities(&logits)));
            next.push(decoder);
        }
        decoders = next;
    }
    beams.into_iter().map(|(scored, _)| scored).collect()
}

/// The same, with each text computed from its beginning by the interpreter.
fn from_the_beginning(
    model: &Model,
    prompt: &[i64],
    (width, steps): (usize, usize),
) -> Vec<Scored> {
    let next = |text: &[i64]| {
        let all: Vec<i64> = prompt.iter().chain(text).copied().collect();
        log_probabilities(&Decoder::new(model, 64).unwrap().feed(&all).unwrap())
    };
    let mut beams = vec![((0.0, Vec::new()), next(&[]))];
    for _ in 0..steps {
        let chosen = best(&beams, width).into_iter();
        beams = chosen
            .map(|(scored, _)| (scored.clone(), next(&scored.1)))
            .collect();
    }
    beams.into_iter().map(|(scored, _)| scored).collect()
}

#[test]
fn beams_are_branches() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let graph = llama::graph(&SMALL, "C".into()).unwrap();
    let compiled = options(Device::cpu())
        .load(Source::graph(graph.clone()))
        .unwrap();
    let interpreted = options(Device::interpreter())
        .load(Source::graph(graph))
        .unwrap();
    for size in [(1, 4), (3, 4), (11, 2)] {
        let found = over_branches(&compiled, &[3, 1], size);
        let expected = from_the_beginning(&interpreted, &[3, 1], size);
        assert_eq!(found.len(), expected.len());
        for ((score, text), (wanted, expected)) in found.iter().zip(&expected) {
            assert!((score - wanted).abs() < 1e-3, "{score} for {wanted}");
            assert_eq!(text, expected);
        }
    }
}
