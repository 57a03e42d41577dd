//! `ai.onnx.ml` with inconsistent attributes: errors or results, never a panic.

use kiln_interpreter::{InterpretOptions, interpret};
use kiln_tensor::DType;

use super::net::*;
use crate::ImportOptions;
use crate::proto::AttributeProto;

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    /// One of `0..sides`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }

    fn integer(&mut self) -> i64 {
        match self.roll(40) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => 1 << 40,
            other => other as i64 % 5 - 1,
        }
    }

    fn number(&mut self) -> f32 {
        match self.roll(20) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            2 => f32::NEG_INFINITY,
            other => other as f32 - 10.0,
        }
    }

    /// Usually the same length, as for attributes that belong together.
    fn length(&mut self) -> u64 {
        match self.roll(12) {
            0 => self.roll(4),
            _ => 3,
        }
    }

    fn attribute(&mut self, name: &str) -> AttributeProto {
        let length = self.length();
        match name.split_once(':') {
            Some((name, "i")) => int(name, self.integer()),
            Some((name, "is")) => {
                let all: Vec<i64> = (0..length).map(|_| self.integer()).collect();
                ints(name, &all)
            }
            Some((name, "fs")) => {
                let all: Vec<f32> = (0..length).map(|_| self.number()).collect();
                floats(name, &all)
            }
            Some((name, "f")) => float(name, self.number()),
            Some((name, "t")) => {
                let all: Vec<f32> = (0..length).map(|_| self.number()).collect();
                let tensor = f32s(&[all.len()], &all);
                AttributeProto {
                    t: Some(Box::new(initializer("", &tensor))),
                    ..crate::tests::build::attribute(name, 4)
                }
            }
            Some((name, "m")) => {
                let modes = ["BRANCH_LEQ", "BRANCH_EQ", "LEAF", "BRANCH_GT", "BRANCH_NEQ"];
                let all = (0..length).map(|_| modes[self.roll(5) as usize]);
                AttributeProto {
                    strings: all.map(|mode| mode.as_bytes().to_vec().into()).collect(),
                    ..crate::tests::build::attribute(name, 8)
                }
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

const TREE: &str = "nodes_treeids:is nodes_nodeids:is nodes_featureids:is nodes_modes:m nodes_values:fs \
                    nodes_truenodeids:is nodes_falsenodeids:is nodes_missing_value_tracks_true:is base_values:fs";

#[test]
fn attributes_that_do_not_fit_each_other_are_refused_or_run() {
    let trees = |rest: &str| format!("{TREE} {rest}");
    let operators = [
        (
            "TreeEnsembleRegressor",
            trees("target_treeids:is target_nodeids:is target_ids:is target_weights:fs n_targets:i"),
        ),
        (
            "TreeEnsembleClassifier",
            trees("class_treeids:is class_nodeids:is class_ids:is class_weights:fs classlabels_int64s:is"),
        ),
        (
            "TreeEnsemble",
            "nodes_featureids:is nodes_modes:t nodes_splits:t nodes_truenodeids:is nodes_falsenodeids:is \
             nodes_trueleafs:is nodes_falseleafs:is leaf_targetids:is leaf_weights:t tree_roots:is n_targets:i \
             aggregate_function:i post_transform:i membership_values:t"
                .to_owned(),
        ),
        (
            "LinearClassifier",
            "coefficients:fs intercepts:fs classlabels_ints:is".to_owned(),
        ),
        (
            "LinearRegressor",
            "coefficients:fs intercepts:fs targets:i".to_owned(),
        ),
        (
            "SVMRegressor",
            "coefficients:fs support_vectors:fs rho:fs n_supports:i kernel_params:fs one_class:i".to_owned(),
        ),
        (
            "Imputer",
            "imputed_value_floats:fs replaced_value_float:f".to_owned(),
        ),
        (
            "LabelEncoder",
            "keys_floats:fs values_int64s:is default_int64:i".to_owned(),
        ),
        ("OneHotEncoder", "cats_int64s:is zeros:i".to_owned()),
        ("FeatureVectorizer", "inputdimensions:is".to_owned()),
        ("Scaler", "offset:fs scale:fs".to_owned()),
    ];
    let mut dice = Dice(7);
    let (mut ran, mut refused) = (0, 0);
    for (operator, names) in &operators {
        for round in 0..300 {
            let attributes = names.split_whitespace().map(|name| dice.attribute(name));
            let mut node = node(operator, "x", "y", attributes.collect());
            node.domain = "ai.onnx.ml".to_owned();
            let dims: &[&str] = [&["N", "3"][..], &["N"], &["2", "1"], &[]][round % 4];
            let net = graph(
                vec![input("x", DType::F32, dims)],
                vec![],
                vec![node],
                &["y"],
            );
            let Ok(graph) = imported(&of_version(net, 21), &ImportOptions::new()) else {
                refused += 1;
                continue;
            };
            let x = match round % 4 {
                0 => f32s(&[2, 3], &[0.0, 1.0, -2.0, f32::NAN, 5.0, 3.0]),
                1 => f32s(&[2], &[1.0, 2.0]),
                2 => f32s(&[2, 1], &[1.0, -2.0]),
                _ => f32s(&[], &[1.0]),
            };
            // A reference to a missing feature is a fault of the call.
            let _ = interpret(&graph, &[x], &InterpretOptions::default());
            ran += 1;
        }
    }
    assert!(
        ran > 100 && refused > 100,
        "{ran} ran, {refused} were refused"
    );
}
