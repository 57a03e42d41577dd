//! Writes kernels and graphs with operands, as JSON lines, for `kiln-gpu`, which runs where this crate does not:
//! `export_gpu_cases FOLDER KERNELS GRAPHS` writes `kernels.jsonl` and `graphs.jsonl`.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use arbitrary::Unstructured;
use kiln_kernel::VerifiedKernel;
use kiln_tensor::Tensor;
use kiln_testkit::cases::folder;
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::kernels::{
    Elements, covering_sizes, kernel_tensors, random_kernel, random_sizes,
};
use kiln_testkit::random::{SplitMix64, seeded_bytes};

/// The maximum amount of work of a case, since the evaluator is slow.
const MOST_WORK: f64 = 4000.0;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [to, kernels, graphs] = &arguments[..] else {
        return Err("expected a folder, a number of random kernels, and one of graphs".into());
    };
    let to = Path::new(to);
    std::fs::create_dir_all(to)?;
    let mut lines = String::new();
    for (name, text) in files()? {
        let sizes = |kernel: &VerifiedKernel| covering_sizes(kernel, MOST_WORK);
        write_kernel(&mut lines, &name, &text, sizes)?;
    }
    for seed in 0..kernels.parse()? {
        let mut random = SplitMix64::new(seed);
        write_kernel(
            &mut lines,
            &format!("seed {seed}"),
            &random_kernel(seed),
            |kernel| {
                let sizes = (0..6).filter_map(|_| random_sizes(&mut random, kernel, MOST_WORK));
                sizes.collect()
            },
        )?;
    }
    std::fs::write(to.join("kernels.jsonl"), &lines)?;
    lines.clear();
    for seed in 0..graphs.parse()? {
        write_graph(&mut lines, seed)?;
    }
    std::fs::write(to.join("graphs.jsonl"), &lines)?;
    Ok(())
}

/// The kernels of files, by topic and name.
fn files() -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let mut found = Vec::new();
    for topic in std::fs::read_dir(folder())? {
        for file in std::fs::read_dir(topic?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|end| end == "kernel") {
                let name = path.strip_prefix(folder())?.display().to_string();
                found.push((name, std::fs::read_to_string(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Adds a kernel at each of the sizes chosen by `sizes`, if it is valid.
fn write_kernel(
    lines: &mut String,
    name: &str,
    text: &str,
    sizes: impl FnOnce(&VerifiedKernel) -> Vec<Vec<i64>>,
) -> Result<(), Box<dyn Error>> {
    let Ok(kernel) = kiln_kernel::text::read(text) else {
        return Ok(());
    };
    let Ok(kernel) = kiln_kernel::verify(kernel) else {
        return Ok(());
    };
    let text = kiln_kernel::text::print(kernel.kernel());
    for (number, symbols) in sizes(&kernel).into_iter().enumerate() {
        let elements = Elements {
            flavor: match number % 5 {
                2 => Flavor::Special,
                _ => Flavor::Smooth,
            },
            indices: match number % 5 {
                4 => (-1, 3),
                _ => (0, 1),
            },
        };
        let mut random = SplitMix64::new(number as u64);
        let made = kernel_tensors(&mut random, kernel.kernel(), &symbols, elements)?;
        if let Some(tensors) = made {
            write_line(lines, name, &text, &symbols, &tensors)?;
        }
    }
    Ok(())
}

/// Adds a random graph.
fn write_graph(lines: &mut String, seed: u64) -> Result<(), Box<dyn Error>> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let options = GraphOptions {
        max_ops: 16,
        smooth: true,
    };
    let graph = random_graph(&mut choices, &options)?;
    let Some(shapes) = input_shapes(&mut choices, &graph)? else {
        return Ok(());
    };
    if shapes.iter().flatten().any(|&size| size > 40) {
        return Ok(());
    }
    let tensors = input_tensors(&mut choices, &graph, &shapes, Flavor::Smooth)?;
    let text = kiln_ir::text::print(&graph);
    write_line(lines, &format!("seed {seed}"), &text, &[], &tensors)
}

fn write_line(
    lines: &mut String,
    name: &str,
    text: &str,
    symbols: &[i64],
    tensors: &[Tensor],
) -> Result<(), Box<dyn Error>> {
    let mut elements = Vec::new();
    for tensor in tensors {
        let dense = tensor.contiguous()?;
        let mut bytes = String::new();
        for byte in dense.as_bytes()? {
            write!(bytes, "{byte:02x}")?;
        }
        let (dtype, shape) = (tensor.dtype().to_string(), tensor.shape());
        elements.push(serde_json::json!({"dtype": dtype, "shape": shape, "bytes": bytes}));
    }
    let line = serde_json::json!({
        "name": name, "text": text, "symbols": symbols, "tensors": elements,
    });
    writeln!(lines, "{line}")?;
    Ok(())
}
