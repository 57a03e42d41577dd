//! Lays out an object's sections, and applies its relocations to the copy.
//!
//! Code comes first, then stubs that jump to the host's functions; then, starting on a new page, the constants and the
//! slots. So one range can be made executable and the other read-only. The address of an image is only a number here: the
//! layout and the bytes are the same on any machine.

use crate::error::NativeError;
use crate::host_functions::HostFunction;
use crate::object::{Object, Relocation, Target};
use crate::relocate::{Reference, RelocationFault, STUB_SIZE};

/// The maximum size of an image: within the branch range of every machine.
pub(crate) const IMAGE_LIMIT: usize = 64 << 20;

/// Bytes of a slot.
const SLOT_SIZE: usize = 8;

/// The offsets of all parts of an image, from its start.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Of each section of the object.
    sections: Vec<usize>,
    /// The host's functions that are reached through a stub, in the order of their stubs.
    stubs: Vec<HostFunction>,
    first_stub: usize,
    /// The targets that have a slot, in the order of the slots.
    slots: Vec<Target>,
    first_slot: usize,
    /// Bytes of code: a multiple of the page.
    pub(crate) code: usize,
    /// The total number of bytes: a multiple of the page.
    pub(crate) total: usize,
}

impl Layout {
    /// Lays an object out for pages of `page` bytes, a power of two.
    pub(crate) fn of(object: &Object<'_>, page: usize) -> Result<Self, NativeError> {
        if object.size() > IMAGE_LIMIT {
            return Err(too_large(object.size()));
        }
        let mut layout = Self {
            sections: vec![0; object.sections.len()],
            stubs: Vec::new(),
            first_stub: 0,
            slots: Vec::new(),
            first_slot: 0,
            code: 0,
            total: 0,
        };
        for relocation in &object.relocations {
            match (object.machine.reference(relocation.kind), relocation.target) {
                (Some(Reference::Slot), target) => add_once(&mut layout.slots, target),
                (Some(Reference::Near), Target::Host(function)) => {
                    add_once(&mut layout.stubs, function);
                }
                _ => {}
            }
        }
        // Each section takes at most its limit, an alignment and a stub or slot for each relocation: far from overflowing.
        let mut end = layout.place(object, true, 0);
        layout.first_stub = end.next_multiple_of(STUB_SIZE);
        end = layout.first_stub + layout.stubs.len() * STUB_SIZE;
        layout.code = end.next_multiple_of(page);
        end = layout.place(object, false, layout.code);
        layout.first_slot = end.next_multiple_of(SLOT_SIZE);
        end = layout.first_slot + layout.slots.len() * SLOT_SIZE;
        layout.total = end.next_multiple_of(page);
        if layout.total > IMAGE_LIMIT {
            return Err(too_large(layout.total));
        }
        Ok(layout)
    }

    /// The offset of a place in a section of the object.
    pub(crate) fn offset_of(&self, section: usize, offset: u64) -> u64 {
        self.sections[section] as u64 + offset
    }

    /// Places the sections that are code, or those that are not, starting at `end`; returns the new end.
    fn place(&mut self, object: &Object<'_>, executable: bool, mut end: usize) -> usize {
        for (section, place) in object.sections.iter().zip(&mut self.sections) {
            if section.executable == executable {
                *place = end.next_multiple_of(section.alignment);
                end = *place + section.bytes.len();
            }
        }
        end
    }

    /// The offset of a function's stub.
    fn stub(&self, function: HostFunction) -> u64 {
        (self.first_stub + index_of(&self.stubs, function) * STUB_SIZE) as u64
    }

    /// The offset of a target's slot.
    fn slot(&self, target: Target) -> u64 {
        (self.first_slot + index_of(&self.slots, target) * SLOT_SIZE) as u64
    }

    /// The address of a target in an image at `base`.
    fn address(&self, target: Target, base: u64) -> u64 {
        match target {
            Target::Place { section, offset } => base.wrapping_add(self.offset_of(section, offset)),
            Target::Host(function) => function.address(),
        }
    }
}

/// Writes the image for the address `base` into `image`, which is zeroed and has the layout's length.
pub(crate) fn link(
    object: &Object<'_>,
    layout: &Layout,
    base: u64,
    image: &mut [u8],
) -> Result<(), NativeError> {
    debug_assert_eq!(image.len(), layout.total);
    for (section, &at) in object.sections.iter().zip(&layout.sections) {
        image[at..at + section.bytes.len()].copy_from_slice(section.bytes);
    }
    for &function in &layout.stubs {
        let at = layout.stub(function) as usize;
        image[at..at + STUB_SIZE].copy_from_slice(&object.machine.stub(function.address()));
    }
    for &target in &layout.slots {
        let at = layout.slot(target) as usize;
        image[at..at + SLOT_SIZE].copy_from_slice(&layout.address(target, base).to_le_bytes());
    }
    for relocation in &object.relocations {
        apply(object, layout, base, image, relocation)?;
    }
    Ok(())
}

fn apply(
    object: &Object<'_>,
    layout: &Layout,
    base: u64,
    image: &mut [u8],
    relocation: &Relocation,
) -> Result<(), NativeError> {
    let Relocation { kind, target, .. } = *relocation;
    let address = match (object.machine.reference(kind), target) {
        (Some(Reference::Slot), _) => base.wrapping_add(layout.slot(target)),
        (Some(Reference::Near), Target::Host(function)) => base.wrapping_add(layout.stub(function)),
        _ => layout.address(target, base),
    };
    let section = &object.sections[relocation.section];
    let at = layout.offset_of(relocation.section, relocation.offset) as usize;
    let end = layout.sections[relocation.section] + section.bytes.len();
    object
        .machine
        .apply(
            kind,
            &mut image[at..end],
            base.wrapping_add(at as u64),
            address.wrapping_add_signed(relocation.addend),
        )
        .map_err(|fault| NativeError::Relocation {
            kind,
            offset: relocation.offset,
            section: section.name.to_string(),
            why: match fault {
                RelocationFault::Place => "expected the whole place inside the section".to_owned(),
                RelocationFault::Range(value) => {
                    format!("expected a value that fits the place, found {value:#x}")
                }
            },
        })
}

fn add_once<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn index_of<T: PartialEq>(list: &[T], item: T) -> usize {
    list.iter()
        .position(|other| *other == item)
        .unwrap_or_else(|| unreachable!("the layout of an object holds all that it refers to"))
}

fn too_large(given: usize) -> NativeError {
    NativeError::Limit {
        what: "bytes",
        given: given as u64,
        limit: IMAGE_LIMIT as u64,
    }
}
