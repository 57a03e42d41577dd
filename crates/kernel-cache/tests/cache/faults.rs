//! Failing system calls, with any error: the compile succeeds, its value is correct, and the failure is counted.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{Content, DiskOptions, DiskTier, Source, Tier};

use crate::support::faulty::{FaultyFs, Plan};
use crate::support::{LONG, TestCache, cache_of, content, disk_at, disk_with, files, key};

const FAULTS: [i32; 7] = [
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EIO,
    libc::EMFILE,
    libc::EROFS,
    libc::EACCES,
    libc::ENOENT,
];

fn faulty(folder: &Path, plan: &Arc<Plan>, sync: bool) -> DiskTier {
    let options = DiskOptions {
        sync,
        ..DiskOptions::default()
    };
    disk_with(FaultyFs::new(folder, plan), options)
}

/// One cold compile and one warm lookup by another cache on the same folder, none of which may fail.
fn use_it(folder: &Path, plan: &Arc<Plan>) -> (TestCache, TestCache) {
    let cold = cache_of(vec![Arc::new(faulty(folder, plan, true))]);
    let warm = cache_of(vec![Arc::new(faulty(folder, plan, true))]);
    for cache in [&cold, &warm] {
        let found = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
        assert_eq!(*found.expect("it compiles").value, content("a"));
    }
    (cold, warm)
}

#[test]
fn every_system_call_may_fail_in_every_way() {
    let calm = tempfile::tempdir().expect("there is room");
    let plan = Plan::new(usize::MAX, 0, 0);
    use_it(&calm.path().join("cache"), &plan);
    let n_calls = plan.n_calls();
    assert!(n_calls > 20, "{n_calls}");
    for errno in FAULTS {
        // Each call fails alone; then all calls fail from every third one on.
        let alone = (0..n_calls).map(|first| (first, 1));
        let onwards = (0..n_calls).step_by(3).map(|first| (first, usize::MAX));
        for (first, count) in alone.chain(onwards) {
            let folder = tempfile::tempdir().expect("there is room");
            let path = folder.path().join("cache");
            let (cold, warm) = use_it(&path, &Plan::new(first, count, errno));
            let (cold, warm) = (cold.stats(), warm.stats());
            assert_eq!((cold.compile_ok, cold.compile_err), (1, 0));
            assert_eq!(cold.corrupt + warm.corrupt, 0);
            // Every loss is counted.
            if warm.tier_hits == 0 {
                let counted = [cold, warm].map(|stats| stats.io_error + stats.not_stored);
                assert!(counted.iter().sum::<u64>() > 0 || errno == libc::ENOENT);
            }
            // And nothing broken is left behind.
            let disk = disk_at(&path);
            if disk.problem().is_none() {
                assert_eq!(disk.verify(false).expect("it is fine").bad, []);
            }
        }
    }
}

#[test]
fn a_full_disk_means_no_entries_and_no_errors() {
    let folder = tempfile::tempdir().expect("there is room");
    // There is space for the folder, but not for anything in it.
    let plan = Plan::new(usize::MAX, 0, 0);
    disk_at(folder.path())
        .put(&key("b"), Duration::ZERO, Content::data(&[1]))
        .expect("there is room");
    use_it(folder.path(), &plan);
    let full = Plan::new(3, usize::MAX, libc::ENOSPC);
    let disk = faulty(folder.path(), &full, false);
    let problem = disk
        .put(&key("c"), Duration::ZERO, Content::data(&[1]))
        .expect_err("it is full");
    assert!(problem.to_string().contains("No space left"), "{problem}");
    assert!(disk_at(folder.path()).get(&key("b")).is_ok());
}

#[test]
fn a_failed_write_leaves_no_file() {
    let mut n_failed = 0;
    for first in 0..40 {
        let folder = tempfile::tempdir().expect("there is room");
        let once = Plan::new(first, 1, libc::ENOSPC);
        let disk = faulty(folder.path(), &once, true);
        if disk
            .put(&key("a"), Duration::ZERO, Content::data(&content("a")))
            .is_err()
        {
            n_failed += 1;
            assert_eq!(
                files(folder.path(), ""),
                [] as [std::path::PathBuf; 0],
                "{first}"
            );
        }
    }
    // Opening the folder, inspecting it, the draft, three writes, the sync, the rename.
    assert_eq!(n_failed, 8);
}

