//! The objects that the tests load: those of a compiler, and objects built piece by piece.

use object::write::{Object, Relocation, Symbol, SymbolId, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind};
use object::{RelocationFlags, SymbolFlags, SymbolKind, SymbolScope};

/// A compiler's object for x86-64.
pub(crate) const X86_64: &[u8] = include_bytes!("../../tests/fixtures/kernels.x86_64.o");

/// A compiler's object for 64-bit Arm.
pub(crate) const AARCH64: &[u8] = include_bytes!("../../tests/fixtures/kernels.aarch64.o");

/// The compiler's object for this machine.
pub(crate) fn host() -> &'static [u8] {
    if cfg!(target_arch = "x86_64") {
        X86_64
    } else {
        AARCH64
    }
}

/// An object built piece by piece: one section of code, `entry` at its start.
pub(crate) struct Made {
    pub(crate) object: Object<'static>,
    pub(crate) text: object::write::SectionId,
}

impl Made {
    /// An object for x86-64 with this code.
    pub(crate) fn x86_64(code: &[u8]) -> Self {
        Self::new(Architecture::X86_64, code)
    }

    /// An object with this code.
    pub(crate) fn new(machine: Architecture, code: &[u8]) -> Self {
        let mut object = Object::new(BinaryFormat::Elf, machine, Endianness::Little);
        let text = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
        object.append_section_data(text, code, 16);
        let mut made = Self { object, text };
        made.symbol("entry", SymbolKind::Text, SymbolSection::Section(text), 0);
        made
    }

    /// Adds a section with these flags; returns its symbol.
    pub(crate) fn section(
        &mut self,
        name: &str,
        kind: SectionKind,
        flags: u32,
        bytes: &[u8],
    ) -> SymbolId {
        let name = name.as_bytes().to_vec();
        let section = self.object.add_section(Vec::new(), name, kind);
        self.object.append_section_data(section, bytes, 8);
        self.object.section_mut(section).flags = SectionFlags::Elf {
            sh_flags: u64::from(flags),
        };
        self.object.section_symbol(section)
    }

    /// Adds a global symbol.
    pub(crate) fn symbol(
        &mut self,
        name: &str,
        kind: SymbolKind,
        section: SymbolSection,
        value: u64,
    ) -> SymbolId {
        self.object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size: 0,
            kind,
            scope: SymbolScope::Dynamic,
            weak: false,
            section,
            flags: SymbolFlags::None,
        })
    }

    /// Adds an undefined symbol.
    pub(crate) fn undefined(&mut self, name: &str) -> SymbolId {
        self.symbol(name, SymbolKind::Unknown, SymbolSection::Undefined, 0)
    }

    /// Adds a relocation in the code.
    pub(crate) fn relocation(&mut self, kind: u32, offset: u64, symbol: SymbolId, addend: i64) {
        let relocation = Relocation {
            offset,
            symbol,
            addend,
            flags: RelocationFlags::Elf { r_type: kind },
        };
        self.object.add_relocation(self.text, relocation).unwrap();
    }

    /// The object's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.object.write().unwrap()
    }
}
