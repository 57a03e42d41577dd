//! Images linked at an arbitrary address, compared byte by byte.

use super::fixtures::{AARCH64, Made};
use crate::error::NativeError;
use crate::host_functions::HostFunction;
use crate::link::{IMAGE_LIMIT, Layout, link};
use crate::object::{Object, Section};
use crate::relocate::Machine;
use object::elf;
use object::write::SymbolSection;
use object::{SectionKind, SymbolKind};

const BASE: u64 = 0x7f00_0000_0000;
const PAGE: usize = 4096;

fn linked(bytes: &[u8]) -> Result<Vec<u8>, NativeError> {
    linked_at(bytes, BASE)
}

fn linked_at(bytes: &[u8], base: u64) -> Result<Vec<u8>, NativeError> {
    let object = Object::read(bytes)?;
    let layout = Layout::of(&object, PAGE)?;
    let mut image = vec![0; layout.total];
    link(&object, &layout, base, &mut image)?;
    Ok(image)
}

fn word(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

fn long(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

/// The code is 0x198 bytes, so stubs start at 0x1a0; constants are on the second page.
#[test]
fn an_arm_object_is_patched_as_its_listing_says() {
    let object = Object::read(AARCH64).unwrap();
    assert_eq!(object.machine, Machine::Aarch64);
    let layout = Layout::of(&object, PAGE).unwrap();
    assert_eq!((layout.code, layout.total), (PAGE, 2 * PAGE));
    let image = linked(AARCH64).unwrap();
    // adrp x10, .rodata.cst16; add x10, x10, :lo12:.rodata.cst16
    assert_eq!(word(&image, 0x10), 0xb000_000a);
    assert_eq!(word(&image, 0x14), 0x9100_014a);
    // bl memset; bl memcpy; bl memcpy
    assert_eq!(word(&image, 0x74), 0x9400_0000 | ((0x1a0 - 0x74) / 4));
    assert_eq!(word(&image, 0x84), 0x9400_0000 | ((0x1b0 - 0x84) / 4));
    assert_eq!(word(&image, 0x94), 0x9400_0000 | ((0x1b0 - 0x94) / 4));
    // ldr x16, #8; br x16; the function's address
    for (stub, function) in [(0x1a0, HostFunction::Set), (0x1b0, HostFunction::Copy)] {
        assert_eq!(word(&image, stub), 0x5800_0050);
        assert_eq!(word(&image, stub + 4), 0xd61f_0200);
        assert_eq!(long(&image, stub + 8), function.address());
    }
    let weights = [1.0f32, 10.0, 100.0, 1000.0].map(f32::to_bits);
    assert_eq!([0, 4, 8, 12].map(|at| word(&image, PAGE + at)), weights);
    // All other instructions are unchanged.
    let code = &object
        .sections
        .iter()
        .find(|section| section.executable)
        .unwrap();
    for at in (0..code.bytes.len()).step_by(4) {
        if ![0x10, 0x14, 0x74, 0x84, 0x94].contains(&at) {
            assert_eq!(word(&image, at), word(code.bytes, at), "{at:#x}");
        }
    }
}

#[test]
fn an_arm_object_links_at_any_page_size_and_address() {
    for page in [4096, 16384, 65536] {
        let object = Object::read(AARCH64).unwrap();
        let layout = Layout::of(&object, page).unwrap();
        assert_eq!((layout.code, layout.total), (page, 2 * page));
        let mut image = vec![0; layout.total];
        link(&object, &layout, 0xffff_8000_0000_0000, &mut image).unwrap();
        let pages = (page / 4096) as u32;
        assert_eq!(
            word(&image, 0x10),
            0x9000_000a | ((pages & 3) << 29) | ((pages >> 2) << 5)
        );
    }
}

#[test]
fn address_slots_are_shared() {
    let mut made = Made::x86_64(&[0x90; 32]);
    let constant = made.section(
        ".rodata",
        SectionKind::ReadOnlyData,
        elf::SHF_ALLOC,
        &[7; 12],
    );
    let copy = made.undefined("memcpy");
    made.relocation(elf::R_X86_64_GOTPCREL, 0, constant, -4);
    made.relocation(elf::R_X86_64_REX_GOTPCRELX, 4, copy, -4);
    made.relocation(elf::R_X86_64_GOTPCRELX, 8, constant, -4);
    made.relocation(elf::R_X86_64_PLT32, 12, copy, -4);
    made.relocation(elf::R_X86_64_64, 16, copy, 0);
    made.relocation(elf::R_X86_64_NONE, 24, copy, 0);
    let image = linked(&made.bytes()).unwrap();
    let slot = |at: usize| (at as u64 + 4 + u64::from(word(&image, at))) as usize;
    assert_eq!(
        (slot(0), slot(4), slot(8)),
        (PAGE + 16, PAGE + 24, PAGE + 16)
    );
    assert_eq!(long(&image, PAGE + 16), BASE + PAGE as u64);
    assert_eq!(long(&image, PAGE + 24), HostFunction::Copy.address());
    assert_eq!(slot(12), 32, "the stub stands behind the code");
    assert_eq!(long(&image, 40), HostFunction::Copy.address());
    assert_eq!(long(&image, 16), HostFunction::Copy.address());
    assert_eq!(long(&image, 24), 0x9090_9090_9090_9090);
}

#[test]
fn addresses_among_constants_are_patched() {
    let mut made = Made::x86_64(&[0xc3; 8]);
    let flags = elf::SHF_ALLOC | elf::SHF_WRITE;
    let table = made.section(
        ".data.rel.ro",
        SectionKind::ReadOnlyDataWithRel,
        flags,
        &[0; 16],
    );
    let entry = made.symbol(
        "inner",
        SymbolKind::Text,
        SymbolSection::Section(made.text),
        4,
    );
    let table = made.object.symbol(table).section.id().unwrap();
    made.object
        .add_relocation(
            table,
            object::write::Relocation {
                offset: 8,
                symbol: entry,
                addend: 1,
                flags: object::RelocationFlags::Elf {
                    r_type: elf::R_X86_64_64,
                },
            },
        )
        .unwrap();
    let image = linked(&made.bytes()).unwrap();
    assert_eq!((long(&image, PAGE), long(&image, PAGE + 8)), (0, BASE + 5));
}

#[test]
fn values_that_do_not_fit_are_errors() {
    let mut made = Made::x86_64(&[0x90; 8]);
    let constant = made.section(
        ".rodata",
        SectionKind::ReadOnlyData,
        elf::SHF_ALLOC,
        &[7; 12],
    );
    made.relocation(elf::R_X86_64_32S, 2, constant, 4);
    let bytes = made.bytes();
    assert_eq!(word(&linked_at(&bytes, 0x1_0000).unwrap(), 2), 0x1_1004);
    let error = linked(&bytes).unwrap_err();
    assert_eq!(error.code(), "E0856");
    assert_eq!(
        error.to_string(),
        "relocation kind 11 at 0x2 of section `.text`: expected a value that fits the place, found 0x7f0000001004"
    );
    // The relocated field starts inside the section and ends outside.
    let mut made = Made::x86_64(&[0x90; 8]);
    let set = made.undefined("memset");
    made.relocation(elf::R_X86_64_PLT32, 5, set, -4);
    let error = linked(&made.bytes()).unwrap_err();
    assert_eq!(error.code(), "E0856");
    assert!(
        error
            .to_string()
            .ends_with("expected the whole place inside the section")
    );
}

#[test]
fn objects_of_any_size_are_laid_out_or_refused() {
    let section = |bytes| Section {
        name: ".rodata".into(),
        bytes,
        alignment: 64,
        executable: false,
    };
    let mut object = Object {
        machine: Machine::X86_64,
        sections: Vec::new(),
        relocations: Vec::new(),
        functions: Default::default(),
    };
    let layout = Layout::of(&object, PAGE).unwrap();
    assert_eq!((layout.code, layout.total), (0, 0));
    let bytes = vec![0; IMAGE_LIMIT];
    object.sections.push(section(&bytes));
    assert_eq!(Layout::of(&object, PAGE).unwrap().total, IMAGE_LIMIT);
    object.sections[0].bytes = &bytes[..1];
    object.sections.push(section(&bytes[..IMAGE_LIMIT - 1]));
    assert_eq!(
        Layout::of(&object, PAGE).unwrap_err().to_string(),
        "bytes of an object: given 67112960, limit 67108864"
    );
    object.sections.push(section(&bytes[..1]));
    assert_eq!(Layout::of(&object, PAGE).unwrap_err().code(), "E0859");
}
