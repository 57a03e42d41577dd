//! Recording functions: the resulting graphs, their results, and where mistakes are reported.

mod einsum;
mod lines;
mod random;

use crate::{
    ArgumentType, Arguments, Results, Size, Step, TraceError, TraceFunction, Traced, Var, trace,
};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_tensor::{DType, Tensor};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};

fn floats(ranks: &[usize]) -> Vec<ArgumentType> {
    let ranks = ranks.iter();
    ranks
        .map(|&rank| ArgumentType::new(DType::F32, rank))
        .collect()
}

fn f32s(shape: &[usize], data: &[f32]) -> Tensor {
    Tensor::from_slice(shape, data).unwrap()
}

/// Records a function for the tensors' types and runs its graph.
fn run<A: Arguments, F: TraceFunction<A>>(function: &F, inputs: &[&Tensor]) -> Vec<Tensor> {
    let signature: Vec<_> = inputs.iter().map(|input| ArgumentType::of(input)).collect();
    let graph = trace("f", function, &signature).unwrap();
    let inputs: Vec<Tensor> = inputs.iter().map(|&input| input.clone()).collect();
    interpret(&graph, &inputs, &InterpretOptions::default()).unwrap()
}

fn one<A: Arguments, F: TraceFunction<A>>(function: &F, inputs: &[&Tensor]) -> Vec<f32> {
    run(function, inputs).remove(0).to_vec::<f32>().unwrap()
}

fn text(graph: &Graph) -> String {
    kiln_ir::text::print(graph).to_string()
}

