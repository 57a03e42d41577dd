//! Loops: a block run repeatedly, with its carried values passed on.
//!
//! The host decides as little as possible. Trip counts and conditions known before the loop are not read from the
//! device, and the host waits for the device only where the next iteration depends on data. While carried values keep
//! their sizes, the block keeps its launch plan, its frame and its memories: stacked values are written in place, and
//! carried ones into memories that hold no carried value.

use std::sync::Arc;

use kiln_backend::Memory;
use kiln_program::{Action, BlockId, BufferId, Course, Place, Step};
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use smallvec::SmallVec;

use super::stack::{Stack, is_same};
use super::state::Counters;
use super::walk::Run;
use super::{Entry, Stop, Value};
use crate::error::RuntimeError;
use crate::plan::{Frame, MemoryIndex, OwnMemory, SegmentPlan, TensorPlace};

/// The maximum number of remembered launches of code that may fault before the device is waited for.
const MAX_LAUNCHED: usize = 1 << 10;

/// A loop in progress.
struct Loop<'a> {
    step: &'a Step,
    body: BlockId,
    carried: Vec<Value>,
    captures: &'a [Value],
    stacks: Vec<Option<Stack>>,
    /// The number of layers of the stacks, if that is known.
    layers: Option<usize>,
    /// Memories for carried values.
    spare: Vec<Spare>,
}

/// A memory for a carried value.
struct Spare {
    memory: Memory,
    /// Whether the current iteration writes it.
    is_taken: bool,
}

/// The state of iterations while sizes stay the same.
struct Planned {
    plan: Arc<SegmentPlan>,
    /// The stack that each of the plan's separate memories is a layer of.
    stack_of_own: SmallVec<[Option<usize>; 4]>,
    /// Whether the operands and results of the last iteration had the same layout.
    is_settled: bool,
}

impl Planned {
    /// Finds which memories of a block are layers of a stack: those that a stacked result fills.
    fn new(plan: Arc<SegmentPlan>, n_carried: usize) -> Self {
        let stack_of = |own: &OwnMemory| {
            let mut stacked = plan.results.iter().skip(1 + n_carried);
            stacked.position(|place| place.fills(own))
        };
        Self {
            stack_of_own: plan.own.iter().map(stack_of).collect(),
            plan,
            is_settled: false,
        }
    }
}

