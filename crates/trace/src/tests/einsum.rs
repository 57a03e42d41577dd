//! Einsums, recorded once per equation and compared with loops over every label; their gradients; invalid equations.

use super::{f32s, floats, one, text};
use crate::{Var, trace};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_tensor::{DType, Tensor};

/// Equations, each with its form without ellipses and with an explicit result.
const EQUATIONS: [(&str, &str); 21] = [
    ("ij,jk->ik", "ij,jk->ik"),
    ("ij,jk", "ij,jk->ik"),
    ("ba,b", "ba,b->a"),
    ("bij,bjk->bik", "bij,bjk->bik"),
    ("ij,kj->ki", "ij,kj->ki"),
    ("bihd,bjhd->bhij", "bihd,bjhd->bhij"),
    ("ijkl,lkm->mij", "ijkl,lkm->mij"),
    ("i,j->ij", "i,j->ij"),
    ("i,i->i", "i,i->i"),
    ("i,i", "i,i->"),
    ("ij,k->i", "ij,k->i"),
    ("ij->ji", "ij->ji"),
    ("ij->", "ij->"),
    ("ii", "ii->"),
    ("ii->i", "ii->i"),
    ("iji,i->j", "iji,i->j"),
    ("iii->i", "iii->i"),
    ("ij,jk,kl->il", "ij,jk,kl->il"),
    ("ij,ij,ij->j", "ij,ij,ij->j"),
    ("...ij,...jk->...ik", "xyij,yjk->xyik"),
    ("i...,...->...i", "ixy,xy->xyi"),
];

/// The size of each letter.
type Sizes = fn(char) -> usize;

/// Sizes that differ, some of them equal; all 1; 0 for some.
const SIZES: [Sizes; 4] = [
    |letter| 2 + (letter as usize) % 3,
    |_| 1,
    |letter| usize::from(letter != 'j') * 2,
    |letter| usize::from(letter != 'i') * 3,
];

/// A tensor as its shape and its elements.
type Dense = (Vec<usize>, Vec<f32>);

/// The element at the values of the labels; axes of size 1 are repeated.
fn element((shape, elements): &Dense, term: &str, value: &impl Fn(char) -> usize) -> f32 {
    let axes = shape.iter().zip(term.chars());
    let offset = axes.fold(0, |offset, (&size, letter)| {
        offset * size + if size == 1 { 0 } else { value(letter) }
    });
    elements[offset]
}

/// The result of an equation with an explicit result and no ellipses: all products, added one by one.
fn by_loops(equation: &str, operands: &[Dense]) -> Dense {
    let (left, result) = equation.split_once("->").unwrap();
    let terms: Vec<&str> = left.split(',').collect();
    let mut letters: Vec<char> = result.chars().collect();
    for letter in left.chars().filter(|&c| c != ',') {
        if !letters.contains(&letter) {
            letters.push(letter);
        }
    }
    let size = |letter: char| {
        let all = terms.iter().zip(operands);
        let mut axes = all.flat_map(|(term, operand)| term.chars().zip(&operand.0));
        let found = axes.find(|&(other, &size)| other == letter && size != 1);
        found.map_or(1, |(_, &size)| size)
    };
    let sizes: Vec<usize> = letters.iter().map(|&letter| size(letter)).collect();
    let (kept, summed) = sizes.split_at(result.chars().count());
    let (n_results, n_summed): (usize, usize) = (kept.iter().product(), summed.iter().product());
    let mut sums = vec![0.0; n_results];
    for point in 0..n_results * n_summed {
        let value = |letter: char| {
            let axis = letters.iter().position(|&other| other == letter).unwrap();
            let inner: usize = sizes[axis + 1..].iter().product();
            point / inner % sizes[axis]
        };
        let factors = terms.iter().zip(operands);
        let factors = factors.map(|(term, operand)| element(operand, term, &value));
        sums[point / n_summed] += factors.product::<f32>();
    }
    (kept.to_vec(), sums)
}

/// Small integers, whose products and sums are exact.
fn drawn(shape: Vec<usize>, seed: usize) -> Dense {
    let count = shape.iter().product();
    let elements = (0..count).map(|at: usize| ((at + seed) * 5 % 7) as f32 - 3.0);
    (shape, elements.collect())
}

fn operands(spelled: &str, size: Sizes) -> Vec<Dense> {
    let (left, _) = spelled.split_once("->").unwrap();
    let terms = left.split(',').enumerate();
    let operand = |(seed, term): (usize, &str)| drawn(term.chars().map(size).collect(), seed);
    terms.map(operand).collect()
}

