//! A cache on a healthy machine: hits, misses, failures, panics, waits, explanations.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::time::Duration;

use kiln_kernel_cache::{
    Begin, BytesCodec, CacheError, CacheKey, CacheOptions, Codec, Content, EntryKind, Failure,
    LruLimits, Miss, NotStored, Payload, Source, Stored, StoredEntry, Tier, TieredCache,
};

use crate::support::{LONG, TestCache, cache_at, cache_of, content, disk_at, key};

/// A store of bytes elsewhere, like a remote one.
#[derive(Default)]
struct Remote {
    entries: Mutex<BTreeMap<String, (Duration, Vec<u8>)>>,
    is_read_only: bool,
    is_down: bool,
}

impl Tier for Remote {
    fn name(&self) -> &str {
        "remote"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        if self.is_down {
            let message = "no route".to_owned();
            return Err(Miss::Unavailable { message });
        }
        let entries = self.entries.lock().expect("it is whole");
        let (compile_time, bytes) = entries.get(&key.digest().to_string()).ok_or(Miss::Absent)?;
        Ok(StoredEntry {
            compile_time: *compile_time,
            payload: Payload::data(bytes.clone()),
        })
    }

    fn put(
        &self,
        key: &CacheKey,
        time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        if self.is_read_only {
            return Err(NotStored::ReadOnly);
        }
        let mut entries = self.entries.lock().expect("it is whole");
        entries.insert(key.digest().to_string(), (time, content.to_vec()));
        Ok(Stored::default())
    }

    fn remove(&self, key: &CacheKey) {
        let mut entries = self.entries.lock().expect("it is whole");
        entries.remove(&key.digest().to_string());
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.get(key).is_ok()
    }
}

fn compile(cache: &TestCache, name: &str) -> Source {
    let found = cache
        .get_or_compile(&key(name), LONG, || Ok(content(name)))
        .expect("it compiles");
    assert_eq!(*found.value, content(name));
    found.source
}

#[test]
fn the_first_use_compiles_the_next_hits_memory_and_another_process_hits_the_folder() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    assert!(matches!(compile(&cache, "a"), Source::Compiled { misses, .. } if misses.len() == 1));
    assert_eq!(compile(&cache, "a"), Source::Memory);
    let other = cache_at(folder.path());
    assert!(matches!(compile(&other, "a"), Source::Tier { name, .. } if name == "disk"));
    assert_eq!(compile(&other, "a"), Source::Memory);
    let (stats, others) = (cache.stats(), other.stats());
    assert_eq!((stats.compiles, stats.compile_ok, stats.stored), (1, 1, 1));
    assert_eq!((stats.memory_hits, stats.misses, stats.kernels), (1, 1, 1));
    assert_eq!(
        (others.compiles, others.tier_hits, others.memory_hits),
        (0, 1, 1)
    );
    assert_eq!(others.saved_nanoseconds, stats.compile_nanoseconds);
    assert!(stats.bytes >= content("a").len() as u64);
}

#[test]
fn an_entry_can_be_copied_elsewhere_and_used_there() {
    let (from, to) = (tempfile::tempdir(), tempfile::tempdir());
    let (from, to) = (from.expect("there is room"), to.expect("there is room"));
    compile(&cache_at(from.path()), "a");
    let entry = crate::support::only_entry(from.path());
    let name = entry.file_name().expect("it has a name");
    std::fs::copy(&entry, to.path().join(name)).expect("there is room");
    drop(from);
    assert!(matches!(
        compile(&cache_at(to.path()), "a"),
        Source::Tier { .. }
    ));
}

#[test]
fn remote_hits_are_kept_in_nearer_tiers_and_unreachable_tiers_are_misses() {
    let folder = tempfile::tempdir().expect("there is room");
    let remote = Arc::new(Remote::default());
    compile(&cache_of(vec![remote.clone()]), "a");
    let near = || -> Arc<dyn Tier> { Arc::new(disk_at(folder.path())) };
    let cache = cache_of(vec![near(), remote.clone()]);
    let Source::Tier { name, misses } = compile(&cache, "a") else {
        panic!("a tier has it");
    };
    assert_eq!((name.as_str(), misses.len()), ("remote", 1));
    let cache = cache_of(vec![near()]);
    assert!(matches!(compile(&cache, "a"), Source::Tier { .. }));

    let down = Arc::new(Remote {
        is_down: true,
        is_read_only: true,
        ..Remote::default()
    });
    let cache = cache_of(vec![down]);
    assert!(matches!(compile(&cache, "b"), Source::Compiled { .. }));
    let stats = cache.stats();
    assert_eq!((stats.io_error, stats.stored, stats.not_stored), (1, 0, 0));
}

