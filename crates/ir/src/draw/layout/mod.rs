//! Places the boxes of a scene in layers, top to bottom, so that edges run down and rarely cross.
//!
//! After Sugiyama, Tagawa and Toda (1981): assign layers, order each layer, assign coordinates.
//! Every step costs about linear time in boxes and edges; long edges get bends only while there
//! are fewer than [`BEND_LIMIT`]. Units are pixels at a font size of 12.

mod layers;
mod order;
mod position;

use super::scene::{Edge, Row, Scene, SceneNode};
use std::collections::BTreeMap;

/// The total number of bends of long edges; further edges are straight.
const BEND_LIMIT: usize = 20_000;
/// The width of a character in the fixed-width font of 12 pixels, rounded up.
const CHARACTER: f64 = 7.4;
/// The width of a character of an edge's label, set smaller.
const LABEL_CHARACTER: f64 = 6.2;
/// The distance between lines of text.
pub(super) const LINE: f64 = 16.0;
/// Space around the text in a box, and around nested scenes.
pub(super) const PADDING: f64 = 8.0;
const COLUMN_GAP: f64 = 24.0;
const LAYER_GAP: f64 = 48.0;

/// A placed scene.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) width: f64,
    pub(super) height: f64,
    /// One per node of the scene.
    pub(super) boxes: Vec<Placed>,
    /// One per edge of the scene: the points through which it runs.
    pub(super) wires: Vec<Vec<(f64, f64)>>,
}

/// A placed box; `x` and `y` are its upper left corner.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Nested pictures with their offsets within the box.
    pub(super) inner: Vec<(f64, f64, Picture)>,
}

/// A box, or a bend of a long edge, in its layer.
#[derive(Debug)]
struct Vertex {
    layer: usize,
    /// The space it takes, including its outgoing labels.
    width: f64,
    is_bend: bool,
}

/// Part of an edge, from one layer to the next, with its ends relative to the vertices' centres.
#[derive(Debug)]
struct Segment {
    from: usize,
    from_offset: f64,
    to: usize,
    to_offset: f64,
}

/// Places a scene and those nested in it. Recursion is bounded by the depth of scenes.
pub(super) fn place(scene: &Scene) -> Picture {
    let mut boxes: Vec<Placed> = scene.nodes.iter().map(sized).collect();
    let widths = widths_with_labels(scene, &mut boxes);
    place_boxes(scene, boxes, widths)
}

/// Places boxes of known sizes, one per node, each in a space as wide as the box.
pub(super) fn place_boxes(scene: &Scene, mut boxes: Vec<Placed>, widths: Vec<f64>) -> Picture {
    let layers = layers::assign(scene);
    let mut vertices: Vec<Vertex> = widths
        .into_iter()
        .zip(&layers)
        .map(|(width, &layer)| Vertex {
            layer,
            width,
            is_bend: false,
        })
        .collect();
    let (segments, routes) = route(scene, &boxes, &mut vertices);
    let n_layers = layers.iter().max().map_or(0, |&last| last + 1);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); n_layers];
    for (id, vertex) in vertices.iter().enumerate() {
        rows[vertex.layer].push(id);
    }
    order::minimise_crossings(&mut rows, vertices.len(), &segments);
    let (middles, width) = position::assign(&rows, &vertices, &segments, COLUMN_GAP);

    let mut tops = Vec::with_capacity(n_layers);
    let mut bottoms = Vec::with_capacity(n_layers);
    let mut y = PADDING;
    for row in &rows {
        let height = row
            .iter()
            .filter_map(|&id| boxes.get(id))
            .map(|placed| placed.height)
            .fold(LINE, f64::max);
        tops.push(y);
        bottoms.push(y + height);
        y += height + LAYER_GAP;
    }
    for ((placed, &middle), &layer) in boxes.iter_mut().zip(&middles).zip(&layers) {
        placed.x = middle - placed.width / 2.0;
        placed.y = tops[layer];
    }
    let wires = wires(scene, &boxes, &routes, |bend| {
        let layer = vertices[bend].layer;
        [
            (middles[bend], tops[layer]),
            (middles[bend], bottoms[layer]),
        ]
    });
    let height = bottoms
        .last()
        .map_or(0.0, |bottom| bottom + LAYER_GAP / 2.0);
    Picture {
        width,
        height,
        boxes,
        wires,
    }
}

/// The width of `text` as an edge's label.
pub(super) fn label_width(text: &str) -> f64 {
    text.chars().count() as f64 * LABEL_CHARACTER
}

/// Where result or operand `index` of `count` meets the box, from the box's left.
pub(super) fn port(width: f64, index: usize, count: usize) -> f64 {
    width * (index + 1) as f64 / (count.max(1) + 1) as f64
}

/// The height of the texts in a box.
pub(super) fn text_height(node: &SceneNode) -> f64 {
    LINE * (1 + node.rows.len()) as f64 + PADDING
}

