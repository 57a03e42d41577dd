//! Runs a graph: its regions in order; each value is dropped after its last use.
//!
//! After every op its results are compared with the graph's types. A region's recorded requirements on sizes
//! (`Region::requirements`) are checked as soon as the sizes are known, before data can fault. Recursion is only over
//! nested regions, and limited.

mod control;
mod inputs;

use crate::bind::Contract;
use crate::context::{EvaluateContext, convert, promote};
use crate::error::{InterpretError, OpSite};
use crate::evaluate::evaluate_op;
use crate::fault::OpFault;
use crate::liveness::Liveness;
use crate::options::{InterpretOptions, TraceEvent};
use crate::requirements::check_requirements;
use crate::temporaries::temporary_bytes;
use crate::windows::check_window_elements;
use kiln_ir::{Graph, Op, OpData, OpId, REGION_DEPTH_LIMIT, RegionId, TensorType, Type, ValueId};
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use std::collections::HashMap;

/// The outputs of a graph for these inputs.
///
/// The graph is assumed to be verified and type-checked. Outputs are contiguous; in [`Mode::Promoted`](kiln_scalar::Mode)
/// every float output is `f64`.
///
/// # Errors
/// Inputs that do not fit the graph, a fault of an op, a limit of the options, a failed allocation, or a stop by the
/// caller.
pub fn interpret(
    graph: &Graph,
    inputs: &[Tensor],
    options: &InterpretOptions<'_>,
) -> Result<Vec<Tensor>, InterpretError> {
    let mut machine = Machine::new(graph, options);
    let mut binding = Binding::new();
    let arguments = inputs::accept(graph, inputs, options)?;
    machine.contract.bind_inputs(
        &mut binding,
        &arguments.iter().map(Tensor::shape).collect::<Vec<_>>(),
    )?;
    let outputs = machine.run_region(graph.body(), arguments, &mut binding)?;
    inputs::deliver(graph, outputs, options)
}

/// The results of a `loop` of a graph for these operands, with these values of the surrounding sizes: for callers that
/// compute other ops one by one with [`evaluate_op`].
///
/// # Errors
/// As [`interpret`], and when the op is not a loop.
pub fn interpret_loop(
    graph: &Graph,
    id: OpId,
    operands: &[Tensor],
    binding: &Binding,
    options: &InterpretOptions<'_>,
) -> Result<Vec<Tensor>, InterpretError> {
    let mut machine = Machine::new(graph, options);
    match graph.op(id).op {
        Op::Loop { carried } => machine.run_loop(id, carried, operands, binding),
        _ => Err(machine.fault(id, OpFault::malformed("expected a loop"))),
    }
}

/// The state of one run.
struct Machine<'g, 'o> {
    graph: &'g Graph,
    options: &'o InterpretOptions<'o>,
    contract: Contract<'g>,
    liveness: Liveness,
    /// Bytes of all values held by regions, excluding parameters and constants.
    live_bytes: u64,
    iterations: u64,
    depth: usize,
}

/// The values of a region that are still needed, with the bytes counted for each.
type Values = HashMap<ValueId, (Tensor, u64)>;

impl<'g, 'o> Machine<'g, 'o> {
    fn new(graph: &'g Graph, options: &'o InterpretOptions<'o>) -> Self {
        Self {
            graph,
            options,
            contract: Contract::of(graph),
            liveness: Liveness::of(graph),
            live_bytes: 0,
            iterations: 0,
            depth: 0,
        }
    }

