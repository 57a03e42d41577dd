//! Stored programs: an intact one reads back, and a damaged one is rejected.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use kiln_backend::PreferredLayout;
use kiln_fusion::FusionOptions;
use kiln_ir::BlobMap;
use kiln_kernel::VerifiedKernel;
use kiln_program::{BuildOptions, LayoutPreferences, Program, RowMajor, StoredProgram, build};
use serde_json::Value;

const GRAPH: &str = "graph @everything(%c: bool[], %trips: i64[], %x: f32[A, B], %y: f32[A, D]) -> (f32[A, B + D], f32[n], f32[B], f32[bcast(B, D)]) where B >= 1 {
  %w: f32[2] = constant [0.5, 2.0]
  %wide = broadcast %w {dims = [B, 2]}
  %ones = reduce %wide {function = sum, axes = [1]}
  %both = concat %x, %y {axis = 1}
  %e = exp %both
  %row = reduce %x {function = max, axes = [0]}
  %at: i64[1, B], %count: i64[] = non_zero %row
  bind %count -> (n)
  %places = slice %at {starts = [0, 0], sizes = [1, n], steps = [1, 1]}
  %flat = reshape %places {dims = [n]}
  %found = gather %row, %flat {axis = 0}
  %col = reduce %y {function = sum, axes = [0]}
  %sum = add %row, %col
  %z: f32[B] = if %c, %row, %ones, %trips
    region(%a: f32[B], %p: f32[B], %t0: i64[]) {
      %on: bool[] = constant [true]
      %l: f32[B] = loop %t0, %on, %a {carried = 1}
        region(%i: i64[], %s: f32[B]) {
          %more: bool[] = constant [true]
          %t: f32[B] = add %s, %s
          yield %more, %t
        }
      yield %l
    }
    region(%b: f32[B], %q: f32[B], %t1: i64[]) {
      %n: f32[B] = add %b, %q
      yield %n
    }
  return %e, %found, %z, %sum
}";

fn program() -> Program {
    let graph = kiln_shape_inference::read_graph(GRAPH, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{errors}"));
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new()).unwrap();
    build(graph, &plan, &RowMajor, &BuildOptions::default()).unwrap()
}

#[test]
fn stored_programs_round_trip() {
    let program = program();
    let mut blobs = BlobMap::new();
    let stored = program.store(&mut blobs).unwrap();
    let json = serde_json::to_string(&stored).unwrap();
    let read: StoredProgram = serde_json::from_str(&json).unwrap();
    assert_eq!(read, stored);
    let loaded = Program::load(&read, &blobs).unwrap();
    assert_eq!(loaded.to_string(), program.to_string());
    assert_eq!(loaded.store(&mut blobs).unwrap(), stored);
}

#[test]
fn another_format_and_a_missing_constant_are_different_errors() {
    let mut blobs = BlobMap::new();
    let json = serde_json::to_string(&program().store(&mut blobs).unwrap()).unwrap();
    let load = |json: &str| {
        let stored: StoredProgram = serde_json::from_str(json).unwrap();
        Program::load(&stored, &BlobMap::new()).unwrap_err()
    };
    assert_eq!(
        load(&json.replacen("\"format\":3", "\"format\":4", 1)).code(),
        "E0842"
    );
    let digest = "00".repeat(32);
    let constants = format!("\"constants\":[[\"{digest}\",false],");
    let missing = json
        .replacen("\"constants\":[", &constants, 1)
        .replacen(",]", "]", 1);
    assert_eq!(load(&missing).code(), "E0843");
}

#[test]
fn damage_anywhere_in_a_stored_program_is_an_error() {
    let mut blobs = BlobMap::new();
    let stored = program().store(&mut blobs).unwrap();
    let json = serde_json::to_string(&stored).unwrap();
    let (mut refused, mut same) = (0, 0);
    // Each number in turn is replaced by another one.
    let bytes = json.as_bytes();
    for position in (0..bytes.len())
        .filter(|&at| bytes[at].is_ascii_digit())
        .step_by(3)
    {
        let mut damaged = bytes.to_vec();
        damaged[position] = if damaged[position] == b'9' {
            b'7'
        } else {
            b'9'
        };
        let Ok(text) = String::from_utf8(damaged) else {
            continue;
        };
        let Ok(stored) = serde_json::from_str::<StoredProgram>(&text) else {
            continue;
        };
        match Program::load(&stored, &blobs) {
            Ok(_) => same += 1,
            Err(error) => {
                refused += 1;
                assert!(
                    ["E0841", "E0842", "E0843"].contains(&error.code()),
                    "{error}"
                );
            }
        }
    }
    assert!(refused > same, "{refused} refused, {same} read");
}

