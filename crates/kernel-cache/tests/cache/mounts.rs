//! Real file systems that are full or read-only: a child process mounts its own, which disappears with the child.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kiln_kernel_cache::{Source, Tier};

use crate::support::children::fork;
use crate::support::{LONG, cache_at, content, disk_at, files, key};

/// The exit code of a child that may not mount.
const NOT_ALLOWED: i32 = 77;

/// Enters a private mount namespace; returns whether that is possible.
fn enter_own_namespace() -> bool {
    // SAFETY: the functions have no preconditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let flags = match user {
        0 => libc::CLONE_NEWNS,
        _ => libc::CLONE_NEWNS | libc::CLONE_NEWUSER,
    };
    // SAFETY: it changes the mounts that this process sees, and no memory.
    if unsafe { libc::unshare(flags) } != 0 {
        return false;
    }
    let is_mapped = user == 0
        || (fs::write("/proc/self/setgroups", "deny").is_ok()
            && fs::write("/proc/self/uid_map", format!("{user} {user} 1")).is_ok()
            && fs::write("/proc/self/gid_map", format!("{group} {group} 1")).is_ok());
    is_mapped
        && mount(
            c"none",
            Path::new("/"),
            libc::MS_REC | libc::MS_PRIVATE,
            c"",
        )
}

fn mount(kind: &CStr, at: &Path, flags: libc::c_ulong, data: &CStr) -> bool {
    let at = CString::new(at.as_os_str().as_bytes()).expect("it has no zero");
    // SAFETY: all of them are nul-terminated strings.
    let mounted = unsafe {
        let data = data.as_ptr().cast();
        libc::mount(c"none".as_ptr(), at.as_ptr(), kind.as_ptr(), flags, data)
    };
    mounted == 0
}

/// Runs this in a child with its own file system of 128 KiB.
fn on_a_small_disk(test: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("there is room");
    let child = fork(|| {
        let data = c"size=128k,mode=700";
        if !enter_own_namespace() || !mount(c"tmpfs", folder.path(), 0, data) {
            return NOT_ALLOWED;
        }
        test(folder.path());
        0
    });
    match child.wait() {
        Some(NOT_ALLOWED) => println!("skipped: this user may not mount"),
        result => assert_eq!(result, Some(0)),
    }
}

#[test]
fn on_a_full_disk_everything_compiles_and_existing_entries_are_read() {
    on_a_small_disk(|disk| {
        let folder = disk.join("cache");
        let stored = cache_at(&folder);
        stored.set(&key("a"), content("a"), LONG);
        assert_eq!(stored.stats().stored, 1);
        let filler = disk.join("filler");
        assert!(fs::write(&filler, vec![1; 1 << 20]).is_err(), "it is small");

        let cache = cache_at(&folder);
        let large = content("b").repeat(100);
        let found = cache.get_or_compile(&key("b"), LONG, || Ok(large.clone()));
        let found = found.expect("it compiles");
        assert!(*found.value == large && matches!(found.source, Source::Compiled { .. }));
        let hit = cache.lookup(&key("a")).expect("it is there");
        assert_eq!(*hit.value, content("a"));
        let stats = cache.stats();
        assert_eq!((stats.not_stored, stats.stored, stats.corrupt), (1, 0, 0));
        assert_eq!(files(&folder, ".draft").len(), 0);
        assert_eq!(disk_at(&folder).verify(false).expect("it is fine").bad, []);

        // Once there is space, it is stored, and found.
        fs::remove_file(filler).expect("it is ours");
        cache.set(&key("b"), large.clone(), LONG);
        let entry = disk_at(&folder).get(&key("b")).expect("it is there");
        assert!(*entry.payload == large);
    });
}

#[test]
fn on_a_read_only_disk_everything_compiles_and_existing_entries_are_read() {
    on_a_small_disk(|disk| {
        let folder = disk.join("cache");
        cache_at(&folder).set(&key("a"), content("a"), LONG);
        let flags = libc::MS_REMOUNT | libc::MS_RDONLY;
        assert!(mount(c"tmpfs", disk, flags, c""));
        assert!(fs::write(disk.join("file"), "").is_err(), "it is read-only");
        for folder in [folder, disk.join("missing")] {
            let cache = cache_at(&folder);
            let is_there = cache.lookup(&key("a")).is_ok();
            assert_eq!(is_there, folder.ends_with("cache"));
            let found = cache.get_or_compile(&key("b"), LONG, || Ok(content("b")));
            let found = found.expect("it compiles");
            assert!(matches!(found.source, Source::Compiled { .. }));
            assert_eq!(
                *cache.get(&key("b")).expect("it is in memory"),
                content("b")
            );
            let stats = cache.stats();
            assert_eq!((stats.not_stored, stats.stored, stats.corrupt), (1, 0, 0));
            cache.remove(&key("a"));
            let cleared = disk_at(&folder).clear().expect("it lists");
            assert_eq!(cleared.failed, u64::from(is_there));
        }
    });
}
