//! Reports as people and programs read them.

use std::sync::Arc;

use crate::clock::ManualClock;
use crate::*;

/// A first call: import, passes, two kernels on a separate thread, a run.
fn first_call(verbosity: Verbosity, filter: &'static str) -> Timing {
    let named = std::thread::Builder::new().name("caller".to_owned());
    let calling = named.spawn(move || call(verbosity, filter));
    calling.unwrap().join().unwrap()
}

/// The same on this thread.
fn call(verbosity: Verbosity, filter: &str) -> Timing {
    let clock = ManualClock::new();
    let options = TimingOptions::new()
        .verbosity(verbosity)
        .filter(filter.parse().unwrap());
    let timing = Timing::new(Arc::new(clock.clone()), options);
    let pass = |micros| clock.advance(std::time::Duration::from_micros(micros));
    let event = |category, name, description| timing.register(category, name, description).unwrap();
    let import = event(Category::Build, "import", "Reading the model");
    let passes = event(Category::Build, "passes", "Passes over the graph");
    let run = event(Category::Runtime, "run", "Calls");
    let wait = event(
        Category::Compile,
        "wait_for_code",
        "Calls that wait for code",
    );
    let _inside = timing.enter();
    pass(700);
    {
        let _span = timing.begin(import);
        pass(12_340);
    }
    {
        let _span = timing.begin(passes);
        pass(8_000);
    }
    let _run = timing.begin(run);
    pass(100);
    {
        let _wait = timing.wait(wait);
        let compile = || {
            for (name, lower, optimize) in [
                ("conv_bias_relu", 1_000, 50_000),
                ("matmul_bias_gelu", 2_500, 31_000),
            ] {
                let function = timing.function(name);
                let compile = || {
                    {
                        let _codegen = timing.begin(function.codegen);
                        pass(lower);
                    }
                    let _part = timing.part("optimize");
                    pass(optimize);
                    Ok::<(), ()>(())
                };
                timing
                    .specialize_and_compile(&function, "f32 avx512", compile)
                    .unwrap();
            }
        };
        let named = std::thread::Builder::new().name("kiln-compile-0".to_owned());
        std::thread::scope(|scope| named.spawn_scoped(scope, compile).unwrap().join()).unwrap();
    }
    pass(2_300);
    timing.counters().add(Counter::Miss, 2);
    drop(_run);
    drop(_inside);
    timing
}

