//! Copies regions of the source graph into the joint graph.
//!
//! The body is copied once, with its symbols. A region is copied wherever it runs: in its control op, and again in the
//! gradient of that op, which recomputes it; each copy has its own symbols.

use crate::context::Context;
use crate::{GradientError, Result};
use kiln_ir::{Definition, Op, OpData, OpId, RegionId, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, LoopBody, LoopOperands, OpView};
use kiln_symbolic_shape::{DimId, SymbolId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// A copy of a region: its values, by value of the source graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copy {
    values: HashMap<ValueId, ValueId>,
    /// The sizes that stand for symbols of copied regions.
    symbols: BTreeMap<SymbolId, DimId>,
    /// Whether this is the body, whose ops keep their symbols.
    is_body: bool,
    /// Whether values that are not mapped are their own copies.
    is_identity: bool,
    /// Whether its ops will be reversed, so that its loops keep their histories.
    is_reversed: bool,
    /// For each copied loop with active carried values: these values at the start of each iteration, stacked, by position.
    histories: HashMap<OpId, Vec<(usize, ValueId)>>,
}

impl Copy {
    /// A copy of the body, with the inputs mapped.
    pub(crate) fn of_body() -> Self {
        Self {
            is_body: true,
            is_reversed: true,
            ..Self::default()
        }
    }

    /// The same copy, whose ops will be reversed.
    pub(crate) fn reversed(self) -> Self {
        Self {
            is_reversed: true,
            ..self
        }
    }

    /// The source graph itself, as the beginning of the joint graph.
    pub(crate) fn identity() -> Self {
        Self {
            is_identity: true,
            is_reversed: true,
            ..Self::default()
        }
    }

    /// The carried values of a loop at the start of each iteration, stacked; for a loop of the source graph itself, a
    /// second run computes them.
    pub(crate) fn history(
        &self,
        b: &mut GraphBuilder,
        context: &Context<'_>,
        op: OpId,
    ) -> Result<Vec<(usize, ValueId)>> {
        if let Some(history) = self.histories.get(&op) {
            return Ok(history.clone());
        }
        if let Some(history) = self.stacked_history(context, op)? {
            return Ok(history);
        }
        let mut again = Self::default().reversed();
        for &operand in &context.source.op(op).operands {
            again.map(operand, self.value(operand));
        }
        again.copy_op(b, context, op)?;
        Ok(again.histories.remove(&op).unwrap_or_default())
    }

    /// The history of a loop that itself stacks its carried values.
    fn stacked_history(
        &self,
        context: &Context<'_>,
        op: OpId,
    ) -> Result<Option<Vec<(usize, ValueId)>>> {
        let data = context.source.op(op);
        let (&Op::Loop { carried }, &[region]) = (&data.op, data.regions.as_slice()) else {
            return Ok(None);
        };
        let inner = context.source.region(region);
        let mut history = Vec::new();
        for index in context.kept_for_reversal(data, carried)? {
            // Parameters begin with the iteration, the region's results with the condition.
            let parameter = inner.parameters.get(1 + index);
            let mut stacked = (carried..data.results.len()).filter_map(|result| {
                let is_kept = inner.results.get(1 + result) == parameter;
                is_kept.then(|| self.value(data.results[result]))
            });
            match stacked.next() {
                Some(stack) => history.push((index, stack)),
                None => return Ok(None),
            }
        }
        Ok(Some(history))
    }

    /// Maps a value of the source graph.
    pub(crate) fn map(&mut self, from: ValueId, to: ValueId) {
        self.values.insert(from, to);
    }

    /// The copy of a value.
    pub(crate) fn value(&self, from: ValueId) -> ValueId {
        match self.values.get(&from) {
            Some(&value) => value,
            None if self.is_identity => from,
            None => unreachable!("a verified graph defines {from} before it is read"),
        }
    }

    /// The copies of values.
    pub(crate) fn values(&self, from: &[ValueId]) -> Vec<ValueId> {
        from.iter().map(|&value| self.value(value)).collect()
    }

