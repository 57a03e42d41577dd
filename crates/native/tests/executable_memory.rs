//! Memory that holds code: never writable and executable at once, freed when nothing runs in it.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot read its own memory map has failed"
)]

use kiln_native::{LaunchArguments, LoadedCode};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("fixtures/kernels.x86_64.o");
#[cfg(target_arch = "aarch64")]
const OBJECT: &[u8] = include_bytes!("fixtures/kernels.aarch64.o");

fn load() -> Arc<LoadedCode> {
    Arc::new(LoadedCode::load(OBJECT, &["scale"]).unwrap())
}

/// Scales `x` and checks the result.
fn call(code: &LoadedCode) {
    let mut x = [1.0f32, 2.0, 3.0, 4.0];
    let mut y = [0.0f32; 4];
    let buffers = [x.as_mut_ptr().cast::<u8>(), y.as_mut_ptr().cast()];
    let mut fault = 0;
    let args = LaunchArguments {
        buffers: buffers.as_ptr(),
        sizes: std::ptr::null(),
        shared: std::ptr::null_mut(),
        fault: &mut fault,
        stop: &0,
    };
    // SAFETY: the entry reads and writes the first four elements of two float buffers, and nothing else.
    unsafe { code.call(0, &args, std::ptr::null_mut(), 0, 4) };
    assert_eq!((y, fault), ([1.4, 20.4, 300.4, 4000.4], 0));
}

#[cfg(target_os = "linux")]
fn protections() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let protection = |line: &str| line.split_whitespace().nth(1).unwrap_or("").to_owned();
    maps.lines().map(protection).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn no_memory_is_writable_and_executable() {
    let before = protections();
    let codes: Vec<_> = (0..64).map(|_| load()).collect();
    codes.iter().for_each(|code| call(code));
    let after = protections();
    assert!(after.len() > before.len());
    for protection in before.iter().chain(&after) {
        assert!(
            !(protection.contains('w') && protection.contains('x')),
            "{protection}"
        );
    }
}

/// Callers use the loaded code while it is dropped and loaded again elsewhere.
#[test]
fn code_dropped_during_a_call_stays_until_the_call_ends() {
    let loaded = Mutex::new(load());
    let current = || Arc::clone(&loaded.lock().unwrap_or_else(PoisonError::into_inner));
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..2000 {
                    call(&current());
                }
            });
        }
        start.wait();
        for _ in 0..500 {
            let evicted = std::mem::replace(&mut *loaded.lock().unwrap(), load());
            drop(evicted);
        }
    });
    let last = current();
    drop(loaded);
    assert_eq!(Arc::strong_count(&last), 1);
    call(&last);
}

/// Loading and dropping repeatedly leaks no memory.
#[test]
#[cfg(target_os = "linux")]
fn dropped_code_frees_its_memory() {
    let executable = || protections().iter().filter(|p| p.contains('x')).count();
    let before = executable();
    let many: Vec<_> = (0..200).map(|_| load()).collect();
    drop(many);
    // Other tests in this process keep at most what they load themselves.
    assert!(
        executable() < before + 150,
        "{} against {before}",
        executable()
    );
}
