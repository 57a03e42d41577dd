//! Control steps: a block picked by a condition, or run again and again.
//!
//! Each entry into a block starts from the symbols known outside, and gives values to the block's own from the sizes
//! of its arguments; they end with the block.

use kiln_backend::Memory;
use kiln_interpreter::{InterpretError, OpSite, runs_all_trips};
use kiln_program::{Action, BlockId, BufferId, Step};
use kiln_symbolic_shape::{Binding, SymbolId};
use kiln_tensor::Tensor;

use super::bind::{bind_sizes, site_of};
use super::host::step_site;
use super::stack::Stack;
use super::walk::Run;
use super::{Stop, Value};
use crate::error::RuntimeError;
use crate::plan::Frame;

impl Run<'_> {
    pub(super) fn run_if(
        &mut self,
        block: BlockId,
        step: &Step,
        values: &[Value],
        frame: &mut Frame,
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        let (
            Action::If {
                then,
                otherwise,
                results,
                symbols,
                ..
            },
            [condition, captures @ ..],
        ) = (&step.action, values)
        else {
            return Err(RuntimeError::malformed("an `if` without a condition").into());
        };
        let taken = if self.flag(condition, step)? {
            *then
        } else {
            *otherwise
        };
        let given = self.enter(taken, step, captures, binding)?;
        self.give(block, step, results, symbols, &given, frame, binding)
    }

    pub(super) fn run_loop(
        &mut self,
        block: BlockId,
        step: &Step,
        values: &[Value],
        frame: &mut Frame,
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        let (
            Action::Loop {
                body,
                carried,
                results,
                symbols,
                ..
            },
            [trips, condition, rest @ ..],
        ) = (&step.action, values)
        else {
            return Err(RuntimeError::malformed("a `loop` without trips and a condition").into());
        };
        let n_carried = carried.len();
        if rest.len() < n_carried || results.len() < n_carried {
            return Err(RuntimeError::malformed("a `loop` that lacks carried values").into());
        }
        let trips = self.download(trips.placed(), &step.name)?;
        let trips = trips
            .item::<i64>()
            .map_err(RuntimeError::tensor(step.name.as_str()))?;
        let mut goes_on = self.flag(condition, step)?;
        let (carried, captures) = rest.split_at(n_carried);
        let mut carried = carried.to_vec();
        let all = match goes_on {
            true => self.all_iterations(step, trips)?,
            false => None,
        };
        let n_stacks = results.len() - n_carried;
        let mut stacks: Vec<Option<Stack>> = (0..n_stacks).map(|_| None).collect();
        let mut iteration = 0;
        while iteration < trips && goes_on {
            self.count_iteration(step)?;
            let counter = self.upload(&Tensor::scalar(iteration), step)?;
            let arguments = [&[counter], carried.as_slice(), captures].concat();
            let given = self.enter(*body, step, &arguments, binding)?;
            let Some((condition, given)) = given.split_first() else {
                return Err(RuntimeError::malformed("a loop's block without a condition").into());
            };
            if given.len() != results.len() {
                return Err(RuntimeError::malformed("a loop's block lacks results").into());
            }
            goes_on = self.flag(condition, step)?;
            let (next, stacked) = given.split_at(n_carried);
            carried = next.to_vec();
            for (stack, value) in stacks.iter_mut().zip(stacked) {
                self.push_layer(step, stack, value, all)?;
            }
            iteration += 1;
        }
        for (index, stack) in stacks.into_iter().enumerate() {
            carried.push(match stack {
                Some(stack) => stack.into_value(),
                None => {
                    let none = self.no_iterations(step, n_carried + index, binding)?;
                    self.upload(&none, step)?
                }
            });
        }
        self.give(block, step, results, symbols, &carried, frame, binding)
    }

    /// One run of a block.
    fn enter(
        &mut self,
        id: BlockId,
        step: &Step,
        arguments: &[Value],
        binding: &Binding,
    ) -> Result<Vec<Value>, Stop> {
        let (graph, block) = (self.program.graph(), self.program.block(id));
        let parameters = &graph.region(block.region).parameters;
        let mut inner = binding.clone();
        let site = || step_site(graph, step);
        for (&parameter, value) in parameters.iter().zip(arguments) {
            if let Some(ty) = graph.tensor_ty(parameter) {
                bind_sizes(graph, &mut inner, ty, &block.symbols, &value.shape, &site)?;
            }
        }
        for (&parameter, value) in parameters.iter().zip(arguments) {
            self.check_type(step, parameter, value.dtype, &value.shape, &inner)?;
        }
        let plan = self.plan(id, 0, inner, &[])?;
        let given: Vec<(Memory, usize)> = arguments
            .iter()
            .map(|value| (value.memory.clone(), value.offset))
            .collect();
        self.block(id, &plan, given)
    }

    /// Hands on what a control step gave.
    #[allow(
        clippy::too_many_arguments,
        reason = "all of it is the state of one step"
    )]
    fn give(
        &self,
        block: BlockId,
        step: &Step,
        results: &[BufferId],
        symbols: &[SymbolId],
        given: &[Value],
        frame: &mut Frame,
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        let graph = self.program.graph();
        let values = step
            .ops
            .last()
            .map(|&op| graph.op(op).results.clone())
            .unwrap_or_default();
        if values.len() != given.len() || results.len() != given.len() {
            return Err(RuntimeError::malformed(format!("{} lacks results", step.name)).into());
        }
        let site = || step_site(graph, step);
        for (&id, value) in values.iter().zip(given) {
            if let Some(ty) = graph.tensor_ty(id) {
                bind_sizes(graph, binding, ty, symbols, &value.shape, &site)?;
            }
        }
        for ((&id, &buffer), value) in values.iter().zip(results).zip(given) {
            self.check_type(step, id, value.dtype, &value.shape, binding)?;
            self.bring_memory(block, buffer, value.memory.clone(), value.offset, frame)?;
        }
        Ok(())
    }

    fn flag(&self, value: &Value, step: &Step) -> Result<bool, RuntimeError> {
        let tensor = self.download(value.placed(), &step.name)?;
        tensor
            .item::<bool>()
            .map_err(RuntimeError::tensor(step.name.as_str()))
    }

    pub(super) fn upload(&self, tensor: &Tensor, step: &Step) -> Result<Value, RuntimeError> {
        let memory = self.runtime.executor().upload(tensor);
        Ok(Value {
            memory: memory.map_err(RuntimeError::execute(step.name.as_str()))?,
            offset: 0,
            dtype: tensor.dtype(),
            shape: tensor.shape().into(),
            order: None,
            apart: None,
        })
    }

    fn count_iteration(&mut self, step: &Step) -> Result<(), RuntimeError> {
        self.check_control()?;
        self.state.iterations += 1;
        let limit = self.runtime.options().loop_iterations;
        if self.state.iterations <= limit {
            return Ok(());
        }
        let at = self.loop_site(step);
        Err(InterpretError::Iterations { at, limit }.into())
    }

    /// How many iterations a loop runs, if nothing can end it early.
    ///
    /// # Errors
    /// When they are more than may still run.
    fn all_iterations(&self, step: &Step, trips: i64) -> Result<Option<usize>, RuntimeError> {
        let graph = self.program.graph();
        if !step.ops.last().is_some_and(|&op| runs_all_trips(graph, op)) {
            return Ok(None);
        }
        let limit = self.runtime.options().loop_iterations;
        let trips = u64::try_from(trips).unwrap_or(0);
        if trips > limit.saturating_sub(self.state.iterations) {
            let at = self.loop_site(step);
            return Err(InterpretError::Iterations { at, limit }.into());
        }
        Ok(usize::try_from(trips).ok())
    }

    pub(super) fn loop_site(&self, step: &Step) -> OpSite {
        match step.ops.last() {
            Some(&op) => site_of(self.program.graph(), op),
            None => OpSite {
                op: "loop",
                origin: step.name.clone(),
            },
        }
    }

    /// A stack of nothing. Its inner sizes are those of the declared type, 0 where only an iteration would have told.
    fn no_iterations(
        &self,
        step: &Step,
        result: usize,
        binding: &Binding,
    ) -> Result<Tensor, RuntimeError> {
        let graph = self.program.graph();
        let value = step
            .ops
            .last()
            .and_then(|&op| graph.op(op).results.get(result).copied());
        let Some(ty) = value.and_then(|value| graph.tensor_ty(value)) else {
            return Err(RuntimeError::malformed(format!(
                "{} lacks a result",
                step.name
            )));
        };
        let size = |dim| {
            let size = graph.dims().evaluate(dim, binding).ok();
            size.and_then(|size| usize::try_from(size).ok())
                .unwrap_or(0)
        };
        let inner = ty.dims.iter().skip(1).map(|&dim| size(dim));
        let shape: Vec<usize> = [0].into_iter().chain(inner).collect();
        Tensor::zeros(ty.dtype, &shape).map_err(RuntimeError::tensor(step.name.as_str()))
    }
}
