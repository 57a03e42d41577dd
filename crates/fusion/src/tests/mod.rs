//! Which ops are fused and which are not, rule by rule, with symbolic and with known sizes.

mod budgets;
mod explained;
mod loops;
mod nodes;
mod refused;
mod rules;

use kiln_ir::{BlobMap, Graph, OpId, ValueId};
use kiln_shape_inference::read_graph;

use crate::{FusionOptions, FusionPlan, plan};

/// A graph from its text, types filled in, those of the outputs too. Values named by numbers keep their names.
fn read(source: &str) -> Graph {
    let Some((body, results)) = source.rsplit_once("return") else {
        panic!("a graph returns")
    };
    let results: Vec<&str> = results
        .trim()
        .trim_end_matches('}')
        .split(',')
        .map(str::trim)
        .collect();
    let body = match body.find(") where") {
        Some(_) => body.replacen(") where", ") -> () where", 1),
        None => body.replacen(") {", ") -> () {", 1),
    };
    let text = format!("{body}return\n}}").replace('%', "%v");
    let text = text.replace("%vv", "%w");
    let mut graph = read_graph(&text, &BlobMap::new())
        .unwrap_or_else(|error| panic!("{}\n{text}", error.render(&text)));
    let outputs: Vec<(String, ValueId)> = results
        .iter()
        .map(|name| ((*name).to_owned(), value(&graph, name)))
        .collect();
    graph.set_outputs(outputs);
    graph
}

fn planned(source: &str) -> (Graph, FusionPlan) {
    let graph = read(source);
    let plan = plan(&graph, &FusionOptions::new()).unwrap();
    (graph, plan)
}

/// The value of this name in the text: `%3`, `%x`.
fn value(graph: &Graph, name: &str) -> ValueId {
    let name = name.replace('%', "v").replace("vv", "w");
    let mut values = (0..graph.n_values()).map(|id| ValueId::from_u32(u32::try_from(id).unwrap()));
    let found = values.find(|&value| graph.input_name(value) == name);
    found.unwrap_or_else(|| panic!("no value {name}"))
}

/// The op that produces a value.
fn op(graph: &Graph, name: &str) -> OpId {
    crate::grow::defining(graph, value(graph, name)).unwrap()
}
