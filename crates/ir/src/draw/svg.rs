//! A graph as an SVG picture, laid out without another program.
//!
//! Text is set in a fixed-width font so that widths are known; everything from outside is escaped
//! for XML.

use super::labels::shorten;
use super::layout::{LINE, PADDING, Picture, place, port, text_height};
use super::scene::{NodeKind, Row, Scene, SceneNode, scene};
use crate::graph::Graph;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Space above the picture for the graph's name.
const HEADER: f64 = 36.0;

/// Draws a graph as an SVG document.
///
/// ```
/// let graph = kiln_ir::Graph::new("empty");
/// assert!(kiln_ir::draw::svg(&graph).starts_with("<svg "));
/// ```
pub fn svg(graph: &Graph) -> String {
    let scene = scene(graph);
    let picture = place(&scene);
    let name = shorten(graph.name());
    let width = picture
        .width
        .max(160.0)
        .max(name.chars().count() as f64 * 10.0 + 2.0 * PADDING)
        .ceil();
    let height = (picture.height + HEADER).ceil();
    let mut writer = Writer { out: String::new() };
    writer.line(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
    ));
    writer.styles();
    writer.line(&format!(
        "<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>"
    ));
    writer.line(&format!(
        "<text class=\"name\" x=\"{PADDING}\" y=\"22\">{}</text>",
        escape(&name)
    ));
    writer.line(&format!("<g transform=\"translate(0 {HEADER})\">"));
    writer.scene(&scene, &picture);
    writer.line("</g>");
    writer.line("</svg>");
    writer.out
}

struct Writer {
    out: String,
}

impl Writer {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn styles(&mut self) {
        self.line("<style>");
        self.line("text { font: 12px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #222; }");
        self.line(".name { font-size: 16px; font-weight: bold; } .title { font-weight: bold; }");
        self.line(".constant-row { fill: #777; } .role { font-size: 11px; fill: #666; }");
        self.line(".label { font-size: 10px; fill: #345; text-anchor: middle; stroke: #fff; stroke-width: 3px; paint-order: stroke; }");
        self.line(".ground { fill: #fff; } .box { stroke: #888; } .region { fill: #fff; stroke: #aaa; stroke-dasharray: 4 3; }");
        self.line(".wire { fill: none; stroke: #99a; } .note { font-style: italic; }");
        for kind in NodeKind::ALL {
            self.line(&format!(".{} {{ fill: {}; }}", kind.word(), kind.fill()));
        }
        self.line("</style>");
        self.line("<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#99a\"/></marker></defs>");
    }

    /// Recursion is bounded by the depth of scenes.
    fn scene(&mut self, scene: &Scene, picture: &Picture) {
        for points in &picture.wires {
            self.wire(points);
        }
        for (node, placed) in scene.nodes.iter().zip(&picture.boxes) {
            let _infallible = writeln!(
                self.out,
                "<g transform=\"translate({:.1} {:.1})\">",
                placed.x, placed.y
            );
            self.node(node, placed.width, placed.height);
            for ((role, inner), (x, y, picture)) in node.inner.iter().zip(&placed.inner) {
                let _infallible = writeln!(self.out, "<g transform=\"translate({x:.1} {y:.1})\">");
                self.line(&format!(
                    "<text class=\"role\" x=\"4\" y=\"-4\">{role}</text>"
                ));
                let (width, height) = (picture.width, picture.height);
                self.line(&format!(
                    "<rect class=\"region\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"4\"/>"
                ));
                self.scene(inner, picture);
                self.line("</g>");
            }
            self.line("</g>");
        }
        self.labels(scene, picture);
    }

    fn node(&mut self, node: &SceneNode, width: f64, height: f64) {
        if let Some(origin) = &node.origin {
            self.line(&format!("<title>{}</title>", escape(origin)));
        }
        let word = node.kind.word();
        self.line(&format!(
            "<rect class=\"box {word}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"5\"/>"
        ));
        let middle = width / 2.0;
        let text = |class: &str, line: usize, text: &str| {
            let y = LINE * (line as f64 + 1.0) - 1.0;
            format!(
                "<text class=\"{class}\" x=\"{middle:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
                escape(text)
            )
        };
        self.line(&text("title", 0, &node.title));
        for (index, row) in node.rows.iter().enumerate() {
            let (class, row) = match row {
                Row::Attribute(row) => ("row", row),
                Row::Constant(row) => ("constant-row", row),
            };
            self.line(&text(class, index + 1, row));
        }
        debug_assert!(text_height(node) <= height);
    }

    fn wire(&mut self, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (index, &(x, y)) in points.iter().enumerate() {
            let _infallible = match index.checked_sub(1).and_then(|before| points.get(before)) {
                None => write!(path, "M{x:.1} {y:.1}"),
                Some(&(before_x, _)) if before_x == x => write!(path, "V{y:.1}"),
                Some(&(before_x, before_y)) => {
                    let middle = (before_y + y) / 2.0;
                    write!(
                        path,
                        "C{before_x:.1} {middle:.1} {x:.1} {middle:.1} {x:.1} {y:.1}"
                    )
                }
            };
        }
        self.line(&format!(
            "<path class=\"wire\" d=\"{path}\" marker-end=\"url(#tip)\"/>"
        ));
    }

    /// The type of each value, once, under the box that produces it.
    fn labels(&mut self, scene: &Scene, picture: &Picture) {
        let mut done = BTreeSet::new();
        for edge in &scene.edges {
            let (Some(placed), Some(node)) =
                (picture.boxes.get(edge.from), scene.nodes.get(edge.from))
            else {
                continue;
            };
            if done.insert((edge.from, edge.result)) {
                let x = placed.x + port(placed.width, edge.result, node.n_results);
                let y = placed.y + placed.height + 14.0;
                self.line(&format!(
                    "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
                    escape(&edge.label)
                ));
            }
        }
    }
}

/// Text as XML character data. Control characters were made visible earlier.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Not characters of XML.
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
