//! Which values of a loop's region can be computed outside.

use std::collections::{BTreeSet, HashMap};

use kiln_ir::{Definition, Graph, Op, OpId, RegionId, TensorType, ValueId};
use kiln_symbolic_shape::{DimId, SymbolId};

use super::movable::{is_at_most, is_worth_keeping, may_move};
use crate::constants::{Splat, splat};
use crate::peephole::constant_of;

/// The maximum ratio of the size of all iterations' results to the size of their operands.
const GROWTH: i64 = 8;

/// The dependencies of a value of the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It depends only on captures and constants.
    Same,
    /// It depends on those and the iteration number.
    Counted,
    /// It depends on those and on slices of captures along an axis of `length`, at the position `index`.
    Sliced {
        /// The scalar of the region that selects the slice.
        index: ValueId,
        /// The number of slices, equal to the number of iterations.
        length: DimId,
        /// Whether its computation contains a product.
        is_product: bool,
    },
}

/// The values that are moved out of a loop.
#[derive(Debug)]
pub(super) struct Found {
    /// The values of the region that become captures, or slices of captures.
    pub(super) roots: BTreeSet<ValueId>,
    /// The dependencies of the values of the region; others depend on carried values.
    pub(super) standing: HashMap<ValueId, Standing>,
}

/// Finds the values that can be moved out of a loop; `None` if there are none, or the op is not a loop.
pub(super) fn find(graph: &Graph, scratch: &mut Graph, id: OpId) -> Option<Found> {
    let data = graph.op(id);
    let (&Op::Loop { carried }, &[body]) = (&data.op, data.regions.as_slice()) else {
        return None;
    };
    let region = graph.region(body);
    // The region's own symbols, and those that its ops bind to data.
    let bound = region.ops.iter().flat_map(|&op| &graph.op(op).symbols);
    let mut finder = Finder {
        graph,
        scratch,
        body,
        inside: region.symbols.iter().chain(bound).copied().collect(),
        trips: all_trips(graph, id, body),
        standing: HashMap::new(),
        sources: HashMap::new(),
    };
    for (index, &parameter) in region.parameters.iter().enumerate() {
        match index {
            0 => finder.standing.insert(parameter, Standing::Counted),
            index if index > carried => finder.standing.insert(parameter, Standing::Same),
            _ => None,
        };
    }
    for &op in &region.ops {
        finder.stand(op);
    }
    let roots = finder.roots();
    let standing = finder.standing;
    (!roots.is_empty()).then_some(Found { roots, standing })
}

/// The trip count of a loop that runs all iterations, if it is a size.
fn all_trips(graph: &Graph, id: OpId, body: RegionId) -> Option<DimId> {
    let goes_on = graph.region(body).results.first();
    let goes_on = goes_on.and_then(|&value| constant_of(graph, value))?;
    if splat(&goes_on.tensor()) != Some(Splat::Bool(true)) {
        return None;
    }
    let mut trips = *graph.op(id).operands.first()?;
    loop {
        let Definition::Result { op, .. } = graph.value(trips).definition else {
            return None;
        };
        let data = graph.op(op);
        match (&data.op, data.operands.as_slice()) {
            (Op::Reshape { .. }, &[operand]) => trips = operand,
            (Op::Dims { sizes }, _) => return sizes.first().copied().filter(|_| sizes.len() == 1),
            _ => return None,
        }
    }
}

struct Finder<'g> {
    graph: &'g Graph,
    scratch: &'g mut Graph,
    body: RegionId,
    /// The symbols that have values only in the region.
    inside: Vec<SymbolId>,
    trips: Option<DimId>,
    standing: HashMap<ValueId, Standing>,
    /// The largest of the slices from which a value is computed.
    sources: HashMap<ValueId, TensorType>,
}

