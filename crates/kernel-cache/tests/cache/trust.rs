//! Untrusted folders and files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use kiln_kernel_cache::{Miss, MissCategory, Rejection, Source, Tier};

use crate::support::{LONG, cache_at, content, disk_at, key, only_entry};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn fill(folder: &Path) {
    let found = cache_at(folder).get_or_compile(&key("a"), LONG, || Ok(content("a")));
    found.expect("it compiles");
}

/// The cache is unusable, reports that, and is not written to; everything compiles.
fn is_refused(folder: &Path) -> String {
    let cache = cache_at(folder);
    let found = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
    let found = found.expect("it compiles");
    assert!(matches!(found.source, Source::Compiled { .. }));
    let stats = cache.stats();
    assert_eq!((stats.rejected, stats.not_stored, stats.stored), (1, 1, 0));
    let problem = disk_at(folder).problem().expect("it is refused");
    assert_eq!(problem.code(), "E0705");
    assert_eq!(
        disk_at(folder).clear().expect_err("it is refused").code(),
        "E0705"
    );
    let text = problem.to_string();
    text.split_once(": ")
        .expect("it names the folder")
        .1
        .to_owned()
}

#[test]
fn a_folder_is_created_private_to_its_owner() {
    let parent = tempfile::tempdir().expect("there is room");
    let folder = parent.path().join("above/cache");
    fill(&folder);
    for made in [&folder, &parent.path().join("above")] {
        assert_eq!(
            fs::metadata(made).expect("it is there").mode() & 0o777,
            0o700
        );
    }
    let entry = fs::metadata(only_entry(&folder)).expect("it is there");
    assert_eq!(entry.mode() & 0o777, 0o600);
}

#[test]
fn folders_are_private_under_an_empty_umask() {
    let parent = tempfile::tempdir().expect("there is room");
    let folder = parent.path().join("above/cache");
    // The umask is per process, so a child sets it.
    let child = crate::support::children::fork(|| {
        // SAFETY: the function has no preconditions.
        unsafe { libc::umask(0) };
        fill(&folder);
        0
    });
    assert_eq!(child.wait(), Some(0));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&parent.path().join("above")), 0o700);
    assert_eq!(mode(&only_entry(&folder)), 0o600);
    assert!(disk_at(&folder).get(&key("a")).is_ok());
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    fill(folder.path());
    for mode in [0o770, 0o707, 0o777, 0o1777] {
        set_mode(folder.path(), mode);
        let text = is_refused(folder.path());
        assert_eq!(
            text,
            format!("other users may write to it (mode {mode:03o}); `chmod 700` it")
        );
    }
    for mode in [0o700, 0o755] {
        set_mode(folder.path(), mode);
        assert!(disk_at(folder.path()).get(&key("a")).is_ok());
    }
}

#[test]
fn a_folder_that_is_a_link_or_a_file_is_refused() {
    let parent = tempfile::tempdir().expect("there is room");
    let real = parent.path().join("real");
    fill(&real);
    let link = parent.path().join("link");
    symlink(&real, &link).expect("there is room");
    insta::assert_snapshot!(is_refused(&link), @"it is a symbolic link; name the folder it points to");
    let file = parent.path().join("file");
    fs::write(&file, "").expect("there is room");
    insta::assert_snapshot!(is_refused(&file), @"expected a folder, found a regular file");
    let dangling = parent.path().join("dangling");
    symlink(parent.path().join("nowhere"), &dangling).expect("there is room");
    is_refused(&dangling);
    assert!(!parent.path().join("nowhere").exists());
}

#[test]
fn folders_and_entries_of_another_user_are_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    fill(folder.path());
    let entry = only_entry(folder.path());
    let other_user = Some(12_345);
    if std::os::unix::fs::chown(&entry, other_user, None).is_err() {
        println!("skipped: only root gives files away");
        return;
    }
    let miss = disk_at(folder.path())
        .get(&key("a"))
        .expect_err("it is another's");
    let Miss::Rejected(Rejection::ForeignOwner { found, .. }) = miss else {
        panic!("another user's: {miss}");
    };
    assert_eq!(found, 12_345);
    assert!(!entry.exists());
    std::os::unix::fs::chown(folder.path(), other_user, None).expect("we are root");
    let text = is_refused(folder.path());
    assert!(
        text.ends_with("found one of user 12345; use another folder"),
        "{text}"
    );
}

#[test]
fn entries_that_are_links_shared_writable_or_not_files_are_refused_and_removed() {
    let folder = tempfile::tempdir().expect("there is room");
    let elsewhere = tempfile::tempdir().expect("there is room");
    fill(folder.path());
    let entry = only_entry(folder.path());
    let planted = elsewhere.path().join("planted");
    fs::copy(&entry, &planted).expect("there is room");
    let plants: [&dyn Fn(); 4] = [
        &|| symlink(&planted, &entry).expect("there is room"),
        &|| fs::hard_link(&planted, &entry).expect("there is room"),
        &|| {
            fs::copy(&planted, &entry).expect("there is room");
            set_mode(&entry, 0o620);
        },
        &|| {
            let path = std::ffi::CString::new(entry.to_str().expect("it is text"));
            let path = path.expect("it has no zero");
            // SAFETY: the path is a nul-terminated string.
            let made = unsafe { libc::mkfifo(path.as_ptr(), 0o600) };
            assert_eq!(made, 0);
        },
    ];
    let mut reasons = Vec::new();
    for plant in plants {
        fs::remove_file(&entry).expect("it is ours");
        plant();
        let miss = disk_at(folder.path())
            .get(&key("a"))
            .expect_err("it is planted");
        assert_eq!(miss.category(), MissCategory::Rejected, "{miss}");
        reasons.push(miss.to_string());
        assert!(fs::symlink_metadata(&entry).is_err(), "it is removed");
        fill(folder.path());
        assert!(disk_at(folder.path()).get(&key("a")).is_ok());
    }
    insta::assert_snapshot!(reasons.join("\n"), @"
    refused: expected a regular file, found a symbolic link
    refused: it has 2 names, expected one
    refused: other users may write to it (mode 620)
    refused: expected a regular file, found a pipe, socket or device
    ");
    assert!(planted.exists());
    // A folder in its place cannot be removed in that way; it is still a miss.
    fs::remove_file(&entry).expect("it is ours");
    fs::create_dir(&entry).expect("there is room");
    let cache = cache_at(folder.path());
    let found = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
    assert!(matches!(
        found.expect("it compiles").source,
        Source::Compiled { .. }
    ));
    assert_eq!((cache.stats().rejected, cache.stats().not_stored), (1, 1));
    assert_eq!(disk_at(folder.path()).clear().expect("it lists").failed, 1);
}

#[test]
fn a_foreign_claim_file_claims_nothing() {
    use kiln_kernel_cache::Claim;
    let folder = tempfile::tempdir().expect("there is room");
    let claim = folder.path().join(format!("{}.claim", key("a").digest()));
    symlink("elsewhere", &claim).expect("there is room");
    let claimed = disk_at(folder.path()).try_claim(&key("a"));
    assert!(matches!(claimed, Claim::Unavailable), "{claimed:?}");
    fill(folder.path());
    assert!(!folder.path().join("elsewhere").exists());
}
