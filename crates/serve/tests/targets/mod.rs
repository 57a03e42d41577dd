//! The fuzz targets of the server's front ends, which `fuzz/` includes too: any bytes, as a request. Each panics only
//! if the server breaks a promise: a response that violates the protocol, an error without a code, or one that reports
//! a defect.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kiln::{Cache, Device, Options, OutputPlacement};
use kiln_serve::{GrpcService, HttpService, Models, Repository, RepositoryOptions, ServerOptions};
use std::sync::OnceLock;
use tokio::runtime::Runtime;

const MODEL: &str = "graph @m(%x: f32[N, 2], %i: i32[N]) -> (f32[N, 2], i32[N]) {
  %y = neg %x
  %j = add %i, %i
  return \"y\" = %y, \"j\" = %j
}";

/// The front ends, with one small model.
struct Fronts {
    runtime: Runtime,
    http: HttpService,
    grpc: GrpcService,
    _folder: tempfile::TempDir,
}

fn fronts() -> &'static Fronts {
    static FRONTS: OnceLock<Fronts> = OnceLock::new();
    FRONTS.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("m.kiln");
        std::fs::write(&path, MODEL).expect("a model's file");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (http, grpc) = runtime.block_on(async {
            let models = Models::File {
                path,
                name: "m".to_owned(),
                config: None,
            };
            let mut options = RepositoryOptions::new(models);
            options.loading = Options::new()
                .device(Device::interpreter())
                .cache(Cache::off())
                .outputs(OutputPlacement::Host);
            options.serving.max_delay = std::time::Duration::ZERO;
            let repository = Repository::open(options).expect("a repository");
            repository.loaded().await;
            let mut options = ServerOptions {
                model_control: false,
                ..ServerOptions::default()
            };
            options.limits.body_bytes = 1 << 20;
            let http = HttpService::new(repository.clone(), &options).expect("a front end");
            let grpc = GrpcService::new(repository, &options).expect("a front end");
            (http, grpc)
        });
        Fronts {
            runtime,
            http,
            grpc,
            _folder: folder,
        }
    })
}

/// A method, a path and headers in lines, an empty line, a body; if that is not a request, a body for the model.
/// Returns whether the response was not an error.
pub(crate) fn serve_http(bytes: &[u8]) -> bool {
    let request = parsed(bytes).unwrap_or_else(|| {
        let request = Request::post("/v2/models/m/infer").body(bytes.to_vec());
        request.expect("a request")
    });
    let request = request.map(|body| Full::new(Bytes::from(body)));
    let fronts = fronts();
    let (head, body) = fronts.runtime.block_on(async {
        let (head, body) = fronts.http.respond(request).await.into_parts();
        let body = body.collect().await.expect("a body in memory").to_bytes();
        (head, body)
    });
    if !head.status.is_success() {
        let document: serde_json::Value = serde_json::from_slice(&body).expect("an error is JSON");
        let (code, message) = (&document["code"], &document["error"]);
        let (code, message) = (
            code.as_str().expect("a code"),
            message.as_str().expect("a message"),
        );
        check(
            code,
            message,
            head.status != StatusCode::INTERNAL_SERVER_ERROR,
        );
    }
    head.status.is_success()
}

fn parsed(bytes: &[u8]) -> Option<Request<Vec<u8>>> {
    let end = bytes.windows(2).position(|two| two == b"\n\n")?;
    let (head, body) = bytes.split_at(end);
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path);
    for line in lines {
        let (name, value) = line.split_once(": ")?;
        request = request.header(name, value);
    }
    request.body(body.get(2..)?.to_vec()).ok()
}

/// The number of a method, and a message: framed for gRPC, or, if the number is large, unchanged. Returns whether the
/// response was not an error.
pub(crate) fn serve_grpc(bytes: &[u8]) -> bool {
    const METHODS: [&str; 12] = [
        "ModelInfer",
        "ServerLive",
        "ServerReady",
        "ModelReady",
        "ServerMetadata",
        "ModelMetadata",
        "ModelConfig",
        "ModelStatistics",
        "RepositoryIndex",
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "ModelStreamInfer",
    ];
    let Some((&choice, message)) = bytes.split_first() else {
        return false;
    };
    let method = METHODS[usize::from(choice & 0x7f) % METHODS.len()];
    let mut body = Vec::new();
    if choice < 0x80 {
        let length = u32::try_from(message.len()).expect("inputs are short");
        body.push(0);
        body.extend(length.to_be_bytes());
    }
    body.extend(message);
    let request = Request::post(format!("/inference.GRPCInferenceService/{method}"))
        .header("content-type", "application/grpc")
        .header(
            "grpc-encoding",
            if choice & 1 == 0 { "identity" } else { "gzip" },
        )
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let fronts = fronts();
    let (headers, trailers) = fronts.runtime.block_on(async {
        let (head, body) = fronts.grpc.respond(request).await.into_parts();
        let body = body.collect().await.expect("a body in memory");
        (head.headers, body.trailers().cloned().unwrap_or_default())
    });
    let text = |name: &str| {
        let of = |map: &HeaderMap| {
            map.get(name)
                .map(|value| value.to_str().expect("ASCII").to_owned())
        };
        of(&headers).or_else(|| of(&trailers))
    };
    let status = text("grpc-status").expect("a status");
    if status != "0" {
        // Brackets may or may not be percent-encoded.
        let message = text("grpc-message").expect("a message");
        let message = message.replace("%5B", "[").replace("%5D", "]");
        let code = message
            .strip_prefix('[')
            .and_then(|rest| rest.get(..5))
            .expect("a code");
        check(code, &message, status != "13");
    }
    status == "0"
}

fn check(code: &str, message: &str, is_no_defect: bool) {
    assert!(code.starts_with('E') && code.len() == 5, "{code}");
    assert!(
        is_no_defect && code != "E1534" && code != "E0991",
        "{code}: {message}"
    );
    assert!(!message.chars().any(char::is_control), "{message:?}");
}
