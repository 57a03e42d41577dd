//! Carry blocks: stages that run sequentially and read their value from the previous step.
//!
//! A stage with one value per point of the tile is carried in registers. A stage with its own axes has two copies of
//! its local in memory: a step reads one and writes the other.

use std::collections::HashMap;

use kiln_backend::Quantity;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{Carry, Item, StageId};
use kiln_schedule_cpu::{Tile, VectorAxis};

use super::context::KernelLowering;
use super::scope::{Array, Coordinate, Form, Place, Scope, StageValue};
use crate::emit::Value;
use crate::error::LlvmError;

/// The state that a stage of a block carries from one step to the next: a range of the values that the loop carries.
struct Carried {
    stage: StageId,
    /// Whether these are its values, one per point of the tile, rather than the addresses of its two copies.
    in_registers: bool,
    first: usize,
    count: usize,
}

impl Carried {
    fn of<'v, 'ctx>(&self, carried: &'v [Value<'ctx>]) -> &'v [Value<'ctx>] {
        match carried.get(self.first..self.first + self.count) {
            Some(own) => own,
            None => unreachable!("the loop carries what every stage holds"),
        }
    }
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Emits a block. Schedules give it a tile without rows, and with outer vectors only if no stage has its own axes.
    pub(super) fn carry(
        &self,
        scope: &mut Scope<'ctx>,
        tile: &Tile,
        carry: &Carry,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let points = scope.coordinates();
        let mut all: Vec<Carried> = Vec::new();
        let mut initial: Vec<Value<'ctx>> = Vec::new();
        for item in &carry.items {
            let Item::Stage(stage) = *item else { continue };
            let first = initial.len();
            let in_registers = self.kernel.stage(stage).axes.is_empty();
            if in_registers {
                initial.extend(self.initial_values(scope, stage, &points)?);
            } else {
                let copies = [0, 1].map(|_| self.local_array(scope, stage, 1).base);
                self.initialise(scope, tile, stage, copies[0])?;
                initial.extend(copies);
            }
            let count = initial.len() - first;
            all.push(Carried {
                stage,
                in_registers,
                first,
                count,
            });
        }
        let extent = self.extent(scope, carry.axis)?;
        let ended = self.counted(
            emit.i64(0),
            extent,
            emit.i64(1),
            &initial,
            |step, carried| {
                let index = if carry.reverse && !is_on(Fault::ForwardCarry) {
                    emit.isub(emit.isub(extent, emit.i64(1)), step)
                } else {
                    step
                };
                let mut inner = scope.with_axis(carry.axis, index);
                for held in &all {
                    let previous = self.held(held, held.of(carried), &points);
                    inner.place(held.stage, StageValue::Previous, previous);
                }
                let mut next = Vec::with_capacity(carried.len());
                let mut stages = all.iter();
                for item in &carry.items {
                    match item {
                        Item::Stage(_) => {
                            let Some(held) = stages.next() else {
                                unreachable!("the block's stages were listed")
                            };
                            let before = held.of(carried);
                            next.extend(
                                self.carried_stage(&mut inner, tile, held, before, &points)?,
                            );
                        }
                        other => self.items(&mut inner, tile, std::slice::from_ref(other))?,
                    }
                }
                Ok(match is_on(Fault::UnswappedCopies) {
                    true => carried.to_vec(),
                    false => next,
                })
            },
        )?;
        for held in &all {
            let last = self.held(held, held.of(&ended), &points);
            scope.place(held.stage, StageValue::Last, last);
        }
        Ok(())
    }

    /// The place of a stage's value of the previous step. The copies swap roles at each step: the first holds the previous
    /// value.
    fn held(&self, held: &Carried, carried: &[Value<'ctx>], points: &[Coordinate]) -> Place<'ctx> {
        if held.in_registers {
            let values = points.iter().copied().zip(carried.iter().copied());
            return Place::Registers(values.collect::<HashMap<_, _>>());
        }
        match carried {
            &[there, _] => Place::Memory(self.array_at(held.stage, there)),
            _ => unreachable!("a local in memory has two copies"),
        }
    }

    /// Computes a stage in a step, and returns its carried values.
    fn carried_stage(
        &self,
        inner: &mut Scope<'ctx>,
        tile: &Tile,
        held: &Carried,
        before: &[Value<'ctx>],
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let stage = held.stage;
        if held.in_registers {
            let values = self.at_points(inner, tile, stage, points)?;
            let values: Vec<Value<'ctx>> = values
                .into_iter()
                .map(|value| self.widened(inner, value))
                .collect();
            inner.place(stage, StageValue::Current, self.held(held, &values, points));
            return Ok(values);
        }
        let &[there, other] = before else {
            unreachable!("a local in memory has two copies")
        };
        self.fill(inner, tile, (stage, None), &self.array_at(stage, other))?;
        let now = Place::Memory(self.array_at(stage, other));
        inner.place(stage, StageValue::Current, now);
        Ok(vec![other, there])
    }

    /// The values before the first step, at each point of the tile.
    fn initial_values(
        &self,
        scope: &Scope<'ctx>,
        stage: StageId,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let Some(init) = self.kernel.stage(stage).init else {
            unreachable!("the verifier wants an initial value of stages in a block")
        };
        points
            .iter()
            .map(|&at| Ok(self.widened(scope, self.value(scope, init, at, Form::Lanes)?)))
            .collect()
    }

    fn array_at(&self, stage: StageId, base: Value<'ctx>) -> Array<'ctx> {
        Array {
            base,
            dtype: self.kernel.stage_dtype(stage),
            strides: self.local_strides(stage),
            row_stride: Quantity::constant(0),
            lanes: 1,
        }
    }

    /// Stores the value before the first step.
    fn initialise(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        id: StageId,
        base: Value<'ctx>,
    ) -> Result<(), LlvmError> {
        let stage = self.kernel.stage(id);
        let Some(init) = stage.init else {
            return Ok(());
        };
        let array = self.array_at(id, base);
        let vector = match (tile.vector, scope.vectors) {
            (VectorAxis::Inner, None) if tile.lanes > 1 => stage.axes.last().copied(),
            _ => None,
        };
        self.over_points(scope, tile, &stage.axes, vector, &mut |scope| {
            for at in self.points_of(scope, |axis| stage.axes.contains(&axis)) {
                let value = self.value(scope, init, at, Form::Lanes)?;
                self.store_own(scope, &array, &stage.axes, value, at)?;
            }
            Ok(())
        })
    }
}
