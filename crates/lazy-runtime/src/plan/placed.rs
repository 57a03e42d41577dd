//! Constants in the form in which code wants them, remembered by operand, so that other sizes do not ask for them again.
//!
//! Launch plans hold the same memories. What is here goes when they are forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use kiln_kernel::Memory;
use kiln_program::{BlockId, BufferId};
use smallvec::SmallVec;

use crate::compile::CompiledKernel;
use crate::sync::lock;

/// A constant as an operand: its block, its buffer, and the operand's position.
pub(crate) type PlacedOperand = (BlockId, BufferId, usize);

/// More forms of one operand than this are not remembered.
const FORMS: usize = 4;

/// Memories by operand and code.
#[derive(Debug, Default)]
pub(crate) struct PlacedConstants(Mutex<HashMap<PlacedOperand, Forms>>);

type Forms = SmallVec<[(Arc<CompiledKernel>, Memory); 1]>;

impl PlacedConstants {
    pub(crate) fn get(&self, operand: PlacedOperand, code: &Arc<CompiledKernel>) -> Option<Memory> {
        let placed = lock(&self.0);
        let mut forms = placed.get(&operand)?.iter();
        forms
            .find(|(other, _)| Arc::ptr_eq(other, code))
            .map(|(_, memory)| memory.clone())
    }

    pub(crate) fn insert(
        &self,
        operand: PlacedOperand,
        code: &Arc<CompiledKernel>,
        memory: Memory,
    ) {
        let mut placed = lock(&self.0);
        let forms = placed.entry(operand).or_default();
        if forms.len() == FORMS {
            forms.remove(0);
        }
        forms.push((Arc::clone(code), memory));
    }

    pub(crate) fn clear(&self) {
        let placed = std::mem::take(&mut *lock(&self.0));
        drop(placed);
    }
}
