//! Operators of the domain `ai.onnx.ml` that are arithmetic on tensors of numbers.
//!
//! Text, maps and support vectors with votes are unsupported; the errors of operators that produce them name an
//! alternative.

mod columns;
mod forest;
mod labels;
mod linear;
mod trees;
mod walk;

use super::support::{Imported, operator};
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[
    operator("ArrayFeatureExtractor", &[1], columns::extract),
    operator("Binarizer", &[1], columns::binarize),
    operator("FeatureVectorizer", &[1], columns::concatenate),
    operator("Imputer", &[1], columns::impute),
    operator("LabelEncoder", &[1], labels::encode),
    operator("LinearClassifier", &[1], linear::classify),
    operator("LinearRegressor", &[1], linear::regress),
    operator("Normalizer", &[1], columns::normalize),
    operator("OneHotEncoder", &[1], labels::one_hot),
    operator("SVMRegressor", &[1], linear::regress_by_vectors),
    operator("Scaler", &[1], columns::scale),
    operator("TreeEnsemble", &[1], trees::ensemble),
    operator("TreeEnsembleClassifier", &[1], trees::classify),
    operator("TreeEnsembleRegressor", &[1], trees::regress),
    operator("ZipMap", &[1], zip_map),
];

/// Rows as maps from class names, which exporters add by default.
fn zip_map(ctx: &mut NodeContext<'_>) -> Imported {
    Err(ctx.unsupported(
        "maps; export without it (`options={id(model): {\"zipmap\": False}}` of skl2onnx), and the result is the \
         tensor of scores, a column per class",
    ))
}
