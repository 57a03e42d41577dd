//! If and loop: sizes at the boundaries of regions.

use super::{describe, types};
use crate::{GraphBuilder, InferError, LoopBody, check_types, infer_types, read_graph};
use insta::assert_snapshot;
use kiln_ir::text::print;
use kiln_ir::{BlobMap, Graph, REGION_DEPTH_LIMIT, ReduceFunction, ValueId};
use kiln_tensor::{DType, Tensor};

type Built<T = ()> = Result<T, InferError>;

/// Finishes, checks, and reads the text back.
fn text(builder: GraphBuilder, outputs: &[ValueId]) -> Built<String> {
    let outputs: Vec<(String, ValueId)> = outputs
        .iter()
        .enumerate()
        .map(|(index, &value)| (format!("y{index}"), value))
        .collect();
    let graph = builder.finish(&outputs)?;
    round_trip(&graph);
    Ok(print(&graph))
}

fn round_trip(graph: &Graph) {
    check_types(graph).unwrap();
    let text = print(graph);
    let again = read_graph(&text, &BlobMap::new()).unwrap();
    assert_eq!(print(&again), text);
    assert_eq!(print(&infer_types(again).unwrap()), text);
}

fn integer(builder: &mut GraphBuilder, value: i64) -> Built<ValueId> {
    builder.constant(Tensor::scalar(value))
}

