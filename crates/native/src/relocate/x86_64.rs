//! x86-64: the kinds of the psABI that compilers emit for position-independent and small code.
//!
//! Slots are not relaxed into direct addresses: this costs one more load, but is one case less.

use super::{Reference, RelocationFault, write};
use object::elf;

/// The target of a relocation of this kind.
pub(crate) fn reference(kind: u32) -> Option<Reference> {
    Some(match kind {
        elf::R_X86_64_NONE => Reference::Nothing,
        elf::R_X86_64_PC32
        | elf::R_X86_64_PLT32
        | elf::R_X86_64_PC64
        | elf::R_X86_64_32
        | elf::R_X86_64_32S => Reference::Near,
        elf::R_X86_64_64 => Reference::Far,
        elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
            Reference::Slot
        }
        _ => return None,
    })
}

/// Writes the value of a relocation at `place` that refers to `target`.
pub(crate) fn apply(
    kind: u32,
    bytes: &mut [u8],
    place: u64,
    target: u64,
) -> Result<(), RelocationFault> {
    let distance = target.wrapping_sub(place) as i64;
    let out_of_range = RelocationFault::Range;
    match kind {
        elf::R_X86_64_64 => write(bytes, target.to_le_bytes()),
        elf::R_X86_64_PC64 => write(bytes, distance.to_le_bytes()),
        elf::R_X86_64_32 => {
            let value = u32::try_from(target).map_err(|_| out_of_range(target as i64))?;
            write(bytes, value.to_le_bytes())
        }
        elf::R_X86_64_32S => {
            let value = i32::try_from(target as i64).map_err(|_| out_of_range(target as i64))?;
            write(bytes, value.to_le_bytes())
        }
        // The remaining kinds are relative, in 32 bits.
        _ => {
            let value = i32::try_from(distance).map_err(|_| out_of_range(distance))?;
            write(bytes, value.to_le_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(kind: u32, place: u64, target: u64) -> Result<[u8; 8], RelocationFault> {
        let mut bytes = [0xaa; 8];
        apply(kind, &mut bytes, place, target).map(|()| bytes)
    }

    #[test]
    fn relative_relocations_are_applied() {
        for kind in [
            elf::R_X86_64_PC32,
            elf::R_X86_64_PLT32,
            elf::R_X86_64_GOTPCREL,
            elf::R_X86_64_GOTPCRELX,
            elf::R_X86_64_REX_GOTPCRELX,
        ] {
            let bytes = applied(kind, 0x1000, 0x0ff0).unwrap();
            assert_eq!(bytes, [0xf0, 0xff, 0xff, 0xff, 0xaa, 0xaa, 0xaa, 0xaa]);
            assert!(applied(kind, 0, i32::MAX as u64).is_ok());
            assert_eq!(
                applied(kind, 0, 1 << 31),
                Err(RelocationFault::Range(1 << 31))
            );
            assert!(applied(kind, 1 << 31, 0).is_ok());
            assert_eq!(
                applied(kind, (1 << 31) + 1, 0),
                Err(RelocationFault::Range(-(1 << 31) - 1))
            );
        }
        let bytes = applied(elf::R_X86_64_PC64, 1 << 40, 0).unwrap();
        assert_eq!(i64::from_le_bytes(bytes), -(1 << 40));
    }

    #[test]
    fn absolute_relocations_are_applied() {
        let bytes = applied(elf::R_X86_64_64, 0, 0x7fff_1234_5678_9abc).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 0x7fff_1234_5678_9abc);
        assert_eq!(
            applied(elf::R_X86_64_32, 0, 0xffff_fff0).unwrap()[..4],
            [0xf0, 0xff, 0xff, 0xff]
        );
        assert!(applied(elf::R_X86_64_32, 0, 1 << 32).is_err());
        assert!(applied(elf::R_X86_64_32, 0, u64::MAX).is_err());
        assert!(applied(elf::R_X86_64_32S, 0, u64::MAX).is_ok());
        assert!(applied(elf::R_X86_64_32S, 0, 1 << 31).is_err());
    }

    #[test]
    fn relocations_past_the_end_are_refused() {
        for (kind, size) in [(elf::R_X86_64_64, 8), (elf::R_X86_64_PC32, 4)] {
            let mut bytes = vec![0; size - 1];
            assert_eq!(apply(kind, &mut bytes, 0, 0), Err(RelocationFault::Place));
        }
    }

    #[test]
    fn other_relocation_kinds_are_unknown() {
        for kind in [elf::R_X86_64_TPOFF32, elf::R_X86_64_COPY, 200, u32::MAX] {
            assert_eq!(reference(kind), None);
        }
        assert_eq!(reference(elf::R_X86_64_NONE), Some(Reference::Nothing));
    }
}
