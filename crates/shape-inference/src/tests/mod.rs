//! Tests of the rules through text: inputs and ops in, types and facts out.

mod builder;
mod check;
mod contraction;
mod control;
mod elementwise;
mod engine;
mod indexing;
mod laws;
mod movement;
mod read;
mod reduction;
mod values;

use crate::read_graph;
use kiln_ir::{BlobMap, Graph};
use kiln_symbolic_shape::FactOrigin;
use std::fmt::Write;

/// The types that inference gives the results of `ops`, and the facts it records.
fn types(inputs: &str, ops: &str) -> String {
    match read_graph(
        &format!("graph @t({inputs}) -> () {{\n{ops}\nreturn }}"),
        &BlobMap::new(),
    ) {
        Ok(graph) => describe(&graph),
        Err(diagnostics) => diagnostics.to_string(),
    }
}

/// A line per result of the body's ops, then a line per fact.
fn describe(graph: &Graph) -> String {
    let dims = graph.dims();
    let mut text = String::new();
    for &op in &graph.region(graph.body()).ops {
        for &result in &graph.op(op).results {
            let name = graph
                .value(result)
                .name
                .clone()
                .unwrap_or_else(|| result.to_string().into());
            let ty = graph.ty(result).display(dims);
            writeln!(text, "{}: {ty}", name.trim_start_matches('%')).unwrap();
        }
    }
    for fact in dims.contract_facts() {
        if let FactOrigin::Required(by) = &fact.origin {
            writeln!(
                text,
                "requires {} by {by}",
                dims.display_predicate(&fact.predicate)
            )
            .unwrap();
        }
    }
    for fact in dims.plan_facts() {
        writeln!(
            text,
            "plan {} == {} by {}",
            dims.display(fact.left),
            dims.display(fact.right),
            fact.origin
        )
        .unwrap();
    }
    text.trim_end().to_owned()
}
