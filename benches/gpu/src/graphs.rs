//! Graphs on the GPU against the interpreter, through the facade.

use crate::case::{self, Case};
use anyhow::Error;
use kiln::{Device, Options, Source, diagnose};

/// Checks the graphs of a file.
pub(crate) fn run(file: &str) -> Result<(), Error> {
    let (mut agreed, mut wrong, mut refused, mut interpreted) = (0, 0, 0, 0);
    for case in case::read(file)? {
        match check(&case) {
            Ok((is_right, steps)) => {
                agreed += usize::from(is_right);
                wrong += usize::from(!is_right);
                interpreted += steps;
            }
            Err(error) => {
                refused += 1;
                let line = serde_json::json!({"graph": case.name, "error": format!("{error:#}")});
                println!("{line}");
            }
        }
    }
    println!(
        "graphs: {agreed} agreed, {wrong} wrong, {refused} refused; {interpreted} steps interpreted"
    );
    Ok(())
}

/// Whether a graph's outputs are correct, and how many steps were interpreted.
fn check(case: &Case) -> Result<(bool, u64), Error> {
    let options = Options::new().device(Device::cuda(0)).shared_kernels(false);
    let model = options.load(Source::text(&case.text))?;
    let names = model.inputs().iter().map(|input| input.name().to_owned());
    let inputs: Vec<_> = names.zip(case.tensors()?).collect();
    let reference = match diagnose::reference(&model, &inputs) {
        Ok(reference) => reference,
        // It faults, or its sizes do not fit.
        Err(_) => return Ok((true, 0)),
    };
    let comparison = diagnose::compare(&model, &reference)?;
    if !comparison.agrees() {
        let first = comparison
            .first_difference
            .as_ref()
            .map(ToString::to_string);
        let line = serde_json::json!({"graph": case.name, "first_difference": first});
        println!("{line}");
    }
    let steps = model.compilation_stats().interpreted_steps;
    Ok((comparison.agrees(), steps))
}
