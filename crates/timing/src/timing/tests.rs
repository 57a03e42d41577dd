//! Recorders: reports add up, on one thread and on several; then each rule separately.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;
use crate::filter::Filter;

fn recorder(options: TimingOptions) -> (Timing, ManualClock) {
    let clock = ManualClock::new();
    (Timing::new(Arc::new(clock.clone()), options), clock)
}

fn verbose() -> (Timing, ManualClock) {
    recorder(TimingOptions::new().verbosity(Verbosity::Verbose))
}

fn ns(nanoseconds: u64) -> Duration {
    Duration::from_nanos(nanoseconds)
}

#[test]
fn time_belongs_to_the_innermost_span() {
    let (timing, clock) = verbose();
    let outer = timing
        .register(Category::Build, "plan", "Making a plan")
        .unwrap();
    let inner = timing
        .register(Category::Build, "fusion", "Fusing")
        .unwrap();
    clock.advance(ns(1000));
    {
        let _inside = timing.enter();
        clock.advance(ns(1));
        let _outer = timing.begin(outer);
        clock.advance(ns(10));
        let span = timing.begin(inner);
        clock.advance(ns(100));
        assert_eq!(span.finish(), Some(ns(100)));
        clock.advance(ns(20));
        let nothing = timing.enter();
        assert!(!nothing.is_timed());
    }
    clock.advance(ns(5000));
    let report = timing.report();
    assert_eq!(
        (report.wall(), report.unattributed(), report.elapsed_ns),
        (ns(131), ns(1), 6131)
    );
    let of = |name| {
        report
            .event(name)
            .map(|event| (event.wall_ns, event.total_ns, event.longest_ns))
    };
    assert_eq!(of("plan"), Some((30, 130, 130)));
    assert_eq!(of("fusion"), Some((100, 100, 100)));
    assert_eq!(report.sum(), report.wall());
}

#[test]
fn a_second_run_adds_no_compile() {
    let (timing, clock) = verbose();
    let run = timing.register(Category::Runtime, "run", "A call").unwrap();
    let call = |compiles: bool| {
        let _span = timing.begin(run);
        clock.advance(ns(5));
        if compiles {
            let function = timing.function("mlp");
            let compile = || {
                clock.advance(ns(50));
                Ok::<(), ()>(())
            };
            timing
                .specialize_and_compile(&function, "f32", compile)
                .unwrap();
        }
    };
    call(true);
    let first = timing.report();
    call(false);
    let second = timing.report();
    assert_eq!(
        first.category(Category::Compile),
        second.category(Category::Compile)
    );
    assert_eq!(
        first.event("compile_mlp").unwrap().description,
        "Compilation time for mlp"
    );
    assert_eq!((first.wall(), second.wall()), (ns(55), ns(60)));
}

#[test]
fn with_timing_off_everything_is_still_counted() {
    let timing = Timing::off();
    let event = timing.category_event(Category::Runtime);
    let spans = [timing.begin(event), timing.wait(event), timing.enter()];
    assert!(spans.iter().all(|span| !span.is_timed()));
    timing.describe(|| unreachable!("nothing is kept"));
    drop(timing.part("nothing"));
    assert_eq!(spans.map(Span::finish), [None, None, None]);
    timing.counters().count(crate::Counter::Miss);
    let report = timing.report();
    assert_eq!(
        (report.wall_ns, report.counters.miss, report.verbosity),
        (0, 1, Verbosity::Off)
    );
    assert_eq!(report.to_text(), "timing is off; counted: miss 1\n");
}

#[test]
fn spans_open_when_timing_is_turned_off_are_timed_to_their_end() {
    let (timing, clock) = verbose();
    let event = timing.category_event(Category::Runtime);
    let span = timing.begin(event);
    clock.advance(ns(10));
    timing.set_verbosity(Verbosity::Off);
    assert!(!timing.begin(event).is_timed());
    clock.advance(ns(10));
    assert_eq!(timing.report().open_ns, 20);
    drop(span);
    let report = timing.report();
    assert_eq!(
        (report.open_ns, report.category(Category::Runtime).wall_ns),
        (0, 20)
    );
}

