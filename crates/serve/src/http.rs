//! The HTTP front end: the Open Inference Protocol (version 2), with its extensions for binary tensors, statistics and
//! the repository; metrics and a status page.
//!
//! *Invariant:* whatever the bytes of a request are, the response conforms to the protocol, with a code if it is an
//! error.

mod answer;
mod body;
mod documents;
mod elements;
mod infer;
mod metadata;
mod route;
mod status_page;

pub(crate) use documents::EXTENSIONS;
pub(crate) use metadata::PLATFORM;

use crate::core::Core;
use crate::error::ServeError;
use crate::gate::{Gate, Permit};
use crate::options::ServerOptions;
use crate::repository::Repository;
use crate::traces;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::Full;
use route::{Route, Target};
use std::sync::Arc;
use tracing::Instrument;

/// The HTTP front end.
#[derive(Clone)]
pub struct HttpService(Arc<Core>);

/// The response to a request, or an error.
type Answer = Result<Response<Full<Bytes>>, ServeError>;

/// The path of a request, its headers and its body.
struct Asked {
    head: http::request::Parts,
    body: Vec<u8>,
}

impl HttpService {
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
    pub async fn respond<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: std::fmt::Display,
    {
        let span = traces::of_http(request.method(), request.uri().path(), request.headers());
        let respond = async {
            match self.answer(request).await {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(code = error.code(), "{error}");
                    answer::error(&error)
                }
            }
        };
        let response = respond.instrument(span.clone()).await;
        span.record("http.response.status_code", response.status().as_u16());
        response
    }

    async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + Unpin,
        B::Error: std::fmt::Display,
    {
        let (head, body) = request.into_parts();
        let before = self.admitted(&head);
        let (route, permit) = before.inspect_err(|error| self.0.refused("http", error.code()))?;
        let body = body::read(body, &head.headers, &permit).await;
        let body = body.inspect_err(|error| self.0.refused("http", error.code()))?;
        // The permit counts the request until it is answered.
        self.routed(route, Asked { head, body }).await
    }

    /// The route of the request, if it is allowed.
    fn admitted(&self, head: &http::request::Parts) -> Result<(Route, Permit), ServeError> {
        let route = Route::of(&head.method, head.uri.path())?;
        let gate = &self.0.gate;
        if !route.is_health() {
            gate.authorize(&head.headers)?;
        }
        if head.method == Method::POST {
            Gate::refuse_other_sites(&head.headers)?;
        }
        if route.is_control() {
            gate.allow_control()?;
        }
        Ok((route, gate.admit()?))
    }

    async fn routed(&self, route: Route, asked: Asked) -> Answer {
        let core = &self.0;
        match route {
            Route::StatusPage => Ok(status_page::page(core).await),
            Route::Metrics => Ok(answer::metrics(core.metrics())),
            Route::Server => Ok(answer::json(&documents::ServerMetadata::new())),
            Route::Live => Ok(answer::empty(StatusCode::OK)),
            Route::Ready => Ok(answer::empty(match core.is_ready() {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            })),
            Route::ModelReady(target) => {
                self.served(&target)?;
                Ok(answer::empty(StatusCode::OK))
            }
            Route::Model(target) => {
                let served = self.served(&target)?;
                Ok(answer::json(&metadata::of_model(core, &served)))
            }
            Route::Config(target) => Ok(answer::json(&metadata::config(&*self.served(&target)?))),
            Route::Infer(target) => {
                let Asked { head, body } = asked;
                infer::infer(core, target, &head.headers, body).await
            }
            Route::Stats(target) => {
                let served = match &target {
                    Some(target) => vec![self.served(target)?],
                    None => core.repository.catalog().served(),
                };
                Ok(answer::json(&metadata::statistics(&served)))
            }
            Route::Index => {
                let wanted: documents::IndexRequest = documents::read_or_default(&asked.body)?;
                let mut index = core.repository.index().await?;
                index.retain(|status| !wanted.ready || status.state == crate::ModelState::Ready);
                Ok(answer::json(&metadata::index(&index)))
            }
            Route::Load(name) => {
                documents::refuse_parameters(&asked.body, &[])?;
                core.repository.load(&name).await?;
                Ok(answer::empty(StatusCode::OK))
            }
            Route::Unload(name) => {
                documents::refuse_parameters(&asked.body, &["unload_dependents"])?;
                core.repository.unload(&name).await?;
                Ok(answer::empty(StatusCode::OK))
            }
        }
    }

    fn served(&self, target: &Target) -> Result<Arc<crate::model::ServedModel>, ServeError> {
        self.0
            .repository
            .served(&target.name, target.version.as_deref())
    }
}

impl std::fmt::Debug for HttpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HttpService({:?})", self.0.repository)
    }
}
