//! Clock jumps, and file timestamps in the future or far in the past.

use std::fs::{File, FileTimes};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kiln_kernel_cache::{
    BytesCodec, CacheOptions, Claim, Content, DiskOptions, DiskTier, Source, Tier,
};

use crate::support::{LONG, ManualClock, TestCache, content, disk_at, files, key};

const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

fn set_time(path: &Path, time: SystemTime) {
    let file = File::options().write(true).open(path).expect("it is ours");
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    file.set_times(times).expect("it is ours");
}

#[test]
fn extreme_file_times_only_affect_eviction_order() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = DiskOptions {
        max_bytes: 10_000,
        ..DiskOptions::default()
    };
    let disk = DiskTier::at(folder.path(), options);
    let put = |name: &str| {
        disk.put(&key(name), Duration::ZERO, Content::data(&[7; 1500]))
            .expect("there is room")
    };
    let path = |name: &str| folder.path().join(format!("{}.kiln2", key(name).digest()));
    for name in ["future", "past", "now"] {
        put(name);
    }
    let now = SystemTime::now();
    set_time(&path("future"), now + YEARS);
    set_time(&path("past"), now - YEARS);
    for name in ["d", "e", "f", "g"] {
        put(name);
    }
    // Future timestamps do not protect an entry: it was evicted first, then the oldest one.
    assert!(!path("future").exists() && !path("past").exists());
    assert!(path("now").exists() && path("g").exists());
    assert_eq!(disk.verify(false).expect("nothing is wrong").bad, []);
    // A hit gives an entry the current time.
    set_time(&path("now"), now - YEARS);
    disk.get(&key("now")).expect("it is there");
    let entries = disk.entries().expect("nothing is wrong");
    assert_eq!(entries[0].digest, key("now").digest());
}

#[test]
fn a_jumping_clock_causes_no_error_and_no_endless_wait() {
    let folder = tempfile::tempdir().expect("there is room");
    let hand = ManualClock::default();
    hand.set(YEARS);
    let options = CacheOptions {
        trusted: Duration::from_millis(30),
        ..CacheOptions::default()
    };
    let disk: Arc<dyn Tier> = Arc::new(disk_at(folder.path()));
    let cache = TestCache::with_tiers(BytesCodec, Arc::new(hand.clone()), options, vec![disk]);
    let compile = |name: &str| {
        let compile = || {
            // The clock jumps back to the start in the middle of a compile.
            hand.set(Duration::ZERO);
            Ok(content(name))
        };
        cache
            .get_or_compile(&key(name), LONG, compile)
            .expect("it compiles")
    };
    let found = compile("a");
    assert!(matches!(
        found.source,
        Source::Compiled {
            time: Duration::ZERO,
            ..
        }
    ));
    // The clock stands still and another process does not finish, so the time spent sleeping counts.
    let Claim::Held(_claim) = disk_at(folder.path()).try_claim(&key("b")) else {
        panic!("no store has it");
    };
    let begin = std::time::Instant::now();
    assert!(matches!(compile("b").source, Source::Compiled { .. }));
    assert!(begin.elapsed() < LONG);
    assert_eq!(cache.stats().takeovers, 1);
    assert_eq!(files(folder.path(), ".kiln2").len(), 2);
}
