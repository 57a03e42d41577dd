//! The arguments of every phase of a launch: the layout that compiled code reads.

/// The arguments of a launch. The order and size of the fields are the contract with compiled code;
/// the numbers are little-endian and the pointers 64 bits wide.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchArguments {
    /// The base address of each buffer of the kernel, in the kernel's order.
    pub buffers: *const *mut u8,
    /// The artifact's arguments, evaluated: sizes, strides, launch parameters.
    pub sizes: *const i64,
    /// Scratch that all tasks of all phases of this launch share; 64-byte aligned.
    pub shared: *mut u8,
    /// The fault word: 0, or `site << 8 | cause` of the first fault.
    pub fault: *mut u32,
    /// The stop word: 0 while the launch runs. Code that reads another value returns, and its output is undefined.
    pub stop: *const u32,
}

/// A phase of a kernel: performs the tasks `first..last` with this worker's scratch.
pub(crate) type Phase =
    unsafe extern "C" fn(args: *const LaunchArguments, scratch: *mut u8, first: u64, last: u64);

const _: () = assert!(
    size_of::<LaunchArguments>() == 40 && align_of::<LaunchArguments>() == 8,
    "compiled code reads five fields of 8 bytes"
);
