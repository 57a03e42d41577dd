//! Builds a block from a region: a step per node, buffers for values.

use std::collections::HashMap;

use cranelift_entity::{EntityRef, PrimaryMap};
use kiln_backend::Builtin;
use kiln_fusion::lower::{Region, lower};
use kiln_ir::{Definition, Extremum, Op, OpId, RegionId, ValueId};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_symbolic_shape::{DimId, PlanFact, Predicate};
use smallvec::{SmallVec, smallvec};

use super::node::{KernelNode, NodeKind, StepNode};
use super::{Builder, course, layout, relayout};
use crate::buffer::{Buffer, Place};
use crate::error::ProgramError;
use crate::ids::{BufferId, KernelId};
use crate::plan_operation::RuntimeShapeInjector;
use crate::program::{Block, Requirement, Segment};
use crate::step::{Action, KernelLaunch, Step};

/// A block under construction.
pub(super) struct BlockBuilder<'b, 'a> {
    pub(super) program: &'b mut Builder<'a>,
    region: RegionId,
    pub(super) buffers: PrimaryMap<BufferId, Buffer>,
    /// The sizes of each buffer, as expressions.
    pub(super) shapes: HashMap<BufferId, SmallVec<[DimId; 4]>>,
    of_value: HashMap<ValueId, BufferId>,
    segments: Vec<Segment>,
    /// The kernels of the steps so far, which refer to them by position.
    kernels: Vec<KernelNode>,
    pub(super) current: Segment,
    /// The facts that the steps of the current segment depend on.
    facts: Vec<PlanFact>,
}

impl<'b, 'a> BlockBuilder<'b, 'a> {
    pub(super) fn new(program: &'b mut Builder<'a>, region: RegionId) -> Self {
        Self {
            program,
            region,
            buffers: PrimaryMap::new(),
            shapes: HashMap::new(),
            of_value: HashMap::new(),
            segments: Vec::new(),
            kernels: Vec::new(),
            current: Segment::default(),
            facts: Vec::new(),
        }
    }

    pub(super) fn build(mut self) -> Result<Block, ProgramError> {
        let region = self.program.graph.region(self.region).clone();
        let mut parameters = Vec::with_capacity(region.parameters.len());
        for (index, &value) in region.parameters.iter().enumerate() {
            parameters.push(self.add_buffer(value, Place::Parameter(index))?);
        }
        for node in self.program.source.nodes(self.region) {
            self.node(&node)?;
        }
        let results = region.results.iter().map(|&value| self.buffer(value));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        // Even if it is empty: the sizes of results are known here at the latest.
        self.end_segment();
        let mut block = Block {
            region: self.region,
            buffers: self.buffers,
            parameters,
            symbols: region.symbols,
            segments: self.segments,
            results,
            donations: Vec::new(),
        };
        let kernels = self.kernels.iter();
        let preferences: layout::Preferences = kernels
            .map(|node| self.program.layouts.layouts(&node.kernel))
            .collect();
        relayout::copy_bound_buffers(
            self.program,
            &mut block,
            &mut self.kernels,
            &preferences,
            &mut self.shapes,
        )?;
        let (nodes, shapes) = (&self.kernels, &self.shapes);
        let mut orders =
            layout::assign_layouts(self.program, &mut block, nodes, &preferences, shapes);
        relayout::copy_scattered_results(
            self.program,
            &mut block,
            &mut self.kernels,
            &mut orders,
            &mut self.shapes,
        )?;
        let nodes = &self.kernels;
        layout::concat_in_place(self.program, &mut block, nodes, &self.shapes, &orders);
        super::kernels::finish_kernels(self.program, &mut block, nodes, &orders)?;
        super::memory::keep_results(&mut block);
        super::recompute::fit_memory(self.program, &mut block, &mut self.shapes);
        super::memory::assign_places(self.program, &mut block, &self.shapes);
        super::sizes::collect_sizes(self.program, &mut block);
        super::contract::assign_contract(&mut self.program.graph, &mut block);
        Ok(block)
    }