#[test]
fn a_read_only_folder_is_read() {
    let folder = tempfile::tempdir().expect("there is room");
    let writable = disk_at(folder.path());
    writable
        .put(&key("a"), Duration::ZERO, Content::data(&content("a")))
        .expect("there is room");
    // Opening the folder, inspecting it, and opening, inspecting and reading the entry work; marking it does not.
    let calls = Plan::new(usize::MAX, 0, 0);
    faulty(folder.path(), &calls, false)
        .get(&key("a"))
        .expect("it is there");
    let read_only = Plan::new(calls.n_calls() - 1, usize::MAX, libc::EROFS);
    let cache = cache_of(vec![Arc::new(faulty(folder.path(), &read_only, false))]);
    let found = cache.lookup(&key("a")).expect("it is there");
    assert!(matches!(found.source, Source::Tier { .. }));
    let failed = cache.get_or_compile(&key("b"), LONG, || Ok(content("b")));
    assert!(matches!(
        failed.expect("it compiles").source,
        Source::Compiled { .. }
    ));
    assert_eq!(cache.stats().not_stored, 1);
}

#[test]
fn listing_a_folder_that_fails_is_a_typed_error() {
    let folder = tempfile::tempdir().expect("there is room");
    disk_at(folder.path())
        .put(&key("a"), Duration::ZERO, Content::data(&[1]))
        .expect("there is room");
    let listing = Plan::new(2, 1, libc::EIO);
    let error = faulty(folder.path(), &listing, false)
        .usage()
        .expect_err("it fails");
    assert_eq!(error.code(), "E0706");
    assert!(
        error
            .to_string()
            .starts_with("listing failed in the cache folder")
    );
    let opening = Plan::new(0, usize::MAX, libc::EACCES);
    let disk = faulty(folder.path(), &opening, false);
    for error in [
        disk.entries().map(drop),
        disk.usage().map(drop),
        disk.verify(true).map(drop),
        disk.clear().map(drop),
    ] {
        assert_eq!(error.expect_err("it fails").code(), "E0705");
    }
    assert!(!disk.problem().expect("there is one").to_string().is_empty());
    // Entries that cannot be removed are counted.
    let removing = Plan::new(4, usize::MAX, libc::EIO);
    let cleared = faulty(folder.path(), &removing, false)
        .clear()
        .expect("it lists");
    assert_eq!((cleared.entries, cleared.failed), (0, 1));
}

const REFUSED: &str = "KILN_TEST_REFUSED_FOLDER";

#[test]
#[ignore = "the test below runs it in a process of its own, where nothing listens to `tracing`"]
fn child_with_a_refused_folder() {
    let Some(folder) = std::env::var_os(REFUSED) else {
        return;
    };
    let disk = DiskTier::at(folder, DiskOptions::default());
    let cache = cache_of(vec![Arc::new(disk)]);
    for name in ["a", "b", "c"] {
        let found = cache.get_or_compile(&key(name), LONG, || Ok(content(name)));
        assert_eq!(*found.expect("it compiles").value, content(name));
    }
}

#[test]
fn a_refused_folder_is_reported_once_on_standard_error_without_a_subscriber() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("there is room");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("it is ours");
    let output = std::process::Command::new(std::env::current_exe().expect("tests are programs"))
        .args([
            "faults::child_with_a_refused_folder",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(REFUSED, folder.path())
        .output()
        .expect("the test program runs");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("kiln: "))
        .collect();
    let [line] = told.as_slice() else {
        panic!("{said}");
    };
    assert!(
        line.contains("other users may write to it") && line.contains("chmod 700"),
        "{line}"
    );
}

#[test]
fn an_unusable_folder_is_warned_about_once() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts warnings.
    #[derive(Clone, Default)]
    struct Warnings(Arc<AtomicUsize>);
    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }
        fn new_span(&self, _span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _span: &tracing::span::Id, _values: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _span: &tracing::span::Id, _follows: &tracing::span::Id) {}
        fn event(&self, _event: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        fn enter(&self, _span: &tracing::span::Id) {}
        fn exit(&self, _span: &tracing::span::Id) {}
    }

    let folder = tempfile::tempdir().expect("there is room");
    let broken = Plan::new(0, usize::MAX, libc::EIO);
    let cache = cache_of(vec![Arc::new(faulty(folder.path(), &broken, false))]);
    let warnings = Warnings::default();
    tracing::subscriber::with_default(warnings.clone(), || {
        for name in ["a", "b", "c"] {
            let found = cache.get_or_compile(&key(name), LONG, || Ok(content(name)));
            assert_eq!(*found.expect("it compiles").value, content(name));
        }
    });
    assert_eq!(warnings.0.load(Ordering::SeqCst), 1);
    let stats = cache.stats();
    assert_eq!((stats.io_error, stats.not_stored), (3, 3));
}