#[test]
fn default_reports_show_categories() {
    let text = first_call(Verbosity::Default, "").report().to_text();
    insta::assert_snapshot!(text, @"
    time: 107.94 ms

                         ms      %                            work
    build             20.34   18.8  ███▊                     20.34  models into plans
    codegen            3.50    3.2  ▋                         3.50  kernels into the compiler's form
    compile           81.00   75.0  ███████████████          81.00  machine code, ready to be called: optimize 81.00; waited 84.50
    runtime            2.40    2.2  ▌                         2.40  calls
    unattributed       0.70    0.6  ▏                               in no event

    counted: miss 2, compile_ok 2
    ");
}

#[test]
fn verbose_reports_also_show_events() {
    let text = first_call(Verbosity::Verbose, "").report().to_text();
    insta::assert_snapshot!(text, @"
    time: 107.94 ms

                         ms      %                            work
    build             20.34   18.8  ███▊                     20.34  models into plans
    codegen            3.50    3.2  ▋                         3.50  kernels into the compiler's form
    compile           81.00   75.0  ███████████████          81.00  machine code, ready to be called: optimize 81.00; waited 84.50
    runtime            2.40    2.2  ▌                         2.40  calls
    unattributed       0.70    0.6  ▏                               in no event

    counted: miss 2, compile_ok 2

    build                ms      %     total   times
                      12.34   11.4     12.34       1  import  Reading the model
                       8.00    7.4      8.00       1  passes  Passes over the graph

    codegen              ms      %     total   times
                       2.50    2.3      2.50       1  codegen_matmul_bias_gelu  Code generation time for matmul_bias_gelu
                       1.00    0.9      1.00       1  codegen_conv_bias_relu    Code generation time for conv_bias_relu

    compile              ms      %     total   times
                      50.00   46.3     51.00       1  compile_conv_bias_relu    Compilation time for conv_bias_relu
                      31.00   28.7     33.50       1  compile_matmul_bias_gelu  Compilation time for matmul_bias_gelu
                       0.00    0.0     84.50       1  wait_for_code             Calls that wait for code; waited 84.50

    runtime              ms      %     total   times
                       2.40    2.2     86.90       1  run  Calls
    ");
}

#[test]
fn debug_reports_also_show_every_span() {
    let text = first_call(Verbosity::Debug, "compile,codegen")
        .report()
        .to_text();
    insta::assert_snapshot!(text, @"
    time: 107.94 ms, showing codegen,compile

                         ms      %                            work
    codegen            3.50    3.2  ▋                         3.50  kernels into the compiler's form
    compile           81.00   75.0  ███████████████          81.00  machine code, ready to be called: optimize 81.00; waited 84.50
    not shown         22.74   21.1  ████▎                           events that the filter leaves out
    unattributed       0.70    0.6  ▏                               in no event

    counted: miss 2, compile_ok 2

    codegen              ms      %     total   times
                       2.50    2.3      2.50       1  codegen_matmul_bias_gelu  Code generation time for matmul_bias_gelu
                       1.00    0.9      1.00       1  codegen_conv_bias_relu    Code generation time for conv_bias_relu

    compile              ms      %     total   times
                      50.00   46.3     51.00       1  compile_conv_bias_relu    Compilation time for conv_bias_relu
                      31.00   28.7     33.50       1  compile_matmul_bias_gelu  Compilation time for matmul_bias_gelu
                       0.00    0.0     84.50       1  wait_for_code             Calls that wait for code; waited 84.50

            at        ms  spans, as they began
         21.14     84.50  caller: wait_for_code (wait)
         21.14     51.00  kiln-compile-0: compile_conv_bias_relu, f32 avx512
         21.14      1.00  kiln-compile-0: codegen_conv_bias_relu
         22.14     50.00  kiln-compile-0: optimize of compile_conv_bias_relu
         72.14     33.50  kiln-compile-0: compile_matmul_bias_gelu, f32 avx512
         72.14      2.50  kiln-compile-0: codegen_matmul_bias_gelu
         74.64     31.00  kiln-compile-0: optimize of compile_matmul_bias_gelu
    ");
}

#[test]
fn json_is_versioned_and_read_back() {
    let report = first_call(Verbosity::Debug, "").report();
    let json = report.to_json().unwrap();
    assert_eq!(Report::from_json(&json).unwrap(), report);
    let data: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&data["version"], &data["categories"][2]["category"]),
        (&1.into(), &"compile".into())
    );
    let other = json.replacen("\"version\": 1", "\"version\": 7", 1);
    let error = Report::from_json(&other).unwrap_err();
    assert_eq!(error.code(), "E0757");
    insta::assert_snapshot!(error, @"expected a report of version 1, found version 7; read it with the Kiln that wrote it");
    assert_eq!(Report::from_json("{}").unwrap_err().code(), "E0756");
}

#[test]
fn report_units_suit_the_total() {
    let clock = ManualClock::new();
    let timing = Timing::new(Arc::new(clock.clone()), TimingOptions::new());
    let mut first_lines = Vec::new();
    for time in [3, 40_000, 50_000_000, 60_000_000_000_u64] {
        let _span = timing.begin(timing.category_event(Category::Runtime));
        clock.advance(std::time::Duration::from_nanos(time));
        let text = timing.report().to_text();
        first_lines.push(text.lines().next().unwrap().to_owned());
    }
    assert_eq!(
        first_lines,
        [
            "time: 3 ns",
            "time: 40.00 us",
            "time: 50.04 ms",
            "time: 60.050 s"
        ]
    );
    let report = Timing::default().report();
    assert_eq!(
        report.to_text(),
        "nothing was timed; counted: nothing counted\n"
    );
}

#[test]
fn reports_list_open_spans() {
    let clock = ManualClock::new();
    let timing = Timing::new(Arc::new(clock.clone()), TimingOptions::new());
    let _span = timing.begin(timing.category_event(Category::Runtime));
    clock.advance(std::time::Duration::from_micros(10));
    assert!(
        timing
            .report()
            .to_text()
            .contains("still open        10.00  100.0  ████")
    );
}

#[test]
fn traces_are_in_the_browser_trace_format() {
    let timing = first_call(Verbosity::Debug, "");
    let trace = timing.trace();
    assert_eq!((trace.n_spans(), trace.dropped()), (10, 0));
    let data: serde_json::Value = serde_json::from_str(&trace.to_json().unwrap()).unwrap();
    assert_eq!(data["displayTimeUnit"], "ms");
    let events = data["traceEvents"].as_array().unwrap();
    for event in events {
        let phase = event["ph"].as_str().unwrap();
        assert!(
            event["name"].is_string()
                && event["pid"].is_u64()
                && event["tid"].is_u64()
                && event["ts"].is_f64()
        );
        match phase {
            "M" => assert!(event["args"]["name"].is_string()),
            "X" => assert!(event["dur"].as_f64().unwrap() >= 0.0 && event["cat"].is_string()),
            _ => panic!("{event}"),
        }
    }
    let find = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
    let (outer, inner) = (
        find("compile_conv_bias_relu"),
        find("codegen_conv_bias_relu"),
    );
    let end =
        |event: &serde_json::Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    assert!(outer["ts"].as_f64() <= inner["ts"].as_f64() && end(inner) <= end(outer));
    assert_eq!(outer["args"]["detail"], "f32 avx512");
    assert_eq!(find("optimize")["args"]["of"], "compile_conv_bias_relu");
    assert_eq!(find("wait_for_code")["args"]["kind"], "wait");
    assert_ne!(find("wait_for_code")["tid"], outer["tid"]);
}