    /// Copies the ops of the body that `results` depend on, and those that define sizes.
    pub(crate) fn fill_live(
        &mut self,
        b: &mut GraphBuilder,
        context: &Context<'_>,
        results: &[ValueId],
    ) -> Result<()> {
        let ops = &context.source.region(context.source.body()).ops;
        let mut live: HashSet<ValueId> = results.iter().copied().collect();
        let mut kept = Vec::new();
        for &op in ops.iter().rev() {
            let data = context.source.op(op);
            if !data.symbols.is_empty() || data.results.iter().any(|result| live.contains(result)) {
                live.extend(data.operands.iter().copied());
                kept.push(op);
            }
        }
        for &op in kept.iter().rev() {
            self.copy_op(b, context, op)?;
        }
        Ok(())
    }

    /// Copies every op of a region whose parameters are mapped; its results are then mapped.
    pub(crate) fn fill(
        &mut self,
        b: &mut GraphBuilder,
        context: &Context<'_>,
        region: RegionId,
    ) -> Result<()> {
        for &op in &context.source.region(region).ops {
            self.copy_op(b, context, op)?;
        }
        Ok(())
    }

    /// A copy of a region in the control op that surrounds this copy's values, with its parameters mapped to `parameters`.
    pub(crate) fn enter(
        &self,
        b: &GraphBuilder,
        context: &Context<'_>,
        region: RegionId,
        parameters: &[ValueId],
    ) -> Self {
        let inner = context.source.region(region);
        let mut copy = Self {
            symbols: self.symbols.clone(),
            ..Self::default()
        };
        for (&from, &to) in inner.parameters.iter().zip(parameters) {
            copy.map(from, to);
            let (Type::Tensor(before), Type::Tensor(after)) = (context.source.ty(from), b.ty(to))
            else {
                continue;
            };
            for (&before, &after) in before.dims.iter().zip(&after.dims) {
                let symbol = context.source.dims().as_symbol(before);
                if let Some(symbol) = symbol.filter(|symbol| inner.symbols.contains(symbol)) {
                    copy.symbols.insert(symbol, after);
                }
            }
        }
        copy
    }

    fn copy_op(&mut self, b: &mut GraphBuilder, context: &Context<'_>, op: OpId) -> Result<()> {
        let data = context.source.op(op);
        let label = || OpView::of_op(data).label();
        let operands = self.values(&data.operands);
        let results = match data.op {
            Op::If => self.copy_if(b, context, data, &operands),
            Op::Loop { carried } => self.copy_loop(b, context, (op, data), carried, &operands),
            _ if self.is_body => b
                .copy_op(data, &operands)
                .map(|results| results.to_vec())
                .map_err(GradientError::from),
            _ => self.copy_inner(b, data, &operands),
        };
        let results = results.map_err(|error| error.at(label))?;
        for (&from, &to) in data.results.iter().zip(&results) {
            let name = context.source.value(from).name.as_deref();
            if let Some(name) = name.filter(|_| self.is_body && is_result(b, to)) {
                b.name(to, name);
            }
            self.map(from, to);
        }
        Ok(())
    }

    /// A copy of an op of a region, with the sizes and symbols of this copy.
    fn copy_inner(
        &mut self,
        b: &mut GraphBuilder,
        data: &OpData,
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        if matches!(data.op, Op::Bind) {
            let &[operand] = operands else {
                unreachable!("a verified bind has one operand")
            };
            let mut is_size = |&symbol: &SymbolId| {
                let dim = b.dims_mut().dim(symbol);
                b.dims().range(dim).min.is_some_and(|min| min >= 0)
            };
            let sizes = if data.symbols.iter().all(&mut is_size) {
                b.bind_sizes(operand)?
            } else {
                b.bind(operand)?
            };
            self.symbols.extend(data.symbols.iter().copied().zip(sizes));
            return Ok(Vec::new());
        }
        let mut renamed = data.clone();
        if !self.symbols.is_empty() {
            let symbols = &self.symbols;
            renamed
                .op
                .try_map_dims(&mut |dim| b.dims_mut().substitute(dim, symbols))?;
        }
        Ok(b.copy_op(&renamed, operands)?.to_vec())
    }

