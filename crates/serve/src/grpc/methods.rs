//! The methods of the service.

use super::convert;
use super::messages::*;
use crate::core::Core;
use crate::error::ServeError;
use crate::http::{EXTENSIONS, PLATFORM};
use crate::model::ServedModel;
use crate::offload::offload;
use crate::repository::ModelState;
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn server_live(
    _core: Arc<Core>,
    _request: ServerLiveRequest,
) -> Result<ServerLiveResponse, ServeError> {
    Ok(ServerLiveResponse { live: true })
}

pub(super) async fn server_ready(
    core: Arc<Core>,
    _request: ServerReadyRequest,
) -> Result<ServerReadyResponse, ServeError> {
    Ok(ServerReadyResponse {
        ready: core.is_ready(),
    })
}

pub(super) async fn model_ready(
    core: Arc<Core>,
    request: ModelRequest,
) -> Result<ModelReadyResponse, ServeError> {
    let ready = match served(&core, &request) {
        Ok(_) => true,
        Err(ServeError::NotReady { .. }) => false,
        Err(error) => return Err(error),
    };
    Ok(ModelReadyResponse { ready })
}

pub(super) async fn server_metadata(
    _core: Arc<Core>,
    _request: ServerMetadataRequest,
) -> Result<ServerMetadataResponse, ServeError> {
    Ok(ServerMetadataResponse {
        name: "kiln".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        extensions: EXTENSIONS.map(str::to_owned).to_vec(),
    })
}

pub(super) async fn model_metadata(
    core: Arc<Core>,
    request: ModelRequest,
) -> Result<ModelMetadataResponse, ServeError> {
    let served = served(&core, &request)?;
    Ok(ModelMetadataResponse {
        name: served.labels.model.clone(),
        versions: core.repository.catalog().ready_versions(&request.name),
        platform: PLATFORM.to_owned(),
        inputs: convert::metadata(served.inputs()),
        outputs: convert::metadata(served.outputs()),
    })
}

pub(super) async fn model_config(
    core: Arc<Core>,
    request: ModelRequest,
) -> Result<ModelConfigResponse, ServeError> {
    let config = convert::config(&*served(&core, &request)?);
    Ok(ModelConfigResponse {
        config: Some(config),
    })
}

pub(super) async fn model_statistics(
    core: Arc<Core>,
    request: ModelRequest,
) -> Result<ModelStatisticsResponse, ServeError> {
    let all = match request.name.is_empty() {
        true => core.repository.catalog().served(),
        false => vec![served(&core, &request)?],
    };
    Ok(ModelStatisticsResponse {
        model_stats: all
            .iter()
            .map(|served| convert::statistics(served))
            .collect(),
    })
}

pub(super) async fn model_infer(
    core: Arc<Core>,
    request: ModelInferRequest,
    timeout: Option<Duration>,
) -> Result<ModelInferResponse, ServeError> {
    let refused = |error: &ServeError| core.refused("grpc", error.code());
    // If the model does not exist, the request is not decoded.
    let version = version(&request.model_version);
    let served = core.repository.served(&request.model_name, version);
    served.inspect_err(refused)?;
    let bytes = request.raw_input_contents.iter().map(bytes::Bytes::len);
    let bytes = bytes.fold(0, usize::saturating_add);
    let decoded = offload(bytes, move || convert::request(request, timeout)).await;
    let request = decoded.inspect_err(refused)?;
    let answer = core.repository.infer(request).await?;
    let bytes = answer.outputs.iter().map(|(_, tensor)| tensor.byte_len());
    let bytes = bytes.fold(0, usize::saturating_add);
    offload(bytes, move || convert::answer(answer)).await
}

pub(super) async fn repository_index(
    core: Arc<Core>,
    request: RepositoryIndexRequest,
) -> Result<RepositoryIndexResponse, ServeError> {
    let index = core.repository.index().await?.into_iter();
    let wanted = index.filter(|status| !request.ready || status.state == ModelState::Ready);
    let models = wanted.map(|status| ModelIndex {
        name: status.model,
        version: status.version,
        state: status.state.to_string(),
        reason: status.reason,
    });
    Ok(RepositoryIndexResponse {
        models: models.collect(),
    })
}

pub(super) async fn repository_load(
    core: Arc<Core>,
    request: RepositoryModelRequest,
) -> Result<RepositoryModelResponse, ServeError> {
    refuse_parameters(&request, &[])?;
    core.repository.load(&request.model_name).await?;
    Ok(RepositoryModelResponse {})
}

pub(super) async fn repository_unload(
    core: Arc<Core>,
    request: RepositoryModelRequest,
) -> Result<RepositoryModelResponse, ServeError> {
    refuse_parameters(&request, &["unload_dependents"])?;
    core.repository.unload(&request.model_name).await?;
    Ok(RepositoryModelResponse {})
}

fn refuse_parameters(request: &RepositoryModelRequest, allowed: &[&str]) -> Result<(), ServeError> {
    let names = request.parameters.keys().map(String::as_str);
    crate::parameters::refuse_control(names, allowed)
}

fn served(core: &Core, request: &ModelRequest) -> Result<Arc<ServedModel>, ServeError> {
    core.repository
        .served(&request.name, version(&request.version))
}

/// The requested version; `None` if the field is empty, which means any version.
fn version(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}