fn tensors(operands: &[Dense]) -> Vec<Tensor> {
    let tensors = operands
        .iter()
        .map(|(shape, elements)| f32s(shape, elements));
    tensors.collect()
}

/// Records a function with one variable per operand, and calls it.
fn computed(function: &dyn Fn(&[Var]) -> Vec<Var>, operands: &[Tensor]) -> Vec<Tensor> {
    let ranks: Vec<usize> = operands.iter().map(Tensor::rank).collect();
    let types = floats(&ranks);
    let graph = match operands.len() {
        1 => trace("f", &|a: Var| function(&[a]), &types),
        2 => trace("f", &|a: Var, b: Var| function(&[a, b]), &types),
        _ => trace("f", &|a: Var, b: Var, c: Var| function(&[a, b, c]), &types),
    };
    interpret(&graph.unwrap(), operands, &InterpretOptions::default()).unwrap()
}

fn einsum(equation: &str, operands: &[Var]) -> Var {
    let others: Vec<&Var> = operands[1..].iter().collect();
    operands[0].einsum(equation, &others)
}

#[test]
fn equations_are_sums_over_all_labels_at_any_size() {
    for (equation, spelled) in EQUATIONS {
        for size in SIZES {
            let operands = operands(spelled, size);
            let (shape, expected) = by_loops(spelled, &operands);
            let found = computed(&|x| vec![einsum(equation, x)], &tensors(&operands));
            assert_eq!(found[0].shape(), shape, "{equation}");
            assert_eq!(found[0].to_vec::<f32>().unwrap(), expected, "{equation}");
        }
    }
}

#[test]
fn gradients_are_those_of_a_function_linear_in_each_operand() {
    for (equation, spelled) in EQUATIONS {
        let operands = operands(spelled, SIZES[0]);
        let slopes = |x: &[Var]| {
            let all: Vec<&Var> = x.iter().collect();
            einsum(equation, x).sum(..).gradients_of_all(&all)
        };
        let found = computed(&slopes, &tensors(&operands));
        for (index, slope) in found.iter().enumerate() {
            // The slope of an element is the sum of the result when that element is 1 and the others of its operand are
            // 0.
            let slope_of = |at: usize| {
                let mut operands = operands.clone();
                operands[index].1.fill(0.0);
                operands[index].1[at] = 1.0;
                by_loops(spelled, &operands).1.iter().sum::<f32>()
            };
            let expected: Vec<f32> = (0..operands[index].1.len()).map(slope_of).collect();
            assert_eq!(slope.shape(), operands[index].0, "{equation}");
            assert_eq!(slope.to_vec::<f32>().unwrap(), expected, "{equation}");
        }
    }
}

#[test]
fn sizes_of_1_are_repeated() {
    // Axes of an ellipsis at any size; other axes if their size is known.
    let batches = [drawn(vec![1, 2, 3], 0), drawn(vec![4, 3, 2], 1)];
    let found = computed(
        &|x| vec![einsum("...ij,...jk->...ik", x)],
        &tensors(&batches),
    );
    let (shape, expected) = by_loops("xij,xjk->xik", &batches);
    assert_eq!(found[0].shape(), shape);
    assert_eq!(found[0].to_vec::<f32>().unwrap(), expected);
    let rows = [drawn(vec![2, 1], 0), drawn(vec![3, 2], 1)];
    for equation in ["ij,jk->ik", "ij,jk->jik", "ij,jk->i"] {
        let known = |x: &[Var]| {
            let [row, other] = [x[0].reshape([2, 1]), x[1].reshape([3, 2])];
            vec![row.einsum(equation, &[&other])]
        };
        let found = computed(&known, &tensors(&rows));
        let (shape, expected) = by_loops(equation, &rows);
        assert_eq!(found[0].shape(), shape, "{equation}");
        assert_eq!(found[0].to_vec::<f32>().unwrap(), expected, "{equation}");
    }
}