#[test]
fn steps_are_timed_from_verbose_on() {
    let (timing, _) = recorder(TimingOptions::new());
    let event = timing.category_event(Category::Runtime);
    assert!(!timing.begin_at(Verbosity::Verbose, event).is_timed());
    assert!(timing.begin_at(Verbosity::Off, event).is_timed());
    timing.set_verbosity(Verbosity::Debug);
    assert!(timing.begin_at(Verbosity::Verbose, event).is_timed());
}

#[test]
fn short_calls_are_sampled_and_all_are_counted() {
    let (timing, clock) = recorder(TimingOptions::new());
    let event = timing.category_event(Category::Runtime);
    let sampler = Sampler::new();
    let call = |number| {
        let _span = timing.begin_sampled(event, &sampler, number);
        clock.advance(ns(40_000));
    };
    (0..7).for_each(call);
    let report = timing.report();
    let runtime = report.category(Category::Runtime);
    assert_eq!(
        (runtime.spans, runtime.untimed, runtime.wall_ns),
        (3, 4, 120_000)
    );
    assert_eq!(report.sum(), report.wall());
    assert!(report.to_text().contains("calls; 4 short ones not timed"));
    timing.set_verbosity(Verbosity::Verbose);
    (7..14).for_each(call);
    assert_eq!(timing.report().event("other_runtime").unwrap().count, 10);
    timing.set_verbosity(Verbosity::Off);
    assert!(!timing.begin_sampled(event, &sampler, 14).is_timed());
    // Calls that were timed differently, or not at all, are not reported together with the next ones.
    (14..100).for_each(call);
    timing.set_verbosity(Verbosity::Default);
    (100..107).for_each(call);
    let report = timing.report();
    let runtime = report.category(Category::Runtime);
    assert_eq!((runtime.spans, runtime.untimed), (13, 8));
}

#[test]
fn spans_that_were_forgotten_end_with_the_one_around_them() {
    let (timing, clock) = verbose();
    let event = timing.category_event(Category::Runtime);
    let outer = timing.begin(event);
    std::mem::forget(timing.begin(event));
    let inner = timing.begin(timing.category_event(Category::Build));
    clock.advance(ns(10));
    drop(outer);
    assert_eq!(inner.finish(), None);
    let report = timing.report();
    assert_eq!(
        (report.category(Category::Runtime).spans, report.open_ns),
        (2, 0)
    );
    assert_eq!(report.sum(), ns(10));
}

#[test]
fn recorders_do_not_see_each_other() {
    let (one, clock) = verbose();
    let other = Timing::new(Arc::new(clock.clone()), TimingOptions::new());
    let of_one = one.category_event(Category::Runtime);
    assert!(!other.begin(of_one).is_timed());
    let span = one.begin(of_one);
    let inside = other.enter();
    assert!(inside.is_timed());
    clock.advance(ns(10));
    drop(span);
    clock.advance(ns(5));
    drop(inside);
    assert_eq!((one.report().wall_ns, other.report().wall_ns), (10, 15));
    assert_eq!(other.report().unattributed_ns, 15);
}

#[test]
fn device_spans_may_end_later() {
    let (timing, clock) = recorder(TimingOptions::new().verbosity(Verbosity::Debug));
    let event = timing.category_event(Category::Runtime);
    let pending = {
        let span = timing.begin(event);
        clock.advance(ns(3));
        span.submit()
    };
    clock.advance(ns(100));
    thread::scope(|scope| scope.spawn(|| pending.finish(ns(90))).join()).unwrap();
    let report = timing.report();
    let runtime = report.category(Category::Runtime);
    assert_eq!(
        (runtime.wall_ns, runtime.device_ns, report.wall_ns),
        (3, 90, 3)
    );
    let kinds: Vec<&str> = report
        .records
        .iter()
        .map(|record| record.kind.as_str())
        .collect();
    assert_eq!(kinds, ["device", "work"]);
    Timing::off().begin(event).submit().finish(ns(1));
}

#[test]
fn parts_belong_to_the_enclosing_span() {
    let (timing, clock) = verbose();
    let function = timing.function("f");
    let _inside = timing.enter();
    drop(timing.part("of nothing"));
    let span = timing.begin(function.compile);
    for _ in 0..2 {
        let _part = timing.part("optimize");
        clock.advance(ns(7));
    }
    drop(span);
    let compile = timing.report().category(Category::Compile);
    assert_eq!((compile.wall_ns, compile.parts.len()), (14, 1));
    assert_eq!(
        (
            compile.parts[0].name.as_str(),
            compile.parts[0].count,
            compile.parts[0].time_ns
        ),
        ("optimize", 2, 14)
    );
}