    fn node(&mut self, node: &StepNode) -> Result<(), ProgramError> {
        for fact in &node.facts {
            if !self.facts.contains(fact) && !is_on(Fault::ForgottenFact) {
                self.facts.push(fact.clone());
            }
        }
        match &node.kind {
            NodeKind::Kernel(_) if self.is_part(node)? => Ok(()),
            NodeKind::Kernel(kernel) => self.kernel(node, kernel),
            NodeKind::View => self.view(node),
            NodeKind::Builtin => self.builtin(node),
            NodeKind::Control => self.control(node),
            NodeKind::Host => node.ops.iter().try_for_each(|&op| self.host(node, op)),
            NodeKind::Interpret { reason } => node
                .ops
                .iter()
                .try_for_each(|&op| self.interpret(node, op, reason)),
        }
    }

    // Buffers

    /// The buffer of a value that has one, or that is a constant.
    pub(super) fn buffer(&mut self, value: ValueId) -> Result<BufferId, ProgramError> {
        if let Some(&buffer) = self.of_value.get(&value) {
            return Ok(buffer);
        }
        let graph = &self.program.graph;
        let definition = graph
            .contains_value(value)
            .then(|| graph.value(value).definition);
        let Some(Definition::Result { op, .. }) = definition else {
            return Err(ProgramError::plan(format!(
                "{value} used before it is computed"
            )));
        };
        let Op::Constant(constant) = &graph.op(op).op else {
            return Err(ProgramError::plan(format!(
                "{value} used before it is computed"
            )));
        };
        let constant = constant.clone();
        let constant = self.program.constant(&constant);
        self.add_buffer(value, Place::Constant(constant))
    }

    /// A row-major buffer for a value.
    pub(super) fn add_buffer(
        &mut self,
        value: ValueId,
        place: Place,
    ) -> Result<BufferId, ProgramError> {
        let program = &mut *self.program;
        let name = program.name_of(value);
        let Some(ty) = program.graph.tensor_ty(value) else {
            let ty = program
                .graph
                .ty(value)
                .display(program.graph.dims())
                .to_string();
            return Err(ProgramError::NotATensor { value: name, ty });
        };
        let (dtype, dims) = (ty.dtype, ty.dims.clone());
        let shape = program.sizes.intern_all(&dims);
        let buffer = self.buffers.push(Buffer {
            name,
            dtype,
            shape,
            strides: None,
            place,
        });
        self.shapes.insert(buffer, dims);
        self.of_value.insert(value, buffer);
        Ok(buffer)
    }

    /// A buffer of the arena; its slot is chosen when all steps are known.
    fn written(&mut self, value: ValueId) -> Result<BufferId, ProgramError> {
        let segment = self.segments.len();
        self.add_buffer(
            value,
            Place::Slot {
                segment,
                slot: usize::MAX,
            },
        )
    }

    fn all_written(&mut self, values: &[ValueId]) -> Result<Vec<BufferId>, ProgramError> {
        values.iter().map(|&value| self.written(value)).collect()
    }

    fn all(&mut self, values: &[ValueId]) -> Result<Vec<BufferId>, ProgramError> {
        values.iter().map(|&value| self.packed(value)).collect()
    }

    /// The buffer of a value, row-major: for a consumer that does not accept strides.
    fn packed(&mut self, value: ValueId) -> Result<BufferId, ProgramError> {
        let buffer = self.buffer(value)?;
        debug_assert!(
            self.buffers[buffer].strides.is_none(),
            "views with strides come later"
        );
        Ok(buffer)
    }

    fn push(&mut self, name: &str, ops: &[OpId], action: Action) {
        let ends = action.ends_segment();
        self.current.steps.push(Step {
            name: name.to_owned(),
            ops: ops.to_vec(),
            action,
        });
        if ends {
            self.end_segment();
        }
    }

    fn end_segment(&mut self) {
        let injector = RuntimeShapeInjector::new(self.program.graph.dims());
        let check = injector.inject_shape_check(std::mem::take(&mut self.facts));
        let segment = std::mem::take(&mut self.current);
        self.segments.push(Segment { check, ..segment });
    }

