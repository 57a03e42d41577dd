//! Methods that correspond to lines of NumPy, compared with loops at sizes 0, 1, 2 and a prime; the book's page has an
//! example of each.

use super::{f32s, one, run};
use crate::{ArgumentType, Var, trace};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_tensor::{DType, Tensor};

const SIZES: [usize; 4] = [0, 1, 2, 7];

/// Numbers that go up and down, with ties.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 5) % 7) as f32 - 3.0).collect()
}

fn integers(tensors: Vec<Tensor>) -> Vec<i64> {
    tensors[0].to_vec::<i64>().unwrap()
}

/// Compares a function of a vector with a function of its elements, at every size.
fn vectors<F: Fn(Var) -> Var>(function: F, expected: impl Fn(&[f32]) -> Vec<f32>) {
    for size in SIZES {
        let elements = numbers(size);
        let found = one(&|x: Var| function(x), &[&f32s(&[size], &elements)]);
        assert_eq!(found, expected(&elements), "size {size}");
    }
}

fn running(elements: &[f32], combine: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let mut results: Vec<f32> = Vec::new();
    for &element in elements {
        let next = results
            .last()
            .map_or(element, |&last| combine(last, element));
        results.push(next);
    }
    results
}

#[test]
fn running_reductions_are_those_of_loops() {
    vectors(|x| x.cumsum(0), |x| running(x, |a, b| a + b));
    vectors(|x| x.cumprod(-1), |x| running(x, |a, b| a * b));
    vectors(|x| x.cummax(0), |x| running(x, f32::max));
    vectors(|x| x.cummin(0), |x| running(x, f32::min));
    vectors(
        |x| x.diff(0),
        |x| x.windows(2).map(|pair| pair[1] - pair[0]).collect(),
    );
}

#[test]
fn sorting_keeps_the_order_of_equal_elements() {
    vectors(
        |x| x.sort(0),
        |x| {
            let mut sorted = x.to_vec();
            sorted.sort_by(f32::total_cmp);
            sorted
        },
    );
    for size in SIZES {
        let elements = numbers(size);
        let mut expected: Vec<usize> = (0..size).collect();
        expected.sort_by(|&a, &b| elements[a].total_cmp(&elements[b]));
        let found = integers(run(&|x: Var| x.argsort(0), &[&f32s(&[size], &elements)]));
        let found: Vec<usize> = found.iter().map(|&at| at as usize).collect();
        assert_eq!(found, expected);
    }
    let x = f32s(&[2, 4], &[4.0, 1.0, 3.0, 2.0, 0.0, 0.0, 1.0, 5.0]);
    assert_eq!(one(&|x: Var| x.median(1), &[&x]), [2.5, 0.5]);
    assert_eq!(integers(run(&|x: Var| x.argmin(1), &[&x])), [1, 0]);
}

#[test]
fn places_are_those_of_loops() {
    for shift in [-9, -1, 0, 1, 8] {
        vectors(
            |x| x.roll(shift, 0),
            |x| {
                let size = x.len() as i64;
                let from = |at: i64| x[(at - shift).rem_euclid(size) as usize];
                (0..size).map(from).collect()
            },
        );
    }
    vectors(|x| x.flip(..), |x| x.iter().rev().copied().collect());
    vectors(|x| x.tile([3]), |x| x.repeat(3));
    vectors(
        |x| x.repeat_each(3, 0),
        |x| x.iter().flat_map(|&element| [element; 3]).collect(),
    );
    vectors(
        |x| x.slice_step(0, 1, i64::MAX, 3),
        |x| x.iter().skip(1).step_by(3).copied().collect(),
    );
    vectors(
        |x| x.stack(&[&x, &x], 0).index(0, -1).pad([(2, 1)], 0.5_f32),
        |x| [&[0.5, 0.5], x, &[0.5]].concat(),
    );
    vectors(
        |x| {
            x.flatten()
                .unsqueeze(0)
                .move_axis(0, 1)
                .swap_axes(0, 1)
                .index(0, 0)
        },
        |x| x.to_vec(),
    );
}