fn sized(node: &SceneNode) -> Placed {
    let rows = node.rows.iter().map(|row| match row {
        Row::Attribute(text) | Row::Constant(text) => text,
    });
    let longest = rows
        .chain([&node.title])
        .map(|text| text.chars().count())
        .max()
        .unwrap_or(0);
    let mut width = longest as f64 * CHARACTER + 2.0 * PADDING;
    let mut height = text_height(node);
    let mut inner = Vec::new();
    let mut x = PADDING;
    for (_, scene) in &node.inner {
        let picture = place(scene);
        height = height.max(text_height(node) + LINE + picture.height + PADDING);
        let room = picture.width + PADDING;
        inner.push((x, text_height(node) + LINE, picture));
        x += room;
    }
    width = width.max(x);
    Placed {
        x: 0.0,
        y: 0.0,
        width,
        height,
        inner,
    }
}

/// The space of each box with its labels; boxes of several results grow so that the labels fit side by side.
fn widths_with_labels(scene: &Scene, boxes: &mut [Placed]) -> Vec<f64> {
    let mut labels: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); boxes.len()];
    for edge in &scene.edges {
        labels[edge.from].insert(edge.result, label_width(&edge.label));
    }
    let rooms = boxes
        .iter_mut()
        .zip(labels)
        .zip(&scene.nodes)
        .map(|((placed, labels), node)| {
            let widest = labels.values().copied().fold(0.0, f64::max);
            if node.n_results > 1 {
                placed.width = placed
                    .width
                    .max((widest + PADDING) * (node.n_results + 1) as f64 / 2.0);
            }
            placed.width.max(widest)
        });
    rooms.collect()
}

/// The bends of one edge.
struct Route {
    /// The bend at which it leaves an edge of the same value that is already drawn; `None` at its box.
    branch: Option<usize>,
    /// Its own bends.
    bends: Vec<usize>,
}

/// Splits edges at the layers they pass. Edges of one value share their bends, and each is drawn from where it leaves the
/// others, so a value with many readers costs no more than its longest edge.
fn route(
    scene: &Scene,
    boxes: &[Placed],
    vertices: &mut Vec<Vertex>,
) -> (Vec<Segment>, Vec<Route>) {
    let mut trunks: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    let mut segments = Vec::new();
    let mut routes = Vec::with_capacity(scene.edges.len());
    let n_boxes = vertices.len();
    for edge in &scene.edges {
        let (from, to) = (&boxes[edge.from], &boxes[edge.to]);
        let from_offset =
            port(from.width, edge.result, scene.nodes[edge.from].n_results) - from.width / 2.0;
        let to_offset =
            port(to.width, edge.operand, scene.nodes[edge.to].n_operands) - to.width / 2.0;
        let first = vertices[edge.from].layer + 1;
        let n_bends = vertices[edge.to].layer.saturating_sub(first);
        let trunk = trunks.entry((edge.from, edge.result)).or_default();
        let shared = trunk.len().min(n_bends);
        if vertices.len() - n_boxes + (n_bends - shared) > BEND_LIMIT {
            routes.push(Route {
                branch: None,
                bends: Vec::new(),
            });
            continue;
        }
        let before = |trunk: &[usize]| {
            trunk
                .last()
                .map_or((edge.from, from_offset), |&bend| (bend, 0.0))
        };
        while trunk.len() < n_bends {
            let bend = vertices.len();
            vertices.push(Vertex {
                layer: first + trunk.len(),
                width: 0.0,
                is_bend: true,
            });
            let (from, from_offset) = before(trunk);
            segments.push(Segment {
                from,
                from_offset,
                to: bend,
                to_offset: 0.0,
            });
            trunk.push(bend);
        }
        let (from, from_offset) = before(&trunk[..n_bends]);
        segments.push(Segment {
            from,
            from_offset,
            to: edge.to,
            to_offset,
        });
        let branch = trunk[..shared].last().copied();
        routes.push(Route {
            branch,
            bends: trunk[shared..n_bends].to_vec(),
        });
    }
    (segments, routes)
}

/// The points of every edge; `through` says where a bend enters and leaves its layer.
fn wires(
    scene: &Scene,
    boxes: &[Placed],
    routes: &[Route],
    through: impl Fn(usize) -> [(f64, f64); 2],
) -> Vec<Vec<(f64, f64)>> {
    let wire = |(edge, route): (&Edge, &Route)| {
        let (from, to) = (&boxes[edge.from], &boxes[edge.to]);
        let start = port(from.width, edge.result, scene.nodes[edge.from].n_results);
        let end = port(to.width, edge.operand, scene.nodes[edge.to].n_operands);
        let mut points = match route.branch {
            None => vec![(from.x + start, from.y + from.height)],
            Some(bend) => vec![through(bend)[1]],
        };
        points.extend(route.bends.iter().flat_map(|&bend| through(bend)));
        points.push((to.x + end, to.y));
        points
    };
    scene.edges.iter().zip(routes).map(wire).collect()
}
