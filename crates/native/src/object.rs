//! A parsed and checked relocatable ELF object: sections to copy, locations to relocate, functions to call.
//!
//! The bytes may come from a damaged file: whatever they are, reading ends with an [`Object`] or a typed error. An
//! [`Object`] is consistent: a relocation is inside its section and refers to a section that is copied or to a host
//! function. Whether the *code* does what it should cannot be checked here: a cache checks a digest before it returns an
//! object.

use crate::error::NativeError;
use crate::host_functions::HostFunction;
use crate::relocate::{Machine, Reference};
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader as _, Rela as _, SectionHeader as _, SectionTable, Sym as _};
use object::{LittleEndian, SectionIndex};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The maximum number of sections of an object. Kernels have a dozen.
const SECTION_LIMIT: usize = 4096;

/// The maximum number of symbols or relocations of an object.
const ENTRY_LIMIT: usize = 1 << 20;

/// The maximum alignment of a section: the smallest page of any system.
const ALIGNMENT_LIMIT: u64 = 4096;

/// The contents of an object.
#[derive(Debug)]
pub(crate) struct Object<'data> {
    /// The machine for which its code is.
    pub(crate) machine: Machine,
    /// The sections that are copied into memory.
    pub(crate) sections: Vec<Section<'data>>,
    /// The relocations.
    pub(crate) relocations: Vec<Relocation>,
    /// The functions it exports: the section and the offset in it.
    pub(crate) functions: BTreeMap<&'data str, (usize, u64)>,
}

/// A section that is copied into memory.
#[derive(Debug)]
pub(crate) struct Section<'data> {
    /// Its name.
    pub(crate) name: Cow<'data, str>,
    /// Its content.
    pub(crate) bytes: &'data [u8],
    /// A power of two, at most a page.
    pub(crate) alignment: usize,
    /// Whether it is code.
    pub(crate) executable: bool,
}

/// A relocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Relocation {
    /// The section that contains it, as an index into [`Object::sections`].
    pub(crate) section: usize,
    /// The offset in the section: less than its size.
    pub(crate) offset: u64,
    /// The kind, as the machine's ABI numbers it; one that the machine supports.
    pub(crate) kind: u32,
    /// The target.
    pub(crate) target: Target,
    /// The addend.
    pub(crate) addend: i64,
}

/// The target of a relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A place in a section that is copied, or its end.
    Place {
        /// The section, as an index into [`Object::sections`].
        section: usize,
        /// The offset in it: at most its size.
        offset: u64,
    },
    /// A function of the host.
    Host(HostFunction),
}

type Header = FileHeader64<LittleEndian>;
const ENDIAN: LittleEndian = LittleEndian;

impl<'data> Object<'data> {
    /// Reads and checks an object for any supported machine.
    pub(crate) fn read(data: &'data [u8]) -> Result<Self, NativeError> {
        let header = Header::parse(data).map_err(NativeError::damaged)?;
        header.endian().map_err(NativeError::damaged)?;
        if header.e_type(ENDIAN) != elf::ET_REL {
            return Err(NativeError::damaged(format!(
                "ELF type {}",
                header.e_type(ENDIAN)
            )));
        }
        let number = header.e_machine(ENDIAN);
        let machine = Machine::from_elf(number).ok_or(NativeError::Machine {
            expected: Machine::host_name(),
            found: number,
        })?;
        let table = header
            .sections(ENDIAN, data)
            .map_err(NativeError::damaged)?;
        limit("sections", table.len(), SECTION_LIMIT)?;
        let copied = CopiedSections::read(&table, data)?;
        let symbols = Symbols::read(&table, data, &copied)?;
        Ok(Self {
            machine,
            relocations: relocations(&table, data, machine, &copied, &symbols)?,
            functions: symbols.functions,
            sections: copied.sections,
        })
    }

    /// The bytes of all sections.
    pub(crate) fn size(&self) -> usize {
        self.sections
            .iter()
            .map(|section| section.bytes.len())
            .sum()
    }
}

/// The sections that are copied, and the position of each of the object's sections among them.
struct CopiedSections<'data> {
    sections: Vec<Section<'data>>,
    /// By index in the object.
    places: Vec<Option<usize>>,
}

