//! The contents of a drawing, before layout: boxes, edges between them, nested scenes.
//!
//! One scene per region; edges stay inside it, because regions are isolated. A constant shows as a
//! row in the boxes that read it. Invariants: an edge runs from an earlier box to a later one; all
//! scenes together have at most [`NODE_LIMIT`] boxes and a few notes.

use super::NODE_LIMIT;
use super::constants::summary;
use super::labels::{attributes, shorten};
use crate::graph::{Graph, OpData, REGION_DEPTH_LIMIT};
use crate::ids::{RegionId, ValueId};
use crate::op::Op;
use std::collections::{BTreeMap, BTreeSet};

/// The boxes and edges of one region.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) nodes: Vec<SceneNode>,
    pub(super) edges: Vec<Edge>,
}

/// A box.
#[derive(Debug)]
pub(super) struct SceneNode {
    pub(super) kind: NodeKind,
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
    /// The path of the node in the source program.
    pub(super) origin: Option<String>,
    /// The number of values that leave it, each at a separate point.
    pub(super) n_results: usize,
    /// The number of edges that enter it.
    pub(super) n_operands: usize,
    /// The labelled regions of a control op.
    pub(super) inner: Vec<(&'static str, Scene)>,
}

/// The kind of a box, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Input,
    Output,
    Constant,
    ElementWise,
    Movement,
    Contraction,
    Reduction,
    Control,
    Note,
}

/// A line under the title.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Attribute(String),
    Constant(String),
}

/// An edge: a value that flows from one box to another.
#[derive(Debug)]
pub(super) struct Edge {
    pub(super) from: usize,
    /// The position among the results of `from`.
    pub(super) result: usize,
    pub(super) to: usize,
    /// The position among the edges that enter `to`.
    pub(super) operand: usize,
    /// The value's type.
    pub(super) label: String,
}

impl NodeKind {
    fn of(op: &Op) -> Self {
        match op {
            Op::Constant(_) | Op::Iota { .. } | Op::Dims { .. } | Op::RandomBits { .. } => {
                Self::Constant
            }
            Op::Map { .. } | Op::Cast { .. } => Self::ElementWise,
            Op::Matmul { .. } | Op::Conv { .. } | Op::ConvTranspose { .. } => Self::Contraction,
            Op::Reduce { .. }
            | Op::ArgReduce { .. }
            | Op::Cumulate { .. }
            | Op::Pool { .. }
            | Op::ArgPool { .. }
            | Op::Resize(_)
            | Op::TopK { .. }
            | Op::Suppress { .. } => Self::Reduction,
            Op::If | Op::Loop { .. } | Op::Bind | Op::Custom { .. } => Self::Control,
            Op::Reshape { .. }
            | Op::Broadcast { .. }
            | Op::Transpose { .. }
            | Op::Slice { .. }
            | Op::Pad { .. }
            | Op::Concat { .. }
            | Op::Gather { .. }
            | Op::GatherElements { .. }
            | Op::GatherNd { .. }
            | Op::ScatterElements { .. }
            | Op::ScatterNd { .. }
            | Op::UpdateSlice { .. }
            | Op::NonZero => Self::Movement,
        }
    }
}

/// The scene of a whole graph.
pub(super) fn scene(graph: &Graph) -> Scene {
    let mut budget = NODE_LIMIT;
    Builder::new(graph, &mut budget, 0).region(graph.body())
}

/// The origin of a value within a scene.
enum Source {
    Node { node: usize, result: usize },
    Constant(String),
}

