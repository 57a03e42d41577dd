//! Carry blocks: stages that run step by step and read what they held a step before.
//!
//! Each stage of a block has its local in memory twice: a step reads one copy and writes the other.

use kiln_backend::Quantity;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{Carry, Item, StageId};
use kiln_schedule_cpu::{Tile, VectorAxis};

use super::context::Lowering;
use super::scope::{Array, Form, Moment, Place, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// A block. Schedules give it a tile without rows and without outer vectors.
    pub(super) fn carry(
        &self,
        scope: &mut Scope<'ctx>,
        tile: &Tile,
        carry: &Carry,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let stages: Vec<StageId> = carry
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Stage(stage) => Some(*stage),
                _ => None,
            })
            .collect();
        let copies: Vec<[Value<'ctx>; 2]> = stages
            .iter()
            .map(|&stage| {
                [
                    self.local_array(stage, 1).base,
                    self.local_array(stage, 1).base,
                ]
            })
            .collect();
        for (&stage, &[first, _]) in stages.iter().zip(&copies) {
            self.initialise(scope, tile, stage, first)?;
        }
        let extent = self.extent(scope, carry.axis)?;
        // The copies change roles at each step: what is carried is where each stage's last value is, and where not.
        let initial: Vec<Value<'ctx>> = copies.iter().flatten().copied().collect();
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
                let mut swapped = Vec::with_capacity(carried.len());
                for (&stage, pair) in stages.iter().zip(carried.chunks_exact(2)) {
                    let &[previous, next] = pair else {
                        unreachable!("every stage has two copies")
                    };
                    inner.place(
                        stage,
                        Moment::Previous,
                        Place::Memory(self.array_at(stage, previous)),
                    );
                    swapped.extend(if is_on(Fault::UnswappedCopies) {
                        [previous, next]
                    } else {
                        [next, previous]
                    });
                }
                for item in &carry.items {
                    match item {
                        Item::Stage(stage) => {
                            let position = stages.iter().position(|other| other == stage);
                            let Some(&next) =
                                position.and_then(|position| carried.get(2 * position + 1))
                            else {
                                unreachable!("the block's stages were listed")
                            };
                            self.fill(&inner, tile, (*stage, None), &self.array_at(*stage, next))?;
                            inner.place(
                                *stage,
                                Moment::Now,
                                Place::Memory(self.array_at(*stage, next)),
                            );
                        }
                        other => self.items(&mut inner, tile, std::slice::from_ref(other))?,
                    }
                }
                Ok(swapped)
            },
        )?;
        for (&stage, pair) in stages.iter().zip(ended.chunks_exact(2)) {
            if let &[last, _] = pair {
                scope.place(
                    stage,
                    Moment::Last,
                    Place::Memory(self.array_at(stage, last)),
                );
            }
        }
        Ok(())
    }

    fn array_at(&self, stage: StageId, base: Value<'ctx>) -> Array<'ctx> {
        Array {
            base,
            dtype: self.kernel.stage_dtype(stage),
            strides: self.local_strides(stage),
            row_stride: Quantity::constant(0),
        }
    }

    /// Writes the value before the first step.
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
