//! Sizes at the 32-bit and 64-bit limits in compiled programs: computed correctly, or rejected before anything is
//! allocated.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use kiln_ir::BlobMap;
use kiln_tensor::Tensor;
use kiln_testkit::programs::Compared;
use support::graphs;

/// Factors of the sizes.
const BOUNDARY: [i64; 12] = [
    0,
    1,
    2,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 1,
    1 << 32,
    (1 << 62) - 1,
    1 << 62,
    i64::MAX,
    -1,
    i64::MIN,
];

/// More bytes than any machine has, so that allocating them fails.
const IMPOSSIBLE: i128 = 1 << 48;

/// Row 3 of the table of faults, in compiled code.
#[test]
fn sizes_on_the_boundary_are_refused_by_compiled_programs() {
    // Sizes that are data.
    let text = "graph @sizes(%n: i64[], %m: i64[], %x: f32[]) -> f32[N, M] {
      bind %n -> (N)
      bind %m -> (M)
      %b = broadcast %x {dims = [N, M]}
      %y = tanh %b
      return %y
    }";
    let graph = match kiln_shape_inference::read_graph(text, &BlobMap::new()) {
        Ok(graph) => graph,
        Err(errors) => panic!("{}", errors.render(text)),
    };
    let compared = Compared::new(&graph, &graphs::runtimes(), true).unwrap();
    for n in BOUNDARY {
        for m in BOUNDARY {
            let bytes = (i128::from(n) * i128::from(m)).saturating_mul(4);
            let longest = i128::from(n.max(m));
            let possible = n >= 0 && m >= 0 && bytes <= 64 && longest < IMPOSSIBLE;
            if !possible && n >= 0 && m >= 0 && bytes < IMPOSSIBLE && bytes > 0 {
                // Some machines may have this much memory.
                continue;
            }
            let inputs = [
                Tensor::scalar(n),
                Tensor::scalar(m),
                Tensor::scalar(0.5_f32),
            ];
            for program in compared.programs() {
                match program.run(&inputs) {
                    Ok(outputs) => {
                        assert!(possible, "{n} by {m} has a result");
                        let shape = [n, m].map(|size| usize::try_from(size).unwrap());
                        assert_eq!(outputs[0].shape(), shape);
                    }
                    Err(error) => {
                        assert!(!possible, "{n} by {m}: {error}");
                        let code = error.code();
                        assert!(code.starts_with("E03") || code.starts_with("E08"), "{code}");
                    }
                }
            }
        }
    }
}
