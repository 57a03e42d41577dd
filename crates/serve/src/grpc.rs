//! The gRPC front end: `inference.GRPCInferenceService` of the Open Inference Protocol, with its extensions for
//! configuration, statistics and the repository.
//!
//! Messages are written by hand, so no protobuf compiler is needed to build. *Invariant:* whatever the bytes of a
//! request are, the response has a gRPC status, with a code if it is an error.

mod body;
mod convert;
pub(crate) mod messages;
mod methods;
mod status;

use crate::core::Core;
use crate::error::{ServeError, excerpt, excerpt_of_header};
use crate::gate::{Gate, Permit};
use crate::options::ServerOptions;
use crate::repository::Repository;
use crate::traces;
use body::CountedBody;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tonic::codec::CompressionEncoding;
use tonic::server::UnaryService;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tracing::Instrument;

/// The path of every method begins with this.
pub(crate) const SERVICE: &str = "/inference.GRPCInferenceService/";

/// The gRPC front end.
#[derive(Clone)]
pub struct GrpcService(Arc<Core>);

impl std::fmt::Debug for GrpcService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GrpcService({:?})", self.0.repository)
    }
}

impl GrpcService {
    /// The front end alone, to be mounted in your own server. The options about listening are ignored.
    ///
    /// # Errors
    /// E1530 for an invalid option.
    pub fn new(repository: Repository, options: &ServerOptions) -> Result<Self, ServeError> {
        options.check()?;
        Ok(Self(Core::new(repository, Gate::new(options))))
    }

    pub(crate) fn of_core(core: Arc<Core>) -> Self {
        Self(core)
    }

    /// Answers a request.
    pub async fn respond<B>(&self, request: Request<B>) -> Response<tonic::body::Body>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display,
    {
        match self.admitted(&request) {
            Ok(permit) => {
                let limit = permit.limits().body_bytes;
                let span = traces::of_grpc(request.uri().path(), request.headers());
                let response = self.dispatch(request, permit).instrument(span).await;
                status::with_code(response, limit)
            }
            Err(error) => {
                self.0.refused("grpc", error.code());
                status::of(&error).into_http()
            }
        }
    }

    fn admitted<B>(&self, request: &Request<B>) -> Result<Arc<Permit>, ServeError> {
        let gate = &self.0.gate;
        let headers = request.headers();
        let ty = headers.get(http::header::CONTENT_TYPE);
        if !ty.is_some_and(|ty| ty.as_bytes().starts_with(b"application/grpc")) {
            let found = ty.map(excerpt_of_header).unwrap_or_default();
            let problem = format!("expected application/grpc, found `{found}`");
            return Err(ServeError::malformed("the header content-type", problem));
        }
        let method = request.uri().path().strip_prefix(SERVICE);
        if !matches!(method, Some("ServerLive" | "ServerReady")) {
            gate.authorize(headers)?;
        }
        if matches!(
            method,
            Some("RepositoryModelLoad" | "RepositoryModelUnload")
        ) {
            gate.allow_control()?;
        }
        Ok(Arc::new(gate.admit()?))
    }

    async fn dispatch<B>(
        &self,
        request: Request<B>,
        permit: Arc<Permit>,
    ) -> Response<tonic::body::Body>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::fmt::Display,
    {
        let core = &self.0;
        let method = request
            .uri()
            .path()
            .strip_prefix(SERVICE)
            .map(str::to_owned);
        let timeout = timeout(request.headers());
        let limit = permit.limits().body_time;
        let body_bytes = permit.limits().body_bytes;
        let mut request = request.map(|body| CountedBody::new(body, Arc::clone(&permit), limit));
        request.extensions_mut().insert(permit);
        let call = Call {
            core,
            request,
            body_bytes,
        };
        match method.as_deref() {
            Some("ServerLive") => call.answer(methods::server_live).await,
            Some("ServerReady") => call.answer(methods::server_ready).await,
            Some("ModelReady") => call.answer(methods::model_ready).await,
            Some("ServerMetadata") => call.answer(methods::server_metadata).await,
            Some("ModelMetadata") => call.answer(methods::model_metadata).await,
            Some("ModelConfig") => call.answer(methods::model_config).await,
            Some("ModelStatistics") => call.answer(methods::model_statistics).await,
            Some("ModelInfer") => {
                let infer = move |core, request| methods::model_infer(core, request, timeout);
                call.answer(infer).await
            }
            Some("RepositoryIndex") => call.answer(methods::repository_index).await,
            Some("RepositoryModelLoad") => call.answer(methods::repository_load).await,
            Some("RepositoryModelUnload") => call.answer(methods::repository_unload).await,
            _ => {
                let error = ServeError::NotFound {
                    method: "gRPC method".to_owned(),
                    path: excerpt(call.request.uri().path()),
                };
                core.refused("grpc", error.code());
                Status::new(Code::Unimplemented, status::message(&error)).into_http()
            }
        }
    }
}

/// A request for one method.
struct Call<'a, B> {
    core: &'a Arc<Core>,
    request: Request<CountedBody<B>>,
    body_bytes: usize,
}

impl<B> Call<'_, B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: std::fmt::Display,
{
    /// Reads the message, and handles it with `method`.
    async fn answer<Q, A, F>(
        self,
        method: impl Fn(Arc<Core>, Q) -> F,
    ) -> Response<tonic::body::Body>
    where
        Q: prost::Message + Default + Send + 'static,
        A: prost::Message + Default + Send + 'static,
        F: Future<Output = Result<A, ServeError>> + Send + 'static,
    {
        let mut server = tonic::server::Grpc::new(ProstCodec::<A, Q>::default())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(self.body_bytes)
            .max_encoding_message_size(usize::MAX);
        let method = Method {
            core: Arc::clone(self.core),
            method,
        };
        server.unary(method, self.request).await
    }
}

/// A method in the form that tonic calls.
struct Method<M> {
    core: Arc<Core>,
    method: M,
}

impl<M, Q, A, F> UnaryService<Q> for Method<M>
where
    M: Fn(Arc<Core>, Q) -> F,
    F: Future<Output = Result<A, ServeError>> + Send + 'static,
{
    type Response = A;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<A>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let (_, extensions, message) = request.into_parts();
        let answer = (self.method)(Arc::clone(&self.core), message);
        Box::pin(async move {
            // The extensions hold the permit, which counts the request until it is answered.
            let _extensions = extensions;
            answer
                .await
                .map(tonic::Response::new)
                .map_err(|error| status::of(&error))
        })
    }
}

/// How long the client waits: an integer of at most eight digits and a unit.
fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit())
    {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_a_number_and_a_unit() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().unwrap());
            timeout(&headers)
        };
        assert_eq!(of("5S"), Some(Duration::from_secs(5)));
        assert_eq!(
            of("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        assert_eq!(of("20m"), Some(Duration::from_millis(20)));
        for text in ["", "S", "5", "5x", "123456789S", "-5S", "5 S"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(timeout(&HeaderMap::new()), None);
    }
}
