//! Lays out the caller's own boxes, for example the steps of a program.

use super::layout::{Placed, place_boxes};
use super::scene::{Edge, NodeKind, Scene, SceneNode};

/// The size of a box, in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoxSize {
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

/// Boxes in layers, top to bottom, and the edges between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrangement {
    /// The width of the whole.
    pub width: f64,
    /// The height of the whole.
    pub height: f64,
    /// The upper left corner of each box.
    pub boxes: Vec<(f64, f64)>,
    /// The points that each edge runs through, from its box down to the other.
    pub edges: Vec<Vec<(f64, f64)>>,
}

/// Places boxes so that edges run down and rarely cross. An edge leads from an earlier box to a later one; others get no
/// points.
///
/// ```
/// use kiln_ir::draw::{BoxSize, arrange};
///
/// let size = BoxSize { width: 80.0, height: 20.0 };
/// let arranged = arrange(&[size; 3], &[(0, 1), (0, 2)]);
/// assert!(arranged.boxes[0].1 < arranged.boxes[1].1);
/// assert_eq!(arranged.boxes[1].1, arranged.boxes[2].1);
/// assert!(arranged.edges.iter().all(|points| points.len() == 2));
/// ```
pub fn arrange(sizes: &[BoxSize], edges: &[(usize, usize)]) -> Arrangement {
    let mut scene = Scene {
        nodes: sizes.iter().map(|_| SceneNode::blank()).collect(),
        edges: Vec::new(),
    };
    // The layout expects edges in the order of their target boxes.
    let mut order: Vec<usize> = (0..edges.len())
        .filter(|&index| edges[index].0 < edges[index].1 && edges[index].1 < sizes.len())
        .collect();
    order.sort_by_key(|&index| (edges[index].1, edges[index].0));
    for &index in &order {
        let (from, to) = edges[index];
        scene.nodes[from].n_results = 1;
        let operand = scene.nodes[to].n_operands;
        scene.nodes[to].n_operands += 1;
        scene.edges.push(Edge {
            from,
            result: 0,
            to,
            operand,
            label: String::new(),
        });
    }
    let boxes = sizes.iter().map(|size| Placed {
        x: 0.0,
        y: 0.0,
        width: size.width,
        height: size.height,
        inner: Vec::new(),
    });
    let widths = sizes.iter().map(|size| size.width).collect();
    let picture = place_boxes(&scene, boxes.collect(), widths);
    let mut points = vec![Vec::new(); edges.len()];
    for (index, wire) in order.into_iter().zip(picture.wires) {
        points[index] = wire;
    }
    Arrangement {
        width: picture.width,
        height: picture.height,
        boxes: picture
            .boxes
            .iter()
            .map(|placed| (placed.x, placed.y))
            .collect(),
        edges: points,
    }
}

impl SceneNode {
    /// A box without texts, which sits close above its first reader.
    fn blank() -> Self {
        Self {
            kind: NodeKind::ElementWise,
            title: String::new(),
            rows: Vec::new(),
            origin: None,
            n_results: 0,
            n_operands: 0,
            inner: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_that_lead_backwards_or_nowhere_are_left_out() {
        let size = BoxSize {
            width: 10.0,
            height: 10.0,
        };
        let arranged = arrange(&[size; 2], &[(1, 0), (0, 7), (1, 1), (0, 1)]);
        let drawn: Vec<bool> = arranged
            .edges
            .iter()
            .map(|points| !points.is_empty())
            .collect();
        assert_eq!(drawn, [false, false, false, true]);
        assert_eq!(arrange(&[], &[]).boxes, []);
    }

    #[test]
    fn boxes_of_a_layer_do_not_overlap() {
        let wide = BoxSize {
            width: 100.0,
            height: 10.0,
        };
        let edges: Vec<(usize, usize)> = (1..20).map(|reader| (0, reader)).collect();
        let arranged = arrange(&[wide; 20], &edges);
        let mut lefts: Vec<f64> = arranged.boxes[1..].iter().map(|at| at.0).collect();
        lefts.sort_by(f64::total_cmp);
        assert!(lefts.windows(2).all(|pair| pair[1] - pair[0] >= 100.0));
    }
}
