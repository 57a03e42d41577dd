//! Objects that are intact, but have contents that kernels never have.

use super::fixtures::{AARCH64, Made, X86_64, host};
use crate::error::NativeError;
use crate::object::Object;
use crate::{LoadedCode, relocate::Machine};
use object::elf;
use object::write::SymbolSection;
use object::{Architecture, SectionKind, SymbolFlags, SymbolKind};

fn refused(made: &Made) -> NativeError {
    Object::read(&made.bytes()).unwrap_err()
}

fn section(name: &str, kind: SectionKind, flags: u32) -> NativeError {
    let mut made = Made::x86_64(&[0xc3]);
    made.section(name, kind, elf::SHF_ALLOC | flags, &[0; 8]);
    refused(&made)
}

#[test]
fn unsupported_sections_are_refused() {
    let array = |sh_type| SectionKind::Elf(sh_type);
    for (error, expected) in [
        (
            section(".data", SectionKind::Data, elf::SHF_WRITE),
            "section `.data` is writable; kernels contain only code and constants",
        ),
        (
            section(".tdata", SectionKind::Tls, elf::SHF_WRITE | elf::SHF_TLS),
            "section `.tdata` is thread-local; kernels contain only code and constants",
        ),
        (
            section(".init_array", array(elf::SHT_INIT_ARRAY), elf::SHF_WRITE),
            "section `.init_array` holds constructors or destructors; kernels contain only code and constants",
        ),
        (
            section(".dtors", SectionKind::Data, elf::SHF_WRITE),
            "section `.dtors` holds constructors or destructors; kernels contain only code and constants",
        ),
        (
            section(".hash", array(elf::SHT_HASH), 0),
            "section `.hash` is of an unexpected type; kernels contain only code and constants",
        ),
        (
            section(".rodata", SectionKind::ReadOnlyData, elf::SHF_COMPRESSED),
            "section `.rodata` is compressed; kernels contain only code and constants",
        ),
    ] {
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            ("E0852", expected)
        );
    }
    let mut made = Made::x86_64(&[0xc3]);
    let bss = made
        .object
        .add_section(Vec::new(), b".bss".to_vec(), SectionKind::UninitializedData);
    made.object.append_section_bss(bss, 64, 8);
    assert!(
        refused(&made)
            .to_string()
            .contains("memory without content")
    );
    let mut made = Made::x86_64(&[0xc3]);
    made.object.append_section_data(made.text, &[0xc3], 8192);
    assert!(refused(&made).to_string().contains("alignment"));
}

#[test]
fn irrelevant_sections_are_ignored() {
    let mut made = Made::x86_64(&[0xc3]);
    made.section(
        ".data",
        SectionKind::Data,
        elf::SHF_ALLOC | elf::SHF_WRITE,
        &[],
    );
    made.section(
        ".eh_frame",
        SectionKind::ReadOnlyData,
        elf::SHF_ALLOC,
        &[1; 8],
    );
    made.section(".note.x", SectionKind::Note, elf::SHF_ALLOC, &[1; 8]);
    let debug = made.section(".debug_line", SectionKind::Debug, 0, &[1; 8]);
    let object = made.bytes();
    let object = Object::read(&object).unwrap();
    assert_eq!(object.sections.len(), 1);
    assert_eq!(object.functions.keys().collect::<Vec<_>>(), [&"entry"]);
    // They are accepted until something refers to them.
    made.relocation(elf::R_X86_64_PC32, 0, debug, 0);
    let error = refused(&made);
    assert_eq!(error.code(), "E0856");
    assert!(
        error
            .to_string()
            .ends_with("expected a symbol of a section that is loaded")
    );
}

