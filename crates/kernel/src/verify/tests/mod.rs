//! The verifier on every example; rules and proofs have separate files.

mod proofs;
mod rules;
mod soundness;

use super::*;
use crate::form::Node;
use crate::verified::IndexClass;

/// The verifier's results, in a few lines.
pub(crate) fn summary(kernel: &VerifiedKernel) -> String {
    let mut text = String::new();
    let classification = kernel.classification();
    text += &format!("{}", classification.class);
    for (id, axis) in kernel.axes() {
        text += &format!(" {}:{}", axis.name, classification.roles[id].as_word());
    }
    text += "\n";
    let word = |class: &IndexClass| format!("{class:?}").to_lowercase();
    for (id, data) in kernel.nodes() {
        if let Node::Load(load) = &data.node {
            let classes: Vec<String> = kernel.info().loads[id].iter().map(word).collect();
            let name = &kernel.buffer(load.buffer).name;
            text += &format!("%{name}[{}]\n", classes.join(", "));
        }
    }
    for info in &kernel.info().stores {
        let classes: Vec<String> = info.indices.iter().map(word).collect();
        text += &format!("store[{}]", classes.join(", "));
        for &axis in &info.serial {
            text += &format!(" serial {}", kernel.axis(axis).name);
        }
        text += "\n";
    }
    text
}

fn read(text: &str) -> VerifiedKernel {
    let kernel = crate::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    verify(kernel).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The codes and messages of a kernel's errors.
fn wrong(text: &str) -> String {
    let kernel = crate::text::read(text).unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    verify(kernel).unwrap_err().to_string()
}
