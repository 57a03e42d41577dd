//! Converts errors to gRPC statuses.

use crate::error::{Class, ServeError};
use crate::gate::too_large;
use http::Response;
use tonic::{Code, Status};

/// The status of an error; its message begins with the code.
pub(super) fn of(error: &ServeError) -> Status {
    let code = match error.class() {
        Class::Invalid => Code::InvalidArgument,
        Class::NotFound => Code::NotFound,
        Class::Unavailable => Code::Unavailable,
        Class::Exhausted | Class::TooLarge => Code::ResourceExhausted,
        Class::Deadline => Code::DeadlineExceeded,
        Class::Cancelled => Code::Cancelled,
        Class::Unauthenticated => Code::Unauthenticated,
        Class::Forbidden => Code::PermissionDenied,
        Class::Unsupported => Code::Unimplemented,
        Class::Internal => Code::Internal,
    };
    Status::new(code, message(error))
}

pub(super) fn message(error: &ServeError) -> String {
    format!("[{}] {error}", error.code())
}

/// Adds an error code of Kiln to a response with which the gRPC library rejected a malformed message. `limit` is the
/// maximum number of bytes of a message.
pub(super) fn with_code(
    response: Response<tonic::body::Body>,
    limit: usize,
) -> Response<tonic::body::Body> {
    let Some(status) = Status::from_header_map(response.headers()) else {
        return response;
    };
    if status.code() == Code::Ok || status.message().starts_with("[E") {
        return response;
    }
    let problem = status.message().escape_debug().to_string();
    let error = match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => too_large(limit, problem),
        Code::Unimplemented => ServeError::Unsupported {
            what: problem,
            next: "use gzip or no compression",
        },
        _ => ServeError::malformed("the request's message", problem),
    };
    of(&error).into_http()
}