impl Run<'_> {
    /// Runs a loop. `reads` are its trip count, condition, carried values and captures; `trips` is known if it is a size.
    pub(super) fn run_loop(
        &mut self,
        block: BlockId,
        step: &Step,
        (reads, trips): (&[TensorPlace], Option<i64>),
        frame: &mut Frame,
        binding: &mut Binding,
    ) -> Result<(), Stop> {
        let Action::Loop {
            body,
            trips: trips_buffer,
            condition,
            course,
            carried,
            results,
            symbols,
            ..
        } = &step.action
        else {
            return Err(RuntimeError::malformed("a `loop` step that is not a loop").into());
        };
        let values = reads.iter().map(|place| self.value(frame, place));
        let values = values.collect::<Result<Vec<Value>, _>>()?;
        let [trips_value, condition_value, rest @ ..] = values.as_slice() else {
            return Err(RuntimeError::malformed("a `loop` without trips and a condition").into());
        };
        let n_carried = carried.len();
        if rest.len() < n_carried || results.len() < n_carried {
            return Err(RuntimeError::malformed("a `loop` that lacks carried values").into());
        }
        let trips = match trips {
            Some(trips) => trips,
            None => {
                let trips = self.scalar(block, *trips_buffer, trips_value, step)?;
                let trips = trips.item::<i64>();
                trips.map_err(RuntimeError::tensor(step.name.as_str()))?
            }
        };
        let begins = match course.begins {
            Some(begins) => begins,
            None => {
                let begins = self.scalar(block, *condition, condition_value, step)?;
                let begins = begins.item::<bool>();
                begins.map_err(RuntimeError::tensor(step.name.as_str()))?
            }
        };
        let (carried, captures) = rest.split_at(n_carried);
        let n_stacks = results.len() - n_carried;
        let mut running = Loop {
            step,
            body: *body,
            carried: carried.to_vec(),
            captures,
            stacks: (0..n_stacks).map(|_| None).collect(),
            layers: match begins && course.goes_on {
                true => self.all_iterations(step, trips)?,
                false => None,
            },
            spare: Vec::new(),
        };
        if begins && trips > 0 {
            let mut inner = self.state.take_frame(*body, self.prepared.memories(*body));
            let ran = self.iterate(&mut running, trips, *course, &mut inner, binding);
            self.state.give_frame(*body, inner);
            ran?;
        }
        let mut given = running.carried;
        for (index, stack) in running.stacks.into_iter().enumerate() {
            given.push(match stack {
                Some(stack) => stack.into_value(),
                None => {
                    let none = self.no_iterations(step, n_carried + index, binding)?;
                    self.upload(&none, step)?
                }
            });
        }
        self.give(block, step, results, symbols, &given, frame, binding)
    }

    /// A scalar that controls a loop: an input of the call is read where the host has it.
    fn scalar(
        &mut self,
        block: BlockId,
        buffer: BufferId,
        value: &Value,
        step: &Step,
    ) -> Result<Tensor, Stop> {
        let data = self.program.block(block);
        if block == self.program.body()
            && let root = data.root(buffer)
            && let Some(Place::Parameter(index)) = data.buffers.get(root).map(|buffer| buffer.place)
            && let Some(input) = self.inputs.get(index).filter(|input| input.len() == 1)
        {
            return Ok(input.clone());
        }
        self.finish()?;
        Ok(self.download(value.placed(), &step.name)?)
    }

    fn iterate(
        &mut self,
        running: &mut Loop<'_>,
        trips: i64,
        course: Course,
        frame: &mut Frame,
        binding: &Binding,
    ) -> Result<(), Stop> {
        let (step, body) = (running.step, running.body);
        let block = self.program.block(body);
        let indices = block.parameters.iter();
        let indices: SmallVec<[Option<MemoryIndex>; 8]> = indices
            .map(|&parameter| self.prepared.memory_of(body, parameter))
            .collect();
        let Some((&counter, indices)) = indices.split_first() else {
            return Err(RuntimeError::malformed("a loop's block without a counter").into());
        };
        let n_carried = running.carried.len();
        if indices.len() < n_carried + running.captures.len()
            || block.results.len() != 1 + n_carried + running.stacks.len()
        {
            return Err(RuntimeError::malformed("a loop's block lacks results").into());
        }
        let (of_carried, of_captures) = indices.split_at(n_carried);
        let set = |frame: &mut Frame, index: &Option<MemoryIndex>, value: &Value| {
            if let Some(index) = *index {
                frame.set(index, value.memory.clone(), value.offset);
            }
        };
        for (index, value) in of_captures.iter().zip(running.captures) {
            set(frame, index, value);
        }
        // The results of later segments are known when they are planned, during an iteration.
        let is_planned = block.segments.len() == 1;
        let entry = Entry {
            has_results: is_planned,
            runs_behind: is_planned,
        };
        let mut planned: Option<Planned> = None;
        for iteration in 0..trips {
            self.count_iteration(step)?;
            if self.state.launched.len() > MAX_LAUNCHED {
                self.finish()?;
            }
            let mut now = match planned.take() {
                Some(planned) if self.is_current(&planned.plan) => planned,
                _ => {
                    let given = running.carried.iter().chain(running.captures);
                    let plan = self.plan_entry(body, step, 1, given, binding)?;
                    Planned::new(plan, n_carried)
                }
            };
            if let Some(index) = counter {
                let (memory, offset) = self.iteration_number(iteration, step)?;
                frame.set(index, memory, offset);
            }
            for (index, value) in of_carried.iter().zip(&running.carried) {
                set(frame, index, value);
            }
            if is_planned {
                self.place_results(running, &now, frame)?;
            }
            let last = self.segments(body, &now.plan, frame, entry)?;
            let results = &last.as_deref().unwrap_or(&now.plan).results;
            let Some((condition, results)) = results.split_first() else {
                return Err(RuntimeError::malformed("a loop's block without a condition").into());
            };
            let goes_on = course.goes_on || {
                let condition = self.value(frame, condition)?;
                self.finish()?;
                self.flag(&condition, step)?
            };
            let (next, stacked) = results.split_at_checked(n_carried).unwrap_or_default();
            for (stack, place) in running.stacks.iter_mut().zip(stacked) {
                let (memory, offset) = frame.memory(&place.operand)?;
                if !stack
                    .as_mut()
                    .is_some_and(|stack| stack.push_written(memory, offset))
                {
                    let value = self.value(frame, place)?;
                    self.push_layer(step, stack, &value, running.layers)?;
                }
            }
            if now.is_settled && is_planned {
                for (value, place) in running.carried.iter_mut().zip(next) {
                    let (memory, offset) = frame.memory(&place.operand)?;
                    (value.memory, value.offset) = (memory.clone(), offset);
                }
                planned = Some(now);
            } else {
                let given = next.iter().map(|place| self.value(frame, place));
                let given = given.collect::<Result<Vec<Value>, _>>()?;
                let mut pairs = running.carried.iter().zip(&given);
                let keeps_sizes =
                    pairs.all(|(old, new)| old.dtype == new.dtype && old.shape == new.shape);
                running.carried = given;
                now.is_settled = true;
                if !keeps_sizes {
                    // The device frees the memories that are too small now.
                    self.finish()?;
                }
                planned = keeps_sizes.then_some(now);
            }
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Puts into the frame the memories to which an iteration writes its results.
    fn place_results(
        &mut self,
        running: &mut Loop<'_>,
        planned: &Planned,
        frame: &mut Frame,
    ) -> Result<(), Stop> {
        let n_carried = running.carried.len();
        let plan = &planned.plan;
        for spare in &mut running.spare {
            spare.is_taken = false;
        }
        for (own, &stack) in plan.own.iter().zip(&planned.stack_of_own) {
            if let Some(number) = stack
                && let Some(stack) = running.stacks.get_mut(number)
                && let Some(place) = plan.results.get(1 + n_carried + number)
            {
                let layer = (place.dtype, place.shape.as_slice());
                let next = self.next_layer(running.step, stack, layer, running.layers)?;
                if let Some((memory, offset)) = next {
                    frame.set(own.index, memory, offset);
                    continue;
                }
            }
            let (carried, spare) = (&running.carried, &mut running.spare);
            let is_free = |memory: &Memory| {
                let mut values = carried.iter();
                !values.any(|value| is_same(&value.memory, memory))
            };
            let fits = |spare: &Spare| spare.memory.bytes() >= own.bytes;
            let found = spare
                .iter_mut()
                .find(|spare| !spare.is_taken && fits(spare) && is_free(&spare.memory));
            let memory = match found {
                Some(spare) => {
                    spare.is_taken = true;
                    spare.memory.clone()
                }
                None => {
                    // Once values no longer grow, only one memory per carried value is kept.
                    spare.retain(|spare| spare.is_taken || fits(spare));
                    let memory = self.runtime.alloc(own.bytes);
                    let memory = memory.map_err(RuntimeError::execute("a result"))?;
                    spare.push(Spare {
                        memory: memory.clone(),
                        is_taken: true,
                    });
                    memory
                }
            };
            frame.set(own.index, memory, 0);
        }
        Ok(())
    }

    /// The iteration number in the device's memory, and its offset there.
    fn iteration_number(
        &mut self,
        iteration: i64,
        step: &Step,
    ) -> Result<(Memory, usize), RuntimeError> {
        let known = self.state.counters.as_ref();
        if let Some(place) = known.and_then(|known| known.place_of(iteration)) {
            return Ok(place);
        }
        let numbers = Counters::numbers_from(iteration);
        let tensor = Tensor::from_slice(&[numbers.len()], &numbers);
        let tensor = tensor.map_err(RuntimeError::tensor(step.name.as_str()))?;
        let memory = self.upload(&tensor, step)?.memory;
        self.state.counters = Some(Counters::new(iteration, memory.clone()));
        Ok((memory, 0))
    }
}
