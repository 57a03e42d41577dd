//! Polling of the stop word: compiled code checks periodically whether its launch was stopped, and returns if so.
//!
//! The launch passes the address of a word that is 0 until it is stopped. Unfinished results are undefined then, so a
//! function that finds another value reads and writes nothing more. A poll is a load and a branch not taken. A loop
//! polls once per iteration if its iterations are long, otherwise once per chunk of iterations, so that there are at
//! most [`UNPOLLED`] steps between two polls; short loops leave polling to the enclosing loops. A step is an innermost
//! iteration, or a store in it.
//!
//! Invariant: between two polls a function executes a bounded number of steps, whatever the sizes.

use inkwell::IntPredicate;
use inkwell::values::{BasicValue as _, InstructionValue};

use super::{Emitter, Value, built};

/// Upper bound on the steps of one loop between two polls. Each can take some microseconds: the first store to a page waits
/// for the system to clear it.
const UNPOLLED: u64 = 1 << 13;

/// How a loop polls.
pub(super) struct Polling {
    /// The number of iterations between polls, if it polls.
    pub(super) every: Option<i64>,
    /// Upper bound on the steps since the last poll when the loop ends.
    pub(super) left: u64,
}

impl<'ctx> Emitter<'_, 'ctx> {
    /// Makes the loops emitted from here on poll the word at this address.
    pub(crate) fn poll_at(&self, word: Value<'ctx>) {
        if !self.module.omits_polls {
            self.polled.set(Some(word));
        }
    }

    /// Counts stores as steps.
    pub(super) fn count_stores(&self, count: u32) {
        let steps = self.unpolled.get().saturating_add(u64::from(count));
        self.unpolled.set(steps);
    }

    /// How a loop of at most `most` iterations polls, whose body was just emitted.
    pub(super) fn polling(&self, most: Option<u64>) -> Polling {
        let round = self.unpolled.get();
        let all = most.map(|most| most.saturating_mul(round));
        match all.filter(|&all| all <= UNPOLLED) {
            Some(all) => Polling {
                every: None,
                left: all,
            },
            None => Polling {
                every: self
                    .polled
                    .get()
                    .map(|_| i64::try_from(UNPOLLED / round).unwrap_or(1).max(1)),
                left: round.max(UNPOLLED),
            },
        }
    }

    /// Returns from the function if the launch is stopped.
    pub(super) fn poll(&self) {
        let Some(word) = self.polled.get() else {
            return;
        };
        let ty = self.context().i32_type();
        let loaded = built(self.builder.build_load(ty, word.into_pointer_value(), ""));
        if let Some(instruction) = loaded.as_instruction_value() {
            // Fails only on a value that is not a load. Another thread writes the word while this one runs.
            let _ = instruction.set_volatile(true);
            let _ = instruction.set_alignment(4);
        }
        let goes_on = self.icmp(IntPredicate::EQ, loaded, ty.const_zero().into());
        let next = self.new_block("unstopped");
        let stopped = self.stopped.get().unwrap_or_else(|| {
            let block = self.new_block("stopped");
            self.stopped.set(Some(block));
            block
        });
        let jump = built(self.builder.build_conditional_branch(
            goes_on.into_int_value(),
            next,
            stopped,
        ));
        self.set_likely(jump);
        self.builder.position_at_end(next);
    }

    /// Marks the first target of a jump as likely, so that the code of the other is moved out of line.
    fn set_likely(&self, jump: InstructionValue<'ctx>) {
        let context = self.context();
        let weight = |weight: u64| context.i32_type().const_int(weight, false).into();
        let name = context.metadata_string("branch_weights").into();
        let weights = context.metadata_node(&[name, weight((1 << 20) - 1), weight(1)]);
        // Fails only on a value that is not an instruction.
        let _ = jump.set_metadata(weights, context.get_kind_id("prof"));
    }

    /// Emits the return block of polls.
    pub(super) fn emit_poll_exit(&self) {
        let Some(stopped) = self.stopped.take() else {
            return;
        };
        let here = self.block();
        self.builder.position_at_end(stopped);
        if self.has_fences.get() {
            self.store_fence();
        }
        built(self.builder.build_return(None));
        self.builder.position_at_end(here);
    }
}