#[test]
fn filtered_events_still_count_in_the_total() {
    let filter = Filter::new().category(Category::Compile);
    let options = TimingOptions::new()
        .verbosity(Verbosity::Debug)
        .filter(filter);
    let (timing, clock) = recorder(options);
    for category in [Category::Compile, Category::Runtime] {
        let _span = timing.begin(timing.category_event(category));
        clock.advance(ns(10));
    }
    let report = timing.report();
    assert_eq!(
        (report.hidden_ns, report.events.len(), report.records.len()),
        (10, 1, 1)
    );
    assert_eq!(report.sum(), report.wall());
    assert_eq!(timing.trace().n_spans(), 1);
}

#[test]
fn memory_is_bounded() {
    let options = TimingOptions::new().verbosity(Verbosity::Debug).records(3);
    let (timing, _) = recorder(options);
    let event = timing.category_event(Category::Runtime);
    for _ in 0..10 {
        drop(timing.begin(event));
    }
    let report = timing.report();
    assert_eq!((report.records.len(), report.dropped_records), (3, 7));
    assert_eq!((timing.trace().n_spans(), timing.trace().dropped()), (3, 7));
}

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(u32),
    Wait(u32),
    Enter,
    End,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4_u32).prop_map(Step::Begin),
        (0..4_u32).prop_map(Step::Wait),
        Just(Step::Enter),
        Just(Step::End),
        (0..1000_u64).prop_map(Step::Pass),
        (0..1000_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..40)
}

/// Does the steps on this thread.
fn walk(timing: &Timing, clock: &ManualClock, steps: &[Step]) {
    let event = |index| timing.inner().event(index);
    let mut spans = Vec::new();
    for &step in steps {
        match step {
            Step::Begin(index) => spans.push(timing.begin(event(index))),
            Step::Wait(index) => spans.push(timing.wait(event(index))),
            Step::Enter => spans.push(timing.enter()),
            Step::End => drop(spans.pop()),
            Step::Pass(time) => clock.advance(ns(time)),
        }
    }
    while let Some(span) = spans.pop() {
        drop(span);
    }
}

proptest! {
    #[test]
    fn a_report_adds_up_on_one_thread(steps in steps()) {
        let (timing, clock) = verbose();
        let (wall, elapsed) = {
            let _inside = timing.enter();
            walk(&timing, &clock, &steps);
            (timing.report().wall_ns, clock.now())
        };
        let report = timing.report();
        prop_assert_eq!((report.wall_ns, ns(report.wall_ns)), (wall, elapsed));
        prop_assert_eq!((report.sum(), report.open_ns), (report.wall(), 0));
        // On one thread, a share is the thread's whole time.
        for event in &report.events {
            prop_assert_eq!(event.wall_ns, event.work_ns + event.waited_ns);
        }
    }

    #[test]
    fn a_report_adds_up_on_several_threads(all in prop::collection::vec(steps(), 2..4)) {
        let (timing, clock) = verbose();
        let barrier = Barrier::new(all.len());
        thread::scope(|scope| {
            for steps in &all {
                let (timing, clock, barrier) = (&timing, &clock, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    walk(timing, clock, steps);
                });
            }
        });
        let report = timing.report();
        let rounding = ns(report.events.len() as u64);
        prop_assert!(report.sum().abs_diff(report.wall()) <= rounding, "{:?} of {:?}", report.sum(), report.wall());
        prop_assert_eq!(report.open_ns, 0);
        prop_assert!(report.wall() <= clock.now());
    }
}

#[test]
fn threads_are_named_in_records() {
    let (timing, clock) = recorder(TimingOptions::new().verbosity(Verbosity::Debug));
    let event = timing.category_event(Category::Compile);
    let work = || {
        let _span = timing.begin(event);
        timing.describe(|| "avx512".to_owned());
        clock.advance(ns(1));
    };
    thread::scope(|scope| {
        let named = thread::Builder::new().name("kiln-compile-0".to_owned());
        named.spawn_scoped(scope, work).unwrap().join().unwrap();
    });
    let record = &timing.report().records[0];
    assert_eq!(
        (record.thread.as_str(), record.detail.as_deref()),
        ("kiln-compile-0", Some("avx512"))
    );
    assert!(format!("{timing:?}").contains("Debug"));
}
