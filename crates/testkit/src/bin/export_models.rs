//! Writes random graphs as ONNX models with inputs, as folders of test cases: `export_models FOLDER COUNT`.
//!
//! `cargo xtask cross-check` runs them on another implementation, and compares.
#![forbid(unsafe_code)]

use std::path::Path;

use arbitrary::Unstructured;
use kiln_testkit::export::{tensor_file, to_onnx};
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::random::seeded_bytes;

/// The number of seeds tried for each requested model, since not every graph can be expressed in ONNX.
const ATTEMPTS: u64 = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("expected a folder and a number of models".into());
    };
    let (folder, count): (&Path, u64) = (Path::new(&folder), count.parse()?);
    let mut written = 0;
    for seed in 0..count.saturating_mul(ATTEMPTS) {
        if written == count {
            break;
        }
        if write_model(&folder.join(format!("seed_{seed}")), seed)? {
            written += 1;
        }
    }
    if written < count {
        return Err(format!("expected {count} models, found {written} of all seeds").into());
    }
    Ok(())
}

/// Writes the model of a seed, if its graph can be expressed in ONNX.
fn write_model(folder: &Path, seed: u64) -> Result<bool, Box<dyn std::error::Error>> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        max_ops: 16,
        smooth: true,
    };
    let graph = random_graph(&mut choices, &options)?;
    let Some(shapes) = input_shapes(&mut choices, &graph)? else {
        return Ok(false);
    };
    let inputs = input_tensors(&mut choices, &graph, &shapes, Flavor::Smooth)?;
    let Some(model) = to_onnx(&graph, &shapes) else {
        return Ok(false);
    };
    let data = folder.join("test_data_set_0");
    std::fs::create_dir_all(&data)?;
    std::fs::write(folder.join("model.onnx"), model)?;
    for (index, input) in inputs.iter().enumerate() {
        let file = tensor_file(&format!("x{index}"), input).ok_or("no file of a tensor")?;
        std::fs::write(data.join(format!("input_{index}.pb")), file)?;
    }
    Ok(true)
}
