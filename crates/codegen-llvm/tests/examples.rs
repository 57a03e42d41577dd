//! Every example of the kernel form, compiled with every schedule at every level.

mod support;

use kiln_codegen_llvm::{IsaLevel, LlvmCompiler};
use kiln_kernel::KernelCompiler as _;

fn examples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernel/tests/examples");
    let mut examples: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    examples.sort();
    examples
}

#[test]
fn every_example_becomes_an_object_at_every_level() {
    let compiler = LlvmCompiler::new();
    for (name, text) in examples() {
        let kernel = support::kernel(&text);
        for level in IsaLevel::ALL {
            let candidates = compiler.schedules(&kernel, &LlvmCompiler::target(level));
            for candidate in candidates {
                let started = std::time::Instant::now();
                let artifact = support::compile(&kernel, level, &candidate.schedule);
                println!(
                    "{name} {level} {} {} bytes {:?}",
                    candidate.schedule,
                    artifact.code.len(),
                    started.elapsed()
                );
            }
        }
    }
}
