//! Responses: JSON, errors, empty ones.

use crate::error::{Class, ServeError};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// An error in the protocol's form, with its code.
#[derive(Serialize)]
struct ErrorDocument<'a> {
    error: &'a str,
    code: &'static str,
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    typed(status, "application/json", Vec::new())
}

/// A response with a JSON document.
pub(super) fn json(document: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_vec(document) {
        Ok(bytes) => typed(StatusCode::OK, "application/json", bytes),
        Err(_) => unreachable!("documents have names as keys, and numbers that JSON has"),
    }
}

/// A response in the format that Prometheus reads.
pub(super) fn metrics(text: String) -> Response<Full<Bytes>> {
    let ty = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    typed(StatusCode::OK, ty, text.into_bytes())
}

/// A response with an HTML page, which may not load anything or be embedded in another page.
pub(super) fn page(text: String) -> Response<Full<Bytes>> {
    let mut response = typed(
        StatusCode::OK,
        "text/html; charset=utf-8",
        text.into_bytes(),
    );
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    let headers = response.headers_mut();
    headers.insert("content-security-policy", HeaderValue::from_static(policy));
    response
}

/// A response with a body.
pub(super) fn typed(status: StatusCode, ty: &'static str, bytes: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(bytes)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(ty));
    headers.insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// The answer to a request that failed.
pub(super) fn error(error: &ServeError) -> Response<Full<Bytes>> {
    let (code, class) = (error.code(), error.class());
    let document = ErrorDocument {
        error: &format!("[{code}] {error}"),
        code,
    };
    let mut response = json(&document);
    *response.status_mut() = status_of(class);
    let headers = response.headers_mut();
    match class {
        Class::Exhausted => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Class::Unauthenticated => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

fn status_of(class: Class) -> StatusCode {
    match class {
        Class::Invalid => StatusCode::BAD_REQUEST,
        Class::NotFound => StatusCode::NOT_FOUND,
        Class::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Class::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        Class::Deadline => StatusCode::GATEWAY_TIMEOUT,
        // The client disconnected, or the server cancelled the call while it shut down.
        Class::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
        Class::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Class::Unauthenticated => StatusCode::UNAUTHORIZED,
        Class::Forbidden => StatusCode::FORBIDDEN,
        Class::Unsupported => StatusCode::BAD_REQUEST,
        Class::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
