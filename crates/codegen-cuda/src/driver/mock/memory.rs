//! The mock's address space: device allocations and page-locked host memory.

use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Allocations begin at multiples of this.
const ALIGNMENT: u64 = 512;

/// The first device address of page-locked memory.
const PINNED_FROM: u64 = 1 << 60;

/// All memory that a mock device can access.
pub(super) struct AddressSpace {
    limit: usize,
    allocations: BTreeMap<u64, Vec<u8>>,
    /// Page-locked memory by its host address.
    pinned: BTreeMap<usize, Vec<u64>>,
    pinned_bytes: usize,
    next: u64,
}

impl AddressSpace {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            allocations: BTreeMap::new(),
            pinned: BTreeMap::new(),
            pinned_bytes: 0,
            next: ALIGNMENT,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn used_bytes(&self) -> (usize, usize) {
        let bytes = self.allocations.values().map(Vec::len);
        (bytes.sum(), self.pinned_bytes)
    }

    /// Allocates memory filled with bytes that do not resemble results.
    pub(super) fn alloc(&mut self, bytes: usize) -> Option<u64> {
        if self.used_bytes().0.checked_add(bytes)? > self.limit {
            return None;
        }
        let address = self.next;
        // Allocations are never adjacent, so that an access beyond one is detected.
        self.next += (bytes as u64 + 1).next_multiple_of(ALIGNMENT);
        self.allocations.insert(address, vec![0xa5; bytes]);
        Some(address)
    }

    pub(super) fn free(&mut self, address: u64) -> Option<()> {
        self.allocations.remove(&address).map(drop)
    }

    pub(super) fn alloc_pinned(&mut self, bytes: usize) -> (NonNull<u8>, u64) {
        let mut words = vec![0u64; bytes.div_ceil(8).max(1)];
        let start = NonNull::new(words.as_mut_ptr()).unwrap().cast::<u8>();
        let host = start.as_ptr() as usize;
        self.pinned.insert(host, words);
        self.pinned_bytes += bytes.div_ceil(8).max(1) * 8;
        (start, PINNED_FROM + host as u64)
    }

    pub(super) fn free_pinned(&mut self, start: NonNull<u8>) -> Option<()> {
        let words = self.pinned.remove(&(start.as_ptr() as usize))?;
        self.pinned_bytes -= words.len() * 8;
        Some(())
    }

    /// Bytes of one allocation.
    pub(super) fn read(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let (begin, allocation) = self.allocations.range(..=address).next_back()?;
        let offset = usize::try_from(address - begin).ok()?;
        allocation
            .get(offset..offset.checked_add(bytes)?)
            .map(<[u8]>::to_vec)
    }

    /// Overwrites bytes of one allocation.
    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let (begin, allocation) = self.allocations.range_mut(..=address).next_back()?;
        let offset = usize::try_from(address - begin).ok()?;
        allocation
            .get_mut(offset..offset.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        Some(())
    }

    /// Whether a range is inside page-locked memory.
    fn is_pinned(&self, host: usize, bytes: usize) -> bool {
        let found = self.pinned.range(..=host).next_back();
        found.is_some_and(|(begin, words)| host + bytes <= begin + words.len() * 8)
    }

    pub(super) fn copy_in(&mut self, to: u64, from: usize, bytes: usize) -> Option<()> {
        if !self.is_pinned(from, bytes) {
            return None;
        }
        #[allow(unsafe_code, reason = "as a device reads the host's memory")]
        // SAFETY: the range is inside page-locked memory, which lives; the caller of the copy promised that nothing writes it.
        let source = unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }.to_vec();
        self.write(to, &source)
    }

    pub(super) fn copy_out(&mut self, to: usize, from: u64, bytes: usize) -> Option<()> {
        let source = self.read(from, bytes)?;
        if !self.is_pinned(to, bytes) {
            return None;
        }
        #[allow(unsafe_code, reason = "as a device writes the host's memory")]
        // SAFETY: as above, for writing.
        unsafe {
            std::ptr::copy_nonoverlapping(source.as_ptr(), to as *mut u8, bytes);
        }
        Some(())
    }
}