impl<'data> CopiedSections<'data> {
    fn read(table: &SectionTable<'data, Header>, data: &'data [u8]) -> Result<Self, NativeError> {
        let mut sections = Vec::new();
        let mut places = Vec::new();
        for header in table.iter() {
            let name = table
                .section_name(ENDIAN, header)
                .map_err(NativeError::damaged)?;
            let name = String::from_utf8_lossy(name);
            let copied = copied_section(header, name, data)?;
            places.push(copied.is_some().then_some(sections.len()));
            sections.extend(copied);
        }
        Ok(Self { sections, places })
    }

    fn place(&self, index: SectionIndex) -> Option<usize> {
        self.places.get(index.0).copied().flatten()
    }
}

/// Whether a section is copied: it is not if it is only for linkers and debuggers.
fn copied_section<'data>(
    header: &elf::SectionHeader64<LittleEndian>,
    name: Cow<'data, str>,
    data: &'data [u8],
) -> Result<Option<Section<'data>>, NativeError> {
    let flags = header.sh_flags(ENDIAN);
    let has = |flag: u32| flags & u64::from(flag) != 0;
    // Sections for unwinders and linkers are allocated too, but they are not used here.
    let ignored = matches!(
        header.sh_type(ENDIAN),
        elf::SHT_NULL | elf::SHT_NOTE | elf::SHT_X86_64_UNWIND
    ) || name.starts_with(".eh_frame");
    if !has(elf::SHF_ALLOC) || ignored || header.sh_size(ENDIAN) == 0 {
        return Ok(None);
    }
    let refuse = |why| {
        Err(NativeError::Section {
            section: name.to_string(),
            why,
        })
    };
    if has(elf::SHF_TLS) {
        return refuse("is thread-local");
    }
    match header.sh_type(ENDIAN) {
        elf::SHT_PROGBITS => {}
        elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY => {
            return refuse("holds constructors or destructors");
        }
        elf::SHT_NOBITS => return refuse("is memory without content"),
        _ => return refuse("is of an unexpected type"),
    }
    if [".ctors", ".dtors"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
    {
        return refuse("holds constructors or destructors");
    }
    // Addresses that are not written after relocation are in a section of this name.
    if has(elf::SHF_WRITE) && !name.starts_with(".data.rel.ro") {
        return refuse("is writable");
    }
    if has(elf::SHF_COMPRESSED) {
        return refuse("is compressed");
    }
    let alignment = header.sh_addralign(ENDIAN).max(1);
    if !alignment.is_power_of_two() || alignment > ALIGNMENT_LIMIT {
        return refuse("requires an alignment that is not a power of two up to 4096");
    }
    let bytes = header.data(ENDIAN, data).map_err(NativeError::damaged)?;
    Ok(Some(Section {
        bytes,
        alignment: alignment as usize,
        executable: has(elf::SHF_EXECINSTR),
        name,
    }))
}

/// The object's symbols as targets of relocations.
struct Symbols<'data> {
    /// By index in the object.
    targets: Vec<Symbol>,
    functions: BTreeMap<&'data str, (usize, u64)>,
}

#[derive(Clone, Copy)]
enum Symbol {
    Target(Target),
    /// A symbol of a section that is not copied, or of no section: an error only when a relocation refers to it.
    Elsewhere,
}

impl<'data> Symbols<'data> {
    fn read(
        table: &SectionTable<'data, Header>,
        data: &'data [u8],
        copied: &CopiedSections<'data>,
    ) -> Result<Self, NativeError> {
        let all = table
            .symbols(ENDIAN, data, elf::SHT_SYMTAB)
            .map_err(NativeError::damaged)?;
        limit("symbols", all.len(), ENTRY_LIMIT)?;
        let mut symbols = Self {
            targets: Vec::with_capacity(all.len()),
            functions: BTreeMap::new(),
        };
        for (index, symbol) in all.enumerate() {
            let name = symbol
                .name(ENDIAN, all.strings())
                .map_err(NativeError::damaged)?;
            let name = std::str::from_utf8(name)
                .map_err(|_| NativeError::damaged("a symbol's name that is not UTF-8"))?;
            let section = all
                .symbol_section(ENDIAN, symbol, index)
                .map_err(NativeError::damaged)?;
            let target = symbol_target(symbol, name, section, copied)?;
            if let (Symbol::Target(Target::Place { section, offset }), elf::STT_FUNC, false) =
                (target, symbol.st_type(), symbol.is_local())
                && copied.sections[section].executable
            {
                symbols.functions.insert(name, (section, offset));
            }
            symbols.targets.push(target);
        }
        Ok(symbols)
    }
}

