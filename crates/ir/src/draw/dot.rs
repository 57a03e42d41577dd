//! A graph in the DOT language, for graphviz.
//!
//! Layout is left to graphviz. Regions of control ops are clusters next to their op, tied to it by a dashed edge.

use super::scene::{Row, Scene, SceneNode, scene};
use crate::graph::Graph;
use std::fmt::Write;

/// Draws a graph as a DOT document, for `dot -Tsvg` and the like.
///
/// ```
/// let graph = kiln_ir::Graph::new("empty");
/// assert!(kiln_ir::draw::dot(&graph).starts_with("digraph \"empty\" {"));
/// ```
pub fn dot(graph: &Graph) -> String {
    let mut writer = Writer {
        out: String::new(),
        next_cluster: 0,
    };
    writer.line(0, &format!("digraph {} {{", quote(graph.name())));
    writer.line(
        1,
        "node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fontsize=11];",
    );
    writer.line(
        1,
        "edge [fontname=\"sans-serif\", fontsize=9, color=\"#666666\"];",
    );
    writer.scene(&scene(graph), "n", 1);
    writer.line(0, "}");
    writer.out
}

struct Writer {
    out: String,
    next_cluster: usize,
}

impl Writer {
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a `String` does not fail.
        let _infallible = writeln!(self.out, "{:width$}{text}", "", width = 2 * depth);
    }

    /// Recursion is bounded by the depth of scenes.
    fn scene(&mut self, scene: &Scene, prefix: &str, depth: usize) {
        for (index, node) in scene.nodes.iter().enumerate() {
            let id = format!("{prefix}{index}");
            let tooltip = node
                .origin
                .as_ref()
                .map(|origin| format!(", tooltip={}", quote(origin)));
            let style = format!(
                "fillcolor=\"{}\"{}",
                node.kind.fill(),
                tooltip.unwrap_or_default()
            );
            self.line(depth, &format!("{id} [label={}, {style}];", label(node)));
            for (position, (role, inner)) in node.inner.iter().enumerate() {
                self.cluster(inner, role, &id, &format!("{id}_{position}_"), depth);
            }
        }
        for edge in &scene.edges {
            let ends = format!("{prefix}{} -> {prefix}{}", edge.from, edge.to);
            self.line(depth, &format!("{ends} [label={}];", quote(&edge.label)));
        }
    }

    fn cluster(&mut self, scene: &Scene, role: &str, owner: &str, prefix: &str, depth: usize) {
        self.line(depth, &format!("subgraph cluster_{} {{", self.next_cluster));
        self.next_cluster += 1;
        self.line(
            depth + 1,
            &format!(
                "label={}; style=\"rounded,dashed\"; fontname=\"sans-serif\";",
                quote(role)
            ),
        );
        self.scene(scene, prefix, depth + 1);
        self.line(depth, "}");
        if !scene.nodes.is_empty() {
            self.line(
                depth,
                &format!("{owner} -> {prefix}0 [style=dashed, arrowhead=none];"),
            );
        }
    }
}

fn label(node: &SceneNode) -> String {
    let mut text = node.title.clone();
    for row in &node.rows {
        text.push('\n');
        match row {
            Row::Attribute(row) => text.push_str(row),
            Row::Constant(row) => {
                text.push_str("= ");
                text.push_str(row);
            }
        }
    }
    quote(&text)
}

/// A string of the DOT language; a backslash escapes, so it is doubled.
fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            control if control.is_control() => {
                quoted.extend(control.escape_default().flat_map(|c| {
                    // The escape's own backslash is text to graphviz.
                    if c == '\\' { vec!['\\', '\\'] } else { vec![c] }
                }))
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