    /// Runs the ops of a region whose symbols are bound; returns its results.
    fn run_region(
        &mut self,
        region: RegionId,
        arguments: Vec<Tensor>,
        binding: &mut Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let graph = self.graph;
        let body = graph.region(region);
        let mut values: Values = body
            .parameters
            .iter()
            .copied()
            .zip(arguments.into_iter().map(|tensor| (tensor, 0)))
            .collect();
        let dims = graph.dims();
        let mut asked = check_requirements(dims, &body.requirements, binding)?;
        for (position, &op) in body.ops.iter().enumerate() {
            self.run_op(op, &mut values, binding)?;
            if !asked.is_empty() && !graph.op(op).symbols.is_empty() {
                asked = check_requirements(dims, asked, binding)?;
            }
            for value in self.liveness.dead_after(region, position) {
                if let Some((_, bytes)) = values.remove(value) {
                    self.live_bytes -= bytes;
                }
            }
        }
        let results = body
            .results
            .iter()
            .map(|value| values.get(value).map(|(tensor, _)| tensor.clone()));
        let results: Option<Vec<Tensor>> = results.collect();
        self.live_bytes -= values.values().map(|(_, bytes)| bytes).sum::<u64>();
        results.ok_or_else(|| {
            let problem = format!("{region} yields a value that it does not have");
            InterpretError::Op {
                at: OpSite {
                    op: "region",
                    origin: region.to_string(),
                },
                fault: Box::new(OpFault::malformed(problem)),
            }
        })
    }

    fn run_op(
        &mut self,
        id: OpId,
        values: &mut Values,
        binding: &mut Binding,
    ) -> Result<(), InterpretError> {
        self.check_cancelled()?;
        let op = self.graph.op(id);
        let results = {
            let operands = op
                .operands
                .iter()
                .map(|value| values.get(value).map(|(tensor, _)| tensor.clone()));
            let operands: Option<Vec<Tensor>> = operands.collect();
            let operands = operands
                .ok_or_else(|| self.fault(id, OpFault::malformed("an operand has no value")))?;
            let window_limit = self.options.limits.window_elements;
            check_window_elements(self.graph, id, binding, window_limit)
                .map_err(|fault| self.fault(id, fault))?;
            self.reserve(id, &operands, binding)?;
            match &op.op {
                Op::If => self.run_if(id, &operands, binding)?,
                Op::Loop { carried } => self.run_loop(id, *carried, &operands, binding)?,
                Op::Bind => self.run_bind(id, &operands, binding)?,
                _ => self.evaluate(id, &operands, binding)?,
            }
        };
        self.bind_results(id, &results, binding)?;
        self.check_types(id, &op.results, &results, binding)?;
        for (&value, tensor) in op.results.iter().zip(results) {
            if let Some(trace) = self.options.trace {
                let name = self.graph.value(value).name.as_deref();
                trace(TraceEvent {
                    value,
                    name,
                    tensor: &tensor,
                    op,
                });
            }
            let bytes = if matches!(op.op, Op::Constant(_)) {
                0
            } else {
                bytes_of(&tensor)
            };
            self.hold(id, bytes)?;
            values.insert(value, (tensor, bytes));
        }
        Ok(())
    }

    /// An op that depends only on its operands.
    fn evaluate(
        &self,
        id: OpId,
        operands: &[Tensor],
        binding: &Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let op = self.graph.op(id);
        let operand_name = |index: usize| {
            op.operands
                .get(index)
                .map_or_else(String::new, |&value| self.name_of(value))
        };
        let ctx = EvaluateContext::new(self.graph.dims(), binding)
            .with_mode(self.options.mode)
            .with_custom_ops(self.options.custom_ops)
            .with_cancelled(self.options.cancelled)
            .with_operand_names(&operand_name);
        let results = if matches!(op.op, Op::Custom { .. }) {
            self.evaluate_custom(&ctx, op, operands)
        } else {
            evaluate_op(&ctx, &op.op, operands)
        };
        results.map_err(|fault| self.fault(id, fault))
    }

