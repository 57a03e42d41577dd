//! Loops, branches and returns, with values carried instead of memory.

use std::cell::Cell;

use inkwell::IntPredicate;
use inkwell::basic_block::BasicBlock;
use inkwell::values::{BasicValue, BasicValueEnum, InstructionValue};

use super::{Emitter, Value, built};

impl<'ctx> Emitter<'_, 'ctx> {
    /// Ends the function without a value.
    pub(crate) fn return_none(&self) {
        built(self.builder.build_return(None));
    }

    /// Ends the function with a value.
    pub(crate) fn return_value(&self, value: Value<'ctx>) {
        built(self.builder.build_return(Some(&value)));
    }

    /// Repeats the body while the condition, an i1 of the carried values, holds; gives what they
    /// are in the end. The body gives as many values as it gets.
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
        let phis: Vec<_> = initial
            .iter()
            .map(|value| built(self.builder.build_phi(value.get_type(), "")))
            .collect();
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

    /// Counts an i64 from `begin` up to but not including `end`, by `step`, which is above zero.
    ///
    /// That it counts is hidden from LLVM in loops with loops inside, and in all after [`Emitter::hide_counters`].
    pub(crate) fn for_range(
        &self,
        begin: Value<'ctx>,
        end: Value<'ctx>,
        step: Value<'ctx>,
        initial: &[Value<'ctx>],
        body: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Vec<Value<'ctx>>,
    ) -> Vec<Value<'ctx>> {
        let mut carried = vec![begin];
        carried.extend_from_slice(initial);
        let comparison = Cell::new(None);
        let mut done = self.while_loop(
            &carried,
            |values| match values {
                [counter, ..] => {
                    let goes_on = self.icmp(IntPredicate::SLT, *counter, end);
                    comparison.set(goes_on.as_instruction_value());
                    goes_on
                }
                [] => unreachable!("the counter is carried"),
            },
            |values| match values {
                [counter, rest @ ..] => {
                    let (inside, loops) = (self.block(), self.loops.get());
                    let mut next = body(*counter, rest);
                    if self.hides_counters.get() || self.loops.get() > loops {
                        self.hide(*counter, inside, comparison.get());
                    }
                    next.insert(0, self.iadd(*counter, step));
                    next
                }
                [] => unreachable!("the counter is carried"),
            },
        );
        done.remove(0);
        done
    }

    /// Hides from LLVM that the innermost loops written from here on count, too.
    ///
    /// Loop strength reduction makes other counters of all that is computed from one. It is worth its time where an address
    /// takes several operations; the most it is spent on loops around others, which it makes no faster: with those and the
    /// loops of products hidden, a product of two inputs compiles in two thirds of the time and is as fast.
    pub(crate) fn hide_counters(&self) {
        self.hides_counters.set(true);
    }

    /// Makes all uses of a counter, from a block on, uses of a value of which LLVM knows nothing; a use by the instruction
    /// that compares it stays.
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

    /// Runs the body where the i1 is true.
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

    /// Runs one of the two; gives the values of the one that ran.
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

    /// `usual`, but where any lane of the mask is true, those lanes from `rare`, which is run only
    /// then.
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

    /// Inline assembly without operands, to provoke what LLVM reports.
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

    /// Writes at the end of the function's first block, so that what is computed is known everywhere after it.
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

    fn block(&self) -> BasicBlock<'ctx> {
        self.builder
            .get_insert_block()
            .unwrap_or_else(|| unreachable!("the emitter has a position"))
    }

    fn new_block(&self, name: &str) -> BasicBlock<'ctx> {
        self.context().append_basic_block(self.function, name)
    }
}