#[test]
fn sources_are_recorded_before_waiters_wake() {
    let folder = tempfile::tempdir().expect("there is room");
    for expected in ["compiled", "tier"] {
        let cache = cache_at(folder.path());
        let Begin::Lead(ticket) = cache.begin(&key("a")) else {
            panic!("it is not being compiled");
        };
        let waiting = Waiting::of(&cache, "a");
        let (told, accounts) = mpsc::channel();
        let ticket = ticket.first_telling(move |source| {
            // The waiter has not been woken yet.
            assert!(!waiting.0.is_over_within(Duration::ZERO));
            told.send(match source {
                Source::Compiled { .. } => "compiled",
                Source::Tier { .. } => "tier",
                _ => "otherwise",
            })
            .expect("the test listens");
        });
        ticket
            .compile(LONG, || Ok(content("a")))
            .expect("it compiles");
        assert_eq!(accounts.try_recv(), Ok(expected));
    }
}

#[test]
fn programs_and_kernels_of_one_folder_are_kept_apart() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    let program = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "a")]);
    cache.set(&program, b"program".to_vec(), Duration::from_millis(3));
    compile(&cache, "a");
    let other = cache_at(folder.path());
    let found = other.lookup(&program).expect("it is stored");
    assert_eq!(*found.value, b"program");
    let same_digest = CacheKey::new(EntryKind::KERNEL, program.digest(), [("model", "a")]);
    let misses = cache_at(folder.path()).lookup(&same_digest);
    let misses = misses.expect_err("it is another kind");
    insta::assert_snapshot!(misses[0], @r#"disk: expected a kernel, found a "program""#);
    assert_eq!(
        disk_at(folder.path()).usage().expect("it is fine").entries,
        2
    );
}

#[test]
fn memory_evicts_least_recently_used_values_that_the_folder_keeps() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    let entries = 2;
    let limits = LruLimits {
        entries,
        bytes: 1 << 20,
    };
    cache.set_memory_limits(limits);
    for name in ["a", "b", "c"] {
        compile(&cache, name);
    }
    assert_eq!((cache.stats().kernels, cache.stats().evicted), (2, 1));
    assert!(cache.get(&key("a")).is_none() && cache.get(&key("c")).is_some());
    assert!(cache.contains(&key("a")) && !cache.contains(&key("d")));
    assert!(matches!(compile(&cache, "a"), Source::Tier { .. }));
    cache.set_memory_limits(LruLimits {
        entries: 0,
        bytes: 0,
    });
    assert_eq!((cache.stats().kernels, cache.stats().evicted), (0, 4));
    assert!(matches!(compile(&cache, "a"), Source::Tier { .. }));
    cache.remove(&key("a"));
    assert!(!cache.contains(&key("a")));
    cache.clear_memory();
    cache.reset_stats();
    assert_eq!(cache.stats().hits(), 0);
}