impl Finder<'_> {
    /// Finds the dependencies of an op's results.
    fn stand(&mut self, id: OpId) {
        let data = self.graph.op(id);
        let &[result] = data.results.as_slice() else {
            return;
        };
        if matches!(data.op, Op::Constant(_)) {
            self.standing.insert(result, Standing::Same);
            return;
        }
        if !data.regions.is_empty() || !data.symbols.is_empty() {
            return;
        }
        let operands = data.operands.iter();
        let operands: Option<Vec<Standing>> = operands
            .map(|operand| self.standing.get(operand).copied())
            .collect();
        let Some(operands) = operands else { return };
        let standing = if operands.iter().all(|&operand| operand == Standing::Same) {
            Some(Standing::Same)
        } else if let Some(sliced) = self.slice_of(id, &operands) {
            Some(sliced)
        } else if operands
            .iter()
            .any(|operand| matches!(operand, Standing::Sliced { .. }))
        {
            self.sliced(id, &operands)
        } else {
            Some(Standing::Counted)
        };
        let is_inside = matches!(standing, Some(Standing::Same | Standing::Sliced { .. }));
        let is_slice = matches!(data.op, Op::Gather { .. }) && operands.len() == 2;
        if is_inside
            && !(is_slice && matches!(standing, Some(Standing::Sliced { .. })))
            && !may_move(self.graph, self.scratch, id, &self.inside)
        {
            return;
        }
        if let Some(standing) = standing {
            self.standing.insert(result, standing);
        }
    }

    /// A slice of a captured value at the iteration number.
    fn slice_of(&mut self, id: OpId, operands: &[Standing]) -> Option<Standing> {
        let data = self.graph.op(id);
        let (&Op::Gather { axis }, &[x, index], &[result]) =
            (&data.op, data.operands.as_slice(), data.results.as_slice())
        else {
            return None;
        };
        let is_scalar = self.graph.tensor_ty(index).is_some_and(|ty| ty.rank() == 0);
        if operands != [Standing::Same, Standing::Counted] || !is_scalar {
            return None;
        }
        let length = *self.graph.tensor_ty(x)?.dims.get(axis)?;
        let is_visited = self.graph.dims().equal(length, self.trips?).is_proved();
        let slice = self.graph.tensor_ty(result)?;
        let named = self.graph.dims().free_symbols(&slice.dims);
        if !is_visited || self.inside.iter().any(|symbol| named.contains(symbol)) {
            return None;
        }
        self.sources.insert(result, slice.clone());
        Some(Standing::Sliced {
            index,
            length,
            is_product: false,
        })
    }

    /// Values computed from slices at one position, and values that are the same in each iteration.
    fn sliced(&mut self, id: OpId, operands: &[Standing]) -> Option<Standing> {
        let data = self.graph.op(id);
        let can_do_all = matches!(
            data.op,
            Op::Map { .. }
                | Op::Cast { .. }
                | Op::Matmul { .. }
                | Op::Reshape { .. }
                | Op::Transpose { .. }
        );
        if !can_do_all {
            return None;
        }
        let mut all: Option<(ValueId, DimId, bool)> = None;
        let mut source: Option<TensorType> = None;
        for (&operand, standing) in data.operands.iter().zip(operands) {
            match *standing {
                Standing::Same => {}
                Standing::Counted => return None,
                Standing::Sliced {
                    index,
                    length,
                    is_product,
                } => {
                    let before = all.is_some_and(|(_, _, before)| before);
                    if all.is_some_and(|(other, ..)| other != index) {
                        return None;
                    }
                    all = Some((index, length, before || is_product));
                    let own = self.sources.get(&operand)?.clone();
                    source = Some(match source {
                        Some(other) if is_at_most(self.scratch, 1, &own, &other) => other,
                        _ => own,
                    });
                }
            }
        }
        let (index, length, is_product) = all?;
        let result = *data.results.first()?;
        self.sources.insert(result, source?);
        Some(Standing::Sliced {
            index,
            length,
            is_product: is_product || matches!(data.op, Op::Matmul { .. }),
        })
    }

    /// The values to compute outside: those that can be moved out and are read by an op that stays in the region.
    fn roots(&mut self) -> BTreeSet<ValueId> {
        let region = self.graph.region(self.body);
        let mut roots = BTreeSet::new();
        let mut seen: BTreeSet<ValueId> = BTreeSet::new();
        let mut pending: Vec<ValueId> = region.results.clone();
        while let Some(value) = pending.pop() {
            let Definition::Result { op, .. } = self.graph.value(value).definition else {
                continue;
            };
            if !seen.insert(value) {
                continue;
            }
            match self.standing.get(&value).copied() {
                Some(Standing::Same) if is_worth_keeping(self.graph, op) => {
                    roots.insert(value);
                }
                Some(Standing::Sliced {
                    index, is_product, ..
                }) if is_product && self.is_small(value) => {
                    roots.insert(value);
                    pending.push(index);
                }
                _ => pending.extend(self.graph.op(op).operands.iter().copied()),
            }
        }
        roots
    }

    /// Whether the results of all iterations take no more memory than a few times their operands.
    fn is_small(&mut self, value: ValueId) -> bool {
        let (Some(source), Some(ty)) = (self.sources.get(&value), self.graph.tensor_ty(value))
        else {
            return false;
        };
        is_at_most(self.scratch, GROWTH, ty, source)
    }
}