    pub(super) fn require(&mut self, predicate: Predicate, message: impl Into<String>) {
        if self.program.graph.dims().prove(&predicate).is_proved() {
            return;
        }
        let requirement = Requirement {
            predicate,
            message: message.into(),
        };
        if !self.current.requirements.contains(&requirement) {
            self.current.requirements.push(requirement);
        }
    }

    // Steps

    pub(super) fn kernel(
        &mut self,
        node: &StepNode,
        kernel: &KernelNode,
    ) -> Result<(), ProgramError> {
        for (predicate, message) in &kernel.requirements {
            self.require(predicate.clone(), message.clone());
        }
        let roles: Vec<_> = kernel
            .kernel
            .kernel()
            .buffers()
            .values()
            .map(|b| b.role)
            .collect();
        if roles.len() != kernel.operands.len() {
            let (name, found) = (kernel.kernel.kernel().name(), kernel.operands.len());
            let problem = format!(
                "{found} operands of @{name}, which has {} buffers",
                roles.len()
            );
            return Err(ProgramError::plan(problem));
        }
        let mut operands = SmallVec::new();
        for (&value, role) in kernel.operands.iter().zip(&roles) {
            operands.push(if role.is_written() {
                self.written(value)?
            } else {
                self.buffer(value)?
            });
        }
        if let Some((position, from)) = kernel.initialise {
            let from = self.packed(from)?;
            let Some(&to) = operands.get(position) else {
                return Err(ProgramError::plan(
                    "a buffer to initialise that the kernel lacks",
                ));
            };
            let (inputs, outputs) = (smallvec![from], smallvec![to]);
            let action = Action::Builtin {
                builtin: Builtin::Copy,
                inputs,
                outputs,
            };
            self.push(&format!("{}_copy", node.name), &node.ops, action);
        }
        let id = KernelId::new(self.kernels.len());
        self.kernels.push(kernel.clone());
        let symbols = Vec::new();
        let values = kernel.operands.iter().copied().collect();
        let launch = KernelLaunch {
            kernel: id,
            operands,
            values,
            symbols,
        };
        self.push(&node.name, &node.ops, Action::Kernel(launch));
        Ok(())
    }

    /// Makes the result of a lone slice or broadcast a view of its operand, if it is proved to be contiguous there.
    ///
    /// This is not done for a result of the block: a caller that keeps a small part would keep the whole alive.
    fn is_part(&mut self, node: &StepNode) -> Result<bool, ProgramError> {
        let &[id] = node.ops.as_slice() else {
            return Ok(false);
        };
        let graph = &self.program.graph;
        let op = graph.op(id);
        let results = &graph.region(self.region).results;
        let is_part = matches!(op.op, Op::Slice { .. } | Op::Broadcast { .. })
            && !op.results.iter().any(|value| results.contains(value));
        Ok(is_part && self.alias(id)?)
    }

    fn view(&mut self, node: &StepNode) -> Result<(), ProgramError> {
        for &op in &node.ops {
            if self.alias(op)? {
                continue;
            }
            let outputs = self.program.graph.op(op).results.clone();
            let region = Region {
                ops: &[op],
                outputs: &outputs,
                facts: &node.facts,
                name: &node.name,
            };
            match lower(&self.program.graph, &region) {
                Ok(lowered) => {
                    let kernel = super::source::take_kernel(&mut self.program.graph, &lowered)?;
                    self.kernel(node, &kernel)?;
                }
                Err(error) => self.interpret(node, op, &error.to_string())?,
            }
        }
        Ok(())
    }