#[test]
fn unsupported_symbols_are_refused() {
    let with = |name, kind, section: fn(&Made) -> SymbolSection, value| {
        let mut made = Made::x86_64(&[0xc3; 4]);
        let section = section(&made);
        made.symbol(name, kind, section, value);
        refused(&made)
    };
    let text = |made: &Made| SymbolSection::Section(made.text);
    let undefined = |_: &Made| SymbolSection::Undefined;
    let common = |_: &Made| SymbolSection::Common;
    for (error, code, expected) in [
        (
            with("expf", SymbolKind::Unknown, undefined, 0),
            "E0853",
            "undefined symbol `expf`; a kernel may only call memcpy, memmove, memset",
        ),
        (
            with("__tls_get_addr", SymbolKind::Text, undefined, 0),
            "E0853",
            "undefined symbol `__tls_get_addr`; a kernel may only call memcpy, memmove, memset",
        ),
        (
            with("counter", SymbolKind::Tls, text, 0),
            "E0854",
            "symbol `counter` is thread-local; expected code or constants",
        ),
        (
            with("table", SymbolKind::Data, common, 8),
            "E0854",
            "symbol `table` is writable; expected code or constants",
        ),
        (
            with("behind", SymbolKind::Text, text, 5),
            "E0854",
            "symbol `behind` is outside its section; expected code or constants",
        ),
    ] {
        assert_eq!((error.code(), error.to_string().as_str()), (code, expected));
    }
    let mut made = Made::x86_64(&[0xc3; 4]);
    let chosen = made.symbol(
        "chosen",
        SymbolKind::Text,
        SymbolSection::Section(made.text),
        0,
    );
    made.object.symbol_mut(chosen).flags = SymbolFlags::Elf {
        st_info: (elf::STB_GLOBAL << 4) | elf::STT_GNU_IFUNC,
        st_other: 0,
    };
    assert!(refused(&made).to_string().contains("chosen when loading"));
}

#[test]
fn long_and_strange_names_are_shown_short_and_escaped() {
    let mut made = Made::x86_64(&[0xc3; 4]);
    made.undefined(&format!("\u{1b}[2J{}", "x".repeat(5000)));
    let message = refused(&made).to_string();
    assert!(message.starts_with("undefined symbol `\\u{1b}[2Jxx"));
    assert!(message.contains("x…`") && message.len() < 200);
}

#[test]
fn unsupported_relocations_are_refused() {
    let mut made = Made::x86_64(&[0x90; 8]);
    let set = made.undefined("memset");
    made.relocation(elf::R_X86_64_TPOFF32, 0, set, 0);
    let error = refused(&made);
    assert_eq!(
        (error.code(), error.to_string().as_str()),
        (
            "E0855",
            "relocation kind 23 in section `.text` is not supported"
        )
    );
    let mut made = Made::x86_64(&[0x90; 8]);
    let set = made.undefined("memset");
    made.relocation(elf::R_X86_64_PLT32, 8, set, 0);
    let error = refused(&made);
    assert_eq!(error.code(), "E0856");
    assert!(
        error
            .to_string()
            .ends_with("expected a place inside the section")
    );
}

/// Addends stored in the code, as in other machines' objects.
#[test]
fn relocations_without_addends_are_refused() {
    let mut bytes = X86_64.to_vec();
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let header = (table..bytes.len())
        .step_by(64)
        .find(|&at| bytes[at + 4] == elf::SHT_RELA as u8);
    bytes[header.unwrap() + 4] = elf::SHT_REL as u8;
    let error = Object::read(&bytes).unwrap_err();
    assert_eq!(error.code(), "E0850");
    assert!(error.to_string().contains("relocations without addends"));
}

#[test]
fn other_file_kinds_and_machines_are_refused() {
    let patched = |at: usize, byte: u8| {
        let mut bytes = X86_64.to_vec();
        bytes[at] = byte;
        Object::read(&bytes).unwrap_err()
    };
    for (error, expected) in [
        (patched(0, 0), "E0850"),
        (patched(4, elf::ELFCLASS32), "E0850"),
        (patched(5, elf::ELFDATA2MSB), "E0850"),
        (patched(16, elf::ET_EXEC as u8), "E0850"),
        (patched(18, 0xf3), "E0851"),
    ] {
        assert_eq!(error.code(), expected, "{error}");
    }
    let other = match Machine::host() {
        Some(Machine::X86_64) => AARCH64,
        _ => X86_64,
    };
    let error = LoadedCode::load(other, &["scale"]).unwrap_err();
    assert_eq!(error.code(), "E0851");
    for short in [&[][..], &host()[..19]] {
        assert_eq!(LoadedCode::load(short, &[]).unwrap_err().code(), "E0850");
    }
}

#[test]
fn too_many_sections_are_refused() {
    let mut made = Made::new(Architecture::Aarch64, &[0; 4]);
    for _ in 0..5000 {
        made.section(".debug_x", SectionKind::Debug, 0, &[1]);
    }
    let error = refused(&made);
    assert_eq!(error.code(), "E0859");
    assert!(
        error
            .to_string()
            .starts_with("sections of an object: given 5")
    );
}