#[test]
fn a_failed_compile_is_remembered_with_its_message_and_retried_later() {
    let hand = crate::support::ManualClock::default();
    let options = CacheOptions::default();
    let cache = TestCache::new(BytesCodec, Arc::new(hand.clone()), options);
    let fail = || {
        cache
            .get_or_compile(&key("a"), LONG, || Err("no such register".to_owned()))
            .expect_err("it fails")
    };
    let first = fail();
    assert!(matches!(&first, Failure::Compile { retry_in: None, .. }));
    insta::assert_snapshot!(first, @"no such register");
    hand.set(Duration::from_millis(400));
    let never = || -> Result<Vec<u8>, String> { panic!("it is too early") };
    let second = cache.get_or_compile(&key("a"), LONG, never);
    insta::assert_snapshot!(second.as_ref().expect_err("it failed"), @"no such register (as before; next attempt in 600.0ms)");
    insta::assert_snapshot!(cache.explain(&key("a")), @"
    program b8357d64: not in memory
      failed before: no such register (as before; next attempt in 600.0ms)
      nothing is stored for this kernel
    ");
    let stats = cache.stats();
    assert_eq!(
        (stats.compiles, stats.compile_err, stats.remembered_failures),
        (1, 1, 1)
    );
    hand.set(Duration::from_secs(1));
    compile(&cache, "a");
    cache.remove(&key("a"));
    let _ = fail();
    cache.forget_failures();
    compile(&cache, "a");
}

#[test]
fn a_panicking_compile_leaves_waiters_with_a_typed_error_and_the_key_retryable() {
    let cache = cache_of(Vec::new());
    let (begun, has_begun) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let shared = &cache;
        let leader = scope.spawn(move || {
            shared.get_or_compile(&key("a"), LONG, || {
                begun.send(()).expect("the test listens");
                may_go.recv().expect("the test says go");
                panic!("in the {}", "backend")
            })
        });
        has_begun.recv().expect("it begins");
        let waiters: Vec<Waiting> = (0..4).map(|_| Waiting::of(&cache, "a")).collect();
        go.send(()).expect("the compile listens");
        for waiter in waiters {
            let failure = waiter.0.wait(LONG).expect_err("it panicked");
            assert_is_panic(&failure);
        }
        assert_is_panic(
            &leader
                .join()
                .expect("it is caught")
                .expect_err("it panicked"),
        );
    });
    compile(&cache, "a");
    let stats = cache.stats();
    assert_eq!(
        (stats.panics, stats.compile_ok, stats.remembered_failures),
        (1, 1, 0)
    );
    let odd = cache.get_or_compile(&key("b"), LONG, || std::panic::panic_any(3));
    insta::assert_snapshot!(odd.expect_err("it panicked"), @"compiling program a22fd54e panicked: no message");
}

fn assert_is_panic(failure: &Failure<String>) {
    let Failure::Cache(error) = failure else {
        panic!("expected an error of the cache: {failure}");
    };
    assert_eq!(error.code(), "E0701");
    assert_eq!(error.to_string().split(": ").last(), Some("in the backend"));
}

struct Waiting(kiln_kernel_cache::Waiter<Vec<u8>, String>);

impl Waiting {
    fn of(cache: &TestCache, name: &str) -> Self {
        match cache.begin(&key(name)) {
            Begin::Follow(waiter) => Self(waiter),
            other => panic!("another caller compiles it: {other:?}"),
        }
    }
}

#[test]
fn waiters_time_out_on_a_hung_compile_and_continue() {
    let cache = cache_of(Vec::new());
    let Begin::Lead(hung) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    let begin = std::time::Instant::now();
    let limit = Duration::from_millis(20);
    let never = || -> Result<Vec<u8>, String> { panic!("another compiles") };
    let failure = cache.get_or_compile(&key("a"), limit, never);
    let took = begin.elapsed();
    assert!((limit..LONG).contains(&took), "{took:?}");
    let failure = failure.expect_err("it takes too long");
    insta::assert_snapshot!(failure, @"waited 20ms for another compile of program b8357d64; wait longer, or continue without it");
    assert!(matches!(failure, Failure::Cache(error) if error.code() == "E0702"));
    compile(&cache, "b");
    assert_eq!((cache.stats().timeout, cache.n_compiling()), (1, 1));
    let waiting = Waiting::of(&cache, "a");
    let found = hung
        .compile(LONG, || Ok(content("a")))
        .expect("it compiles");
    assert!(matches!(found.source, Source::Compiled { .. }));
    assert_eq!(
        waiting.0.wait(LONG).expect("it is there").source,
        Source::Shared
    );
    assert_eq!((cache.n_compiling(), cache.stats().shared), (0, 1));
}

#[test]
fn a_compile_past_its_trust_period_is_repeated_in_parallel() {
    let hand = crate::support::ManualClock::default();
    let options = CacheOptions::default();
    let cache = TestCache::new(BytesCodec, Arc::new(hand.clone()), options);
    let Begin::Lead(hung) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    hand.set(options.trusted);
    assert!(matches!(compile(&cache, "a"), Source::Compiled { .. }));
    assert_eq!(cache.stats().takeovers, 1);
    // The first one finishes after all, and finds the value.
    let found = hung
        .compile(LONG, || panic!("it is there"))
        .expect("it is there");
    assert_eq!(found.source, Source::Memory);
}

