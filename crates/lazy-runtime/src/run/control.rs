//! Control steps: the block selected by a condition, and code shared with loops.
//!
//! Each entry into a block starts from the outer symbols and binds the block's own from the sizes of its arguments;
//! these end with the block.

use std::sync::Arc;

use kiln_backend::Memory;
use kiln_interpreter::{InterpretError, OpSite};
use kiln_ir::LoopCourse;
use kiln_program::{Action, BlockId, BufferId, Step};
use kiln_symbolic_shape::{Binding, SymbolId};
use kiln_tensor::Tensor;

use super::bind::{bind_sizes, site_of};
use super::host::step_site;
use super::walk::Run;
use super::{Stop, Value};
use crate::error::RuntimeError;
use crate::plan::{Frame, SegmentPlan};

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

    /// One run of a block.
    fn enter(
        &mut self,
        id: BlockId,
        step: &Step,
        arguments: &[Value],
        binding: &Binding,
    ) -> Result<Vec<Value>, Stop> {
        let plan = self.plan_entry(id, step, 0, arguments.iter(), binding)?;
        let given: Vec<(Memory, usize)> = arguments
            .iter()
            .map(|value| (value.memory.clone(), value.offset))
            .collect();
        self.block(id, &plan, given)
    }

    /// The plan of a block's first segment for these arguments, which are those of its parameters from one on.
    pub(super) fn plan_entry<'v>(
        &mut self,
        id: BlockId,
        step: &Step,
        first: usize,
        arguments: impl Iterator<Item = &'v Value> + Clone,
        binding: &Binding,
    ) -> Result<Arc<SegmentPlan>, Stop> {
        let (graph, block) = (self.program.graph(), self.program.block(id));
        let parameters = graph.region(block.region).parameters.iter().skip(first);
        let mut inner = binding.clone();
        let site = || step_site(graph, step);
        for (&parameter, value) in parameters.clone().zip(arguments.clone()) {
            if let Some(ty) = graph.tensor_ty(parameter) {
                bind_sizes(graph, &mut inner, ty, &block.symbols, &value.shape, &site)?;
            }
        }
        for (&parameter, value) in parameters.zip(arguments) {
            self.check_type(step, parameter, value.dtype, &value.shape, &inner)?;
        }
        self.plan(id, 0, inner, &[])
    }

    /// Passes on the results of a control step.
    #[allow(
        clippy::too_many_arguments,
        reason = "all of it is the state of one step"
    )]
    pub(super) fn give(
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

    pub(super) fn flag(&self, value: &Value, step: &Step) -> Result<bool, RuntimeError> {
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

    pub(super) fn count_iteration(&mut self, step: &Step) -> Result<(), RuntimeError> {
        self.check_control()?;
        self.state.iterations += 1;
        let limit = self.runtime.options().loop_iterations;
        if self.state.iterations <= limit {
            return Ok(());
        }
        let at = self.loop_site(step);
        Err(InterpretError::Iterations { at, limit }.into())
    }

    /// The number of iterations of a loop, if nothing can end it early.
    ///
    /// # Errors
    /// When they exceed the remaining limit.
    pub(super) fn all_iterations(
        &self,
        step: &Step,
        trips: i64,
    ) -> Result<Option<usize>, RuntimeError> {
        let graph = self.program.graph();
        if !step
            .ops
            .last()
            .is_some_and(|&op| LoopCourse::of(graph, op).goes_on)
        {
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

    /// An empty stack. Its inner sizes are those of the declared type, 0 where only an iteration would determine them.
    pub(super) fn no_iterations(
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
