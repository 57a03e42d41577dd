//! Random loops whose iterations are element-wise: each becomes one kernel, and gives the interpreter's results.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::fmt::Write;

use kiln_fusion::{FusionOptions, plan};
use kiln_ir::BlobMap;
use kiln_testkit::random::SplitMix64;

/// A loop over `A` slices, of values over `B` or `3 * B` points. An iteration does not amplify differences, so rounding
/// errors do not grow.
fn random_loop(seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let points = ["B", "3, B"][random.below(2) as usize];
    let n_carried = 1 + random.below(3) as usize;
    let n_stacked = random.below(3) as usize;
    let along = random.below(2);
    let from_the_end = random.below(2) == 1;
    let slices = match (along, points) {
        (0, points) => format!("A, {points}"),
        (_, "B") => "B, A".to_owned(),
        _ => "3, A, B".to_owned(),
    };
    let mut ops = String::new();
    let mut values: Vec<String> = ["%slice", "%weight", "%scalar", "%number"]
        .map(str::to_owned)
        .into();
    values.extend((0..n_carried).map(|number| format!("%c{number}")));
    let mut fresh = 0;
    let mut apply = |ops: &mut String, op: &str, operands: &[&str]| {
        let name = format!("%t{fresh}");
        fresh += 1;
        let _ = writeln!(ops, "      {name} = {op} {}", operands.join(", "));
        name
    };
    let ty = format!("f32[{points}]");
    let mut yielded = Vec::new();
    for _ in 0..n_carried + n_stacked {
        let mut pick = || values[random.below(values.len() as u64) as usize].clone();
        let (a, b, c) = (pick(), pick(), pick());
        let first = apply(&mut ops, "add", &["%slice", &a]);
        let joins = ["sub", "max", "min", "add"][random.below(4) as usize];
        let second = apply(&mut ops, joins, &[&first, &b]);
        let bounds = ["tanh", "abs", "neg", "sigmoid"][random.below(4) as usize];
        let third = apply(&mut ops, bounds, &[&second]);
        let last = match random.below(3) {
            0 => {
                let less = apply(&mut ops, "lt", &["%weight", "%scalar"]);
                apply(&mut ops, "select", &[&less, &third, &c])
            }
            _ => third,
        };
        yielded.push(apply(&mut ops, "mul", &["%quarter", &last]));
    }
    // A value may be passed to another, or yielded twice.
    if random.below(3) == 0 {
        yielded[0] = format!("%c{}", n_carried - 1);
    }
    let of = |count: usize, text: &dyn Fn(usize) -> String| -> String {
        let all: Vec<String> = (0..count).map(text).collect();
        all.join(", ")
    };
    let carried = of(n_carried, &|_| ty.clone());
    let stacked = of(n_stacked, &|_| format!("f32[A, {points}]"));
    let results = [carried, stacked];
    let results: Vec<&str> = results
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    let names = of(n_carried + n_stacked, &|number| format!("%r{number}"));
    let inputs = of(n_carried, &|number| format!("%h{number}: {ty}"));
    let initial = of(n_carried, &|number| format!("%h{number}"));
    let parameters = of(n_carried, &|number| format!("%c{number}: {ty}"));
    let position = if from_the_end { "%back" } else { "%i" };
    format!(
        "graph @random(%x: f32[{slices}], %w: f32[B], %s: f32[], {inputs}) -> ({}) {{
  %sizes: i64[1] = dims {{sizes = [A]}}
  %trips: i64[] = reshape %sizes {{dims = []}}
  %one: i64[] = constant [1]
  %end: i64[] = sub %trips, %one
  %go: bool[] = constant [true]
  {names} = loop %trips, %go, {initial}, %x, %w, %s, %end {{carried = {n_carried}}}
    region(%i: i64[], {parameters}, %xs: f32[{slices}], %weight: f32[B], %scalar: f32[], %last: i64[]) {{
      %on: bool[] = constant [true]
      %quarter: f32[] = constant [0.25]
      %back: i64[] = sub %last, %i
      %slice: {ty} = gather %xs, {position} {{axis = {along_axis}}}
      %number: f32[] = cast %i {{to = f32}}
{ops}      yield %on, {}
    }}
  return {names}
}}",
        results.join(", "),
        yielded.join(", "),
        along_axis = match slices.starts_with("A") {
            true => 0,
            false => 1,
        },
    )
}

#[test]
fn random_element_wise_loops_become_correct_kernels() {
    let runtimes = support::graphs::runtimes();
    for seed in 0..40 {
        let text = random_loop(seed);
        let graph = kiln_shape_inference::read_graph(&text, &BlobMap::new())
            .unwrap_or_else(|errors| panic!("{}", errors.render(&text)));
        let planned = plan(&graph, &FusionOptions::new()).unwrap();
        assert_eq!(planned.count("control"), 0, "{planned}\n{text}");
        support::graphs::check_text(&text, &runtimes)
            .unwrap_or_else(|message| panic!("seed {seed}: {message}"));
    }
}
