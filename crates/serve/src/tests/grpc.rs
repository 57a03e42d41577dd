//! The protocol over gRPC, queried by tonic's client.

use super::support::{Fixture, SCALED};
use crate::grpc::SERVICE;
use crate::grpc::messages::*;
use bytes::Bytes;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// A client.
pub(super) struct Client(Grpc<Channel>);

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
        let client = Grpc::new(endpoint.connect().await.unwrap());
        Self(client.max_decoding_message_size(1 << 30))
    }

    pub(super) async fn call<Q, A>(
        &mut self,
        method: &str,
        request: Request<Q>,
    ) -> Result<A, Status>
    where
        Q: prost::Message + Default + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        self.0
            .ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = format!("{SERVICE}{method}").parse().unwrap();
        let answer = self
            .0
            .unary(request, path, ProstCodec::<Q, A>::default())
            .await?;
        Ok(answer.into_inner())
    }
}

fn input(name: &str, shape: &[i64]) -> InferInputTensor {
    InferInputTensor {
        name: name.to_owned(),
        datatype: "FP32".to_owned(),
        shape: shape.to_vec(),
        ..InferInputTensor::default()
    }
}

fn bytes(values: &[f32]) -> Bytes {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// A request of one row.
pub(super) fn infer(model: &str) -> ModelInferRequest {
    ModelInferRequest {
        model_name: model.to_owned(),
        id: "seven".to_owned(),
        inputs: vec![input("x", &[1, 3]), input("scale", &[1, 3])],
        raw_input_contents: vec![bytes(&[1.0, 2.0, 3.0]), bytes(&[1.0, 1.0, 2.0])],
        ..ModelInferRequest::default()
    }
}

fn scaled() -> Fixture {
    Fixture::new(&[("scaled", SCALED, None)])
}

#[test]
fn the_server_and_its_models_describe_themselves() {
    let fixture = scaled();
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        let request = || {
            Request::new(ModelRequest {
                name: "scaled".to_owned(),
                version: "1".to_owned(),
            })
        };
        let live: ServerLiveResponse = client
            .call("ServerLive", Request::new(ServerLiveRequest {}))
            .await
            .unwrap();
        let ready: ServerReadyResponse = client
            .call("ServerReady", Request::new(ServerReadyRequest {}))
            .await
            .unwrap();
        assert!(live.live && ready.ready);
        let ready: ModelReadyResponse = client.call("ModelReady", request()).await.unwrap();
        assert!(ready.ready);
        let metadata: ModelMetadataResponse =
            client.call("ModelMetadata", request()).await.unwrap();
        assert_eq!(metadata.versions, ["1"]);
        assert_eq!(metadata.inputs[0].shape, [-1, 3]);
        assert_eq!(metadata.outputs[1].datatype, "FP32");
        let config: ModelConfigResponse = client.call("ModelConfig", request()).await.unwrap();
        let config = config.config.unwrap();
        assert_eq!(config.input[0].data_type, DataType::Fp32 as i32);
        assert_eq!(config.output[0].dims, [-1, 3]);
        let index: RepositoryIndexResponse = client
            .call(
                "RepositoryIndex",
                Request::new(RepositoryIndexRequest::default()),
            )
            .await
            .unwrap();
        assert_eq!(index.models[0].state, "READY");
    });
}

#[test]
fn raw_and_typed_contents_are_computed() {
    let fixture = scaled();
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        let answer: ModelInferResponse = client
            .call("ModelInfer", Request::new(infer("scaled")))
            .await
            .unwrap();
        assert_eq!(
            (answer.id.as_str(), answer.model_version.as_str()),
            ("seven", "1")
        );
        assert_eq!(answer.outputs[0].shape, [1, 3]);
        assert_eq!(answer.raw_output_contents[0], bytes(&[1.0, 2.0, 6.0]));
        assert_eq!(answer.raw_output_contents[1], bytes(&[9.0]));
        let mut typed = infer("scaled");
        typed.raw_input_contents.clear();
        for (input, values) in typed
            .inputs
            .iter_mut()
            .zip([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0]])
        {
            input.contents = Some(InferTensorContents {
                fp32_contents: values.to_vec(),
                ..InferTensorContents::default()
            });
        }
        typed.outputs = vec![InferRequestedOutputTensor {
            name: "total".to_owned(),
            ..InferRequestedOutputTensor::default()
        }];
        let answer: ModelInferResponse = client
            .call("ModelInfer", Request::new(typed))
            .await
            .unwrap();
        assert_eq!(answer.outputs.len(), 1);
        assert_eq!(answer.raw_output_contents[0], bytes(&[9.0]));
        let request = Request::new(ModelRequest::default());
        let stats: ModelStatisticsResponse = client.call("ModelStatistics", request).await.unwrap();
        assert_eq!(stats.model_stats[0].inference_count, 2);
        assert_eq!(
            stats.model_stats[0]
                .inference_stats
                .as_ref()
                .unwrap()
                .success
                .as_ref()
                .unwrap()
                .count,
            2
        );
    });
}

#[test]
fn models_are_unloaded_and_loaded() {
    let fixture = scaled();
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        let request = || {
            Request::new(RepositoryModelRequest {
                model_name: "scaled".to_owned(),
                ..RepositoryModelRequest::default()
            })
        };
        let RepositoryModelResponse {} = client
            .call("RepositoryModelUnload", request())
            .await
            .unwrap();
        let status = client
            .call::<_, ModelInferResponse>("ModelInfer", Request::new(infer("scaled")))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unavailable);
        assert!(status.message().starts_with("[E1504]"), "{status}");
        let RepositoryModelResponse {} =
            client.call("RepositoryModelLoad", request()).await.unwrap();
        client
            .call::<_, ModelInferResponse>("ModelInfer", Request::new(infer("scaled")))
            .await
            .unwrap();
    });
}

