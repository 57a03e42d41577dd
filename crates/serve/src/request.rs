//! An inference request and its response, independent of the protocol.

use kiln::Tensor;
use std::time::Duration;

/// A request for the outputs of a model.
#[derive(Clone, Debug, Default)]
pub struct InferRequest {
    /// The model's name.
    pub model: String,
    /// Its version; the latest that is ready if unset.
    pub version: Option<String>,
    /// An id that is returned with the response.
    pub id: Option<String>,
    /// Tensors by the names of the model's inputs, in any order.
    pub inputs: Vec<(String, Tensor)>,
    /// The names of the outputs to return; all if empty.
    pub outputs: Vec<String>,
    /// The time limit; that of the model's configuration if unset, which is also the maximum.
    pub timeout: Option<Duration>,
}

/// The response to a request.
#[derive(Clone, Debug)]
pub struct InferAnswer {
    /// The model's name.
    pub model: String,
    /// The version that handled the request.
    pub version: String,
    /// The request's id.
    pub id: Option<String>,
    /// Tensors by output name, in the requested order, or the model's order if none was requested.
    pub outputs: Vec<(String, Tensor)>,
}
