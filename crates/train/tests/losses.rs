//! Losses compared with their formulas, written out for single numbers, and their gradients with finite differences.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::autodiff::{CheckOptions, GradientRequest, check_gradients, differentiate};
use kiln::{AxisSize, Cache, DType, Device, Options, Recording, Source, Tensor, Var};
use kiln_train::losses::{self, CrossEntropy};

const CLASSES: usize = 3;

/// `[2, 2, CLASSES]`, without equal elements.
const LOGITS: [f64; 12] = [
    0.3, -1.2, 0.8, 2.0, 0.1, -0.4, -0.9, 0.6, 1.4, 0.2, -2.1, 0.7,
];
const LABELS: [i64; 4] = [2, 0, 1, 2];

type Loss = dyn Fn(&[Var]) -> Var;

/// The loss on the interpreter and compiled, which agree; its gradients with respect to the first input equal finite
/// differences.
fn value(inputs: &[(Tensor, bool)], loss: &Loss) -> f64 {
    let recording = Recording::new("loss");
    let variables: Vec<Var> = inputs
        .iter()
        .enumerate()
        .map(|(index, (tensor, _))| {
            let size = |axis: usize| AxisSize::Named(format!("n{axis}"));
            let sizes: Vec<AxisSize> = (0..tensor.rank()).map(size).collect();
            recording.input(&format!("x{index}"), tensor.dtype(), sizes)
        })
        .collect();
    let y = loss(&variables);
    let graph = recording.finish(&[("loss", &y)]).unwrap();
    let tensors: Vec<Tensor> = inputs.iter().map(|(tensor, _)| tensor.clone()).collect();
    let wrt: Vec<usize> = (0..inputs.len()).filter(|&index| inputs[index].1).collect();
    let request = GradientRequest::of_scalar(0, &wrt);
    let joint = differentiate(&graph, &request).unwrap();
    let mut found = Vec::new();
    for device in [Device::interpreter(), Device::cpu()] {
        let options = Options::new().cache(Cache::off()).device(device);
        let model = options.load(Source::graph(graph.clone())).unwrap();
        let both = options.load(Source::graph(joint.graph.clone())).unwrap();
        let mut run = |of: &kiln::internals::ir::Graph, inputs: &[Tensor]| {
            let model = if of.outputs().len() == 1 {
                &model
            } else {
                &both
            };
            model.run(inputs).map(kiln::Outputs::into_tensors)
        };
        let check = CheckOptions::default();
        let report =
            check_gradients(&graph, &joint, &request, (&tensors, &[]), &check, &mut run).unwrap();
        assert!(report.passes(), "{report}");
        let loss = model.run(&tensors).unwrap();
        found.push(loss.get("loss").unwrap().to_vec::<f64>().unwrap()[0]);
    }
    assert!((found[0] - found[1]).abs() < 1e-12, "{found:?}");
    found[0]
}

fn is_near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-12,
        "{found}, expected {expected}"
    );
}

fn logits() -> (Tensor, bool) {
    (Tensor::from_slice(&[2, 2, CLASSES], &LOGITS).unwrap(), true)
}

fn labels(labels: &[i64; 4]) -> (Tensor, bool) {
    (Tensor::from_slice(&[2, 2], labels).unwrap(), false)
}

/// `-log softmax` of each position.
fn terms() -> Vec<[f64; CLASSES]> {
    let rows = LOGITS.chunks_exact(CLASSES);
    rows.map(|row| {
        let sum: f64 = row.iter().map(|logit| logit.exp()).sum();
        [0, 1, 2].map(|class| sum.ln() - row[class])
    })
    .collect()
}

#[test]
fn cross_entropy_is_its_formula() {
    let found = value(&[logits(), labels(&LABELS)], &|x| {
        losses::cross_entropy(&x[0], &x[1])
    });
    let picked = terms().into_iter().zip(LABELS);
    let sum: f64 = picked.map(|(row, label)| row[label as usize]).sum();
    is_near(found, sum / 4.0);
    let found = value(&[logits(), labels(&LABELS)], &|x| {
        losses::negative_log_likelihood(&x[0].log_softmax(-1), &x[1])
    });
    is_near(found, sum / 4.0);
}

#[test]
fn smoothed_labels_share_with_all_classes() {
    let found = value(&[logits(), labels(&LABELS)], &|x| {
        CrossEntropy::default().smoothing(0.2).of(&x[0], &x[1])
    });
    let picked = terms().into_iter().zip(LABELS).map(|(row, label)| {
        let mean = row.iter().sum::<f64>() / CLASSES as f64;
        0.8 * row[label as usize] + 0.2 * mean
    });
    is_near(found, picked.sum::<f64>() / 4.0);
}