/// Every position in a JSON value, as the path that leads there.
fn places(value: &Value) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = vec![(Vec::new(), value)];
    while let Some((path, value)) = pending.pop() {
        let mut inside = |step: String, inner| {
            let mut path: Vec<String> = path.clone();
            path.push(step);
            pending.push((path, inner));
        };
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    inside(index.to_string(), item);
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    inside(name.clone(), field);
                }
            }
            _ => {}
        }
        found.push(path);
    }
    found
}

fn at<'a>(value: &'a mut Value, path: &[String]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match value {
        Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
        Value::Object(fields) => &mut fields[step.as_str()],
        _ => unreachable!("the path was found there"),
    })
}

/// Numbers that are too large, lists that are too short or too long, other texts: read unchanged, or rejected with a
/// code.
#[test]
fn altered_stored_programs_are_refused_or_harmless() {
    let mut blobs = BlobMap::new();
    let stored = program().store(&mut blobs).unwrap();
    let whole = serde_json::to_value(&stored).unwrap();
    let (mut refused, mut read) = (0, 0);
    for path in places(&whole) {
        let mut changed = Vec::new();
        let mut change = |change: &dyn Fn(&mut Value)| {
            let mut value = whole.clone();
            change(at(&mut value, &path));
            changed.push(value);
        };
        match at(&mut whole.clone(), &path) {
            Value::Number(_) => {
                change(&|place| *place = 1000.into());
                change(&|place| *place = u32::MAX.into());
            }
            Value::Array(items) if !items.is_empty() => {
                change(&|place| drop(place.as_array_mut().unwrap().pop()));
                change(&|place| {
                    let items = place.as_array_mut().unwrap();
                    items.push(items[0].clone());
                });
            }
            Value::String(_) => change(&|place| *place = "nothing of the kind".into()),
            _ => {}
        }
        for value in changed {
            let Ok(stored) = serde_json::from_value::<StoredProgram>(value) else {
                continue;
            };
            match Program::load(&stored, &blobs) {
                Ok(_) => read += 1,
                Err(error) => {
                    refused += 1;
                    let code = error.code();
                    assert!(["E0841", "E0842", "E0843"].contains(&code), "{error}");
                }
            }
        }
    }
    assert!(refused > read, "{refused} refused, {read} read");
}

/// Interpreted steps, and buffers with strides, which the program above lacks.
#[test]
fn interpreted_steps_and_strides_round_trip() {
    let custom = "graph @f(%x: f32[A, B]) -> f32[n] {
      %0: f32[A, B] = exp %x
      %1: f32[A, B] = neg %0
      %2: f32[n] = custom %1 {name = \"doubles\", arguments = \"\"} -> (n)
      return %2
    }";
    let graph = kiln_ir::text::read(custom, &BlobMap::new()).unwrap();
    let plan = kiln_fusion::plan(&graph, &FusionOptions::new().with_fusion(false)).unwrap();
    let program = build(graph, &plan, &Turned, &BuildOptions::default()).unwrap();
    assert_eq!(program.counts()["interpret"], 1, "{program}");
    assert!(program.to_string().contains("strides [1, A]"), "{program}");
    let mut blobs = BlobMap::new();
    let stored = program.store(&mut blobs).unwrap();
    let json = serde_json::to_string(&stored).unwrap();
    let read: StoredProgram = serde_json::from_str(&json).unwrap();
    let loaded = Program::load(&read, &blobs).unwrap();
    assert_eq!(loaded.to_string(), program.to_string());
    // Strides for the wrong number of axes.
    let whole = serde_json::to_value(&stored).unwrap();
    for path in places(&whole) {
        if path.last().is_none_or(|step| step != "strides") {
            continue;
        }
        let mut changed = whole.clone();
        let Value::Array(strides) = at(&mut changed, &path) else {
            continue;
        };
        strides.pop();
        let stored: StoredProgram = serde_json::from_value(changed).unwrap();
        let error = Program::load(&stored, &blobs).unwrap_err();
        assert_eq!(error.code(), "E0841", "{error}");
    }
}

/// Prefers two-axis outputs of kernels with swapped axes.
struct Turned;

impl LayoutPreferences for Turned {
    fn layouts(&self, kernel: &VerifiedKernel) -> Vec<PreferredLayout> {
        let buffers = kernel.kernel().buffers().values().enumerate();
        buffers
            .filter(|(_, buffer)| buffer.role.is_written() && buffer.rank() == 2)
            .map(|(buffer, _)| PreferredLayout {
                buffer,
                order: vec![1, 0],
                is_worth_copying: false,
            })
            .collect()
    }
}