/// Each changes a valid request into an invalid one, with this status code.
#[test]
fn malformed_requests_are_statuses_with_codes() {
    type Change = fn(&mut ModelInferRequest);
    let cases: [(Change, Code, &str); 10] = [
        (
            |request| request.model_name = "nothing\u{1b}".to_owned(),
            Code::NotFound,
            "E1503",
        ),
        (
            |request| request.model_version = "9".to_owned(),
            Code::NotFound,
            "E1503",
        ),
        (
            |request| request.model_version = "one".to_owned(),
            Code::NotFound,
            "E1503",
        ),
        (
            |request| request.inputs[0].shape = vec![-1, 3],
            Code::InvalidArgument,
            "E1502",
        ),
        (
            |request| request.inputs[0].shape = vec![i64::MAX, i64::MAX],
            Code::InvalidArgument,
            "E1502",
        ),
        (
            |request| request.inputs[0].datatype = "BYTES".to_owned(),
            Code::InvalidArgument,
            "E1502",
        ),
        (
            |request| request.inputs[0].name = "z".to_owned(),
            Code::InvalidArgument,
            "E1502",
        ),
        (
            |request| drop(request.raw_input_contents.pop()),
            Code::InvalidArgument,
            "E1501",
        ),
        (
            |request| {
                request.inputs[0].shape = vec![3, 1];
            },
            Code::InvalidArgument,
            "E0",
        ),
        (
            |request| {
                let parameter = InferParameter {
                    choice: Some(ParameterChoice::Text("region".to_owned())),
                };
                request.inputs[0]
                    .parameters
                    .insert("shared_memory_region".to_owned(), parameter);
            },
            Code::Unimplemented,
            "E1512",
        ),
    ];
    let fixture = scaled();
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        for (number, (change, code, start)) in cases.into_iter().enumerate() {
            let mut request = infer("scaled");
            change(&mut request);
            let status = client
                .call::<_, ModelInferResponse>("ModelInfer", Request::new(request))
                .await
                .unwrap_err();
            assert_eq!(status.code(), code, "{number}: {status}");
            assert!(
                status.message().starts_with(&format!("[{start}")),
                "{number}: {status}"
            );
            assert!(!status.message().contains('\u{1b}'));
        }
        let status = client
            .call::<_, ModelInferResponse>("NoSuchMethod", Request::new(infer("scaled")))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().starts_with("[E1513]"), "{status}");
    });
}

#[test]
fn messages_over_the_limit_and_bytes_that_are_none_are_statuses_with_codes() {
    let fixture = Fixture::with(&[("scaled", SCALED, None)], |_, options| {
        options.limits.body_bytes = 1000;
    });
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        let mut request = infer("scaled");
        request.raw_input_contents[0] = Bytes::from(vec![0; 5000]);
        let status = client
            .call::<_, ModelInferResponse>("ModelInfer", Request::new(request))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().starts_with("[E1509]"), "{status}");
        // An invalid message: field 1 is text, and this is not UTF-8.
        let request = ServerMetadataResponse::default();
        client
            .call::<_, ModelInferResponse>("ModelInfer", Request::new(request))
            .await
            .unwrap_err();
        let broken = InferTensorContents {
            bool_contents: vec![true; 3],
            ..InferTensorContents::default()
        };
        let status = client
            .call::<_, ModelInferResponse>(
                "ModelInfer",
                Request::new(StatisticDuration { count: 7, ns: 7 }),
            )
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().starts_with("[E1501]"), "{status}");
        let status = client
            .call::<_, ModelInferResponse>("ModelInfer", Request::new(broken))
            .await
            .unwrap_err();
        assert!(status.message().starts_with("[E1"), "{status}");
    });
}

#[test]
fn the_deadline_of_a_client_ends_its_call() {
    let fixture = Fixture::new(&[("slow", super::support::SLOW, None)]);
    fixture.runtime.block_on(async {
        let mut client = Client::connect(fixture.grpc()).await;
        let request = ModelInferRequest {
            model_name: "slow".to_owned(),
            inputs: vec![
                input("x", &[1]),
                InferInputTensor {
                    name: "trips".to_owned(),
                    datatype: "INT64".to_owned(),
                    ..InferInputTensor::default()
                },
            ],
            raw_input_contents: vec![
                bytes(&[1.0]),
                Bytes::copy_from_slice(&super::support::FOR_EVER.to_le_bytes()),
            ],
            ..ModelInferRequest::default()
        };
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_millis(200));
        let status = client
            .call::<_, ModelInferResponse>("ModelInfer", request)
            .await
            .unwrap_err();
        assert!(
            matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled),
            "{status}"
        );
    });
    assert_thread_is_free(&fixture);
}

/// The model's only thread is busy with another request.
fn assert_thread_is_free(fixture: &Fixture) {
    let request = r#"{"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [0]},
        {"name": "trips", "shape": [], "datatype": "INT64", "data": [2]}]}"#;
    let response = fixture.post("/v2/models/slow/infer", request);
    assert_eq!(response.status, 200, "{}", response.text());
}