#[test]
fn positions_that_do_not_count_change_nothing() {
    let padded = [2, -100, 1, -100];
    let expected = (terms()[0][2] + terms()[2][1]) / 2.0;
    let ignoring = |x: &[Var]| CrossEntropy::default().ignoring(-100).of(&x[0], &x[1]);
    is_near(value(&[logits(), labels(&padded)], &ignoring), expected);
    // If no position counts, the loss and its gradients are 0.
    is_near(value(&[logits(), labels(&[-100; 4])], &ignoring), 0.0);

    let mask = Tensor::from_slice(&[2, 2], &[true, true, true, false]).unwrap();
    let masked = |x: &[Var]| {
        let loss = CrossEntropy::default().mask(&x[2]).ignoring(-100);
        loss.of(&x[0], &x[1])
    };
    let found = value(
        &[logits(), labels(&[2, -100, 1, 0]), (mask, false)],
        &masked,
    );
    is_near(found, expected);
}

#[test]
fn a_masked_mean_ignores_what_is_infinite() {
    let x = Tensor::from_slice(&[3], &[1.0, f64::INFINITY, 4.0]).unwrap();
    let mask = Tensor::from_slice(&[3], &[true, false, true]).unwrap();
    let found = value(&[(x, false), (mask, false)], &|x| {
        losses::masked_mean(&x[0], &x[1])
    });
    is_near(found, 2.5);
    let x = Tensor::from_slice(&[3], &[1.0, -1.0, 4.0]).unwrap();
    let mask = Tensor::from_slice(&[3], &[true, false, true]).unwrap();
    // The logarithm of a masked negative number is NaN, but its gradient is zero.
    let found = value(&[(x, true), (mask, false)], &|x| {
        losses::masked_mean(&x[0].log(), &x[1])
    });
    is_near(found, 4.0_f64.ln() / 2.0);
}

#[test]
fn distances_are_their_formulas() {
    let (x, y) = ([0.5_f64, -2.0, 3.0, 0.2], [0.0_f64, 1.0, 2.9, 0.9]);
    let pair = || [x, y].map(|numbers| (Tensor::from_slice(&[4], &numbers).unwrap(), true));
    let mean = |of: &dyn Fn(f64) -> f64| {
        let terms = x.iter().zip(&y).map(|(x, y)| of((x - y).abs()));
        terms.sum::<f64>() / 4.0
    };
    let found = value(&pair(), &|x| losses::mean_absolute_error(&x[0], &x[1]));
    is_near(found, mean(&|e| e));
    let found = value(&pair(), &|x| losses::mean_squared_error(&x[0], &x[1]));
    is_near(found, mean(&|e| e * e));
    let found = value(&pair(), &|x| losses::huber(&x[0], &x[1], 0.6));
    let huber = |e: f64| {
        if e <= 0.6 {
            e * e / 2.0
        } else {
            0.6 * (e - 0.3)
        }
    };
    is_near(found, mean(&huber));
}

#[test]
fn binary_cross_entropy_takes_large_logits() {
    let logits = Tensor::from_slice(&[4], &[0.3, -1.0, 60.0, -60.0]).unwrap();
    let y = Tensor::from_slice(&[4], &[1.0, 0.0, 1.0, 0.5]).unwrap();
    let found = value(&[(logits, true), (y, false)], &|x| {
        losses::binary_cross_entropy(&x[0], &x[1])
    });
    let softplus = |x: f64| x.exp().ln_1p();
    is_near(found, (softplus(-0.3) + softplus(-1.0) + 0.0 + 30.0) / 4.0);
}

#[test]
fn divergences_are_zero_where_a_class_is_impossible() {
    let p = Tensor::from_slice(&[2, 3], &[0.5, 0.5, 0.0, 0.2, 0.3, 0.5]).unwrap();
    let q = Tensor::from_slice(&[2, 3], &[0.25, 0.25, 0.5, 0.4, 0.4, 0.2]).unwrap();
    let found = value(&[(q, true), (p, false)], &|x| {
        losses::kl_divergence(&x[0].log(), &x[1])
    });
    let term = |p: f64, q: f64| p * (p / q).ln();
    let rows = [
        term(0.5, 0.25) + term(0.5, 0.25),
        term(0.2, 0.4) + term(0.3, 0.4) + term(0.5, 0.2),
    ];
    is_near(found, (rows[0] + rows[1]) / 2.0);
}

#[test]
fn labels_that_are_not_integers_are_refused() {
    let recording = Recording::new("loss");
    let x = recording.input("x", DType::F64, ["B".into(), 3.into()]);
    let labels = recording.input("labels", DType::F64, ["B".into()]);
    let loss = losses::cross_entropy(&x, &labels);
    let refused = recording.finish(&[("loss", &loss)]);
    assert!(refused.is_err());
}