    /// A custom op receives the graph's declared types, in every mode.
    fn evaluate_custom(
        &self,
        ctx: &EvaluateContext<'_>,
        op: &OpData,
        operands: &[Tensor],
    ) -> Result<Vec<Tensor>, OpFault> {
        let declared = op.operands.iter().zip(operands).map(|(&value, tensor)| {
            let dtype = self
                .graph
                .tensor_ty(value)
                .map_or(tensor.dtype(), |ty| ty.dtype);
            convert(ctx.interrupt(), tensor, dtype)
        });
        let results = evaluate_op(ctx, &op.op, &declared.collect::<Result<Vec<_>, _>>()?)?;
        results.iter().map(|result| promote(ctx, result)).collect()
    }

    /// Binds the symbols that an op defines as sizes of its results.
    fn bind_results(
        &mut self,
        id: OpId,
        results: &[Tensor],
        binding: &mut Binding,
    ) -> Result<(), InterpretError> {
        let (graph, op) = (self.graph, self.graph.op(id));
        if op.symbols.is_empty() || matches!(op.op, Op::Bind) {
            return Ok(());
        }
        for (&value, tensor) in op.results.iter().zip(results) {
            let Some(ty) = graph.tensor_ty(value) else {
                continue;
            };
            self.bind_sizes(id, ty, &op.symbols, tensor, binding)?;
        }
        Ok(())
    }

