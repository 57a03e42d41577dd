//! Reduces a wrong step to the fewest of its ops that are still wrong.
//!
//! Candidates are graphs whose inputs are what compiled code passed to the step; each is loaded, compiled and compared
//! like any model. Symbols stay symbols at first; if that makes the result correct, sizes become constants. Ops are
//! then removed from the end, then from the front, as long as the rest stays wrong. Steps that have control flow, or
//! whose ops define symbols, are not reduced: the whole graph is kept.

use super::step_check::{OwnError, StepCheck};
use crate::diagnose::comparison::Distance;
use crate::diagnose::explained::value_name;
use crate::diagnose::reference;
use crate::diagnose::repro::{Extent, Repro};
use crate::options::Options;
use crate::source::Source;
use kiln_fusion::FusionNode;
use kiln_ir::{Graph, NewOp, Op, OpId, ValueId};
use kiln_symbolic_shape::{Binding, DimId, DimImport, DimTable, SymbolId};
use kiln_tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// The maximum number of candidates compiled: each takes some milliseconds.
const ATTEMPTS: usize = 64;

/// The ops around `value`, computed by a step, that are wrong in isolation; `None` if there are no such ops.
pub(super) fn reduce(
    check: &StepCheck<'_>,
    node: &FusionNode,
    value: ValueId,
    options: &Options,
) -> Option<Repro> {
    let mut search = Search {
        graph: check.graph(),
        values: check.values_of(node)?,
        binding: check.binding_of_all(),
        options: bare(options),
        extent: Extent::Ops,
        attempts: ATTEMPTS,
    };
    let all = Piece {
        ops: check.with_views(node)?,
        output: value,
    };
    let all = all.pruned(search.graph);
    let mut best = search.attempt(&all);
    if best.is_none() {
        search.extent = Extent::SizedOps;
        best = search.attempt(&all);
    }
    search.shrink(all, best?)
}

/// The model's options, as far as they affect code.
fn bare(options: &Options) -> Options {
    let mut bare = options.clone();
    bare.dims.clear();
    bare.import = Default::default();
    bare.observation = Default::default();
    bare.device = Some(options.device.clone().unwrap_or_default());
    bare
}

/// Some ops, and the one of their values that is compared.
#[derive(Clone)]
struct Piece {
    ops: BTreeSet<OpId>,
    output: ValueId,
}

impl Piece {
    /// Without the ops that the output does not depend on.
    fn pruned(mut self, graph: &Graph) -> Self {
        let mut needed = BTreeSet::from([self.output]);
        self.ops = self
            .ops
            .iter()
            .rev()
            .filter(|&&op| {
                let data = graph.op(op);
                let is_needed = data.results.iter().any(|result| needed.contains(result));
                if is_needed {
                    needed.extend(&data.operands);
                }
                is_needed
            })
            .copied()
            .collect();
        self
    }

    /// The values that the ops read but none of them computes, in order of first use.
    fn inputs(&self, graph: &Graph) -> Vec<ValueId> {
        let mut known = BTreeSet::new();
        let mut inputs = Vec::new();
        for &op in &self.ops {
            let data = graph.op(op);
            let unknown = data
                .operands
                .iter()
                .copied()
                .filter(|&value| known.insert(value));
            inputs.extend(unknown);
            known.extend(&data.results);
        }
        inputs
    }
}

struct Search<'a> {
    graph: &'a Graph,
    /// The values that compiled code passed to the step, and those derived from them.
    values: BTreeMap<ValueId, Tensor>,
    binding: Binding,
    options: Options,
    extent: Extent,
    attempts: usize,
}