#[test]
fn the_trust_period_of_a_queued_compile_starts_when_it_runs() {
    let hand = crate::support::ManualClock::default();
    let options = CacheOptions::default();
    let cache = TestCache::new(BytesCodec, Arc::new(hand.clone()), options);
    let Begin::Lead(queued) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    hand.set(2 * options.trusted);
    let found = queued.compile(LONG, || {
        hand.set(2 * options.trusted + options.trusted / 2);
        let thread = || matches!(cache.begin(&key("a")), Begin::Follow(_));
        let is_waited_for = std::thread::scope(|scope| scope.spawn(thread).join());
        assert!(is_waited_for.expect("it is no panic"));
        Ok(content("a"))
    });
    assert!(found.is_ok());
    assert_eq!(cache.stats().takeovers, 0);
}

#[test]
fn a_compile_in_another_process_is_waited_for() {
    // Two caches on one folder interact like two processes.
    let folder = tempfile::tempdir().expect("there is room");
    let (first, second) = (cache_at(folder.path()), cache_at(folder.path()));
    let (begun, has_begun) = mpsc::channel();
    std::thread::scope(|scope| {
        let (shared, waiting) = (&first, &second);
        scope.spawn(move || {
            let compile = || {
                begun.send(()).expect("the test listens");
                while waiting.n_compiling() == 0 {
                    std::thread::yield_now();
                }
                Ok(content("a"))
            };
            shared.get_or_compile(&key("a"), LONG, compile)
        });
        has_begun.recv().expect("it begins");
        let source = compile(&second, "a");
        assert!(matches!(source, Source::Tier { .. }), "{source:?}");
    });
    assert_eq!((first.stats().compiles, second.stats().compiles), (1, 0));
    assert_eq!((second.stats().tier_hits, second.stats().takeovers), (1, 0));
}

#[test]
fn cancelling_a_wait_ends_it_and_the_ticket_shows_when_no_waiter_is_left() {
    let cache = cache_of(Vec::new());
    let Begin::Lead(queued) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    let waiting = Waiting::of(&cache, "a");
    let second = Waiting::of(&cache, "a");
    assert_eq!((queued.n_waiting(), queued.key()), (2, &key("a")));
    let canceller = waiting.0.canceller();
    let thread = std::thread::spawn(move || waiting.0.wait(LONG));
    canceller.cancel();
    let failure = thread.join().expect("it is no panic");
    let failure = failure.expect_err("it was cancelled");
    assert!(matches!(&failure, Failure::Cache(error) if error.code() == "E0703"));
    insta::assert_snapshot!(failure, @"waiting for the compile of program b8357d64 was cancelled");
    drop(second);
    assert_eq!((queued.n_waiting(), cache.stats().cancelled), (0, 1));
    // A queued compile without waiters can be dropped; the result of a running one is kept.
    queued
        .compile(LONG, || Ok(content("a")))
        .expect("it compiles");
    assert_eq!(compile(&cache, "a"), Source::Memory);
    canceller.cancel();
}

#[test]
fn an_abandoned_compile_is_taken_over_by_a_waiter() {
    let cache = cache_of(Vec::new());
    let Begin::Lead(ticket) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    let asked = Waiting::of(&cache, "a");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| compile(&cache, "a"));
        while ticket.n_waiting() < 2 {
            std::thread::yield_now();
        }
        drop(ticket);
        assert!(matches!(
            waiter.join().expect("it is no panic"),
            Source::Compiled { .. }
        ));
    });
    let failure = asked.0.wait(LONG).expect_err("it was given up");
    assert!(matches!(
        &failure,
        Failure::Cache(CacheError::Abandoned { .. })
    ));
    insta::assert_snapshot!(failure, @"the compile of program b8357d64 was abandoned; request it again");
}

#[test]
fn distinct_keys_compile_in_parallel() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    let all_at_once = Barrier::new(4);
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let (cache, all_at_once) = (&cache, &all_at_once);
            scope.spawn(move || {
                let compile = || {
                    all_at_once.wait();
                    Ok(content(name))
                };
                let found = cache.get_or_compile(&key(name), LONG, compile);
                assert_eq!(*found.expect("it compiles").value, content(name));
            });
        }
    });
    assert_eq!(cache.stats().compiles, 4);
}

