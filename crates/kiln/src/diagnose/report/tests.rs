//! Reports of small models, and the page of a large one.

use super::*;
#[cfg(feature = "llvm")]
use crate::{Cache, Device, Options, Source, diagnose};

#[cfg(feature = "llvm")]
fn report(text: &str, sizes: &[(&str, i64)]) -> CallReport {
    let options = Options::new().device(Device::cpu()).threads(2);
    let options = options.cache(Cache::off()).shared_kernels(false);
    let model = options.load(Source::text(text)).unwrap();
    let sizes = sizes.iter().map(|&(name, size)| (name.to_owned(), size));
    let drawn = diagnose::draw_inputs(&model, &sizes.collect(), 1).unwrap();
    CallReport::measure(&model, &drawn.tensors, 3).unwrap()
}

#[cfg(feature = "llvm")]
#[test]
fn a_report_names_what_a_call_did() {
    let report = report(
        "graph @two(%x: f32[B, 8], %w: f32[8, 4], %v: f32[4, 4]) -> f32[B, 4] {
           %a = matmul %x, %w from \"first <b>\"
           %b = matmul %a, %v from \"second\"
           %c = relu %b
           return %c
         }",
        &[("B", 6)],
    );
    assert_eq!(report.sizes, [("B".to_owned(), 6)]);
    assert_eq!(report.steps.len(), 2);
    assert_eq!(report.steps[0].nodes, ["first <b>"]);
    assert_eq!(report.steps[1].ops.len(), 2);
    assert_eq!(report.runs.len(), 2);
    let [edge] = report.edges.as_slice() else {
        panic!("one value is passed on: {:?}", report.edges);
    };
    assert_eq!((edge.from, edge.to, edge.bytes), (0, 1, Some(6 * 4 * 4)));
    assert!(edge.value.ends_with("f32[B, 4]"), "{}", edge.value);
    assert!(!report.apart[0].reason.is_empty());
    // They compile in parallel, and are listed in the order in which they finish.
    let mut kernels: Vec<_> = report.compiles.iter().map(|it| &it.kernel).collect();
    kernels.sort();
    assert_eq!(kernels, ["matmul", "matmul_relu"]);
    let memory = report.memory.as_ref().unwrap();
    assert_eq!(memory.values.len(), 2);
    assert_eq!(memory.results, 6 * 4 * 4);
    assert!(report.rates.is_some() && report.call_ms > 0.0);
    let page = report.to_html();
    assert!(page.contains("first &lt;b&gt;") && !page.contains("first <b>"));
}

/// A report with many steps of one op each, all of which read some of the earlier ones.
fn generated(n_steps: usize) -> CallReport {
    let step = |number: usize| ReportedStep {
        name: format!("conv_bias_add_clip_{number}"),
        nodes: vec![format!("/encoder/layer.{number}/</script>/Add_{number}")],
        ops: vec![format!("add %layer.{number}: f32[N, 64, (H + 1) / 2, W]")],
        kind: "kernel".to_owned(),
        class: Some(["map", "row", "contraction", "window"][number % 4].to_owned()),
        kernel: Some(format!("kernel_{}", number % 40)),
        schedule: Some("tiles(6x32) packed=columns".to_owned()),
        reads: vec![format!("%layer.{}: f32[N, 64, H, W]", number / 2)],
        writes: vec![format!("%layer.{number}: f32[N, 64, H, W]")],
        n_runs: 1,
        ms: 0.01 * (number % 17) as f64 + 0.001,
        share: 1.0 / n_steps as f64,
        tasks: 8,
        bytes: 1 << 20,
        operations: Some(1e6),
        of_roofline: Some(0.4),
        bound: Some("memory".to_owned()),
        ..ReportedStep::default()
    };
    let edge = |(from, to): (usize, usize)| Edge {
        from,
        to,
        value: format!("%layer.{from}: f32[N, 64, H, W]"),
        bytes: Some(1 << 18),
    };
    let pairs = (1..n_steps).flat_map(|to| [(to - 1, to), (to * 7 / 8, to)]);
    CallReport {
        model: "generated </title>".to_owned(),
        threads: 8,
        steps: (0..n_steps).map(step).collect(),
        runs: (0..n_steps)
            .map(|step| StepRun {
                step,
                begin_ms: step as f64,
                ms: 0.9,
            })
            .collect(),
        edges: pairs.filter(|(from, to)| from < to).map(edge).collect(),
        memory: Some(ReportedMemory {
            arena: 1 << 24,
            results: 1 << 18,
            scratch: 0,
            largest_live_set: 1 << 23,
            largest_at: "conv".to_owned(),
            n_steps,
            values: (0..n_steps)
                .map(|from| MemoryValue {
                    name: format!("v{from}"),
                    bytes: 1 << 18,
                    offset: Some((from % 60) << 18),
                    from,
                    to: (from + 5).min(n_steps - 1),
                })
                .collect(),
        }),
        ..CallReport::default()
    }
}