#[test]
fn parts_divide_an_axis_or_the_call_fails() {
    let halves = |x: Var| {
        let [low, high] = <[Var; 2]>::try_from(x.split(2, 0)).unwrap();
        (high, low)
    };
    let found = run(&halves, &[&f32s(&[4], &[1.0, 2.0, 3.0, 4.0])]);
    assert_eq!(found[0].to_vec::<f32>().unwrap(), [3.0, 4.0]);
    let graph = trace("f", &halves, &[ArgumentType::new(DType::F32, 1)]).unwrap();
    let odd = [f32s(&[3], &[1.0; 3])];
    assert!(interpret(&graph, &odd, &InterpretOptions::default()).is_err());
}

#[test]
fn an_index_outside_fails_the_call() {
    let graph = trace(
        "f",
        &|x: Var| x.index(0, 2),
        &[ArgumentType::new(DType::F32, 1)],
    )
    .unwrap();
    let call = |size: usize| {
        let x = f32s(&[size], &numbers(size));
        interpret(&graph, &[x], &InterpretOptions::default())
    };
    assert_eq!(call(7).unwrap()[0].to_vec::<f32>().unwrap(), [0.0]);
    assert!(call(2).is_err());
}

#[test]
fn matrices_keep_one_side_of_a_diagonal() {
    for (rows, columns) in [(0, 2), (1, 1), (2, 3), (5, 2)] {
        let x = f32s(&[rows, columns], &vec![1.0; rows * columns]);
        for diagonal in [-1, 0, 2] {
            let expected = |keeps: fn(i64, i64) -> bool| -> Vec<f32> {
                let places =
                    (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
                let kept = places.map(|(row, column)| keeps(column as i64 - row as i64, diagonal));
                kept.map(|kept| f32::from(u8::from(kept))).collect()
            };
            let low = one(&|x: Var| x.tril(diagonal), &[&x]);
            assert_eq!(low, expected(|offset, diagonal| offset <= diagonal));
            let high = one(&|x: Var| x.triu(diagonal), &[&x]);
            assert_eq!(high, expected(|offset, diagonal| offset >= diagonal));
        }
    }
}

#[test]
fn numbers_of_every_type_are_operands() {
    let x = f32s(&[2], &[3.0, -3.0]);
    assert_eq!(one(&|x: Var| x * 2.0_f32 + 1_i32, &[&x]), [7.0, -5.0]);
    assert_eq!(one(&|x: Var| x.clip(-1, 2.5_f32), &[&x]), [2.5, -1.0]);
    assert_eq!(one(&|x: Var| &x * x.size(0), &[&x]), [6.0, -6.0]);
    assert_eq!(one(&|x: Var| x % 2, &[&x]), [1.0, -1.0]);
    assert_eq!(one(&|x: Var| x.remainder(2), &[&x]), [1.0, 1.0]);
    let assigned = |x: Var| {
        let mut x = x;
        x += 1;
        x *= 2;
        x -= 2;
        x /= 2_f32;
        x
    };
    assert_eq!(one(&assigned, &[&x]), [3.0, -3.0]);
    let graph = trace(
        "f",
        &|n: Var| n * 0.5_f32,
        &[ArgumentType::new(DType::I32, 1)],
    );
    assert_eq!(graph.unwrap_err().code(), "E0804");
}

#[test]
fn bits_and_truth_values_share_operators() {
    let n = Tensor::from_slice(&[2], &[6_i64, 3]).unwrap();
    let f = |n: Var| (&n & 2) + ((&n | 1) ^ 4) + (&n << 1) - (&n >> 1) + !n;
    let expected: Vec<i64> = [6_i64, 3]
        .iter()
        .map(|&n| (n & 2) + ((n | 1) ^ 4) + (n << 1) - (n >> 1) + !n)
        .collect();
    assert_eq!(integers(run(&f, &[&n])), expected);
    let b = Tensor::from_slice(&[2], &[true, false]).unwrap();
    let f = |b: Var| (!&b & true) | (b ^ true);
    let found = run(&f, &[&b]).remove(0);
    assert_eq!(found.to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn sums_of_exponentials_neither_overflow_nor_become_nan() {
    let infinite = f32::INFINITY;
    let x = f32s(
        &[4, 2],
        &[
            1000.0, 1000.0, -infinite, -infinite, infinite, 0.0, 0.0, 0.0,
        ],
    );
    let found = one(&|x: Var| x.log_sum_exp(1), &[&x]);
    assert!((found[0] - 1_000.693_1).abs() < 1e-3, "{found:?}");
    assert_eq!(found[1..3], [-infinite, infinite]);
    assert!((found[3] - std::f32::consts::LN_2).abs() < 1e-6);
}

#[test]
fn sources_take_sizes_and_integers_of_any_kind() {
    for size in SIZES {
        let x = f32s(&[size], &numbers(size));
        let ones = one(&|x: Var| x.full_like(1), &[&x]);
        assert_eq!(ones, vec![1.0; size]);
        let eye = one(&|x: Var| x.eye(x.size(0)).sum(1), &[&x]);
        assert_eq!(eye, vec![1.0; size]);
        let steps = one(&|x: Var| x.linspace(2.0, 4.0, x.size(0)), &[&x]);
        assert_eq!(steps.len(), size);
        assert_eq!(steps.first().copied().unwrap_or(2.0), 2.0);
        let last = if size > 1 { 4.0 } else { 2.0 };
        assert!((steps.last().copied().unwrap_or(last) - last).abs() < 1e-6);
    }
    let classes = Tensor::from_slice(&[3], &[1_u8, 9, 0]).unwrap();
    let hot = one(&|n: Var| n.one_hot(2, DType::F32), &[&classes]);
    assert_eq!(hot, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
}

#[test]
fn spread_and_counts_are_those_of_loops() {
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 4.0, 4.0]);
    let found = one(&|x: Var| x.variance(1), &[&x]);
    assert!(
        (found[0] - 2.0 / 3.0).abs() < 1e-6 && found[1] == 0.0,
        "{found:?}"
    );
    assert_eq!(
        one(&|x: Var| (x + 2).norm(..), &[&f32s(&[1], &[1.0])]),
        [3.0]
    );
    assert_eq!(
        integers(run(&|x: Var| (x - 4).count_nonzero(1), &[&x])),
        [3, 0]
    );
}

#[test]
fn updates_replace_or_combine() {
    let x = f32s(&[3, 1], &[1.0, 2.0, 3.0]);
    let at = Tensor::from_slice(&[2], &[2_i64, 2]).unwrap();
    let updates = f32s(&[2, 1], &[10.0, 20.0]);
    let all = [&x, &at, &updates];
    let set = one(&|x: Var, at: Var, u: Var| x.set_at(at, u), &all);
    assert_eq!(set, [1.0, 2.0, 20.0]);
    let added = one(&|x: Var, at: Var, u: Var| x.add_at(at, u), &all);
    assert_eq!(added, [1.0, 2.0, 33.0]);
    let multiplied = one(&|x: Var, at: Var, u: Var| x.multiply_at(at, u), &all);
    assert_eq!(multiplied, [1.0, 2.0, 600.0]);
    let least = one(&|x: Var, at: Var, u: Var| x.min_at(at, u), &all);
    assert_eq!(least, [1.0, 2.0, 3.0]);
    let most = one(&|x: Var, at: Var, u: Var| x.max_at(at, u), &all);
    assert_eq!(most, [1.0, 2.0, 20.0]);
    let rows = Tensor::from_slice(&[2, 1], &[2_i64, 2]).unwrap();
    let all = [&x, &rows, &updates];
    let set = one(&|x: Var, at: Var, u: Var| x.set_elements(at, u, 0), &all);
    assert_eq!(set, [1.0, 2.0, 20.0]);
    let added = one(&|x: Var, at: Var, u: Var| x.add_elements(at, u, 0), &all);
    assert_eq!(added, [1.0, 2.0, 33.0]);
}

#[test]
fn a_slice_is_set_as_it_is_read() {
    for (start, end, step) in [(0, i64::MAX, 2), (1, -1, 1), (-1, -i64::MAX, -3), (5, 2, 1)] {
        vectors(
            |x| x.set_slice(0, start, end, step, 9),
            |x| {
                let positions: Vec<f32> = (0..x.len()).map(|at| at as f32).collect();
                let read = |x: Var| x.slice_step(0, start, end, step);
                let replaced = one(&read, &[&f32s(&[x.len()], &positions)]);
                let element = |at: &f32| match replaced.contains(at) {
                    true => 9.0,
                    false => x[*at as usize],
                };
                positions.iter().map(element).collect()
            },
        );
    }
    // The value that is set is broadcast; the other axis stays in place.
    let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let column = f32s(&[2, 1], &[7.0, 8.0]);
    let set = |x: Var, column: Var| x.set_slice(-1, 0, 2, 1, column);
    assert_eq!(one(&set, &[&x, &column]), [7.0, 7.0, 3.0, 8.0, 8.0, 6.0]);
}

#[test]
fn constant_tensors_are_operands_and_functions_have_parameters() {
    let x = f32s(&[2], &[3.0, -4.0]);
    let weights = f32s(&[2], &[2.0, 10.0]);
    assert_eq!(one(&|x: Var| x * &weights, &[&x]), [6.0, -40.0]);
    let leaky = |x: Var| x.map_with("leaky_relu", &[0.25]);
    assert_eq!(one(&leaky, &[&x]), [3.0, -1.0]);
    let types = [ArgumentType::new(DType::F32, 1)];
    let error = trace("f", &|x: Var| x.map_with("relu", &[1.0]), &types).unwrap_err();
    assert_eq!(error.code(), "E0333");
}

#[test]
fn loops_end_by_their_condition_and_branches_are_chosen_by_values() {
    let halvings = |x: Var, by: Var| {
        let count = x.full_like(0);
        let last = x.repeat_while(
            &[&x, &count],
            &[&by],
            |states, _| states[0].greater_equal(1),
            |states, captures| vec![&states[0] / &captures[0], &states[1] + 1],
        );
        last[1].clone()
    };
    for (number, expected) in [(0.5, 0.0), (1.0, 1.0), (1000.0, 10.0)] {
        let by = f32s(&[], &[2.0]);
        assert_eq!(one(&halvings, &[&f32s(&[], &[number]), &by]), [expected]);
    }
    let scaled = |x: Var| {
        let large = x.max(..).greater(1);
        let [y, n] = large.choose(
            &[&x],
            |x| [&x[0] / 10, x[0].sum(..)],
            |x| [x[0].clone(), x[0].full::<i64>([], 7)],
        );
        (y, n)
    };
    let found = run(&scaled, &[&f32s(&[2], &[20.0, 10.0])]);
    assert_eq!(found[0].to_vec::<f32>().unwrap(), [2.0, 1.0]);
    assert_eq!(found[1].to_vec::<f32>().unwrap(), [30.0]);
    let found = run(&scaled, &[&f32s(&[2], &[0.5, 1.0])]);
    assert_eq!(found[0].to_vec::<f32>().unwrap(), [0.5, 1.0]);
    assert_eq!(found[1].to_vec::<f32>().unwrap(), [7.0]);
    // A variable from outside is an error, and so is a state that changes its type.
    let wrong = |x: Var| {
        let outside = &x + 1;
        let last = x.repeat_while(
            &[&x],
            &[],
            |s, _| s[0].less(9),
            |s, _| vec![&s[0] + &outside],
        );
        last[0].clone()
    };
    assert!(trace("f", &wrong, &[ArgumentType::new(DType::F32, 0)]).is_err());
    let wrong = |x: Var| {
        let last = x.repeat_while(
            &[&x],
            &[],
            |s, _| s[0].less(9),
            |s, _| vec![s[0].cast(DType::I32)],
        );
        last[0].clone()
    };
    assert!(trace("f", &wrong, &[ArgumentType::new(DType::F32, 0)]).is_err());
}

#[test]
fn a_function_may_take_twelve_variables() {
    let x = f32s(&[], &[1.0]);
    type V = Var;
    #[rustfmt::skip]
    let sum = |a: V, b: V, c: V, d: V, e: V, f: V, g: V, h: V, i: V, j: V, k: V, l: V| {
        a + b + c + d + e + f + g + h + i + j + k + l
    };
    assert_eq!(one(&sum, &[&x; 12]), [12.0]);
}