#[test]
fn a_miss_is_explained_down_to_the_differing_field() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    let key = |kernel: &str, compiler: &str, level: &str| {
        let fields = [("kernel", kernel), ("compiler", compiler), ("level", level)];
        CacheKey::of_fields(EntryKind::PROGRAM, fields)
    };
    for (kernel, compiler, level) in [
        ("k", "llvm 19.1.6", "avx2"),
        ("k", "llvm 19.1.6", "avx512"),
        ("other", "llvm 19.1.7", "avx2"),
    ] {
        cache.set(
            &key(kernel, compiler, level),
            content(kernel),
            Duration::ZERO,
        );
    }
    let wanted = key("k", "llvm 19.1.7", "avx2");
    insta::assert_snapshot!(cache.explain(&wanted), @r#"
    program f9cc0210: not in memory; disk: no such entry
      nearest in disk: 63251685
        compiler: "llvm 19.1.7", there "llvm 19.1.6"
    "#);
    let report = cache.explain(&wanted);
    let nearest = report.nearest.expect("there is one");
    let names: Vec<_> = nearest
        .differences
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(names, ["compiler"]);
    insta::assert_snapshot!(cache.explain(&key("new", "llvm 19.1.7", "avx2")), @"
    program d8cadb3a: not in memory; disk: no such entry
      nothing is stored for this kernel
    ");
    insta::assert_snapshot!(cache.explain(&key("k", "llvm 19.1.6", "avx2")), @"program 63251685: in memory");
    let other = cache_at(folder.path());
    insta::assert_snapshot!(other.explain(&key("k", "llvm 19.1.6", "avx2")), @"program 63251685: stored in disk");
    let nothing = CacheKey::of_fields(EntryKind::PROGRAM, [] as [(&str, &str); 0]);
    insta::assert_snapshot!(other.explain(&nothing), @"program 6720b224: not in memory; disk: no such entry");
}

#[test]
fn values_without_bytes_stay_in_memory_and_bytes_without_a_value_are_a_miss() {
    /// Numbers; odd ones cannot be stored, and those above 100 cannot be read back.
    struct Numbers;
    impl Codec<usize> for Numbers {
        fn encode(&self, value: &usize) -> Result<Payload, String> {
            match value % 2 {
                0 => Ok(Payload::data(value.to_string())),
                _ => Err("it is odd".to_owned()),
            }
        }
        fn decode(&self, content: Content<'_>) -> Result<usize, String> {
            let text = String::from_utf8_lossy(content.bytes());
            let number: usize = text.parse().map_err(|_| "no number".to_owned())?;
            match number {
                0..=100 => Ok(number),
                _ => Err("it is too large".to_owned()),
            }
        }
        fn bytes(&self, _value: &usize) -> usize {
            8
        }
    }
    let folder = tempfile::tempdir().expect("there is room");
    let cache = || {
        let disk: Arc<dyn Tier> = Arc::new(disk_at(folder.path()));
        let clock = crate::support::clock();
        TieredCache::<usize, String>::with_tiers(
            Numbers,
            clock,
            CacheOptions::default(),
            vec![disk],
        )
    };
    let first = cache();
    let n_compiles = AtomicUsize::new(0);
    let get = |cache: &TieredCache<usize, String>, value: usize| {
        let compile = || {
            n_compiles.fetch_add(1, Ordering::SeqCst);
            Ok(value)
        };
        let found = cache.get_or_compile(&key(&value.to_string()), LONG, compile);
        assert_eq!(*found.expect("it compiles").value, value);
        n_compiles.swap(0, Ordering::SeqCst)
    };
    assert_eq!([3, 4, 200].map(|value| get(&first, value)), [1, 1, 1]);
    assert_eq!([3, 4, 200].map(|value| get(&first, value)), [0, 0, 0]);
    assert_eq!((first.stats().stored, first.stats().not_stored), (2, 1));
    let second = cache();
    assert_eq!([3, 4, 200].map(|value| get(&second, value)), [1, 0, 1]);
    assert_eq!((second.stats().corrupt, second.stats().tier_hits), (1, 1));
}

#[test]
fn handles_print_without_their_content() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    insta::assert_snapshot!(format!("{cache:?}"), @r#"TieredCache { tiers: ["disk"], .. }"#);
    let Begin::Lead(ticket) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    insta::assert_snapshot!(format!("{ticket:?}"), @"Ticket(program b8357d64)");
    let waiting = Waiting::of(&cache, "a");
    insta::assert_snapshot!(format!("{:?} {:?}", waiting.0, waiting.0.canceller()), @"Waiter(program b8357d64) Canceller");
}