#[test]
fn products_of_matrices_stay_what_they_are() {
    let product = |x: Var, y: Var| x.einsum("bij,bjk->bik", &[&y]);
    let graph = trace("product", &product, &floats(&[3, 3])).unwrap();
    insta::assert_snapshot!(text(&graph), @r#"
    graph @product(%x0: f32[x0_0, x0_1, x0_2], %x1: f32[x1_0, x1_1, x1_2]) -> f32[bcast(x0_0, x1_0), x0_1, x1_2]
      requires x0_2 == x1_1 by "matmul (%2): inner sizes"
      plan x0_0 == x1_0 by "matmul (%2)"
    {
      %0: f32[bcast(x0_0, x1_0), x0_1, x1_2] = matmul %x0, %x1
      return "y0" = %0
    }
    "#);
    let scores = |x: Var, y: Var| x.einsum("qhd,khd->hqk", &[&y]);
    let graph = trace("scores", &scores, &floats(&[3, 3])).unwrap();
    let ops: Vec<_> = graph.ops().map(|(_, data)| data.op.mnemonic()).collect();
    assert_eq!(ops, ["transpose", "transpose", "matmul"]);
}

#[test]
fn integers_and_f64_keep_their_type() {
    let x = Tensor::from_slice(&[2], &[100_i8, 2]).unwrap();
    let found = super::run(&|x: Var, y: Var| x.einsum("i,i", &[&y]), &[&x, &x]).remove(0);
    assert_eq!(found.to_vec::<i8>().unwrap(), [20]);
    let x = Tensor::from_slice(&[2, 1], &[0.1_f64, 0.2]).unwrap();
    let found = super::run(&|x: Var| x.einsum("ij,ik->jk", &[&x]), &[&x]).remove(0);
    assert_eq!(found.dtype(), DType::F64);
    assert!((found.to_vec::<f64>().unwrap()[0] - 0.05).abs() < 1e-16);
}

#[test]
fn a_diagonal_needs_equal_sizes_in_every_call() {
    let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    assert_eq!(one(&|x: Var| x.einsum("ii", &[]), &[&x]), [5.0]);
    let graph = trace("f", &|x: Var| x.einsum("ii", &[]), &floats(&[2])).unwrap();
    let wide = f32s(&[1, 2], &[1.0, 2.0]);
    assert!(interpret(&graph, &[wide], &InterpretOptions::default()).is_err());
    // In a loop too, where the requirement is not checked before the call.
    let in_loop = |x: Var| {
        let first = x.full::<i64>([], 0);
        let last = x.repeat_while(
            &[&first],
            &[&x],
            |states, _| states[0].less(1),
            |states, x| vec![x[0].einsum("ii", &[]) + &states[0]],
        );
        last[0].clone()
    };
    assert_eq!(one(&in_loop, &[&x]), [5.0]);
    let graph = trace("f", &in_loop, &floats(&[2])).unwrap();
    let wide = f32s(&[1, 2], &[1.0, 2.0]);
    assert!(interpret(&graph, &[wide], &InterpretOptions::default()).is_err());
}

#[test]
fn mistakes_name_the_term() {
    let refused = |equation: &str, n_operands: usize| {
        let f = |x: Var, y: Var| {
            let x = x.reshape([2, 3]);
            let y = y.reshape([4, 5]);
            x.einsum(equation, &[&y, &y][..n_operands - 1])
        };
        let error = trace("f", &f, &floats(&[2, 2])).unwrap_err();
        let message = error.to_string();
        let (_, message) = message.split_once("einsum.rs:").unwrap();
        let (_, message) = message.split_once(": ").unwrap();
        format!("[{}] {message}", error.code())
    };
    let lines = [
        refused("ij,jk->ik", 1),
        refused("ij,j->i", 2),
        refused("i...jk,kl", 2),
        refused("i1,kl", 2),
        refused("i...j...,kl", 2),
        refused("ij,kl->iz", 2),
        refused("ij,kl->ii", 2),
        refused("ij->->", 1),
        refused("ij,jk->ik", 2),
        refused("ij,kk->i", 2),
    ];
    insta::assert_snapshot!(lines.join("\n"), @r#"
    [E0333] einsum: attribute equation: expected 1 terms, one per operand, found 2 in "ij,jk->ik"
    [E0333] einsum: attribute equation: expected a label for each of the 2 axes of operand 1, found "j"
    [E0333] einsum: attribute equation: expected a label for each of the 2 axes of operand 0, found "i...jk"
    [E0333] einsum: attribute equation: expected letters and at most one ellipsis in each term, found "i1"
    [E0333] einsum: attribute equation: expected letters and at most one ellipsis in each term, found "i...j..."
    [E0333] einsum: attribute equation: expected labels of operands in the result, found `z` in "iz"
    [E0333] einsum: attribute equation: expected each label once in the result, found `i` twice in "ii"
    [E0333] einsum: attribute equation: expected letters and at most one ellipsis in each term, found "->"
    [E0331] einsum: sizes labelled `j` (terms "ij" and "jk") of %2: f32[2, 3] and %3: f32[4, 5] differ: expected 3, found 4
    [E0331] einsum: sizes labelled `k` (term "kk") of %3: f32[4, 5] and itself differ: expected 4, found 5
    "#);
    let mixed = |x: Var| x.einsum("i,i", &[&x.cast(DType::F64)]);
    let error = trace("f", &mixed, &floats(&[1])).unwrap_err();
    assert_eq!(error.code(), "E0332");
}