    fn copy_if(
        &mut self,
        b: &mut GraphBuilder,
        context: &Context<'_>,
        data: &OpData,
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let (&[then, otherwise], [condition, captures @ ..]) = (data.regions.as_slice(), operands)
        else {
            unreachable!("a verified `if` has two regions and a condition")
        };
        let here = &*self;
        let branch = |region: RegionId| {
            move |b: &mut GraphBuilder, parameters: &[ValueId]| -> Result<Vec<ValueId>> {
                let mut copy = here.enter(b, context, region, parameters);
                copy.fill(b, context, region)?;
                Ok(copy.values(&context.source.region(region).results))
            }
        };
        let results = b.if_else_defining(
            self.kept_symbols(data),
            *condition,
            captures,
            branch(then),
            branch(otherwise),
        )?;
        self.rename_open_sizes(b, context, data, &results);
        Ok(results)
    }

    /// A loop that also stacks, for each active carried value, its value at the start of each iteration.
    fn copy_loop(
        &mut self,
        b: &mut GraphBuilder,
        context: &Context<'_>,
        (op, data): (OpId, &OpData),
        carried: usize,
        operands: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let (&[region], [trips, condition, rest @ ..]) = (data.regions.as_slice(), operands) else {
            unreachable!("a verified loop has a region, a trip count and a condition")
        };
        let (initial, captures) = rest.split_at(carried);
        let inner = context.source.region(region);
        let kept = if self.is_reversed {
            context.kept_for_reversal(data, carried)?
        } else {
            Vec::new()
        };
        let here = &*self;
        let results = b.loop_defining(
            self.kept_symbols(data),
            LoopOperands {
                trips: *trips,
                condition: *condition,
                carried: initial,
                captures,
            },
            |b, iteration, values, captures| -> Result<LoopBody> {
                let parameters = [&[iteration], values, captures].concat();
                let mut copy = here.enter(b, context, region, &parameters);
                copy.fill(b, context, region)?;
                let mut results = copy.values(&inner.results).into_iter();
                let Some(condition) = results.next() else {
                    unreachable!("a verified loop yields a condition")
                };
                let next: Vec<ValueId> = results.by_ref().take(carried).collect();
                let history = kept.iter().map(|&index| values[index]);
                let stacked = results.chain(history).collect();
                Ok(LoopBody {
                    condition,
                    carried: next,
                    stacked,
                })
            },
        )?;
        let (results, history) = results.split_at(data.results.len());
        let history = kept.iter().copied().zip(history.iter().copied()).collect();
        self.histories.insert(op, history);
        self.rename_open_sizes(b, context, data, results);
        Ok(results.to_vec())
    }

    /// The symbols that a copy of a control op defines again: in the body, those of the source.
    fn kept_symbols<'d>(&self, data: &'d OpData) -> &'d [SymbolId] {
        if self.is_body { &data.symbols } else { &[] }
    }

    /// Maps the symbols that a control op defines to the sizes of its copy's results.
    fn rename_open_sizes(
        &mut self,
        b: &GraphBuilder,
        context: &Context<'_>,
        data: &OpData,
        results: &[ValueId],
    ) {
        for (&from, &to) in data.results.iter().zip(results) {
            let before = &context.source.ty(from).innermost().dims;
            for (&before, &after) in before.iter().zip(&b.ty(to).innermost().dims) {
                let symbol = context.source.dims().as_symbol(before);
                if let Some(symbol) = symbol.filter(|symbol| data.symbols.contains(symbol))
                    && before != after
                {
                    self.symbols.insert(symbol, after);
                }
            }
        }
    }
}

/// Whether a value is the result of an op.
fn is_result(b: &GraphBuilder, value: ValueId) -> bool {
    matches!(b.graph().value(value).definition, Definition::Result { .. })
}