struct Builder<'a> {
    graph: &'a Graph,
    /// The remaining number of boxes that may be drawn, over all scenes.
    budget: &'a mut usize,
    depth: usize,
    scene: Scene,
    sources: BTreeMap<ValueId, Source>,
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Graph, budget: &'a mut usize, depth: usize) -> Self {
        Self {
            graph,
            budget,
            depth,
            scene: Scene::default(),
            sources: BTreeMap::new(),
        }
    }

    fn region(mut self, region: RegionId) -> Scene {
        let graph = self.graph;
        let data = graph.region(region);
        // Constants that leave the region need a box; all others live in their readers' boxes.
        let yielded: BTreeSet<ValueId> = data.results.iter().copied().collect();
        let mut left_out = 0_usize;
        for (index, &parameter) in data.parameters.iter().enumerate() {
            match self.spend() {
                true => self.parameter(parameter, index),
                false => left_out += 1,
            }
        }
        for &op in &data.ops {
            let op = graph.op(op);
            match &op.op {
                Op::Constant(constant)
                    if !op.results.iter().any(|value| yielded.contains(value)) =>
                {
                    let text = summary(constant);
                    self.sources.extend(
                        op.results
                            .iter()
                            .map(|&value| (value, Source::Constant(text.clone()))),
                    );
                }
                _ if self.spend() => self.op(op),
                _ => left_out += 1,
            }
        }
        self.results(region);
        if left_out > 0 {
            self.scene.nodes.push(SceneNode::new(
                NodeKind::Note,
                format!("… and {left_out} more"),
            ));
        }
        self.scene
    }

    fn spend(&mut self) -> bool {
        let some_left = *self.budget > 0;
        *self.budget = self.budget.saturating_sub(1);
        some_left
    }

    fn parameter(&mut self, value: ValueId, index: usize) {
        let name = self.graph.value(value).name.as_deref();
        let title = name.map_or_else(|| format!("parameter {index}"), shorten);
        self.add(
            SceneNode {
                n_results: 1,
                ..SceneNode::new(NodeKind::Input, title)
            },
            &[],
            &[value],
        );
    }

    fn op(&mut self, data: &OpData) {
        let mut node = SceneNode::new(NodeKind::of(&data.op), data.op.mnemonic().to_owned());
        node.rows = attributes(self.graph, &data.op)
            .into_iter()
            .map(Row::Attribute)
            .collect();
        if let Op::Constant(constant) = &data.op {
            node.rows.push(Row::Constant(summary(constant)));
        }
        if !data.symbols.is_empty() {
            let dims = self.graph.dims();
            let names: Vec<_> = data
                .symbols
                .iter()
                .map(|&id| dims.symbol_info(id).name())
                .collect();
            node.rows.push(Row::Attribute(shorten(&format!(
                "-> ({})",
                names.join(", ")
            ))));
        }
        node.origin = data.origin.as_deref().map(shorten);
        node.n_results = data.results.len();
        for (index, &region) in data.regions.iter().enumerate() {
            let role = match (&data.op, index) {
                (Op::If, 0) => "then",
                (Op::If, _) => "else",
                _ => "body",
            };
            node.inner.push((role, self.nested(region)));
        }
        self.add(node, &data.operands, &data.results);
    }

    /// Recursion is bounded by the depth at which regions may nest.
    fn nested(&mut self, region: RegionId) -> Scene {
        if self.depth >= REGION_DEPTH_LIMIT {
            let nodes = vec![SceneNode::new(NodeKind::Note, "… nested deeper".to_owned())];
            return Scene {
                nodes,
                edges: Vec::new(),
            };
        }
        Builder::new(self.graph, self.budget, self.depth + 1).region(region)
    }

    /// A box per output of the graph; one for everything that a nested region yields.
    fn results(&mut self, region: RegionId) {
        let graph = self.graph;
        let results = &graph.region(region).results;
        if region != graph.body() {
            self.add(
                SceneNode::new(NodeKind::Output, "yield".to_owned()),
                results,
                &[],
            );
            return;
        }
        for (index, value) in results.iter().enumerate().take(NODE_LIMIT) {
            let title = graph
                .output_names()
                .get(index)
                .map_or_else(|| format!("output {index}"), |name| shorten(name));
            self.add(
                SceneNode::new(NodeKind::Output, title),
                std::slice::from_ref(value),
                &[],
            );
        }
    }

    /// Adds a box with edges from its operands.
    fn add(&mut self, mut node: SceneNode, operands: &[ValueId], results: &[ValueId]) {
        let to = self.scene.nodes.len();
        for value in operands {
            match self.sources.get(value) {
                Some(Source::Constant(text)) => node.rows.push(Row::Constant(text.clone())),
                Some(&Source::Node { node: from, result }) => {
                    let ty = self.graph.ty(*value).display(self.graph.dims());
                    let (operand, label) = (node.n_operands, shorten(&ty.to_string()));
                    self.scene.edges.push(Edge {
                        from,
                        result,
                        to,
                        operand,
                        label,
                    });
                    node.n_operands += 1;
                }
                // Its op was omitted.
                None => {}
            }
        }
        self.sources.extend(
            results
                .iter()
                .enumerate()
                .map(|(result, &value)| (value, Source::Node { node: to, result })),
        );
        self.scene.nodes.push(node);
    }
}

impl SceneNode {
    fn new(kind: NodeKind, title: String) -> Self {
        Self {
            kind,
            title,
            rows: Vec::new(),
            origin: None,
            n_results: 0,
            n_operands: 0,
            inner: Vec::new(),
        }
    }
}
