//! Finds the order of nodes with the fewest live bytes: exact for up to 16 nodes, otherwise the better of the
//! document's order and a greedy one; beyond 4,096 nodes, the document's order.
//!
//! Inputs belong to the caller and are not counted. A value is live from the node that computes it to its last reader;
//! an output is live to the end. Sizes are evaluated at likely values of the symbols, so the order is the best for
//! those.

use super::BuiltGraph;
use crate::blueprint::Blueprint;
use crate::draw;
use std::collections::{BTreeSet, HashMap};

/// Up to this many nodes, every order is considered, by dynamic programming over subsets.
const EXACT_UP_TO: usize = 16;
/// Up to this many nodes, the greedy order is tried, whose time is quadratic in their number.
const GREEDY_UP_TO: usize = 4096;

/// An order of a blueprint's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// Positions in [`Blueprint::nodes`].
    pub nodes: Vec<usize>,
    /// The peak of live bytes, at likely sizes.
    pub peak_bytes: u64,
    /// How it was found.
    pub method: OrderingMethod,
}

/// How an order was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderingMethod {
    /// All orders were considered.
    Exact,
    /// The node that leaves the fewest bytes live comes next.
    Greedy,
    /// As in the document.
    Document,
}

/// The document's order, with nodes moved after the nodes whose results they read.
pub(super) fn topological(blueprint: &Blueprint) -> Vec<usize> {
    let dependencies = Dependencies::of(blueprint, |_| 0);
    dependencies.follow(|ready, _| ready.first().copied())
}

/// The order with the lowest peak of live bytes that is found.
pub(super) fn fewest_live_bytes(blueprint: &Blueprint, built: &BuiltGraph) -> Ordering {
    let binding = draw::likely_binding(&built.graph);
    let bytes = |name: &str| {
        let value = built.values.get(name).copied();
        let ty = value.and_then(|value| built.graph.tensor_ty(value));
        ty.map_or(0, |ty| {
            let sizes = ty.dims.iter().map(|&dim| {
                let size = built.graph.dims().evaluate(dim, &binding);
                size.ok()
                    .and_then(|size| u64::try_from(size).ok())
                    .unwrap_or(1)
            });
            sizes.fold(ty.dtype.size_in_bytes() as u64, u64::saturating_mul)
        })
    };
    let dependencies = Dependencies::of(blueprint, bytes);
    let count = blueprint.nodes.len();
    if let Some(nodes) = (count <= EXACT_UP_TO).then(|| dependencies.exact()) {
        let peak_bytes = dependencies.peak(&nodes);
        return Ordering {
            nodes,
            peak_bytes,
            method: OrderingMethod::Exact,
        };
    }
    let document = topological(blueprint);
    if count > GREEDY_UP_TO {
        return Ordering {
            peak_bytes: dependencies.peak(&document),
            nodes: document,
            method: OrderingMethod::Document,
        };
    }
    let greedy = dependencies.follow(|ready, state| {
        let ready = ready.iter().copied();
        ready.min_by_key(|&node| (state.live_after(node), state.live_during(node), node))
    });
    let peaks = (dependencies.peak(&document), dependencies.peak(&greedy));
    let (nodes, peak_bytes, method) = match peaks.1 < peaks.0 {
        true => (greedy, peaks.1, OrderingMethod::Greedy),
        false => (document, peaks.0, OrderingMethod::Document),
    };
    Ordering {
        nodes,
        peak_bytes,
        method,
    }
}

/// Which node reads which values, and their sizes.
struct Dependencies {
    /// Per node: the values it reads that nodes compute, each once.
    reads: Vec<Vec<usize>>,
    /// Per node: the values it computes.
    makes: Vec<Vec<usize>>,
    /// Per value: its node, its bytes, the number of nodes that read it; one more for an output.
    values: Vec<Value>,
}

struct Value {
    maker: usize,
    bytes: u64,
    readers: usize,
    reading: Vec<usize>,
}

/// The state after some nodes have run.
struct State<'a> {
    of: &'a Dependencies,
    left: Vec<usize>,
    live: u64,
}

impl State<'_> {
    fn live_during(&self, node: usize) -> u64 {
        let made = self.of.makes[node]
            .iter()
            .map(|&value| self.of.values[value].bytes);
        made.fold(self.live, u64::saturating_add)
    }

    fn live_after(&self, node: usize) -> u64 {
        let freed = self.of.reads[node]
            .iter()
            .filter(|&&value| self.left[value] == 1);
        let freed: u64 = freed.map(|&value| self.of.values[value].bytes).sum();
        let unread = self.of.makes[node]
            .iter()
            .filter(|&&value| self.left[value] == 0);
        let unread: u64 = unread.map(|&value| self.of.values[value].bytes).sum();
        self.live_during(node)
            .saturating_sub(freed)
            .saturating_sub(unread)
    }

    fn run(&mut self, node: usize) {
        self.live = self.live_after(node);
        for &value in &self.of.reads[node] {
            self.left[value] -= 1;
        }
    }
}

