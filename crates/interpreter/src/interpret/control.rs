//! Ops that need the surrounding graph: `if`, `loop` and `bind`.
//!
//! Each entry into a region starts from the symbols known outside, and binds the region's own symbols to the shapes of its
//! arguments; they go out of scope with the region.

use super::{Machine, bytes_of, site_of};
use crate::error::InterpretError;
use crate::fault::OpFault;
use crate::interrupt::Interrupt;
use crate::ops::gather::integers;
use crate::ops::movement::join;
use kiln_ir::{LoopCourse, OpId, RegionId};
use kiln_symbolic_shape::Binding;
use kiln_tensor::{DType, Tensor, TensorError};
use std::cell::Cell;

impl Machine<'_, '_> {
    /// The region selected by the condition, applied to the captures.
    pub(super) fn run_if(
        &mut self,
        id: OpId,
        operands: &[Tensor],
        binding: &Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let op = self.graph.op(id);
        let (Some((condition, captures)), [then, otherwise]) =
            (operands.split_first(), op.regions.as_slice())
        else {
            return Err(self.fault(
                id,
                OpFault::malformed("expected a condition and two regions"),
            ));
        };
        let condition = condition
            .item::<bool>()
            .map_err(|error| self.fault(id, error.into()))?;
        self.enter(
            id,
            if condition { *then } else { *otherwise },
            captures.to_vec(),
            binding,
        )
    }

    /// Runs the region repeatedly, passing carried values on.
    pub(super) fn run_loop(
        &mut self,
        id: OpId,
        n_carried: usize,
        operands: &[Tensor],
        binding: &Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let op = self.graph.op(id);
        let ([trips, condition, rest @ ..], [region]) = (operands, op.regions.as_slice()) else {
            return Err(self.fault(
                id,
                OpFault::malformed("expected trips, a condition and one region"),
            ));
        };
        if rest.len() < n_carried || op.results.len() < n_carried {
            return Err(self.fault(
                id,
                OpFault::malformed(format!("expected {n_carried} carried values")),
            ));
        }
        let trips = trips
            .item::<i64>()
            .map_err(|error| self.fault(id, error.into()))?;
        let mut goes_on = condition
            .item::<bool>()
            .map_err(|error| self.fault(id, error.into()))?;
        let (carried, captures) = rest.split_at(n_carried);
        let mut carried = carried.to_vec();
        let mut carried_bytes = 0;
        let remaining = match goes_on && LoopCourse::of(self.graph, id).goes_on {
            true => self.check_iterations(id, trips)?,
            false => 0,
        };
        let mut stacks: Vec<Vec<Tensor>> = vec![Vec::new(); op.results.len() - n_carried];
        let mut stacked_bytes = 0;
        let mut iteration = 0;
        while iteration < trips && goes_on {
            self.count_iteration(id)?;
            let arguments = [&[Tensor::scalar(iteration)], carried.as_slice(), captures].concat();
            let mut yields = self.enter(id, *region, arguments, binding)?.into_iter();
            goes_on = match yields.next().map(|condition| condition.item::<bool>()) {
                Some(Ok(goes_on)) => goes_on,
                Some(Err(error)) => return Err(self.fault(id, error.into())),
                None => {
                    return Err(self.fault(
                        id,
                        OpFault::malformed("expected the region to yield a condition"),
                    ));
                }
            };
            carried = yields.by_ref().take(n_carried).collect();
            self.live_bytes -= carried_bytes;
            carried_bytes = carried.iter().map(bytes_of).sum();
            self.hold(id, carried_bytes)?;
            for (stack, tensor) in stacks.iter_mut().zip(yields) {
                let bytes = bytes_of(&tensor);
                if iteration == 0 {
                    self.check_live(id, bytes.saturating_mul(remaining))?;
                }
                self.hold(id, bytes)?;
                stacked_bytes += bytes;
                stack.push(tensor);
            }
            iteration += 1;
        }
        self.live_bytes -= carried_bytes + stacked_bytes;
        let mut results = carried;
        for (index, stack) in stacks.into_iter().enumerate() {
            let stacked = if stack.is_empty() {
                let none = self.no_iterations(id, n_carried + index, binding);
                none.map_err(|error| self.fault(id, error.into()))
            } else {
                let done = Cell::new(0);
                let interrupt = Interrupt::new(self.options.cancelled, &done);
                stacked(interrupt, &stack).map_err(|fault| self.fault(id, fault))
            };
            results.push(stacked?);
        }
        Ok(results)
    }

