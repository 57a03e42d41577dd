//! Stages, stores and carry blocks at the current outer point.

use kiln_scalar::{ScalarOp, ScalarValue, evaluate_op};

use super::axes::Visit;
use super::memory::offset;
use super::{EvaluateError, Evaluator};
use crate::form::{AxisId, Carry, Combine, Item, NodeId, StageId, StageOperation, Store};

/// The result of a stage: a scalar, or an array over the axes it names.
#[derive(Clone, Debug)]
pub(super) struct Local {
    shape: Vec<i64>,
    values: Vec<ScalarValue>,
}

impl Evaluator<'_> {
    pub(super) fn items(&mut self, items: &[Item]) -> Result<(), EvaluateError> {
        for item in items {
            match item {
                Item::Stage(stage) => self.stage(*stage)?,
                Item::Store(store) => self.store(store)?,
                Item::Carry(carry) => self.carry(carry)?,
            }
        }
        Ok(())
    }

    fn stage(&mut self, id: StageId) -> Result<(), EvaluateError> {
        let stage = self.kernel.stage(id);
        let local = self.local(
            &stage.name,
            &stage.axes,
            &mut |evaluator, moved| match &stage.operation {
                StageOperation::Map => evaluator.value_after(stage.value, moved),
                StageOperation::Reduce {
                    reduction,
                    axes,
                    accumulator,
                } => evaluator.reduce(*reduction, axes, *accumulator, stage.value),
            },
        )?;
        self.locals[id] = Some(local);
        Ok(())
    }

    /// A value for every point of some axes.
    fn local(
        &mut self,
        name: &str,
        axes: &[AxisId],
        value: &mut Visit<'_, Self, ScalarValue>,
    ) -> Result<Local, EvaluateError> {
        let mut shape = Vec::with_capacity(axes.len());
        for &axis in axes {
            shape.push(self.extent(axis)?);
        }
        let memory = || EvaluateError::Memory {
            stage: name.to_owned(),
        };
        let count = shape.iter().try_fold(1_usize, |count, &size| {
            count.checked_mul(usize::try_from(size).ok()?)
        });
        let mut values = Vec::new();
        values
            .try_reserve_exact(count.ok_or_else(memory)?)
            .map_err(|_| memory())?;
        self.for_each_point(axes, &mut |evaluator, moved| {
            values.push(value(evaluator, moved)?);
            Ok(())
        })?;
        Ok(Local { shape, values })
    }

    fn store(&mut self, store: &Store) -> Result<(), EvaluateError> {
        self.for_each_point(&store.axes, &mut |evaluator, _| {
            let mut indices = Vec::with_capacity(store.indices.len());
            for &index in &store.indices {
                indices.push(evaluator.integer(index)?);
            }
            let value = evaluator.value(store.value)?;
            evaluator.write(store, &indices, value)
        })
    }

    fn write(
        &mut self,
        store: &Store,
        indices: &[i64],
        value: ScalarValue,
    ) -> Result<(), EvaluateError> {
        let name = &self.kernel.buffer(store.buffer).name;
        let op = match store.combine {
            None | Some(Combine::Set) => None,
            Some(Combine::Add) => Some(ScalarOp::Add),
            Some(Combine::Mul) => Some(ScalarOp::Mul),
            Some(Combine::Min) => Some(ScalarOp::Min),
            Some(Combine::Max) => Some(ScalarOp::Max),
        };
        let joined = match op {
            None => value,
            Some(op) => {
                let held = self.contents[store.buffer].get(name, indices)?;
                evaluate_op(op, &[held, value], self.mode)?
            }
        };
        self.contents[store.buffer].set(name, indices, joined)
    }

    fn carry(&mut self, carry: &Carry) -> Result<(), EvaluateError> {
        let carried: Vec<(StageId, NodeId)> = carry
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Stage(id) => Some((*id, self.kernel.stage(*id).init?)),
                _ => None,
            })
            .collect();
        let steps = self.extent(carry.axis)?;
        for &(id, init) in &carried {
            let stage = self.kernel.stage(id);
            let local = self.local(&stage.name, &stage.axes, &mut |evaluator, moved| {
                evaluator.value_after(init, moved)
            })?;
            self.previous[id] = Some(local);
        }
        for step in 0..steps {
            let at = if carry.reverse {
                steps - 1 - step
            } else {
                step
            };
            self.positions[carry.axis] = Some(at);
            self.items(&carry.items)?;
            for &(id, _) in &carried {
                self.previous[id] = self.locals[id].clone();
            }
        }
        self.positions[carry.axis] = None;
        for &(id, _) in &carried {
            self.last[id] = self.previous[id].take();
        }
        for item in &carry.items {
            if let Item::Stage(id) = item {
                self.locals[*id] = None;
            }
        }
        Ok(())
    }
}

/// An element of a stage's result.
pub(super) fn element(
    local: &Option<Local>,
    name: &str,
    indices: &[i64],
) -> Result<ScalarValue, EvaluateError> {
    let Some(local) = local else {
        return Err(EvaluateError::unverified(format!(
            "stage `{name}` where it has no value"
        )));
    };
    let at = offset(&local.shape, indices, || format!("`{name}`"))?;
    local
        .values
        .get(at)
        .copied()
        .ok_or_else(|| EvaluateError::unverified(format!("a local `{name}` with holes")))
}