impl Dependencies {
    fn of(blueprint: &Blueprint, bytes: impl Fn(&str) -> u64) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut values = Vec::new();
        let mut makes = Vec::new();
        for (maker, node) in blueprint.nodes.iter().enumerate() {
            let mut made = Vec::new();
            for name in &node.results {
                made.push(values.len());
                numbers.insert(name, values.len());
                values.push(Value {
                    maker,
                    bytes: bytes(name),
                    readers: 0,
                    reading: Vec::new(),
                });
            }
            makes.push(made);
        }
        let mut reads = Vec::new();
        for (reader, node) in blueprint.nodes.iter().enumerate() {
            let read: BTreeSet<usize> = (node.operands.iter())
                .filter_map(|name| numbers.get(name.as_str()).copied())
                .collect();
            for &value in &read {
                values[value].readers += 1;
                values[value].reading.push(reader);
            }
            reads.push(read.into_iter().collect());
        }
        let outputs: BTreeSet<usize> = (blueprint.outputs.iter())
            .filter_map(|output| numbers.get(output.value.as_str()).copied())
            .collect();
        for output in outputs {
            values[output].readers += 1;
        }
        Self {
            reads,
            makes,
            values,
        }
    }

    fn start(&self) -> State<'_> {
        State {
            of: self,
            left: self.values.iter().map(|value| value.readers).collect(),
            live: 0,
        }
    }

    fn peak(&self, order: &[usize]) -> u64 {
        let mut state = self.start();
        let mut peak = 0;
        for &node in order {
            peak = peak.max(state.live_during(node));
            state.run(node);
        }
        peak
    }

    /// An order in which `choose` picks each node among those that are ready, of which there is at least one.
    fn follow(&self, choose: impl Fn(&BTreeSet<usize>, &State<'_>) -> Option<usize>) -> Vec<usize> {
        let count = self.reads.len();
        let mut waiting: Vec<usize> = self.reads.iter().map(Vec::len).collect();
        let mut ready: BTreeSet<usize> = (0..count).filter(|&node| waiting[node] == 0).collect();
        let mut state = self.start();
        let mut order = Vec::with_capacity(count);
        while let Some(node) = choose(&ready, &state) {
            ready.remove(&node);
            state.run(node);
            order.push(node);
            for &value in &self.makes[node] {
                for &reader in &self.values[value].reading {
                    waiting[reader] -= 1;
                    if waiting[reader] == 0 {
                        ready.insert(reader);
                    }
                }
            }
        }
        order
    }

    /// The best order, by dynamic programming over the sets of nodes that have run.
    fn exact(&self) -> Vec<usize> {
        let count = self.reads.len();
        let needs: Vec<u32> = (self.reads.iter())
            .map(|read| {
                read.iter()
                    .fold(0, |set, &value| set | 1 << self.values[value].maker)
            })
            .collect();
        let all = (1u32 << count) - 1;
        // Per set: the least peak with which it is reached, and the node that ran last.
        let mut best: Vec<Option<(u64, usize)>> = vec![None; all as usize + 1];
        best[0] = Some((0, 0));
        for set in 0..=all {
            let Some((peak, _)) = best[set as usize] else {
                continue;
            };
            let live = self.live_of(set);
            for node in (0..count).filter(|&node| set >> node & 1 == 0) {
                if needs[node] & !set != 0 {
                    continue;
                }
                let made: u64 = self.makes[node]
                    .iter()
                    .map(|&value| self.values[value].bytes)
                    .sum();
                let peak = peak.max(live.saturating_add(made));
                let next = &mut best[(set | 1 << node) as usize];
                if next.is_none_or(|(known, _)| peak < known) {
                    *next = Some((peak, node));
                }
            }
        }
        let mut order = Vec::with_capacity(count);
        let mut set = all;
        while set != 0 {
            let Some((_, last)) = best[set as usize] else {
                unreachable!("a valid blueprint has an order");
            };
            order.push(last);
            set &= !(1 << last);
        }
        order.reverse();
        order
    }

    /// The live bytes once exactly these nodes have run.
    fn live_of(&self, set: u32) -> u64 {
        let has = |node: usize| set >> node & 1 == 1;
        let live = self.values.iter().filter(|value| {
            let done = value.reading.iter().filter(|&&reader| has(reader)).count();
            has(value.maker) && done < value.readers
        });
        live.map(|value| value.bytes).fold(0, u64::saturating_add)
    }
}