    /// Binds those of `symbols` that occur bare in a type.
    fn bind_sizes(
        &mut self,
        id: OpId,
        ty: &TensorType,
        symbols: &[kiln_symbolic_shape::SymbolId],
        tensor: &Tensor,
        binding: &mut Binding,
    ) -> Result<(), InterpretError> {
        let graph = self.graph;
        for (&dim, &size) in ty.dims.iter().zip(tensor.shape()) {
            match graph.dims().as_symbol(dim) {
                // A second axis of the same symbol is compared with the first when types are checked.
                Some(symbol) if symbols.contains(&symbol) && binding.get(symbol).is_none() => {
                    let size = i64::try_from(size).unwrap_or(i64::MAX);
                    self.contract
                        .bind(binding, symbol, size, || site_of(graph, id).to_string())?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Compares values with the graph's types.
    fn check_types(
        &self,
        id: OpId,
        values: &[ValueId],
        tensors: &[Tensor],
        binding: &Binding,
    ) -> Result<(), InterpretError> {
        if values.len() != tensors.len() {
            let problem = format!("expected {} results, found {}", values.len(), tensors.len());
            return Err(self.fault(id, OpFault::malformed(problem)));
        }
        for (&value, tensor) in values.iter().zip(tensors) {
            let ty = self.graph.ty(value);
            let Type::Tensor(tensor_ty) = ty else {
                let ty = ty.display(self.graph.dims()).to_string();
                return Err(InterpretError::NotATensor {
                    value: self.name_of(value),
                    ty,
                });
            };
            let sizes = tensor_ty
                .dims
                .iter()
                .map(|&dim| self.graph.dims().evaluate(dim, binding));
            let sizes: Vec<i64> = sizes
                .collect::<Result<_, _>>()
                .map_err(|error| self.fault(id, OpFault::Size(error)))?;
            let same = sizes.len() == tensor.rank()
                && sizes
                    .iter()
                    .zip(tensor.shape())
                    .all(|(&size, &found)| usize::try_from(size) == Ok(found));
            let dtype = self.options.mode.stored(tensor_ty.dtype);
            if !same || dtype != tensor.dtype() {
                let mut expected = ty.display(self.graph.dims()).to_string();
                let valued = format!("{dtype}{sizes:?}");
                if expected != valued {
                    expected = format!("{expected} = {valued}");
                }
                let found = format!("{}{:?}", tensor.dtype(), tensor.shape());
                return Err(self.fault(id, OpFault::ResultMismatch { expected, found }));
            }
        }
        Ok(())
    }

    /// Rejects results that would exceed the limit before memory is allocated.
    fn reserve(
        &self,
        id: OpId,
        operands: &[Tensor],
        binding: &Binding,
    ) -> Result<(), InterpretError> {
        let op = self.graph.op(id);
        let shares = matches!(
            op.op,
            Op::Constant(_)
                | Op::Iota { .. }
                | Op::Reshape { .. }
                | Op::Broadcast { .. }
                | Op::Transpose { .. }
                | Op::Slice { .. }
                | Op::If
                | Op::Loop { .. }
                | Op::Bind
        );
        if shares {
            return Ok(());
        }
        let (mut bytes, mut elements) = (0u64, 0u64);
        for ty in op
            .results
            .iter()
            .filter_map(|&value| self.graph.tensor_ty(value))
        {
            let dtype = self.options.mode.stored(ty.dtype);
            // A size without a value is reported by the op itself, with more detail.
            let sizes = ty
                .dims
                .iter()
                .map(|&dim| self.graph.dims().evaluate(dim, binding).ok());
            let product = sizes.map(|size| size.map_or(0, |size| u64::try_from(size).unwrap_or(0)));
            let product = product.fold(1u64, u64::saturating_mul);
            bytes = bytes.saturating_add(product.saturating_mul(dtype.size_in_bytes() as u64));
            elements = elements.saturating_add(product);
        }
        let temporary = temporary_bytes(&op.op, operands, elements);
        self.check_live(id, bytes.saturating_add(temporary))
    }

    /// Counts bytes as live.
    fn hold(&mut self, id: OpId, bytes: u64) -> Result<(), InterpretError> {
        self.check_live(id, bytes)?;
        self.live_bytes += bytes;
        Ok(())
    }

    fn check_live(&self, id: OpId, more: u64) -> Result<(), InterpretError> {
        let (given, limit) = (
            self.live_bytes.saturating_add(more),
            self.options.limits.live_bytes,
        );
        if given > limit {
            return Err(InterpretError::LiveBytes {
                at: site_of(self.graph, id),
                given,
                limit,
            });
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), InterpretError> {
        match self.options.cancelled {
            Some(cancelled) if cancelled() => Err(InterpretError::Cancelled),
            _ => Ok(()),
        }
    }

    /// Enters a region below the current one, or returns an error if it is too deep.
    fn descend<R>(
        &mut self,
        id: OpId,
        run: impl FnOnce(&mut Self) -> Result<R, InterpretError>,
    ) -> Result<R, InterpretError> {
        if self.depth >= REGION_DEPTH_LIMIT {
            return Err(InterpretError::RegionDepth {
                at: site_of(self.graph, id),
                limit: REGION_DEPTH_LIMIT,
            });
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    fn fault(&self, id: OpId, fault: OpFault) -> InterpretError {
        if matches!(fault, OpFault::Stopped) {
            return InterpretError::Cancelled;
        }
        InterpretError::Op {
            at: site_of(self.graph, id),
            fault: Box::new(fault),
        }
    }

    fn name_of(&self, value: ValueId) -> String {
        match &self.graph.value(value).name {
            Some(name) => format!("%{name}"),
            None => value.to_string(),
        }
    }
}

/// An op for messages: by its origin, or otherwise by its first result.
fn site_of(graph: &Graph, id: OpId) -> OpSite {
    let op = graph.op(id);
    let origin = match (&op.origin, op.results.first()) {
        (Some(origin), _) => origin.to_string(),
        (None, Some(result)) => result.to_string(),
        (None, None) => id.to_string(),
    };
    OpSite {
        op: op.op.mnemonic(),
        origin,
    }
}

/// The bytes of the distinct elements of a tensor: an axis that repeats counts once.
fn bytes_of(tensor: &Tensor) -> u64 {
    let sizes = tensor.shape().iter().zip(tensor.strides());
    let elements =
        sizes.map(|(&size, &stride)| if stride == 0 { size.min(1) } else { size } as u64);
    elements.product::<u64>() * tensor.dtype().size_in_bytes() as u64
}
