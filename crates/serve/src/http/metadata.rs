//! Documents about models: metadata, configuration, statistics, the index.

use super::documents::{IndexEntry, ModelMetadata, TensorMetadata};
use crate::core::Core;
use crate::datatype;
use crate::model::ServedModel;
use crate::repository::VersionStatus;
use crate::stats::{BatchTotals, Snapshot, Total};
use kiln::ValueDescription;
use serde_json::{Value, json};
use std::sync::Arc;

/// The platform name that the protocol requires.
pub(crate) const PLATFORM: &str = "kiln";

/// The metadata of a model.
pub(super) fn of_model(core: &Core, served: &ServedModel) -> ModelMetadata {
    let name = served.labels.model.clone();
    ModelMetadata {
        versions: core.repository.catalog().ready_versions(&name),
        name,
        platform: PLATFORM,
        inputs: tensors(served.inputs()),
        outputs: tensors(served.outputs()),
    }
}

fn tensors(values: &[ValueDescription]) -> Vec<TensorMetadata> {
    let values = values.iter().map(|value| TensorMetadata {
        name: value.name().to_owned(),
        datatype: value.dtype().map_or("", datatype::name_of),
        shape: datatype::shape_of(value),
    });
    values.collect()
}

/// The configuration of a model, as far as the protocol can represent it.
pub(super) fn config(served: &ServedModel) -> Value {
    let tensors = |values: &[ValueDescription]| -> Vec<Value> {
        let values = values.iter().map(|value| {
            let datatype = value.dtype().map_or("INVALID", datatype::name_of);
            json!({
                "name": value.name(),
                "data_type": format!("TYPE_{datatype}"),
                "dims": datatype::shape_of(value),
            })
        });
        values.collect()
    };
    json!({
        "name": served.labels.model,
        "platform": PLATFORM,
        "backend": PLATFORM,
        // Sizes of the batch are part of `dims`.
        "max_batch_size": 0,
        "input": tensors(served.inputs()),
        "output": tensors(served.outputs()),
    })
}

/// The states of all versions.
pub(super) fn index(statuses: &[VersionStatus]) -> Vec<IndexEntry<'_>> {
    let entries = statuses.iter().map(|status| IndexEntry {
        name: &status.model,
        version: &status.version,
        state: status.state.to_string(),
        reason: &status.reason,
    });
    entries.collect()
}

/// The statistics of models.
pub(super) fn statistics(served: &[Arc<ServedModel>]) -> Value {
    let models = served
        .iter()
        .map(|served| of_snapshot(served, &served.stats.snapshot()));
    json!({ "model_stats": models.collect::<Vec<Value>>() })
}

fn of_snapshot(served: &ServedModel, stats: &Snapshot) -> Value {
    let total = |total: Total| json!({ "count": total.count, "ns": total.ns() });
    let none = || total(Total::default());
    let batch = |(size, batch): (&u64, &BatchTotals)| {
        json!({
            "batch_size": size,
            "compute_input": total(batch.compute_input),
            "compute_infer": total(batch.compute_infer),
            "compute_output": total(batch.compute_output),
        })
    };
    json!({
        "name": served.labels.model,
        "version": served.labels.version,
        "last_inference": stats.last_inference_ms,
        "inference_count": stats.inferences,
        "execution_count": stats.executions,
        "inference_stats": {
            "success": total(stats.success),
            "fail": total(stats.fail),
            "queue": total(stats.queue),
            "compute_input": total(stats.compute_input),
            "compute_infer": total(stats.compute_infer),
            "compute_output": total(stats.compute_output),
            "cache_hit": none(),
            "cache_miss": none(),
        },
        "batch_stats": stats.batches.iter().map(batch).collect::<Vec<Value>>(),
    })
}
