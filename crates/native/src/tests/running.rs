//! A compiler's object, loaded and called: constants, calls to the host, faults, several phases.
#![allow(unsafe_code, reason = "the tests call the code they loaded")]

use super::fixtures::host;
use crate::{LaunchArguments, LoadedCode};

/// Runs one entry on buffers that satisfy its contract; returns the fault word.
fn run(entry: &str, buffers: &mut [*mut u8], sizes: &[i64], tasks: u64) -> u32 {
    let code = LoadedCode::load(host(), &[entry]).unwrap();
    let mut scratch = vec![0u128; 64];
    let mut shared = vec![0u128; 64];
    let mut fault = 0u32;
    let args = LaunchArguments {
        buffers: buffers.as_ptr(),
        sizes: sizes.as_ptr(),
        shared: shared.as_mut_ptr().cast(),
        fault: &mut fault,
        stop: &0,
    };
    // SAFETY: the callers pass the buffers that the fixture's source declares, large enough for the sizes and tasks;
    // everything else lives until the call returns.
    unsafe { code.call(0, &args, scratch.as_mut_ptr().cast(), 0, tasks) };
    fault
}

fn pointer<T>(values: &mut [T]) -> *mut u8 {
    values.as_mut_ptr().cast()
}

#[test]
fn constants_are_reached() {
    let mut x = [1.0f32, 2.0, 3.0, 4.0, 5.0];
    let mut y = [0.0f32; 5];
    assert_eq!(
        run("scale", &mut [pointer(&mut x), pointer(&mut y)], &[], 5),
        0
    );
    assert_eq!(y, [1.4, 20.4, 300.4, 4000.4, 5.4]);
}

#[test]
fn functions_of_the_host_are_called() {
    let mut x: [u8; 100] = std::array::from_fn(|i| i as u8);
    let mut y = [0u8; 101];
    let buffers = &mut [pointer(&mut x), pointer(&mut y)];
    assert_eq!(run("copy", buffers, &[100], 1), 0);
    assert_eq!(y[..100], x);
    assert_eq!(y[100], 0);
}

#[test]
fn the_first_fault_is_reported() {
    let mut x = [1.0f32, 2.0, 3.0];
    let mut index = [2i64, 0, 3, -1];
    let mut y = [9.0f32; 4];
    let buffers = &mut [pointer(&mut x), pointer(&mut index), pointer(&mut y)];
    assert_eq!(run("gather", buffers, &[3], 2), 0);
    assert_eq!(run("gather", buffers, &[3], 4), (7 << 8) | 1);
    assert_eq!(y, [3.0, 1.0, 0.0, 0.0]);
}

#[test]
fn entries_are_called_by_position() {
    let code = LoadedCode::load(host(), &["sum_total", "sum_blocks"]).unwrap();
    assert_eq!(code.n_entries(), 2);
    assert!(code.bytes() >= 2 * crate::memory::page_size());
    let mut x = [1.0f32, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
    let mut y = [0.0f32];
    let buffers = [pointer(&mut x), pointer(&mut y)];
    let mut shared = [0u128; 4];
    let (sizes, mut fault) = ([2i64], 0);
    let args = LaunchArguments {
        buffers: buffers.as_ptr(),
        sizes: sizes.as_ptr(),
        shared: shared.as_mut_ptr().cast(),
        fault: &mut fault,
        stop: &0,
    };
    // SAFETY: two blocks of four fit `x`, two sums fit `shared`, and scratch is not used.
    unsafe {
        code.call(1, &args, std::ptr::null_mut(), 1, 2);
        code.call(1, &args, std::ptr::null_mut(), 0, 1);
        code.call(0, &args, std::ptr::null_mut(), 0, 1);
    }
    assert_eq!(y, [110.0]);
}

#[test]
fn missing_entries_are_errors() {
    for (entry, error) in [
        (
            "soft\u{7}max",
            "expected the object to export the function `soft\\u{7}max`, found none",
        ),
        (
            "memcpy",
            "expected the object to export the function `memcpy`, found none",
        ),
    ] {
        let found = LoadedCode::load(host(), &["scale", entry]).unwrap_err();
        assert_eq!((found.code(), found.to_string().as_str()), ("E0857", error));
    }
    assert_eq!(LoadedCode::load(host(), &[]).unwrap().n_entries(), 0);
}

#[test]
fn objects_in_unaligned_bytes_load() {
    let mut bytes = vec![0];
    bytes.extend_from_slice(host());
    assert!(LoadedCode::load(&bytes[1..], &["scale"]).is_ok());
}