impl Search<'_> {
    fn shrink(&mut self, mut piece: Piece, mut best: Repro) -> Option<Repro> {
        // The shortest wrong prefix.
        for op in piece.ops.clone() {
            let results = self.graph.op(op).results.clone();
            let shorter = results.iter().find_map(|&output| {
                let ops = piece.ops.iter().copied();
                let ops = ops.filter(|&other| other <= op).collect();
                let shorter = Piece { ops, output }.pruned(self.graph);
                (output != piece.output).then_some(())?;
                Some((self.attempt(&shorter)?, shorter))
            });
            if let Some((repro, shorter)) = shorter {
                (best, piece) = (repro, shorter);
                break;
            }
        }
        // In this prefix, ops whose computation is not needed become inputs.
        for op in piece.ops.clone() {
            let mut shorter = piece.clone();
            if matches!(self.graph.op(op).op, Op::Constant(_)) || !shorter.ops.remove(&op) {
                continue;
            }
            let shorter = shorter.pruned(self.graph);
            if let Some(repro) = self.attempt(&shorter) {
                (best, piece) = (repro, shorter);
            }
        }
        Some(best)
    }

    /// The piece as a separate model, if it is wrong.
    fn attempt(&mut self, piece: &Piece) -> Option<Repro> {
        self.attempts = self.attempts.checked_sub(1)?;
        let repro = self.extract(piece)?;
        is_wrong(&repro, &self.options)
            .unwrap_or(false)
            .then_some(repro)
    }

    fn extract(&self, piece: &Piece) -> Option<Repro> {
        let values = piece.inputs(self.graph);
        let tensors: Option<Vec<Tensor>> = values
            .iter()
            .map(|value| self.values.get(value).cloned())
            .collect();
        let mut dims = CopiedDims::new(self.graph, &values, &self.binding, self.extent)?;
        let mut graph = Graph::new("repro");
        let mut copies = BTreeMap::new();
        let mut names = Vec::new();
        for (index, &value) in values.iter().enumerate() {
            let ty = self.graph.ty(value).clone();
            let ty = ty.try_map_dims(&mut |dim| dims.of(dim)).ok()?;
            let name = format!("x{index}");
            copies.insert(value, graph.add_input(&name, ty));
            names.push(name);
        }
        for &id in &piece.ops {
            let data = self.graph.op(id);
            if !data.regions.is_empty() || !data.symbols.is_empty() {
                return None;
            }
            let mut op = data.op.clone();
            op.try_map_dims(&mut |dim| dims.of(dim)).ok()?;
            let operands = data.operands.iter().map(|value| copies.get(value).copied());
            let operands = operands.collect::<Option<Vec<_>>>()?;
            let types = data.results.iter().map(|&result| {
                let ty = self.graph.ty(result).clone();
                ty.try_map_dims(&mut |dim| dims.of(dim)).ok()
            });
            let types = types.collect::<Option<Vec<_>>>()?;
            let mut new = NewOp::new(op, operands, types);
            new.origin.clone_from(&data.origin);
            let body = graph.body();
            let added = graph.append(body, new);
            copies.extend(
                data.results
                    .iter()
                    .copied()
                    .zip(graph.op(added).results.clone()),
            );
        }
        *graph.dims_mut() = dims.table;
        graph.set_outputs([("y", *copies.get(&piece.output)?)]);
        Some(Repro {
            graph,
            inputs: names.into_iter().zip(tensors?).collect(),
            stands_for: values
                .iter()
                .map(|&value| value_name(self.graph, value))
                .collect(),
            extent: self.extent,
        })
    }
}

/// A copy of a graph's sizes in another table. A symbol stays a symbol if it is, alone, a dimension of an input.
struct CopiedDims<'a> {
    from: &'a DimTable,
    table: DimTable,
    import: DimImport,
}

impl<'a> CopiedDims<'a> {
    /// `None` if a symbol has no value.
    fn new(
        graph: &'a Graph,
        inputs: &[ValueId],
        binding: &Binding,
        extent: Extent,
    ) -> Option<Self> {
        let from = graph.dims();
        let dims = inputs
            .iter()
            .flat_map(|&input| &graph.ty(input).innermost().dims);
        let bare: BTreeSet<SymbolId> = dims.filter_map(|&dim| from.as_symbol(dim)).collect();
        let mut dims = Self {
            from,
            table: DimTable::with_limits(from.limits().clone()),
            import: DimImport::new(),
        };
        let mut has_all = true;
        for symbol in from.symbols() {
            let is_free = from.definition(symbol).is_none();
            if extent == Extent::Ops && bare.contains(&symbol) && is_free {
                let declared = dims.table.declare(from.symbol_info(symbol).clone()).ok()?;
                let dim = dims.table.dim(declared);
                dims.import.map(symbol, dim);
            } else if let Some(value) = binding.get(symbol) {
                let dim = dims.table.constant(value);
                dims.import.map(symbol, dim);
            } else {
                has_all &= !is_free;
            }
        }
        // Facts about symbols without a value here could never be checked.
        if has_all {
            dims.table.import_facts(from, &mut dims.import).ok()?;
        }
        Some(dims)
    }

    fn of(&mut self, dim: DimId) -> Result<DimId, kiln_symbolic_shape::DimError> {
        self.table.import(self.from, dim, &mut self.import)
    }
}

/// Whether compiled code differs from the interpreter by more than the steepness of the ops explains.
fn is_wrong(repro: &Repro, options: &Options) -> Result<bool, crate::Error> {
    let model = options.load(Source::graph(repro.graph.clone()))?;
    let reference = reference(&model, &repro.inputs)?;
    let found = model.run(&repro.inputs)?;
    let expected = reference.promoted.iter().zip(reference.declared.iter());
    for ((_, found), ((_, promoted), (_, declared))) in found.iter().zip(expected) {
        let own = OwnError {
            error: Distance::of(found, promoted)?.error,
            declared: Distance::of(declared, promoted)?.error,
        };
        if own.is_wrong(found.dtype().is_float()) {
            return Ok(true);
        }
    }
    Ok(false)
}
