//! Loops, branches and returns. Loop-carried values are phis, not memory.

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValue, BasicValueEnum, InstructionValue, PhiValue};

use super::{Emitter, Value, built};

impl<'ctx> Emitter<'_, 'ctx> {
    /// Returns without a value.
    pub(crate) fn return_none(&self) {
        built(self.builder.build_return(None));
        self.emit_poll_exit();
    }

    /// Returns a value.
    pub(crate) fn return_value(&self, value: Value<'ctx>) {
        built(self.builder.build_return(Some(&value)));
    }

    /// Repeats the body while the condition, an i1 of the carried values, is true; returns their final values. The body
    /// returns as many values as it takes.
    pub(crate) fn while_loop(
        &self,
        initial: &[Value<'ctx>],
        condition: impl FnOnce(&[Value<'ctx>]) -> Value<'ctx>,
        body: impl FnOnce(&[Value<'ctx>]) -> Vec<Value<'ctx>>,
    ) -> Vec<Value<'ctx>> {
        self.loops.set(self.loops.get() + 1);
        let before = self.block();
        let head = self.new_block("head");
        let inside = self.new_block("body");
        let after = self.new_block("after");
        built(self.builder.build_unconditional_branch(head));
        self.builder.position_at_end(head);
        let phis = self.phis_of(initial);
        let carried: Vec<Value<'ctx>> = phis.iter().map(|phi| phi.as_basic_value()).collect();
        let go_on = condition(&carried).into_int_value();
        built(self.builder.build_conditional_branch(go_on, inside, after));
        self.builder.position_at_end(inside);
        let next = body(&carried);
        let end = self.block();
        built(self.builder.build_unconditional_branch(head));
        for ((phi, initial), next) in phis.iter().zip(initial).zip(&next) {
            phi.add_incoming(&[(initial, before), (next, end)]);
        }
        self.builder.position_at_end(after);
        carried
    }

    /// Counts an i64 from `begin` up to but not including `end`, by `step`, which is positive.
    ///
    /// The counter is hidden from LLVM in loops that contain loops, and in all loops after [`Emitter::hide_counters`].
    /// If the function [polls](Emitter::poll_at), the loop polls as often as its body requires (see [`super::poll`]);
    /// `most` is an upper bound on its iterations, if one is known.
    pub(crate) fn for_range(
        &self,
        begin: Value<'ctx>,
        end: Value<'ctx>,
        step: Value<'ctx>,
        most: Option<u64>,
        initial: &[Value<'ctx>],
        body: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Vec<Value<'ctx>>,
    ) -> Vec<Value<'ctx>> {
        let most = most.or_else(|| rounds(begin, end, step));
        let mut started = vec![begin];
        started.extend_from_slice(initial);
        let before = self.block();
        // A chunk of iterations starts at `chunk`; if the loop is not chunked, this block is empty.
        let chunk = self.new_block("chunk");
        let head = self.new_block("head");
        let inside = self.new_block("body");
        let after = self.new_block("after");
        built(self.builder.build_unconditional_branch(chunk));
        self.builder.position_at_end(chunk);
        built(self.builder.build_unconditional_branch(head));
        self.builder.position_at_end(head);
        let phis = self.phis_of(&started);
        let carried: Vec<Value<'ctx>> = phis.iter().map(|phi| phi.as_basic_value()).collect();
        let [counter, rest @ ..] = carried.as_slice() else {
            unreachable!("the counter is carried")
        };
        let goes_on = self.icmp(IntPredicate::SLT, *counter, end);
        let comparison = goes_on.as_instruction_value();
        built(
            self.builder
                .build_conditional_branch(goes_on.into_int_value(), inside, after),
        );
        self.builder.position_at_end(inside);
        let (loops, outer) = (self.loops.get(), self.unpolled.replace(1));
        self.loops.set(loops + 1);
        let mut next = body(*counter, rest);
        if self.hides_counters.get() || self.loops.get() > loops + 1 {
            self.hide(*counter, inside, comparison);
        }
        next.insert(0, self.iadd(*counter, step));
        let polling = self.polling(most);
        self.unpolled.set(outer.saturating_add(polling.left));
        if polling.every == Some(1) {
            self.poll();
        }
        let end_of_body = self.block();
        built(self.builder.build_unconditional_branch(head));
        for (phi, next) in phis.iter().zip(&next) {
            phi.add_incoming(&[(next, end_of_body)]);
        }
        let chunked = polling.every.filter(|&every| every > 1);
        let Some((every, comparison)) = chunked.zip(comparison) else {
            for (phi, initial) in phis.iter().zip(&started) {
                phi.add_incoming(&[(initial, chunk)]);
            }
            self.builder.position_at_end(after);
            return rest.to_vec();
        };
        // The initial values and the end of the chunk.
        let Some(jump) = chunk.get_terminator() else {
            unreachable!("the block ends in a jump to the head")
        };
        self.builder.position_before(&jump);
        let firsts = self.phis_of(&started);
        for ((phi, first), initial) in phis.iter().zip(&firsts).zip(&started) {
            phi.add_incoming(&[(&first.as_basic_value(), chunk)]);
            first.add_incoming(&[(initial, before)]);
        }
        let Some(first) = firsts.first() else {
            unreachable!("the counter is carried")
        };
        let length = self.imul(step, self.i64(every));
        let until = self.iadd(first.as_basic_value(), length);
        let until = self.smin(until, end);
        comparison.set_operand(1, until);
        // At the end of the chunk: continue with the next one, or leave the loop.
        self.builder.position_at_end(after);
        let more = self.icmp(IntPredicate::SLT, *counter, end);
        let again = self.new_block("again");
        let over = self.new_block("over");
        built(
            self.builder
                .build_conditional_branch(more.into_int_value(), again, over),
        );
        self.builder.position_at_end(again);
        self.poll();
        let polled = self.block();
        built(self.builder.build_unconditional_branch(chunk));
        for (first, value) in firsts.iter().zip(&carried) {
            first.add_incoming(&[(value, polled)]);
        }
        self.builder.position_at_end(over);
        rest.to_vec()
    }

    /// Hides the counters of innermost loops, too, from LLVM in the loops emitted from here on.
    ///
    /// Loop strength reduction derives further induction variables from a visible counter. That pays if an address
    /// takes several operations. The pass spends most of its time on outer loops, which it does not make faster: with
    /// their counters and those of contractions hidden, a product of two inputs compiles in two thirds of the time and
    /// is as fast.
    pub(crate) fn hide_counters(&self) {
        self.hides_counters.set(true);
    }

    /// Replaces all uses of a counter from a block on by an opaque value; a use by the instruction that compares it stays.
    fn hide(
        &self,
        counter: Value<'ctx>,
        inside: BasicBlock<'ctx>,
        comparison: Option<InstructionValue<'ctx>>,
    ) {
        let Some(first) = inside.get_first_instruction() else {
            return;
        };
        let here = self.block();
        self.builder.position_before(&first);
        let hidden = self.opaque(counter);
        self.builder.position_at_end(here);
        let (BasicValueEnum::IntValue(from), BasicValueEnum::IntValue(to)) = (counter, hidden)
        else {
            return;
        };
        from.replace_all_uses_with(to);
        let kept = hidden.as_instruction_value().into_iter().chain(comparison);
        for instruction in kept {
            instruction.set_operand(0, counter);
        }
    }

    /// Runs the body if the i1 is true.
    pub(crate) fn when(&self, condition: Value<'ctx>, body: impl FnOnce()) {
        self.branch(
            condition,
            || {
                body();
                Vec::new()
            },
            Vec::new,
        );
    }

    /// Runs one of two bodies; returns that body's values.
    pub(crate) fn branch(
        &self,
        condition: Value<'ctx>,
        then: impl FnOnce() -> Vec<Value<'ctx>>,
        otherwise: impl FnOnce() -> Vec<Value<'ctx>>,
    ) -> Vec<Value<'ctx>> {
        let then_block = self.new_block("then");
        let else_block = self.new_block("else");
        let after = self.new_block("joined");
        built(self.builder.build_conditional_branch(
            condition.into_int_value(),
            then_block,
            else_block,
        ));
        self.builder.position_at_end(then_block);
        let then_values = then();
        let then_end = self.block();
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(else_block);
        let else_values = otherwise();
        let else_end = self.block();
        built(self.builder.build_unconditional_branch(after));
        self.builder.position_at_end(after);
        then_values
            .iter()
            .zip(&else_values)
            .map(|(a, b)| {
                let phi = built(self.builder.build_phi(a.get_type(), ""));
                phi.add_incoming(&[(a, then_end), (b, else_end)]);
                phi.as_basic_value()
            })
            .collect()
    }

    /// `usual`, except in the lanes where the mask is true, which come from `rare`; `rare` is run only if there are any.
    pub(crate) fn patch_lanes(
        &self,
        mask: Value<'ctx>,
        usual: &[Value<'ctx>],
        rare: impl FnOnce() -> Vec<Value<'ctx>>,
    ) -> Vec<Value<'ctx>> {
        self.branch(
            self.any(mask),
            || {
                rare()
                    .into_iter()
                    .zip(usual)
                    .map(|(rare, &usual)| self.select(mask, rare, usual))
                    .collect()
            },
            || usual.to_vec(),
        )
    }

    /// Inline assembly without operands, to provoke diagnostics of LLVM.
    #[cfg(test)]
    pub(crate) fn inline_assembly(&self, text: &str) {
        let ty = self.context().void_type().fn_type(&[], false);
        let assembly = self.context().create_inline_asm(
            ty,
            text.to_owned(),
            String::new(),
            true,
            false,
            None,
            false,
        );
        built(self.builder.build_indirect_call(ty, assembly, &[], ""));
    }

    /// Emits at the end of the function's entry block, so that the result dominates all later uses.
    pub(crate) fn at_entry<T>(&self, write: impl FnOnce() -> T) -> T {
        let here = self.block();
        if let Some(entry) = self.function.get_first_basic_block() {
            match entry.get_terminator() {
                Some(terminator) => self.builder.position_before(&terminator),
                None => self.builder.position_at_end(entry),
            }
        }
        let written = write();
        self.builder.position_at_end(here);
        written
    }

    fn phis_of(&self, values: &[Value<'ctx>]) -> Vec<PhiValue<'ctx>> {
        values
            .iter()
            .map(|value| built(self.builder.build_phi(value.get_type(), "")))
            .collect()
    }

    pub(super) fn block(&self) -> BasicBlock<'ctx> {
        self.builder
            .get_insert_block()
            .unwrap_or_else(|| unreachable!("the emitter has a position"))
    }

    pub(super) fn new_block(&self, name: &str) -> BasicBlock<'ctx> {
        self.context().append_basic_block(self.function, name)
    }
}

/// The number of iterations of a loop between constants.
fn rounds(begin: Value<'_>, end: Value<'_>, step: Value<'_>) -> Option<u64> {
    let number = |value: Value<'_>| value.into_int_value().get_sign_extended_constant();
    let length = number(end)?.saturating_sub(number(begin)?).max(0);
    u64::try_from(length)
        .ok()
        .map(|length| length.div_ceil(number(step).map_or(1, |step| step.max(1).unsigned_abs())))
}
