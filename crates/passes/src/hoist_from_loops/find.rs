//! Which values of a loop's region can be had from outside.

use std::collections::{BTreeSet, HashMap};

use kiln_ir::{Definition, Graph, Op, OpId, RegionId, TensorType, ValueId};
use kiln_symbolic_shape::DimId;

use super::movable::{is_at_most, is_worth_keeping, may_move};
use crate::constants::{Splat, splat};
use crate::peephole::constant_of;

/// By how much the results of all iterations may be larger than what they are computed from.
const GROWTH: i64 = 8;

/// What a value of the region depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Captures and constants alone.
    Same,
    /// Those and the number of the iteration.
    Counted,
    /// Those and slices of captures along an axis of `length`, at the position `index`.
    Sliced {
        /// The scalar of the region that says which slice.
        index: ValueId,
        /// How many slices there are: as many as iterations.
        length: DimId,
        /// Whether a product is among what it takes.
        is_product: bool,
    },
}

/// What leaves a loop.
#[derive(Debug)]
pub(super) struct Found {
    /// The values of the region that become captures, or slices of one.
    pub(super) roots: BTreeSet<ValueId>,
    /// What the values of the region depend on; others depend on what is carried.
    pub(super) standing: HashMap<ValueId, Standing>,
}

/// Finds what can leave a loop; nothing if there is nothing, or the op is no loop.
pub(super) fn find(graph: &Graph, scratch: &mut Graph, id: OpId) -> Option<Found> {
    let data = graph.op(id);
    let (&Op::Loop { carried }, &[body]) = (&data.op, data.regions.as_slice()) else {
        return None;
    };
    let mut finder = Finder {
        graph,
        scratch,
        body,
        trips: all_trips(graph, id, body),
        standing: HashMap::new(),
        sources: HashMap::new(),
    };
    let region = graph.region(body);
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

/// The trips of a loop that runs all of them, where they are a size.
fn all_trips(graph: &Graph, id: OpId, body: RegionId) -> Option<DimId> {
    let goes_on = graph.region(body).results.first();
    let goes_on = goes_on.and_then(|&value| constant_of(graph, value))?;
    if splat(goes_on.tensor()) != Some(Splat::Bool(true)) {
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
    trips: Option<DimId>,
    standing: HashMap<ValueId, Standing>,
    /// The slices that a value takes part of, the largest.
    sources: HashMap<ValueId, TensorType>,
}

impl Finder<'_> {
    /// Finds what an op's results depend on.
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
        let region = self.graph.region(self.body);
        let is_slice = matches!(data.op, Op::Gather { .. }) && operands.len() == 2;
        if is_inside
            && !(is_slice && matches!(standing, Some(Standing::Sliced { .. })))
            && !may_move(self.graph, self.scratch, id, &region.symbols)
        {
            return;
        }
        if let Some(standing) = standing {
            self.standing.insert(result, standing);
        }
    }

    /// A slice of a captured value at the number of the iteration.
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
        let inside = &self.graph.region(self.body).symbols;
        let named = self.graph.dims().free_symbols(&slice.dims);
        if !is_visited || inside.iter().any(|symbol| named.contains(symbol)) {
            return None;
        }
        self.sources.insert(result, slice.clone());
        Some(Standing::Sliced {
            index,
            length,
            is_product: false,
        })
    }

    /// What is computed from slices at one position, and what is the same in each iteration.
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

    /// The values to have from outside: where what stays in the region reads what can leave it.
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

    /// Whether the results of all iterations take no more memory than a few times what they are computed from.
    fn is_small(&mut self, value: ValueId) -> bool {
        let (Some(source), Some(ty)) = (self.sources.get(&value), self.graph.tensor_ty(value))
        else {
            return false;
        };
        is_at_most(self.scratch, GROWTH, ty, source)
    }
}