#[test]
fn a_page_of_2000_ops_is_below_5_mb_and_made_in_a_moment() {
    let report = generated(2000);
    let start = std::time::Instant::now();
    let page = report.to_html();
    let elapsed = start.elapsed();
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    // It takes seconds in a debug build; the bound only detects superlinear time.
    assert!(elapsed.as_secs() < 30, "{elapsed:?}");
    assert_eq!(page.matches("<g class=\"node").count(), 2000);
    if let Some(file) = std::env::var_os("KILN_WRITE_LARGE_REPORT") {
        std::fs::write(file, page).unwrap();
    }
}

#[test]
fn nothing_in_a_page_is_loaded_or_ends_its_scripts() {
    let page = generated(3).to_html();
    for forbidden in [
        "http://",
        "https://",
        "src=",
        "@import",
        "url(http",
        "</title>:",
        "fetch(",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    // Only the page itself closes the style, the two scripts, and each title that was opened.
    assert_eq!(page.matches("</script>").count(), 2);
    assert_eq!(
        page.matches("</title>").count(),
        page.matches("<title>").count()
    );
    assert!(page.contains("generated &lt;/title&gt;"));
    assert_eq!(page.matches("</style>").count(), 1);
}

#[test]
fn an_empty_call_has_a_page_too() {
    let page = CallReport::default().to_html();
    assert!(page.contains("The call has no steps."));
}

#[test]
fn live_values_are_compared_with_the_arena_and_the_results() {
    let mut report = generated(3);
    let memory = report.memory.as_mut().unwrap();
    (memory.arena, memory.results) = (2_000_000, 1_000_000);
    memory.largest_live_set = 2_100_000;
    let page = report.to_html();
    for part in [
        "The arena has 2.0 MB, results have 1.0 MB of their own",
        "2.1 MB are live",
        "needs 70&nbsp;% of what",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn near_misses_come_before_other_pairs_with_their_facts() {
    let mut report = generated(4);
    let apart = |from, to, gain_ms, fact: Option<&str>| Apart {
        from,
        to,
        values: "%a: f32[A]".to_owned(),
        gain_ms,
        reason: "a reason".to_owned(),
        fact: fact.map(str::to_owned),
    };
    report.apart = vec![apart(0, 1, 0.5, None), apart(1, 2, 0.25, Some("A == B"))];
    report.steps[0].nodes.clear();
    let lines = report.near_misses();
    let lines: Vec<&str> = lines.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "one kernel if a fact were known: 1",
            "0.2500 ms  conv_bias_add_clip_1 (/encoder/layer.1/</script>/Add_1) and conv_bias_add_clip_2 \
             (/encoder/layer.2/</script>/Add_2)",
            "between them: %a: f32[A]",
            "a reason",
            "were A == B known: state it with --dim, if it always holds",
            "",
            "apart for another reason: 1",
            "0.5000 ms  conv_bias_add_clip_0 and conv_bias_add_clip_1 (/encoder/layer.1/</script>/Add_1)",
            "between them: %a: f32[A]",
            "a reason",
        ]
    );
    report.apart.clear();
    assert_eq!(
        report.near_misses(),
        "one kernel if a fact were known: none\n\napart for another reason: none\n"
    );
}
