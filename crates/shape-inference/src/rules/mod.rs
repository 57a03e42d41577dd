//! The rules of the core ops, one file per family.

mod contraction;
mod control;
mod custom;
mod data_dependent;
mod elementwise;
mod indexing;
mod movement;
mod reduction;
mod resize;
mod sources;
mod window;

pub(crate) use control::{if_results, loop_results};
pub(crate) use custom::CustomRule;

use crate::rule::ShapeInferenceRule;
use std::sync::Arc;

/// A rule for every core op; each op has one.
pub(crate) fn core_rules() -> Vec<Arc<dyn ShapeInferenceRule>> {
    vec![
        Arc::new(control::ControlRule),
        Arc::new(data_dependent::DataDependentRule),
        Arc::new(resize::ResizeRule),
        Arc::new(window::WindowRule),
        Arc::new(reduction::ReductionRule),
        Arc::new(indexing::IndexingRule),
        Arc::new(sources::SourceRule),
        Arc::new(contraction::ContractionRule),
        Arc::new(movement::MovementRule),
        Arc::new(elementwise::ElementwiseRule),
    ]
}