#[test]
fn a_function_becomes_a_graph_of_symbols() {
    let layer = |x: Var, w: Var, b: Var| (x.matmul(w) + b).relu();
    let graph = trace("layer", &layer, &floats(&[2, 2, 1])).unwrap();
    insta::assert_snapshot!(text(&graph), @r#"
    graph @layer(%x0: f32[x0_0, x0_1], %x1: f32[x1_0, x1_1], %x2: f32[x2_0]) -> f32[x0_0, bcast(x1_1, x2_0)]
      requires x0_1 == x1_0 by "matmul (%3): inner sizes"
      plan x1_1 == x2_0 by "add (%4)"
    {
      %0: f32[x0_0, x1_1] = matmul %x0, %x1
      %1: f32[x0_0, bcast(x1_1, x2_0)] = add %0, %x2
      %2: f32[x0_0, bcast(x1_1, x2_0)] = relu %1
      return "y0" = %2
    }
    "#);
}

#[test]
fn operators_take_variables_and_numbers_on_either_side() {
    let x = f32s(&[2], &[1.0, 4.0]);
    let f = |x: Var| 1.0 + (&x * 2.0 - 3) / &x + (2 - &x) * (8.0 / x);
    assert_eq!(one(&f, &[&x]), [8.0, -1.75]);
    assert_eq!(one(&|x: Var| -(-&x) - x, &[&x]), [0.0, 0.0]);
    let f = |x: Var, y: Var| x * (&y + &y) + y;
    assert_eq!(one(&f, &[&x, &x]), [3.0, 36.0]);
}

#[test]
fn every_function_of_elements_is_known() {
    type Unary = fn(&Var) -> Var;
    let functions: [(Unary, f64); 16] = [
        (Var::relu, 0.5),
        (Var::gelu, 0.345_731_2),
        (Var::silu, 0.311_229_67),
        (Var::sigmoid, 0.622_459_3),
        (Var::tanh, 0.462_117_16),
        (Var::exp, 1.648_721_3),
        (Var::log, -std::f64::consts::LN_2),
        (Var::sqrt, std::f64::consts::FRAC_1_SQRT_2),
        (Var::rsqrt, std::f64::consts::SQRT_2),
        (Var::square, 0.25),
        (Var::abs, 0.5),
        (Var::erf, 0.520_499_9),
        (Var::sin, 0.479_425_54),
        (Var::cos, 0.877_582_55),
        (Var::floor, 0.0),
        (Var::ceil, 1.0),
    ];
    let half = f32s(&[], &[0.5]);
    for (function, expected) in functions {
        let found = one(&|x: Var| function(&x), &[&half]);
        assert!(
            (f64::from(found[0]) - expected).abs() < 1e-6,
            "{found:?} {expected}"
        );
    }
    assert_eq!(one(&|x: Var| x.map("hard_tanh"), &[&half]), [0.5]);
}

#[test]
fn functions_of_two_operands_compare_and_choose() {
    let (x, y) = (f32s(&[3], &[1.0, 2.0, 3.0]), f32s(&[3], &[3.0, 2.0, 1.0]));
    assert_eq!(
        one(&|x: Var, y: Var| x.maximum(y), &[&x, &y]),
        [3.0, 2.0, 3.0]
    );
    assert_eq!(
        one(&|x: Var, y: Var| x.minimum(&y), &[&x, &y]),
        [1.0, 2.0, 1.0]
    );
    assert_eq!(one(&|x: Var| x.pow(2.0), &[&x]), [1.0, 4.0, 9.0]);
    let compare = |x: Var, y: Var| {
        vec![
            x.equal(&y),
            x.not_equal(&y),
            x.less(&y),
            x.less_equal(&y),
            x.greater(&y),
            x.greater_equal(&y),
            x.less(2.5).logical_and(x.greater(1)),
            x.less(1.5).logical_or(!x.less(2.5)),
        ]
    };
    let found: Vec<Vec<bool>> = run(&compare, &[&x, &y])
        .iter()
        .map(|tensor| tensor.to_vec::<bool>().unwrap())
        .collect();
    let (t, f) = (true, false);
    assert_eq!(
        found,
        [
            [f, t, f],
            [t, f, t],
            [t, f, f],
            [t, t, f],
            [f, f, t],
            [f, t, t],
            [f, t, f],
            [t, f, t]
        ]
    );
    let choose = |x: Var, y: Var| x.less(&y).select(&x, &y).cast(DType::F64).cast(DType::F32);
    assert_eq!(one(&choose, &[&x, &y]), [1.0, 2.0, 1.0]);
}

#[test]
fn reductions_take_one_axis_several_or_all() {
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(one(&|x: Var| x.sum(..), &[&x]), [21.0]);
    assert_eq!(one(&|x: Var| x.mean(-1), &[&x]), [2.0, 5.0]);
    assert_eq!(one(&|x: Var| x.max([0]), &[&x]), [4.0, 5.0, 6.0]);
    assert_eq!(one(&|x: Var| x.min(&[0, 1][..]), &[&x]), [1.0]);
    assert_eq!(one(&|x: Var| x.product(1), &[&x]), [6.0, 120.0]);
    let kept = |x: Var| {
        (
            x.sum_keep(0) + x.mean_keep(1),
            x.max_keep(..) - x.min_keep(..),
            x.product_keep(1),
        )
    };
    let shapes: Vec<Vec<usize>> = run(&kept, &[&x])
        .iter()
        .map(|tensor| tensor.shape().to_vec())
        .collect();
    assert_eq!(shapes, [vec![2, 3], vec![1, 1], vec![2, 1]]);
    let rows = one(&|x: Var| x.softmax(-1).sum(1), &[&x]);
    assert!(rows.iter().all(|row| (row - 1.0).abs() < 1e-6));
    let same = one(
        &|x: Var| (x.softmax(0).log() - x.log_softmax(0)).abs().max(..),
        &[&x],
    );
    assert!(same[0] < 1e-5);
}

#[test]
fn movement_functions_are_traced() {
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let turned = [1.0, 4.0, 2.0, 5.0, 3.0, 6.0];
    assert_eq!(one(&|x: Var| x.transpose(), &[&x]), turned);
    assert_eq!(one(&|x: Var| x.permute(&[-1, 0]), &[&x]), turned);
    let shaped = run(&|x: Var| x.reshape([x.size(1), Size::INFER]), &[&x]);
    assert_eq!(shaped[0].shape(), [3, 2]);
    let halves = |x: Var| {
        let half = x.size(1) / 2;
        let left = x.slice(1, 0, &half);
        let right = x.slice(-1, &half, &half * 2);
        right.concat(&[&left], 1)
    };
    assert_eq!(one(&halves, &[&x]), [2.0, 1.0, 5.0, 4.0]);
    let repeated = |x: Var| {
        let rows = x.size(0) + 1 - Size::from(1usize);
        x.slice(0, 0, 1)
            .squeeze(&[0])
            .unsqueeze(0)
            .broadcast_to([rows, x.size(1)])
    };
    assert_eq!(one(&repeated, &[&x]), [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    let indices = Tensor::from_slice(&[2], &[2i64, 0]).unwrap();
    let picked = |x: Var, indices: Var| x.gather(indices, 1);
    assert_eq!(one(&picked, &[&x, &indices]), [3.0, 1.0, 6.0, 4.0]);
    let (at, row) = (
        Tensor::from_slice(&[1], &[1i64]).unwrap(),
        f32s(&[1, 3], &[7.0, 8.0, 9.0]),
    );
    let updated = |x: Var, at: Var, row: Var| x.update_slice(at, row, 0);
    assert_eq!(
        one(&updated, &[&x, &at, &row]),
        [1.0, 2.0, 3.0, 7.0, 8.0, 9.0]
    );
    let weights = f32s(&[3], &[1.0, 0.0, -1.0]);
    let weighted = move |x: Var| x.constant(&weights) * &x;
    assert_eq!(one(&weighted, &[&x]), [1.0, 0.0, -3.0, 4.0, 0.0, -6.0]);
}

#[test]
fn variables_report_dtype_and_shape() {
    let f = |x: Var| {
        assert_eq!((x.dtype(), x.rank()), (Some(DType::F32), 2));
        assert_eq!(format!("{x:?}"), "%x0: f32[x0_0, x0_1]");
        let nothing = x.reshape([Size::INFER, Size::INFER]);
        assert_eq!((nothing.dtype(), nothing.rank()), (None, 0));
        assert_eq!(format!("{nothing:?}"), "a variable without a value");
        // Errors that follow from another one are not reported separately.
        let _ = nothing.size(0) + 1;
        nothing
            .matmul(&x)
            .reshape([nothing.size(5) * 2])
            .slice(0, 1, nothing.size(1))
    };
    let error = trace("f", &f, &floats(&[2])).unwrap_err();
    assert_eq!(error.code(), "E0333");
}

#[test]
fn a_loop_after_a_mistake_has_all_its_results() {
    let f = |x: Var| {
        let nothing = x.softmax(7);
        let results = nothing.scan(&[&nothing], &[&x], |x, states, _| Step {
            states: vec![&states[0] + &x],
            outputs: vec![x.clone(), x],
        });
        assert_eq!(results.len(), 3);
        results[2].clone()
    };
    let error = trace("f", &f, &floats(&[2])).unwrap_err();
    assert_eq!(error.code(), "E0333");
}

#[test]
fn a_step_that_loses_its_states_leaves_all_results() {
    let f = |x: Var| {
        let first = x.sum(0);
        let results = x.scan(&[&first, &first], &[], |x, states, _| Step {
            states: vec![&states[0] + &x],
            outputs: vec![x],
        });
        assert_eq!(results.len(), 3);
        results[2].clone()
    };
    let error = trace("f", &f, &floats(&[2])).unwrap_err();
    assert_eq!(error.code(), "E0361");
    // In a loop inside another loop, whose step failed before.
    let f = |x: Var| {
        let first = x.sum(0);
        let outer = x.repeat(2, &[&first], &[&x], |_, states, captures| {
            let nothing = states[0].softmax(7);
            let inner = captures[0].scan(&[&nothing, &nothing], &[], |_, states, _| Step {
                states: states.to_vec(),
                outputs: Vec::new(),
            });
            Step {
                states: vec![inner[0].clone()],
                outputs: vec![inner[1].clone()],
            }
        });
        outer[1].clone()
    };
    let error = trace("f", &f, &floats(&[2])).unwrap_err();
    assert_eq!(error.code(), "E0333");
}

#[test]
fn mistakes_are_reported_at_the_call() {
    let f = |x: Var, y: Var| {
        let product = x.matmul(&y);
        product.softmax(7) + 1.0
    };
    let error = trace("f", &f, &floats(&[2, 2])).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("tests.rs:"), "{message}");
    assert!(message.contains('7'), "{message}");
    assert_eq!(error.code(), "E0333");
}

#[test]
fn sizes_are_computed_with_and_checked() {
    let refused = |size: &dyn Fn(&Var) -> Size| {
        let reshape = |x: Var| x.reshape([size(&x)]);
        trace("f", &reshape, &floats(&[1])).unwrap_err().code()
    };
    assert_eq!(refused(&|_| Size::from(i64::MAX) * 2), "E0301");
    assert_eq!(refused(&|_| Size::from(usize::MAX)), "E0301");
    // No later arithmetic makes them valid.
    assert_eq!(refused(&|_| Size::from(i64::MAX) * 2 + 5), "E0301");
    assert_eq!(
        refused(&|_| Size::from(5) + Size::from(usize::MAX)),
        "E0301"
    );
    assert_eq!(refused(&|x| x.size(0) + Size::from(usize::MAX)), "E0301");
    assert_eq!(refused(&|_| Size::from(7) / -2), "E0303");
    assert_eq!(refused(&|_| Size::from(7) / 0 + 5), "E0303");
    let inferred = |x: Var| x.broadcast_to([Size::INFER]);
    let error = trace("f", &inferred, &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0886");
    assert!(matches!(error, TraceError::Inferred { .. }));
    let by_zero = |x: Var| x.reshape([x.size(0) / 0]);
    assert!(trace("f", &by_zero, &floats(&[1])).is_err());
    let nothing = |x: Var| x.reshape([Size::INFER + 1]);
    assert!(trace("f", &nothing, &floats(&[1])).is_err());
}

#[test]
fn sizes_have_remainders_and_bounds() {
    // Padded to a multiple of 4, of which at most 6 are used.
    let f = |x: Var| {
        let missing = (Size::from(4) - x.size(0) % 4) % 4;
        let padded = x.pad([(Size::from(0), missing)], -1);
        let most = padded.size(0).min(6).max(1);
        padded.slice(0, 0, most)
    };
    for (count, expected) in [(1, 4), (3, 4), (4, 4), (5, 6)] {
        let found = one(&f, &[&f32s(&[count], &vec![1.0; count])]);
        let kept = count.min(expected);
        let ones = vec![1.0; kept];
        assert_eq!(found, [ones, vec![-1.0; expected - kept]].concat());
    }
    let known = |x: Var| x.slice(0, 0, (Size::from(-7) % 4).max(Size::from(7) % 2));
    assert_eq!(one(&known, &[&f32s(&[3], &[5.0; 3])]), [5.0]);
    let by_zero = |x: Var| x.reshape([Size::from(7) % 0]);
    let error = trace("f", &by_zero, &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0303");
}

#[test]
fn numbers_not_representable_in_the_dtype_are_refused() {
    let refused = |dtype: DType, function: fn(Var) -> Var, number: &str| {
        let error = trace("f", &function, &[ArgumentType::new(dtype, 1)]).unwrap_err();
        assert_eq!(error.code(), "E0804");
        let message = error.to_string();
        let expected = format!("expected a number that {dtype} can represent, found {number};");
        assert!(
            message.contains(&expected) && message.contains("tests.rs:"),
            "{message}"
        );
    };
    refused(DType::I32, |x| x * 0.5, "0.5");
    refused(DType::I32, |x| x.less(2.5), "2.5");
    refused(DType::U8, |x| x + 300, "300");
    refused(DType::U8, |x| -1 + x, "-1");
    refused(DType::I64, |x| x + f64::NAN, "NaN");
    refused(DType::F16, |x| 1e6 * x, "1000000.0");
    refused(DType::Bool, |x| x.scalar(2.0), "2.0");
    // Whole floats, and integers beyond 2^53, are exact.
    let exact = |x: Var| x * 2.0 + ((1_i64 << 53) + 1);
    let x = Tensor::from_slice(&[1], &[3_i64]).unwrap();
    let graph = trace("f", &exact, &[ArgumentType::of(&x)]).unwrap();
    let outputs = interpret(&graph, &[x], &InterpretOptions::default()).unwrap();
    assert_eq!(outputs[0].to_vec::<i64>().unwrap(), [(1 << 53) + 7]);
}

#[test]
fn variables_of_another_recording_are_refused() {
    let kept: RefCell<Option<(Var, Size)>> = RefCell::new(None);
    let keep = |x: Var| {
        *kept.borrow_mut() = Some((x.clone(), x.size(0)));
        x
    };
    trace("f", &keep, &floats(&[1])).unwrap();
    let (old, size) = kept.into_inner().unwrap();
    assert_eq!(old.dtype(), None);
    let error = trace("f", &|x: Var| x + &old, &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0883");
    assert!(error.to_string().contains("another"), "{error}");
    let error = trace("f", &|x: Var| x.reshape([&size]), &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0883");
    let error = trace("f", &|_: Var| old.clone(), &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0883");
}

#[test]
fn functions_are_called_as_they_are_declared() {
    let sum = |a: Var, b: Var| a + b;
    assert_eq!(trace("f", &sum, &floats(&[1])).unwrap_err().code(), "E0885");
    let nothing = |_: Var| Vec::new();
    assert_eq!(
        trace("f", &nothing, &floats(&[1])).unwrap_err().code(),
        "E0884"
    );
    let error = trace("f", &|x: Var| x, &floats(&[33])).unwrap_err();
    assert_eq!(error.code(), "E0887");
    let x = f32s(&[1], &[1.0]);
    let eight = |a: Var, b: Var, c: Var, d: Var, e: Var, f: Var, g: Var, h: Var| {
        a + b + c + d + e + f + g + h
    };
    assert_eq!(one(&eight, &[&x; 8]), [8.0]);
}

#[test]
fn results_have_the_shape_that_the_function_gives() {
    let tensors = || vec![f32s(&[1], &[1.0]), f32s(&[1], &[2.0])];
    let (_, second) = <(Var, Var)>::from_tensors(tensors()).unwrap();
    assert_eq!(second.to_vec::<f32>().unwrap(), [2.0]);
    assert!(<(Var,)>::from_tensors(tensors()).is_none());
    assert!(<(Var, Var, Var)>::from_tensors(tensors()).is_none());
    assert!(Var::from_tensors(tensors()).is_none());
    assert_eq!(<[Var; 2]>::from_tensors(tensors()).unwrap().len(), 2);
    assert_eq!(Vec::<Var>::from_tensors(tensors()).unwrap().len(), 2);
    let x = f32s(&[1], &[2.0]);
    assert_eq!(run(&|x: Var| [x.clone(), x.square()], &[&x]).len(), 2);
    assert_eq!(
        run(&|x: Var| (x.clone(), x.clone(), x.clone(), x), &[&x]).len(),
        4
    );
}

#[test]
fn a_function_is_recorded_once_per_signature() {
    let calls = AtomicUsize::new(0);
    let traced = Traced::new("twice", |x: Var| {
        calls.fetch_add(1, Ordering::Relaxed);
        &x + &x
    });
    for signature in [floats(&[1]), floats(&[2]), floats(&[1])] {
        traced.graph(&signature).unwrap();
    }
    assert_eq!(
        (calls.load(Ordering::Relaxed), traced.n_recordings()),
        (2, 2)
    );
    assert_eq!(format!("{traced:?}"), "Traced(twice)");
    let renamed = traced.named("dxdt");
    assert_eq!(renamed.name(), "dxdt");
    assert_eq!(renamed.graph(&floats(&[1])).unwrap().name(), "dxdt");
    assert_eq!(ArgumentType::new(DType::F32, 2).to_string(), "f32[_, _]");
}
