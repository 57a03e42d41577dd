//! 64-bit Arm: the kinds of "ELF for the Arm 64-bit Architecture" that compilers emit for static
//! and position-independent code.
//!
//! A value goes into a field of an instruction: the bits outside the field are unchanged, and a location that is not a
//! multiple of an instruction's size is rejected.

use super::{Reference, RelocationFault, write};
use object::elf;

/// The target of a relocation of this kind.
pub(crate) fn reference(kind: u32) -> Option<Reference> {
    Some(match kind {
        elf::R_AARCH64_NONE => Reference::Nothing,
        elf::R_AARCH64_ABS64
        | elf::R_AARCH64_MOVW_UABS_G0_NC
        | elf::R_AARCH64_MOVW_UABS_G1_NC
        | elf::R_AARCH64_MOVW_UABS_G2_NC
        | elf::R_AARCH64_MOVW_UABS_G3 => Reference::Far,
        elf::R_AARCH64_ABS32
        | elf::R_AARCH64_PREL64
        | elf::R_AARCH64_PREL32
        | elf::R_AARCH64_CALL26
        | elf::R_AARCH64_JUMP26
        | elf::R_AARCH64_CONDBR19
        | elf::R_AARCH64_TSTBR14
        | elf::R_AARCH64_LD_PREL_LO19
        | elf::R_AARCH64_ADR_PREL_LO21
        | elf::R_AARCH64_ADR_PREL_PG_HI21
        | elf::R_AARCH64_ADD_ABS_LO12_NC
        | elf::R_AARCH64_LDST8_ABS_LO12_NC
        | elf::R_AARCH64_LDST16_ABS_LO12_NC
        | elf::R_AARCH64_LDST32_ABS_LO12_NC
        | elf::R_AARCH64_LDST64_ABS_LO12_NC
        | elf::R_AARCH64_LDST128_ABS_LO12_NC => Reference::Near,
        elf::R_AARCH64_ADR_GOT_PAGE | elf::R_AARCH64_LD64_GOT_LO12_NC => Reference::Slot,
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
    let pages = (page(target).wrapping_sub(page(place)) as i64) >> 12;
    let low12 = target & 0xfff;
    match kind {
        elf::R_AARCH64_ABS64 => write(bytes, target.to_le_bytes()),
        elf::R_AARCH64_PREL64 => write(bytes, distance.to_le_bytes()),
        elf::R_AARCH64_ABS32 => {
            let fits = u32::try_from(target).is_ok() || i32::try_from(target as i64).is_ok();
            let value = fits.then_some(target as u32);
            write(
                bytes,
                value
                    .ok_or(RelocationFault::Range(target as i64))?
                    .to_le_bytes(),
            )
        }
        elf::R_AARCH64_PREL32 => {
            let value = i32::try_from(distance).map_err(|_| RelocationFault::Range(distance))?;
            write(bytes, value.to_le_bytes())
        }
        elf::R_AARCH64_CALL26 | elf::R_AARCH64_JUMP26 => {
            let value = signed(multiple_of(4, distance)?, 26, distance)?;
            insert(bytes, place, 26, 0, value)
        }
        elf::R_AARCH64_CONDBR19 | elf::R_AARCH64_LD_PREL_LO19 => {
            let value = signed(multiple_of(4, distance)?, 19, distance)?;
            insert(bytes, place, 19, 5, value)
        }
        elf::R_AARCH64_TSTBR14 => {
            let value = signed(multiple_of(4, distance)?, 14, distance)?;
            insert(bytes, place, 14, 5, value)
        }
        elf::R_AARCH64_ADR_PREL_LO21 => insert_adr(bytes, place, signed(distance, 21, distance)?),
        elf::R_AARCH64_ADR_PREL_PG_HI21 | elf::R_AARCH64_ADR_GOT_PAGE => {
            insert_adr(bytes, place, signed(pages, 21, distance)?)
        }
        elf::R_AARCH64_MOVW_UABS_G0_NC => insert(bytes, place, 16, 5, target as u32),
        elf::R_AARCH64_MOVW_UABS_G1_NC => insert(bytes, place, 16, 5, (target >> 16) as u32),
        elf::R_AARCH64_MOVW_UABS_G2_NC => insert(bytes, place, 16, 5, (target >> 32) as u32),
        elf::R_AARCH64_MOVW_UABS_G3 => insert(bytes, place, 16, 5, (target >> 48) as u32),
        elf::R_AARCH64_ADD_ABS_LO12_NC | elf::R_AARCH64_LDST8_ABS_LO12_NC => {
            insert(bytes, place, 12, 10, low12 as u32)
        }
        // The remaining kinds are a load or store with a scaled offset.
        _ => {
            let size = match kind {
                elf::R_AARCH64_LDST16_ABS_LO12_NC => 2,
                elf::R_AARCH64_LDST32_ABS_LO12_NC => 4,
                elf::R_AARCH64_LDST128_ABS_LO12_NC => 16,
                _ => 8,
            };
            let value = multiple_of(size, low12 as i64)?;
            insert(bytes, place, 12, 10, value as u32)
        }
    }
}

/// The start of the 4 KiB page of an address, as the ABI counts pages.
fn page(address: u64) -> u64 {
    address & !0xfff
}

/// `value / size`, if it divides evenly.
fn multiple_of(size: i64, value: i64) -> Result<i64, RelocationFault> {
    if value % size != 0 {
        return Err(RelocationFault::Range(value));
    }
    Ok(value / size)
}

/// The bits of a value that must fit in `bits` bits with its sign; `whole` is the value shown in an error.
fn signed(value: i64, bits: u32, whole: i64) -> Result<u32, RelocationFault> {
    let limit = 1i64 << (bits - 1);
    if (-limit..limit).contains(&value) {
        Ok(value as u32)
    } else {
        Err(RelocationFault::Range(whole))
    }
}

/// Writes the low `bits` bits of `value` at bit `at` of the instruction.
fn insert(
    bytes: &mut [u8],
    place: u64,
    bits: u32,
    at: u32,
    value: u32,
) -> Result<(), RelocationFault> {
    let mask = ((1 << bits) - 1) << at;
    replace(bytes, place, mask, value << at)
}

/// Writes 21 bits in the fields of `adr` and `adrp`: the low two at bit 29, the others at bit 5.
fn insert_adr(bytes: &mut [u8], place: u64, value: u32) -> Result<(), RelocationFault> {
    let mask = 0x60ff_ffe0;
    replace(
        bytes,
        place,
        mask,
        ((value & 3) << 29) | ((value >> 2) << 5),
    )
}

fn replace(bytes: &mut [u8], place: u64, mask: u32, value: u32) -> Result<(), RelocationFault> {
    let instruction = bytes.first_chunk().ok_or(RelocationFault::Place)?;
    if !place.is_multiple_of(4) {
        return Err(RelocationFault::Place);
    }
    let kept = u32::from_le_bytes(*instruction) & !mask;
    write(bytes, (kept | (value & mask)).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(
        kind: u32,
        instruction: u32,
        place: u64,
        target: u64,
    ) -> Result<u32, RelocationFault> {
        let mut bytes = instruction.to_le_bytes();
        apply(kind, &mut bytes, place, target).map(|()| u32::from_le_bytes(bytes))
    }

    /// Instructions as an assembler encodes them with the value in place.
    #[test]
    fn values_are_written_into_the_instruction_field() {
        let at = 0x40_0000;
        for (kind, before, target, after) in [
            // bl #0x1000, b #-4
            (
                elf::R_AARCH64_CALL26,
                0x9400_0000,
                at + 0x1000,
                0x9400_0400u32,
            ),
            (elf::R_AARCH64_JUMP26, 0x1400_0000, at - 4, 0x17ff_ffff),
            // b.ne #8, ldr x1, #-8, tbz w0, #3, #16
            (elf::R_AARCH64_CONDBR19, 0x5400_0001, at + 8, 0x5400_0041),
            (
                elf::R_AARCH64_LD_PREL_LO19,
                0x5800_0001,
                at - 8,
                0x58ff_ffc1,
            ),
            (elf::R_AARCH64_TSTBR14, 0x3618_0000, at + 16, 0x3618_0080),
            // adr x0, #5, adrp x8, #-0x1000 and #0x3000
            (
                elf::R_AARCH64_ADR_PREL_LO21,
                0x1000_0000,
                at + 5,
                0x3000_0020,
            ),
            (
                elf::R_AARCH64_ADR_PREL_PG_HI21,
                0x9000_0008,
                at - 1,
                0xf0ff_ffe8,
            ),
            (
                elf::R_AARCH64_ADR_GOT_PAGE,
                0x9000_0008,
                at + 0x3fff,
                0xf000_0008,
            ),
            // add x8, x8, #0xabc
            (
                elf::R_AARCH64_ADD_ABS_LO12_NC,
                0x9100_0108,
                0x7_7abc,
                0x912a_f108,
            ),
            // ldrb w0, [x8, #0xabc], ldrh w0, [x8, #0xabc], ldr s0, [x8, #0xabc]
            (
                elf::R_AARCH64_LDST8_ABS_LO12_NC,
                0x3940_0100,
                0x7_7abc,
                0x396a_f100,
            ),
            (
                elf::R_AARCH64_LDST16_ABS_LO12_NC,
                0x7940_0100,
                0x7_7abc,
                0x7955_7900,
            ),
            (
                elf::R_AARCH64_LDST32_ABS_LO12_NC,
                0xbd40_0100,
                0x7_7abc,
                0xbd4a_bd00,
            ),
            // ldr d0, [x8, #0xab8], ldr x8, [x8, #0xab8], ldr q0, [x8, #0xab0]
            (
                elf::R_AARCH64_LDST64_ABS_LO12_NC,
                0xfd40_0100,
                0x7_7ab8,
                0xfd45_5d00,
            ),
            (
                elf::R_AARCH64_LD64_GOT_LO12_NC,
                0xf940_0108,
                0x7_7ab8,
                0xf945_5d08,
            ),
            (
                elf::R_AARCH64_LDST128_ABS_LO12_NC,
                0x3dc0_0100,
                0x7_7ab0,
                0x3dc2_ad00,
            ),
            // movz/movk x0, #...
            (
                elf::R_AARCH64_MOVW_UABS_G0_NC,
                0xd280_0000,
                0x1122_3344_5566_7788,
                0xd28e_f100,
            ),
            (
                elf::R_AARCH64_MOVW_UABS_G1_NC,
                0xf2a0_0000,
                0x1122_3344_5566_7788,
                0xf2aa_acc0,
            ),
            (
                elf::R_AARCH64_MOVW_UABS_G2_NC,
                0xf2c0_0000,
                0x1122_3344_5566_7788,
                0xf2c6_6880,
            ),
            (
                elf::R_AARCH64_MOVW_UABS_G3,
                0xf2e0_0000,
                0x1122_3344_5566_7788,
                0xf2e2_2440,
            ),
        ] {
            let found = applied(kind, before, at, target).unwrap();
            assert_eq!(found, after, "kind {kind}: {found:#010x}");
            assert!(reference(kind).is_some());
        }
    }

    #[test]
    fn data_relocations_are_applied() {
        let mut bytes = [0; 8];
        apply(elf::R_AARCH64_ABS64, &mut bytes, 0, 1 << 40).unwrap();
        assert_eq!(u64::from_le_bytes(bytes), 1 << 40);
        apply(elf::R_AARCH64_PREL64, &mut bytes, 1 << 40, 0).unwrap();
        assert_eq!(i64::from_le_bytes(bytes), -(1 << 40));
        assert_eq!(applied(elf::R_AARCH64_PREL32, 0, 8, 0), Ok(-8i32 as u32));
        assert_eq!(
            applied(elf::R_AARCH64_PREL32, 0, 0, 1 << 31),
            Err(RelocationFault::Range(1 << 31))
        );
        assert_eq!(
            applied(elf::R_AARCH64_ABS32, 0, 0, 0xffff_ffff),
            Ok(u32::MAX)
        );
        assert!(applied(elf::R_AARCH64_ABS32, 0, 0, 1 << 32).is_err());
    }

    #[test]
    fn values_beyond_the_field_are_refused() {
        let far = |kind, distance: i64| {
            applied(kind, 0, 1 << 40, (1u64 << 40).wrapping_add_signed(distance))
        };
        for (kind, bits) in [
            (elf::R_AARCH64_CALL26, 27),
            (elf::R_AARCH64_CONDBR19, 20),
            (elf::R_AARCH64_TSTBR14, 15),
            (elf::R_AARCH64_ADR_PREL_LO21, 20),
            (elf::R_AARCH64_ADR_PREL_PG_HI21, 32),
        ] {
            let limit = 1i64 << bits;
            assert!(far(kind, -limit).is_ok(), "{kind}");
            assert_eq!(
                far(kind, limit),
                Err(RelocationFault::Range(limit)),
                "{kind}"
            );
            assert!(far(kind, -limit - 4096).is_err(), "{kind}");
        }
        assert_eq!(
            far(elf::R_AARCH64_CALL26, 2),
            Err(RelocationFault::Range(2))
        );
        assert!(applied(elf::R_AARCH64_LDST64_ABS_LO12_NC, 0, 0, 4).is_err());
    }

    #[test]
    fn relocations_outside_an_instruction_are_refused() {
        let place = RelocationFault::Place;
        assert_eq!(applied(elf::R_AARCH64_CALL26, 0, 2, 6), Err(place));
        assert_eq!(apply(elf::R_AARCH64_CALL26, &mut [0; 3], 0, 0), Err(place));
        assert_eq!(reference(elf::R_AARCH64_TLS_TPREL), None);
        assert_eq!(reference(elf::R_AARCH64_NONE), Some(Reference::Nothing));
    }
}
