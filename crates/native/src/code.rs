//! The code of an object, loaded in memory and ready to be called.
//!
//! An entry is called through the [`LoadedCode`] that owns its memory, so the caller keeps that memory alive: it is
//! freed with its last owner, which outlives every call.
#![allow(
    unsafe_code,
    reason = "a call into compiled code can only be vouched for"
)]

use crate::error::NativeError;
use crate::launch_arguments::{LaunchArguments, Phase};
use crate::link::{Layout, link};
use crate::memory::{ExecutableMemory, WritableMemory, page_size};
use crate::object::Object;
use crate::relocate::Machine;

/// Code that can be called, and the memory it is in.
#[derive(Debug)]
pub struct LoadedCode {
    entries: Vec<Phase>,
    memory: ExecutableMemory,
}

impl LoadedCode {
    /// Loads a relocatable ELF object and finds its `entries`.
    ///
    /// Damaged bytes are an error. A valid object is trusted: its behaviour is the compiler's responsibility, so an object
    /// from a file comes with a digest that was checked.
    pub fn load(object: &[u8], entries: &[&str]) -> Result<Self, NativeError> {
        let machine = machine_of(object)?;
        let object = Object::read(object)?;
        debug_assert_eq!(object.machine, machine);
        let layout = Layout::of(&object, page_size())?;
        let places = entries.iter().map(|&entry| {
            let place = object.functions.get(entry);
            let &(section, offset) = place.ok_or_else(|| NativeError::Entry {
                entry: entry.to_owned(),
            })?;
            Ok(layout.offset_of(section, offset))
        });
        let places: Vec<u64> = places.collect::<Result<_, NativeError>>()?;
        // An object without code exports no entry; one page keeps the mapping from being empty.
        let mut memory = WritableMemory::map(layout.total.max(page_size()))?;
        let base = memory.address();
        link(
            &object,
            &layout,
            base,
            &mut memory.bytes_mut()[..layout.total],
        )?;
        let memory = memory.seal(layout.code)?;
        let entry_at = |&offset: &u64| {
            let pointer = memory.pointer(offset).ok_or_else(|| {
                NativeError::damaged("a function that starts where its section ends")
            })?;
            // SAFETY: the pointer is not null and points into memory that stays mapped and executable as long as `self`.
            // Only a call depends on its signature.
            Ok(unsafe { std::mem::transmute::<*mut std::ffi::c_void, Phase>(pointer.as_ptr()) })
        };
        let entries = places.iter().map(entry_at);
        Ok(Self {
            entries: entries.collect::<Result<_, NativeError>>()?,
            memory,
        })
    }

    /// The number of requested entries.
    pub fn n_entries(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of memory it takes, including constants and padding to pages.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Runs the tasks `first..last` of an entry, given by its position among the requested entries.
    ///
    /// # Panics
    /// When there is no such entry.
    ///
    /// # Safety
    /// The object came from Kiln's compiler, and the call satisfies its contract: every buffer of `args` is as large as the
    /// kernel's declaration requires for these sizes and is aligned for its elements; no other code accesses the kernel's
    /// outputs meanwhile, except other tasks of the same launch; `shared` and `scratch` have the artifact's sizes and are
    /// 64-byte aligned; `scratch` belongs to this call; `fault` is a valid `u32` that is accessed atomically; `first..last`
    /// are tasks of the phase, and every task of earlier phases is done.
    pub unsafe fn call(
        &self,
        entry: usize,
        args: &LaunchArguments,
        scratch: *mut u8,
        first: u64,
        last: u64,
    ) {
        let phase = self.entries[entry];
        // SAFETY: `&self` keeps the code mapped during the call; the rest is the caller's promise.
        unsafe { phase(args, scratch, first, last) }
    }
}

/// Checks an object for any supported machine as loading does, without executable memory: it is read, laid out and linked
/// at `base`, which need not be a valid address. Returns the number of bytes that it would take.
///
/// # Errors
/// As [`LoadedCode::load`], except for the machine and the entries.
pub fn check_object(object: &[u8], base: u64) -> Result<usize, NativeError> {
    let object = Object::read(object)?;
    let layout = Layout::of(&object, page_size())?;
    let mut image = Vec::new();
    let short = |_| NativeError::CodeMemory {
        bytes: layout.total,
        cause: std::io::ErrorKind::OutOfMemory.into(),
    };
    image.try_reserve_exact(layout.total).map_err(short)?;
    image.resize(layout.total, 0);
    link(&object, &layout, base, &mut image)?;
    Ok(layout.total)
}

/// The machine of an object, which must be this one.
fn machine_of(object: &[u8]) -> Result<Machine, NativeError> {
    let number = object.get(18..20).and_then(|bytes| bytes.try_into().ok());
    let found = number
        .map(u16::from_le_bytes)
        .ok_or_else(|| NativeError::damaged("fewer bytes than a header"))?;
    match (Machine::from_elf(found), Machine::host()) {
        (Some(machine), Some(host)) if machine == host => Ok(machine),
        _ => Err(NativeError::Machine {
            expected: Machine::host_name(),
            found,
        }),
    }
}