#[test]
fn branches_that_agree_give_their_sizes_and_others_symbols() -> Built {
    let mut builder = GraphBuilder::new("t");
    let (a, b) = (builder.symbol("A")?, builder.symbol("B")?);
    let x = builder.input("x", DType::F32, &[a, b]);
    let c = builder.input("c", DType::Bool, &[]);
    let results = builder.if_else(
        c,
        &[x],
        |builder, captures| -> Built<Vec<ValueId>> {
            let y = builder.transpose(captures[0], &[1, 0])?;
            let z = builder.relu(captures[0])?;
            Ok(vec![y, z])
        },
        |_, captures| Ok(vec![captures[0], captures[0]]),
    )?;
    let [y, z] = results[..] else {
        unreachable!("two results")
    };
    assert_snapshot!([y, z].map(|value| builder.describe(value)).join("\n"), @"
    %6: f32[n, n_1]
    %7: f32[A, B]
    ");
    assert_snapshot!(text(builder, &[y, z])?, @r#"
    graph @t(%x: f32[A, B], %c: bool[]) -> (f32[n, n_1], f32[A, B]) {
      %0: f32[n, n_1], %1: f32[A, B] = if %c, %x -> (n, n_1)
        region(%2: f32[A, B]) {
          %4: f32[B, A] = transpose %2 {permutation = [1, 0]}
          %5: f32[A, B] = relu %2
          yield %4, %5
        }
        region(%3: f32[A, B]) {
          yield %3, %3
        }
      return "y0" = %0, "y1" = %1
    }
    "#);
    Ok(())
}

#[test]
fn branch_local_sizes_do_not_escape() -> Built {
    let mut builder = GraphBuilder::new("t");
    let a = builder.symbol("A")?;
    let x = builder.input("x", DType::F32, &[a]);
    let c = builder.input("c", DType::Bool, &[]);
    let find = |builder: &mut GraphBuilder, captures: &[ValueId]| -> Built<Vec<ValueId>> {
        Ok(vec![builder.non_zero(captures[0])?])
    };
    let results = builder.if_else(c, &[x], find, find)?;
    assert_snapshot!(text(builder, &results)?, @r#"
    graph @t(%x: f32[A], %c: bool[]) -> i64[1, n] {
      %0: i64[1, n] = if %c, %x -> (n)
        region(%1: f32[A]) {
          %3: i64[1, A], %4: i64[] = non_zero %1
          bind %4 -> (n0)
          %5: i64[1, n0] = slice %3 {starts = [0, 0], sizes = [1, n0], steps = [1, 1]}
          yield %5
        }
        region(%2: f32[A]) {
          %6: i64[1, A], %7: i64[] = non_zero %2
          bind %7 -> (n1)
          %8: i64[1, n1] = slice %6 {starts = [0, 0], sizes = [1, n1], steps = [1, 1]}
          yield %8
        }
      return "y0" = %0
    }
    "#);
    Ok(())
}

#[test]
fn a_known_condition_takes_its_branch() -> Built {
    let mut builder = GraphBuilder::new("t");
    let a = builder.symbol("A")?;
    let x = builder.input("x", DType::F32, &[a]);
    for (condition, expected) in [(true, "exp"), (false, "log")] {
        let c = builder.constant(Tensor::scalar(condition))?;
        let results = builder.if_else(
            c,
            &[x],
            |builder, captures| -> Built<Vec<ValueId>> { Ok(vec![builder.exp(captures[0])?]) },
            |builder, captures| Ok(vec![builder.log(captures[0])?]),
        )?;
        let kiln_ir::Definition::Result { op, .. } = builder.graph().value(results[0]).definition
        else {
            unreachable!("an op gives it")
        };
        assert_eq!(builder.graph().op(op).op.mnemonic(), expected);
    }
    Ok(())
}

#[test]
fn branches_must_have_equal_types_except_sizes() -> Built {
    let mut builder = GraphBuilder::new("t");
    let a = builder.symbol("A")?;
    let x = builder.input("x", DType::F32, &[a]);
    let c = builder.input("c", DType::Bool, &[]);
    let outside = builder.clone().if_else(
        c,
        &[],
        |builder, _| -> Built<Vec<ValueId>> { Ok(vec![builder.relu(x)?]) },
        |_, _| Ok(vec![]),
    );
    assert_snapshot!(outside.unwrap_err().to_string(), @"relu (%2): operand 0: %0 is not defined in this region; pass it in as a capture");
    let unlike = builder.clone().if_else(
        c,
        &[x],
        |builder, captures| -> Built<Vec<ValueId>> {
            Ok(vec![builder.cast(captures[0], DType::F64)?])
        },
        |_, captures| Ok(vec![captures[0]]),
    );
    assert_snapshot!(unlike.unwrap_err().to_string(), @"if (%5): result 0 of the second branch: expected f64[A], found f32[A]");
    let fewer = builder.clone().if_else(
        c,
        &[x],
        |_, captures| -> Built<Vec<ValueId>> { Ok(vec![captures[0]]) },
        |_, _| Ok(vec![]),
    );
    assert_snapshot!(fewer.unwrap_err().to_string(), @"if (%4): results of the second branch: expected 1, found 0");
    let no_bool = builder.clone().if_else(
        x,
        &[],
        |_, _| -> Built<Vec<ValueId>> { Ok(vec![]) },
        |_, _| Ok(vec![]),
    );
    assert_snapshot!(no_bool.unwrap_err().to_string(), @"if (%2): operand 0: expected bool[], found %x: f32[A]");
    Ok(())
}

#[test]
fn carried_values_that_keep_their_sizes_need_no_symbols() -> Built {
    let mut builder = GraphBuilder::new("t");
    let (b, s) = (builder.symbol("B")?, builder.symbol("S")?);
    let x = builder.input("x", DType::F32, &[b]);
    let step = builder.input("step", DType::F32, &[s, b]);
    let shape = builder.dims_of(step)?;
    let index = integer(&mut builder, 0)?;
    let trips = builder.gather(shape, index, 0)?;
    let results = builder.repeat(
        trips,
        &[x],
        &[step],
        |builder, iteration, carried, captures| -> Built<_> {
            let row = builder.gather(captures[0], iteration, 0)?;
            let next = builder.add(carried[0], row)?;
            Ok((vec![next], vec![next]))
        },
    )?;
    assert_snapshot!(text(builder, &results)?, @r#"
    graph @t(%x: f32[B], %step: f32[S, B]) -> (f32[B], f32[S, B]) {
      %0: i64[2] = dims {sizes = [S, B]}
      %1: i64[] = constant [0]
      %2: i64[] = gather %0, %1 {axis = 0}
      %3: bool[] = constant [true]
      %4: f32[B], %5: f32[S, B] = loop %2, %3, %x, %step {carried = 1}
        region(%6: i64[], %7: f32[B], %8: f32[S, B]) {
          %9: f32[B] = gather %8, %6 {axis = 0}
          %10: f32[B] = add %7, %9
          %11: bool[] = constant [true]
          yield %11, %10, %10
        }
      return "y0" = %4, "y1" = %5
    }
    "#);
    Ok(())
}

#[test]
fn carried_values_that_grow_get_a_symbol_per_iteration() -> Built {
    let mut builder = GraphBuilder::new("t");
    let (b, n) = (builder.symbol("B")?, builder.symbol("N")?);
    let x = builder.input("x", DType::F32, &[b, n]);
    let trips = builder.input("trips", DType::I64, &[]);
    let mut built = 0;
    let results = builder.repeat(trips, &[x], &[], |builder, _, carried, _| -> Built<_> {
        built += 1;
        let next = builder.concat(&[carried[0], carried[0]], 1)?;
        let each = builder.reduce(next, ReduceFunction::Max, &[0], false)?;
        Ok((vec![next], vec![each]))
    })?;
    assert_eq!(built, 2);
    assert_snapshot!(text(builder, &results)?, @r#"
    graph @t(%x: f32[B, N], %trips: i64[]) -> (f32[B, n_1], f32[n_2, n_3]) {
      %0: bool[] = constant [true]
      %1: f32[B, n_1], %2: f32[n_2, n_3] = loop %trips, %0, %x {carried = 1} -> (n_1, n_2, n_3)
        region(%3: i64[], %4: f32[B, n]) -> (n) {
          %5: f32[B, 2*n] = concat %4, %4 {axis = 1}
          %6: f32[2*n] = reduce %5 {function = max, axes = [0]}
          %7: bool[] = constant [true]
          yield %7, %5, %6
        }
      return "y0" = %1, "y1" = %2
    }
    "#);
    Ok(())
}

#[test]
fn a_varying_condition_leaves_the_trip_count_unknown() -> Built {
    let mut builder = GraphBuilder::new("t");
    let b = builder.symbol("B")?;
    let x = builder.input("x", DType::F32, &[b]);
    let go = builder.input("go", DType::Bool, &[]);
    let trips = integer(&mut builder, 5)?;
    let results = builder.loop_(
        trips,
        go,
        &[x],
        &[go],
        |_, _, carried, captures| -> Built<_> {
            Ok(LoopBody {
                condition: captures[0],
                carried: carried.to_vec(),
                stacked: carried.to_vec(),
            })
        },
    )?;
    assert_snapshot!(text(builder, &results)?, @r#"
    graph @t(%x: f32[B], %go: bool[]) -> (f32[B], f32[n, B]) {
      %0: i64[] = constant [5]
      %1: f32[B], %2: f32[n, B] = loop %0, %go, %x, %go {carried = 1} -> (n)
        region(%3: i64[], %4: f32[B], %5: bool[]) {
          yield %5, %4, %4
        }
      return "y0" = %1, "y1" = %2
    }
    "#);
    Ok(())
}

#[test]
fn carried_sizes_that_depend_on_other_carried_sizes_are_found() -> Built {
    let mut builder = GraphBuilder::new("t");
    let (a, b) = (builder.symbol("A")?, builder.symbol("B")?);
    let x = builder.input("x", DType::F32, &[a]);
    let y = builder.input("y", DType::F32, &[a]);
    let z = builder.input("z", DType::F32, &[b]);
    let trips = builder.input("trips", DType::I64, &[]);
    // y takes the size of x, which grows; that shows only in the second iteration.
    let mut built = 0;
    let results = builder.repeat(
        trips,
        &[x, y, z],
        &[],
        |builder, _, carried, _| -> Built<_> {
            built += 1;
            let grown = builder.concat(&[carried[0], carried[0]], 0)?;
            Ok((vec![grown, carried[0], carried[2]], vec![]))
        },
    )?;
    assert_eq!(built, 3);
    assert_snapshot!(results.iter().map(|&value| builder.describe(value)).collect::<Vec<_>>().join("\n"), @"
    %11: f32[n_3]
    %12: f32[n_4]
    %13: f32[n_5]
    ");
    text(builder, &results)?;
    Ok(())
}

#[test]
fn facts_inside_regions_are_checked_by_their_ops() -> Built {
    let mut builder = GraphBuilder::new("t");
    let (a, b) = (builder.symbol("A")?, builder.symbol("B")?);
    let eight = builder.size(8);
    let x = builder.input("x", DType::F32, &[eight, a]);
    let y = builder.input("y", DType::F32, &[b, eight]);
    let c = builder.input("c", DType::Bool, &[]);
    let results = builder.if_else(
        c,
        &[x, y],
        |builder, captures| -> Built<Vec<ValueId>> {
            let product = builder.matmul(captures[0], captures[1])?;
            let sum = builder.add(product, captures[1])?;
            Ok(vec![builder.add(sum, captures[0])?])
        },
        |_, captures| Ok(vec![captures[0]]),
    )?;
    assert!(builder.dims().contract_facts().is_empty() && builder.dims().plan_facts().is_empty());
    assert_snapshot!(builder.describe(results[0]), @"%10: f32[8, n]");
    text(builder, &results)?;
    Ok(())
}

#[test]
fn loops_check_their_operands() -> Built {
    let mut builder = GraphBuilder::new("t");
    let a = builder.symbol("A")?;
    let x = builder.input("x", DType::F32, &[a]);
    let trips = builder.input("trips", DType::I64, &[]);
    let rank = builder
        .clone()
        .repeat(trips, &[x], &[], |builder, _, carried, _| -> Built<_> {
            Ok((vec![builder.unsqueeze(carried[0], &[0])?], vec![]))
        });
    assert_snapshot!(rank.unwrap_err().to_string(), @"loop (%7): carried value 0: expected f32[n], found f32[1, n]");
    let missing = builder
        .clone()
        .repeat(trips, &[x], &[], |_, _, _, _| -> Built<_> {
            Ok((vec![], vec![]))
        });
    assert_snapshot!(missing.unwrap_err().to_string(), @"loop: carried values of an iteration: expected 1, found 0");
    let condition =
        builder
            .clone()
            .loop_(trips, trips, &[], &[], |_, iteration, _, _| -> Built<_> {
                Ok(LoopBody {
                    condition: iteration,
                    carried: vec![],
                    stacked: vec![],
                })
            });
    assert_snapshot!(condition.unwrap_err().to_string(), @"loop (%3): operand 1: expected bool[], found %trips: i64[]");
    let count = builder.repeat(x, &[], &[], |_, _, _, _| -> Built<_> {
        Ok((vec![], vec![]))
    });
    assert_snapshot!(count.unwrap_err().to_string(), @"loop (%5): operand 0: expected i64[], found %x: f32[A]");
    Ok(())
}

#[test]
fn regions_nest_to_a_limit() {
    fn nest(builder: &mut GraphBuilder, trips: ValueId, depth: usize) -> Built<Vec<ValueId>> {
        builder.repeat(
            trips,
            &[],
            &[trips],
            |builder, _, _, captures| -> Built<_> {
                if depth > 0 {
                    nest(builder, captures[0], depth - 1)?;
                }
                Ok((vec![], vec![]))
            },
        )
    }
    let mut builder = GraphBuilder::new("t");
    let trips = builder.input("trips", DType::I64, &[]);
    assert!(nest(&mut builder.clone(), trips, REGION_DEPTH_LIMIT - 1).is_ok());
    let error = nest(&mut builder, trips, REGION_DEPTH_LIMIT).unwrap_err();
    assert_snapshot!(error.to_string(), @"builder: nested regions: 33 exceeds the limit of 32");
    assert_eq!(error.code(), "E0338");
}

#[test]
fn nested_growing_loops_are_inferred_in_reasonable_time() -> Built {
    fn nest(
        builder: &mut GraphBuilder,
        trips: ValueId,
        x: ValueId,
        depth: usize,
        built: &mut u32,
    ) -> Built<ValueId> {
        let results = builder.repeat(
            trips,
            &[x],
            &[trips],
            |builder, _, carried, captures| -> Built<_> {
                *built += 1;
                let mut next = builder.concat(&[carried[0], carried[0]], 0)?;
                if depth > 0 {
                    next = nest(builder, captures[0], next, depth - 1, built)?;
                }
                Ok((vec![next], vec![]))
            },
        )?;
        Ok(results[0])
    }
    let mut builder = GraphBuilder::new("t");
    let trips = builder.input("trips", DType::I64, &[]);
    let n = builder.symbol("N")?;
    let x = builder.input("x", DType::F32, &[n]);
    let mut built = 0;
    let y = nest(&mut builder, trips, x, 11, &mut built)?;
    assert!(built < 10_000, "{built}");
    assert_eq!(builder.rank(y)?, 1);
    Ok(())
}

const LOOP: &str = "  %y: f32[n] = loop %t, %c, %x {carried = 1} -> (n)
    region(%i: i64[], %p: f32[m]) -> (m) {
      %q = concat %p, %p {axis = 0}
      %g: bool[] = constant [true]
      yield %g, %q
    }";

#[test]
fn symbols_of_control_ops_are_parsed_in_order() -> Result<(), Box<dyn std::error::Error>> {
    let inputs = "%t: i64[], %c: bool[], %x: f32[A]";
    assert_snapshot!(types(inputs, LOOP), @"y: f32[n]");
    // If the type is omitted, the symbol is the open size.
    assert_snapshot!(types(inputs, &LOOP.replace("%y: f32[n]", "%y")), @"y: f32[n]");
    assert_snapshot!(types(inputs, &LOOP.replace("%y: f32[n]", "%y").replace("{carried = 1} -> (n)", "{carried = 1}")), @"[E0112] loop (%7): attribute symbols: expected a symbol for each of 1 sizes that are known only afterwards, found 0 [E0333]");
    assert_snapshot!(types(inputs, &LOOP.replace("%y: f32[n]", "%y: f32[A]")), @"[E0112] loop (%7): attribute symbols: expected a symbol of this op as size 0 of result 0, found A [E0333]");
    // A parameter that neither keeps its size nor has a symbol for it.
    assert_snapshot!(types(inputs, &LOOP.replace("%p: f32[m]) -> (m)", "%p: f32[A])")), @"[E0112] loop (%7): type of the yielded carried value 0: expected f32[A], found f32[2*A] (not proved equal; state the equality as a fact) [E0336]");
    assert_snapshot!(types(inputs, &LOOP.replace("%p: f32[m]", "%p: f32[2 * m]")), @"[E0112] loop (%7): size 0 of carried value 0: expected a bare symbol of the region, found 2*m [E0361]");
    assert_snapshot!(types(inputs, &LOOP.replace("yield %g, %q", "yield %g, %q, %q")), @"[E0112] loop (%7): type of the results: expected 2 results, found 1 results [E0336]");
    let graph = read_graph(
        &format!("graph @t({inputs}) -> () {{\n{LOOP}\nreturn }}"),
        &BlobMap::new(),
    )?;
    assert_eq!(describe(&infer_types(graph)?), "y: f32[n]");
    Ok(())
}

#[test]
fn captures_keep_their_types() {
    let branch = |ty: &str| {
        types(
            "%c: bool[], %x: f32[A], %w: f32[B]",
            &format!(
                "  %y = if %c, %x\n    region(%p: {ty}) {{\n      yield %p\n    }}\n    region(%p: f32[A]) {{\n      yield %p\n    }}"
            ),
        )
    };
    assert_snapshot!(branch("f32[A]"), @"y: f32[A]");
    assert_snapshot!(branch("f32[B]"), @"[E0112] if (%5): type of the parameter of capture 0: expected f32[A], found f32[B] (not proved equal; state the equality as a fact) [E0336]");
}

#[test]
fn trip_counts_are_never_negative() -> Built {
    let mut builder = GraphBuilder::new("t");
    let s = builder.symbol("S")?;
    let x = builder.input("x", DType::F32, &[s]);
    let shape = builder.dims_of(x)?;
    let three = integer(&mut builder, 3)?;
    let fewer = builder.sub(shape, three)?;
    let trips = builder.squeeze(fewer, &[0])?;
    let results = builder.repeat(trips, &[], &[x], |_, iteration, _, _| -> Built<_> {
        Ok((vec![], vec![iteration]))
    })?;
    assert_snapshot!(builder.describe(results[0]), @"%9: i64[max(0, S - 3)]");
    text(builder, &results)?;
    Ok(())
}

#[test]
fn sequences_are_carried_and_joined() -> Built {
    use kiln_ir::Type;
    let mut builder = GraphBuilder::new("t");
    let s = builder.symbol("S")?;
    let ty = Type::Optional(Box::new(Type::Sequence(Box::new(Type::tensor(
        DType::F32,
        [s],
    )))));
    let x = builder.input_of_type("x", ty);
    let c = builder.input("c", DType::Bool, &[]);
    let trips = builder.input("trips", DType::I64, &[]);
    let pass = |_: &mut GraphBuilder, captures: &[ValueId]| -> Built<Vec<ValueId>> {
        Ok(captures.to_vec())
    };
    let joined = builder.if_else(c, &[x], pass, pass)?;
    let carried = builder.repeat(trips, &joined, &[], |_, _, carried, _| -> Built<_> {
        Ok((carried.to_vec(), vec![]))
    })?;
    assert_snapshot!(builder.describe(carried[0]), @"%10: optional<seq<f32[S]>>");
    let stacked = builder
        .clone()
        .repeat(trips, &[], &joined, |_, _, _, captures| -> Built<_> {
            Ok((vec![], captures.to_vec()))
        });
    assert_snapshot!(stacked.unwrap_err().to_string(), @"loop (%15): stacked value 0: expected a tensor, found optional<seq<f32[S]>>");
    let operand = builder
        .clone()
        .repeat(trips, &[x], &[], |builder, _, carried, _| -> Built<_> {
            Ok((vec![builder.relu(carried[0])?], vec![]))
        });
    assert_snapshot!(operand.unwrap_err().to_string(), @"relu (%14): operand 0: expected a tensor, found optional<seq<f32[S]>>");
    text(builder, &carried).map(drop)
}

#[test]
fn regions_that_do_not_fit_their_op_are_errors() {
    let inputs = "%t: i64[], %c: bool[], %x: f32[A]";
    let region = "region(%p: f32[A]) {\n yield %p\n}";
    assert_snapshot!(types(inputs, &format!("%y = if %c, %x {region}")), @"[E0112] if (%4): regions: expected 2, found 1 [E0361]");
    assert_snapshot!(types(inputs, &format!("%y = if %c {region} {region}")), @"[E0112] if (%5): parameters for captures: expected 0, found 1 [E0361]");
    assert_snapshot!(types(inputs, "%y = loop %t, %c {carried = 0}"), @"[E0112] loop (%3): regions: expected 1, found 0 [E0361]");
    assert_snapshot!(types(inputs, &format!("%y = loop %t, %c {{carried = 1}} {region}")), @"[E0112] loop (%4): operands: expected at least 3, found 2 [E0361]");
    assert_snapshot!(types(inputs, "%y = loop %t, %c, %x {carried = 1} region(%i: i64[]) {\n yield %i\n}"), @"[E0112] loop (%4): parameters: expected 2, found 1 [E0361]");
    assert_snapshot!(types(inputs, "%y = loop %t, %c {carried = 0} region(%i: f32[]) {\n yield %i\n}"), @"[E0112] loop (%4): the iteration parameter: expected i64[], found f32[] [E0361]");
    assert_snapshot!(types(inputs, "loop %t, %c {carried = 0} region(%i: i64[]) {\n yield %i\n}"), @"[E0112] loop (%4): the yielded condition: expected bool[], found i64[] [E0361]");
    assert_snapshot!(types(inputs, "loop %t, %c {carried = 18446744073709551615} region(%i: i64[]) {\n yield %i\n}"), @"[E0112] loop (%4): operands: expected at least 18446744073709551615, found 2 [E0361]");
}
