//! Relocations by machine: the target of each kind, and how its value is written into the bytes.
//!
//! A kind that is not in a machine's table is rejected, never skipped. Values are computed modulo 2^64, as the ABIs
//! define, and then range checked; nothing is ever truncated.

pub(crate) mod aarch64;
pub(crate) mod x86_64;

/// A machine whose objects can be linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Machine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, little-endian.
    Aarch64,
}

impl Machine {
    /// The machine on which this process runs.
    pub(crate) fn host() -> Option<Self> {
        match () {
            () if cfg!(target_arch = "x86_64") => Some(Self::X86_64),
            () if cfg!(target_arch = "aarch64") => Some(Self::Aarch64),
            () => None,
        }
    }

    /// The name of the machine on which this process runs.
    pub(crate) fn host_name() -> &'static str {
        match Self::host() {
            Some(Self::X86_64) => "x86-64",
            Some(Self::Aarch64) => "AArch64",
            None => "x86-64 or AArch64, which this machine is not",
        }
    }

    /// The machine of an ELF header.
    pub(crate) fn from_elf(e_machine: u16) -> Option<Self> {
        match e_machine {
            object::elf::EM_X86_64 => Some(Self::X86_64),
            object::elf::EM_AARCH64 => Some(Self::Aarch64),
            _ => None,
        }
    }

    /// The target of a relocation of this kind; `None` for a kind that is not supported.
    pub(crate) fn reference(self, kind: u32) -> Option<Reference> {
        match self {
            Self::X86_64 => x86_64::reference(kind),
            Self::Aarch64 => aarch64::reference(kind),
        }
    }

    /// Writes a relocation's value at the start of `bytes`, which are at the address `place`.
    ///
    /// `target` is the address referred to, including the addend.
    pub(crate) fn apply(
        self,
        kind: u32,
        bytes: &mut [u8],
        place: u64,
        target: u64,
    ) -> Result<(), RelocationFault> {
        match self {
            Self::X86_64 => x86_64::apply(kind, bytes, place, target),
            Self::Aarch64 => aarch64::apply(kind, bytes, place, target),
        }
    }

    /// A stub that jumps to a host function at any address.
    pub(crate) fn stub(self, function: u64) -> [u8; STUB_SIZE] {
        let code: [u8; 8] = match self {
            // jmp qword ptr [rip + 2]; ud2
            Self::X86_64 => [0xff, 0x25, 0x02, 0x00, 0x00, 0x00, 0x0f, 0x0b],
            // ldr x16, #8; br x16
            Self::Aarch64 => [0x50, 0x00, 0x00, 0x58, 0x00, 0x02, 0x1f, 0xd6],
        };
        let mut stub = [0; STUB_SIZE];
        stub[..8].copy_from_slice(&code);
        stub[8..].copy_from_slice(&function.to_le_bytes());
        stub
    }
}

/// Bytes of one stub: two instructions and the address to which they jump.
pub(crate) const STUB_SIZE: usize = 16;

/// The target of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reference {
    /// No target: there is nothing to write.
    Nothing,
    /// An address that must be near, or fit few bits; a host function is reached through its stub.
    Near,
    /// A full address, anywhere.
    Far,
    /// A slot that holds the address.
    Slot,
}

/// Why a value could not be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelocationFault {
    /// The place extends beyond the bytes, or is not that of an instruction.
    Place,
    /// The value does not fit.
    Range(i64),
}

/// Writes `value` at the start of `bytes`.
fn write<const N: usize>(bytes: &mut [u8], value: [u8; N]) -> Result<(), RelocationFault> {
    bytes
        .first_chunk_mut()
        .map(|place| *place = value)
        .ok_or(RelocationFault::Place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elf_machine_numbers_are_recognized() {
        assert_eq!(Machine::from_elf(62), Some(Machine::X86_64));
        assert_eq!(Machine::from_elf(183), Some(Machine::Aarch64));
        assert_eq!(Machine::from_elf(243), None);
        assert!(Machine::host().is_some());
    }

    #[test]
    fn stubs_jump_to_the_address_behind_them() {
        let stub = Machine::X86_64.stub(0x1122_3344_5566_7788);
        assert_eq!(stub[..6], [0xff, 0x25, 2, 0, 0, 0]);
        assert_eq!(stub[8..], 0x1122_3344_5566_7788u64.to_le_bytes());
        let stub = Machine::Aarch64.stub(1);
        assert_eq!(stub[..4], 0x5800_0050u32.to_le_bytes());
        assert_eq!(stub[4..8], 0xd61f_0200u32.to_le_bytes());
    }
}