/// The target of a symbol. Kinds that no kernel has are rejected even when no relocation refers to them.
fn symbol_target(
    symbol: &elf::Sym64<LittleEndian>,
    name: &str,
    section: Option<SectionIndex>,
    copied: &CopiedSections<'_>,
) -> Result<Symbol, NativeError> {
    let refuse = |why| {
        Err(NativeError::Symbol {
            symbol: name.to_owned(),
            why,
        })
    };
    match symbol.st_type() {
        elf::STT_TLS => return refuse("is thread-local"),
        elf::STT_GNU_IFUNC => return refuse("is chosen when loading"),
        elf::STT_COMMON => return refuse("is writable"),
        _ => {}
    }
    let offset = symbol.st_value(ENDIAN);
    match symbol.st_shndx(ENDIAN) {
        elf::SHN_UNDEF if name.is_empty() => Ok(Symbol::Elsewhere),
        elf::SHN_UNDEF => match HostFunction::by_name(name) {
            Some(function) => Ok(Symbol::Target(Target::Host(function))),
            None => Err(NativeError::UndefinedSymbol {
                symbol: name.to_owned(),
            }),
        },
        elf::SHN_COMMON => refuse("is writable"),
        _ => {
            let Some(section) = section.and_then(|index| copied.place(index)) else {
                return Ok(Symbol::Elsewhere);
            };
            if offset > copied.sections[section].bytes.len() as u64 {
                return refuse("is outside its section");
            }
            Ok(Symbol::Target(Target::Place { section, offset }))
        }
    }
}

/// The relocations of the sections that are copied.
fn relocations(
    table: &SectionTable<'_, Header>,
    data: &[u8],
    machine: Machine,
    copied: &CopiedSections<'_>,
    symbols: &Symbols<'_>,
) -> Result<Vec<Relocation>, NativeError> {
    let mut relocations = Vec::new();
    for header in table.iter() {
        let patched = SectionIndex(header.sh_info(ENDIAN) as usize);
        let kind = header.sh_type(ENDIAN);
        if !matches!(
            kind,
            elf::SHT_RELA | elf::SHT_REL | elf::SHT_CREL | elf::SHT_RELR
        ) {
            continue;
        }
        let Some(section) = copied.place(patched) else {
            continue;
        };
        let rela = header.rela(ENDIAN, data).map_err(NativeError::damaged)?;
        let Some((list, _)) = rela else {
            return Err(NativeError::damaged("relocations without addends"));
        };
        limit("relocations", relocations.len() + list.len(), ENTRY_LIMIT)?;
        for entry in list {
            let place = &copied.sections[section];
            let kind = entry.r_type(ENDIAN, false);
            let offset = entry.r_offset(ENDIAN);
            let fault = |why: &str| NativeError::Relocation {
                kind,
                offset,
                section: place.name.to_string(),
                why: why.to_owned(),
            };
            match machine.reference(kind) {
                Some(Reference::Nothing) => continue,
                Some(_) => {}
                None => {
                    return Err(NativeError::RelocationKind {
                        kind,
                        section: place.name.to_string(),
                    });
                }
            }
            if offset >= place.bytes.len() as u64 {
                return Err(fault("expected a place inside the section"));
            }
            let symbol = symbols.targets.get(entry.r_sym(ENDIAN, false) as usize);
            let Some(&Symbol::Target(target)) = symbol else {
                return Err(fault("expected a symbol of a section that is loaded"));
            };
            relocations.push(Relocation {
                section,
                offset,
                kind,
                target,
                addend: entry.r_addend(ENDIAN),
            });
        }
    }
    Ok(relocations)
}

fn limit(what: &'static str, given: usize, limit: usize) -> Result<(), NativeError> {
    if given > limit {
        return Err(NativeError::Limit {
            what,
            given: given as u64,
            limit: limit as u64,
        });
    }
    Ok(())
}
