//! Spill detection: whether the hot loops of emitted code keep their accumulators in registers.
//!
//! A tile is chosen by counting registers, but only the code shows what LLVM's register allocator did. A loop of
//! multiply-adds that spills a vector takes twice as long as a loop with a smaller tile that does not. Only x86-64 code
//! is analysed; for other machines the result is unknown.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection as _, SectionKind};

/// The number of multiply-adds from which on a loop is examined.
const HOT: u32 = 8;

/// Counts of the hot loop: of the largest innermost loops of multiply-adds, the one with the fewest spills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HotLoop {
    /// Its multiply-adds.
    pub(crate) multiply_adds: u32,
    /// Instructions that move a vector to or from the stack, or have a stack operand.
    pub(crate) spills: u32,
}

impl HotLoop {
    /// Whether spills cost time: a few are hidden by the arithmetic.
    pub(crate) fn is_spilled(self) -> bool {
        self.spills * 8 > self.multiply_adds
    }
}

/// The hot loop of an object; `None` if it has none, or is for another machine.
///
/// A loop may occur several times, for the edges of its range; the copy with the fewest spills counts.
pub(crate) fn hot_loop(object: &[u8]) -> Option<HotLoop> {
    let file = ElfFile64::<LittleEndian>::parse(object).ok()?;
    if file.architecture() != object::Architecture::X86_64 {
        return None;
    }
    let code = file
        .sections()
        .filter(|section| section.kind() == SectionKind::Text);
    let loops = code.flat_map(|section| loops(section.data().unwrap_or_default()));
    let hot = loops.filter(|found| found.multiply_adds >= HOT);
    hot.max_by_key(|found| (found.multiply_adds, u32::MAX - found.spills))
}

/// The innermost loops: from the target of a backward jump to the jump, with no other backward jump between.
fn loops(code: &[u8]) -> Vec<HotLoop> {
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let instructions: Vec<Instruction> = decoder.into_iter().collect();
    let mut found = Vec::new();
    let mut last_end = 0;
    for (end, jump) in instructions.iter().enumerate() {
        let is_back = jump.is_jcc_short_or_near() && jump.near_branch_target() <= jump.ip();
        if !is_back {
            continue;
        }
        let target = jump.near_branch_target();
        let begin = instructions.partition_point(|instruction| instruction.ip() < target);
        // The return block of a poll may precede it, and is not a loop.
        if returns_first(instructions.get(begin..end).unwrap_or_default()) {
            continue;
        }
        if begin >= last_end {
            let body = instructions.get(begin..end).unwrap_or_default();
            let count = |is: fn(&Instruction) -> bool| {
                body.iter().filter(|instruction| is(instruction)).count() as u32
            };
            found.push(HotLoop {
                multiply_adds: count(is_multiply_add),
                spills: count(is_spill),
            });
        }
        last_end = end;
    }
    found
}

/// Whether code returns before any jump.
fn returns_first(code: &[Instruction]) -> bool {
    let flows = code.iter().map(Instruction::flow_control);
    let mut ends = flows.filter(|flow| *flow != FlowControl::Next);
    ends.next() == Some(FlowControl::Return)
}

fn is_multiply_add(instruction: &Instruction) -> bool {
    use Mnemonic::{Vfmadd132pd, Vfmadd132ps, Vfmadd213pd, Vfmadd213ps, Vfmadd231pd, Vfmadd231ps};
    matches!(
        instruction.mnemonic(),
        Vfmadd132pd | Vfmadd132ps | Vfmadd213pd | Vfmadd213ps | Vfmadd231pd | Vfmadd231ps
    )
}

/// Whether an instruction involves a vector register and the stack.
fn is_spill(instruction: &Instruction) -> bool {
    let operands = 0..instruction.op_count();
    let mut registers = operands
        .clone()
        .filter(|&operand| instruction.op_kind(operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand));
    let on_stack = matches!(instruction.memory_base(), Register::RSP | Register::RBP)
        && instruction.memory_index() == Register::None
        && operands
            .clone()
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    on_stack && registers.any(|register| register.is_ymm() || register.is_zmm())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop of multiply-adds, some of them with a vector on the stack.
    fn code(multiply_adds: u32, spilled: u32) -> Vec<u8> {
        let mut code = Vec::new();
        for number in 0..multiply_adds {
            if number < spilled {
                // vfmadd231ps ymm0, ymm1, [rsp + 32]
                code.extend([0xc4, 0xe2, 0x75, 0xb8, 0x44, 0x24, 0x20]);
            } else {
                // vfmadd231ps ymm0, ymm1, ymm2
                code.extend([0xc4, 0xe2, 0x75, 0xb8, 0xc2]);
            }
        }
        // jne to the start
        let back = -(code.len() as i32 + 6);
        code.extend([0x0f, 0x85]);
        code.extend(back.to_le_bytes());
        code
    }

    #[test]
    fn multiply_adds_and_spills_of_a_loop_are_counted() {
        let found = |multiply_adds, spills| HotLoop {
            multiply_adds,
            spills,
        };
        assert_eq!(loops(&code(12, 0)), [found(12, 0)]);
        assert_eq!(loops(&code(12, 5)), [found(12, 5)]);
        assert!(found(12, 5).is_spilled() && !found(12, 1).is_spilled());
    }

    #[test]
    fn only_innermost_loops_are_counted() {
        let mut nested = code(8, 1);
        nested.extend(code(10, 0));
        let back = -(nested.len() as i32 + 6);
        nested.extend([0x0f, 0x85]);
        nested.extend(back.to_le_bytes());
        let counted: Vec<u32> = loops(&nested)
            .iter()
            .map(|found| found.multiply_adds)
            .collect();
        assert_eq!(counted, [8, 10]);
    }

    #[test]
    fn bytes_that_are_not_an_object_have_no_hot_loop() {
        assert_eq!(hot_loop(b"not an object"), None);
    }
}
