//! Seeds for the fuzzers of binary formats, made by Kiln's own writers.
//!
//! `fuzz/seeds` holds them, so that a format that changes leaves the older ones there too: they are damaged input then. The
//! ignored test `fuzz_seeds_are_regenerated` of `tests/regressions.rs` writes them.

use kiln_tensor::{DType, Tensor, write_npy};

use super::stored::{example_bundle, example_entry};
use crate::random::seeded_bytes;

/// A seed: its target, its name and its bytes.
pub type Seed = (&'static str, String, Vec<u8>);

/// The seeds of the targets whose inputs are not text.
pub fn seeds() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for number in 0..4_u64 {
        let name = format!("choices-{number}");
        let bytes = seeded_bytes(number, 512);
        for target in ["read_program", "prove_sizes", "run_compiled"] {
            seeds.push((target, name.clone(), bytes.clone()));
        }
        for target in ["read_kernel", "run_kernel"] {
            seeds.push((target, format!("seed-{number}"), bytes[..8].to_vec()));
        }
        // The first byte selects whether digests are recomputed.
        let chosen = |file: Vec<u8>| [vec![number as u8 % 2], file].concat();
        let content = seeded_bytes(number, 7 * number as usize);
        seeds.push(("read_entry", name.clone(), chosen(example_entry(&content))));
        seeds.push(("read_bundle", name, chosen(example_bundle(&bytes))));
    }
    for (dtype, shape) in [
        (DType::F32, &[2, 3][..]),
        (DType::I64, &[]),
        (DType::Bool, &[4]),
        (DType::F16, &[2, 0, 5]),
    ] {
        let mut bytes = Vec::new();
        let tensor = Tensor::zeros(dtype, shape);
        if tensor.is_ok_and(|tensor| write_npy(&tensor, &mut bytes).is_ok()) {
            seeds.push(("read_array", format!("{dtype}-{}.npy", shape.len()), bytes));
        }
    }
    seeds
}