    /// Binds symbols to the elements of an integer tensor.
    pub(super) fn run_bind(
        &mut self,
        id: OpId,
        operands: &[Tensor],
        binding: &mut Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let graph = self.graph;
        let op = graph.op(id);
        let Some(data) = operands.first() else {
            return Err(self.fault(id, OpFault::malformed("expected an operand")));
        };
        let values = integers(Interrupt::default(), data).map_err(|fault| self.fault(id, fault))?;
        if values.len() != op.symbols.len() {
            let problem = format!(
                "expected {} elements, found {}",
                op.symbols.len(),
                values.len()
            );
            return Err(self.fault(id, OpFault::malformed(problem)));
        }
        for (&symbol, value) in op.symbols.iter().zip(values) {
            // Larger `u64` values were clamped to this one.
            if data.dtype() == DType::U64 && value == i64::MAX {
                let given = data
                    .to_vec::<u64>()
                    .ok()
                    .and_then(|values| values.into_iter().max());
                let fault = OpFault::Limit {
                    what: "for a value of a symbol",
                    given: given.unwrap_or(u64::MAX),
                    limit: i64::MAX as u64,
                };
                return Err(self.fault(id, fault));
            }
            self.contract
                .bind(binding, symbol, value, || site_of(graph, id).to_string())?;
        }
        Ok(Vec::new())
    }

    /// One run of a region of a control op.
    fn enter(
        &mut self,
        id: OpId,
        region: RegionId,
        arguments: Vec<Tensor>,
        binding: &Binding,
    ) -> Result<Vec<Tensor>, InterpretError> {
        let body = self.graph.region(region);
        let mut inner = binding.clone();
        for (&parameter, tensor) in body.parameters.iter().zip(&arguments) {
            let Some(ty) = self.graph.tensor_ty(parameter) else {
                continue;
            };
            self.bind_sizes(id, ty, &body.symbols, tensor, &mut inner)?;
        }
        self.check_types(id, &body.parameters, &arguments, &inner)?;
        self.descend(id, |machine| {
            machine.run_region(region, arguments, &mut inner)
        })
    }

    /// Rejects more iterations than the remaining limit, if all of them will run; returns their number.
    fn check_iterations(&self, id: OpId, trips: i64) -> Result<u64, InterpretError> {
        let limit = self.options.limits.iterations;
        let trips = u64::try_from(trips).unwrap_or(0);
        if trips > limit.saturating_sub(self.iterations) {
            let at = site_of(self.graph, id);
            return Err(InterpretError::Iterations { at, limit });
        }
        Ok(trips)
    }

    fn count_iteration(&mut self, id: OpId) -> Result<(), InterpretError> {
        self.check_cancelled()?;
        self.iterations += 1;
        let limit = self.options.limits.iterations;
        if self.iterations > limit {
            return Err(InterpretError::Iterations {
                at: site_of(self.graph, id),
                limit,
            });
        }
        Ok(())
    }

    /// An empty stack. Its inner sizes are those of the declared type, 0 where only an iteration would determine them.
    fn no_iterations(
        &self,
        id: OpId,
        result: usize,
        binding: &Binding,
    ) -> Result<Tensor, TensorError> {
        let op = self.graph.op(id);
        let Some(ty) = op
            .results
            .get(result)
            .and_then(|&value| self.graph.tensor_ty(value))
        else {
            return Err(TensorError::NothingToConcat);
        };
        let size = |dim| {
            self.graph
                .dims()
                .evaluate(dim, binding)
                .ok()
                .and_then(|size| usize::try_from(size).ok())
        };
        let inner = ty.dims.iter().skip(1).map(|&dim| size(dim).unwrap_or(0));
        let shape: Vec<usize> = [0].into_iter().chain(inner).collect();
        Tensor::zeros(self.options.mode.stored(ty.dtype), &shape)
    }
}

/// Tensors of one shape under a new outermost axis.
fn stacked(interrupt: Interrupt<'_>, stack: &[Tensor]) -> Result<Tensor, OpFault> {
    let layers = stack
        .iter()
        .map(|tensor| tensor.unsqueeze(0))
        .collect::<Result<Vec<Tensor>, _>>()?;
    join(interrupt, &layers, 0)
}