    fn builtin(&mut self, node: &StepNode) -> Result<(), ProgramError> {
        for &id in &node.ops {
            let op = self.program.graph.op(id).clone();
            let builtin = match &op.op {
                Op::TopK { k, axis, extremum } => {
                    let operand = op.operands.first();
                    let ty = operand.and_then(|&value| self.program.graph.tensor_ty(value));
                    if let Some(&size) = ty.and_then(|ty| ty.dims.get(*axis)) {
                        let message = "as many elements along the axis as are to be found";
                        self.require(Predicate::LessEqual(*k, size), message);
                    }
                    Builtin::TopK {
                        axis: *axis,
                        largest: *extremum == Extremum::Max,
                    }
                }
                Op::NonZero => Builtin::NonZero,
                Op::Suppress { .. } => Builtin::Suppress,
                _ => {
                    self.interpret(node, id, "no executor supports it")?;
                    continue;
                }
            };
            let inputs = self.all(&op.operands)?.into();
            let outputs = self.all_written(&op.results)?.into();
            self.push(
                &node.name,
                &[id],
                Action::Builtin {
                    builtin,
                    inputs,
                    outputs,
                },
            );
        }
        Ok(())
    }

    fn host(&mut self, node: &StepNode, id: OpId) -> Result<(), ProgramError> {
        let op = self.program.graph.op(id).clone();
        match (&op.op, op.operands.as_slice(), op.results.as_slice()) {
            (Op::Constant(_), ..) => Ok(()),
            (Op::Dims { sizes }, _, &[result]) => {
                let sizes = self.program.sizes.intern_all(sizes).to_vec();
                let output = self.add_buffer(result, Place::Brought)?;
                self.push(&node.name, &[id], Action::Dims { sizes, output });
                Ok(())
            }
            (Op::Bind, &[data], _) => {
                let data = self.packed(data)?;
                let symbols = op.symbols.to_vec();
                self.push(&node.name, &[id], Action::Bind { data, symbols });
                Ok(())
            }
            _ => self.interpret(node, id, "as planned"),
        }
    }

    fn interpret(&mut self, node: &StepNode, id: OpId, reason: &str) -> Result<(), ProgramError> {
        let op = self.program.graph.op(id).clone();
        if matches!(op.op, Op::Constant(_)) {
            return Ok(());
        }
        if matches!(op.op, Op::If | Op::Loop { .. } | Op::Bind) {
            return Err(ProgramError::plan(format!(
                "{} to be interpreted",
                op.op.mnemonic()
            )));
        }
        let inputs = self.all(&op.operands)?;
        let outputs = op
            .results
            .iter()
            .map(|&value| self.add_buffer(value, Place::Brought));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        let action = Action::Interpret {
            inputs: op.operands.iter().copied().zip(inputs).collect(),
            outputs: op.results.iter().copied().zip(outputs).collect(),
            reason: reason.to_owned(),
            symbols: op.symbols.to_vec(),
        };
        self.push(&node.name, &[id], action);
        Ok(())
    }

    fn control(&mut self, node: &StepNode) -> Result<(), ProgramError> {
        for &id in &node.ops {
            let op = self.program.graph.op(id).clone();
            let operands = self.all(&op.operands)?;
            let regions = op.regions.as_slice();
            let action = match (&op.op, operands.as_slice(), regions) {
                (Op::If, [condition, captures @ ..], &[then, otherwise]) => Action::If {
                    condition: *condition,
                    captures: captures.to_vec(),
                    then: self.program.block(then)?,
                    otherwise: self.program.block(otherwise)?,
                    results: self.all_brought(&op.results)?,
                    symbols: op.symbols.to_vec(),
                },
                (Op::Loop { carried }, [trips, condition, rest @ ..], &[body])
                    if rest.len() >= *carried =>
                {
                    let (carried, captures) = rest.split_at(*carried);
                    Action::Loop {
                        trips: *trips,
                        condition: *condition,
                        course: course::course_of(self.program, id),
                        carried: carried.to_vec(),
                        captures: captures.to_vec(),
                        body: self.program.block(body)?,
                        results: self.all_brought(&op.results)?,
                        symbols: op.symbols.to_vec(),
                    }
                }
                _ => {
                    let problem = format!("{} as control flow", op.op.mnemonic());
                    return Err(ProgramError::plan(problem));
                }
            };
            self.push(&node.name, &[id], action);
        }
        Ok(())
    }

    fn all_brought(&mut self, values: &[ValueId]) -> Result<Vec<BufferId>, ProgramError> {
        values
            .iter()
            .map(|&value| self.add_buffer(value, Place::Brought))
            .collect()
    }
}
