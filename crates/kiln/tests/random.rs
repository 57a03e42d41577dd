//! Random bits as integer arithmetic in kernels: equal to the interpreter's, with keys passed as data.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use kiln::internals::scalar::{Function, Mode, ScalarValue, evaluate};
use kiln::{Device, Model, Options, Source, Tensor};

/// A dropout between element-wise ops, its random bits, and its row sums.
const DROPOUT: &str =
    "graph @dropout(%x: f32[B, N], %bias: f32[N], %key: u64[2]) -> (f32[B, N], f32[B], u32[B, N]) {
  %bits = random_bits %key {dims = [B, N]}
  %eight: u32[] = constant [8]
  %whole = shr %bits, %eight
  %numbers = cast %whole {to = f32}
  %step: f32[] = constant [0.000000059604644775390625]
  %uniform = mul %numbers, %step
  %share: f32[] = constant [0.25]
  %kept = ge %uniform, %share
  %zero: f32[] = constant [0.0]
  %scale: f32[] = constant [1.3333334]
  %sum = add %x, %bias
  %active = relu %sum
  %chosen = select %kept, %active, %zero
  %y = mul %chosen, %scale
  %rows = reduce %y {function = max, axes = [1]}
  return %y, %rows, %bits
}";

fn run(model: &Model, shape: [usize; 2], key: [u64; 2]) -> Vec<Tensor> {
    let ramp = |n: usize| (0..n).map(|i| (i % 11) as f32 - 4.0).collect::<Vec<_>>();
    let x = Tensor::from_vec(&shape, ramp(shape[0] * shape[1])).unwrap();
    let bias = Tensor::from_vec(&[shape[1]], ramp(shape[1])).unwrap();
    let key = Tensor::from_slice(&[2], &key).unwrap();
    let inputs = [("x", &x), ("bias", &bias), ("key", &key)];
    model.run(inputs).unwrap().into_tensors()
}

fn models() -> (Model, Model) {
    let compiled = Options::new().device(Device::cpu()).shared_kernels(false);
    let interpreted = Options::new().device(Device::interpreter());
    (
        compiled.load(Source::text(DROPOUT)).unwrap(),
        interpreted.load(Source::text(DROPOUT)).unwrap(),
    )
}

#[test]
fn compiled_random_bits_equal_the_interpreters_at_every_shape() {
    let (compiled, interpreted) = models();
    let keys = [[0, 0], [7, 1 << 40], [u64::MAX, u64::MAX - 1]];
    let columns = [
        0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 257,
    ];
    for (position, n) in columns.into_iter().enumerate() {
        for rows in [0, 1, 2, 5, 13] {
            if n == 0 && rows > 0 {
                // Both reject the maximum of an empty axis.
                continue;
            }
            let key = keys[(position + rows) % keys.len()];
            let found = run(&compiled, [rows, n], key);
            let expected = run(&interpreted, [rows, n], key);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.bit_equal(expected), "{rows} x {n} under {key:?}");
            }
        }
    }
}

#[test]
fn another_key_gives_other_bits_and_compiles_nothing() {
    let (compiled, _) = models();
    let first = run(&compiled, [64, 96], [1, 0]);
    let compilations = compiled.compilation_stats().compilations;
    assert!(compilations > 0);
    let mut seen = vec![first];
    for step in 1..6 {
        let bits = run(&compiled, [64, 96], [1, step]);
        assert!(seen.iter().all(|earlier| !earlier[2].bit_equal(&bits[2])));
        assert!(seen.iter().all(|earlier| !earlier[0].bit_equal(&bits[0])));
        seen.push(bits);
    }
    assert!(run(&compiled, [64, 96], [1, 0])[2].bit_equal(&seen[0][2]));
    assert_eq!(compiled.compilation_stats().compilations, compilations);
}

#[test]
fn dropout_drops_a_quarter_of_the_elements() {
    let (compiled, _) = models();
    let n = 1 << 16;
    let bits = run(&compiled, [256, 256], [3, 5])[2]
        .to_vec::<u32>()
        .unwrap();
    let dropped = bits.iter().filter(|&&bits| bits < 1 << 30).count();
    // Within 6 standard deviations.
    let deviation = (f64::from(n) * 0.25 * 0.75).sqrt();
    assert!(
        (dropped as f64 - f64::from(n) * 0.25).abs() < 6.0 * deviation,
        "{dropped}"
    );
}

/// A few elements of a tensor far larger than memory: only these are computed.
#[test]
fn random_positions_are_64_bits_wide() {
    let text = "graph @far(%x: f32[N], %key: u64[2]) -> u32[N] {
      %bits = random_bits %key {dims = [N + 68719476736]}
      %last = slice %bits {starts = [68719476736], sizes = [N], steps = [1]}
      return %last
    }";
    let options = Options::new().device(Device::cpu()).shared_kernels(false);
    let model = options.load(Source::text(text)).unwrap();
    let (x, key) = (Tensor::full(&[100], 0.0f32), [7u64, 9]);
    let given = Tensor::from_slice(&[2], &key).unwrap();
    let inputs = [("x", &x.unwrap()), ("key", &given)];
    let bits = model.run(inputs).unwrap().into_tensors().remove(0);
    let expression = Function::random_bits().expression(&[]).unwrap();
    let expected = |i: u64| {
        let operands = [(1 << 36) + i, key[0], key[1]].map(ScalarValue::U64);
        evaluate(&expression, &operands, Mode::Declared).unwrap()
    };
    let expected: Vec<ScalarValue> = (0..100).map(expected).collect();
    let found = bits.to_vec::<u32>().unwrap().into_iter();
    assert_eq!(found.map(ScalarValue::U32).collect::<Vec<_>>(), expected);
}
