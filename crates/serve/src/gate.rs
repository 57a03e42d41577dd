//! Admission of requests: the token, the limits on concurrent requests and bytes, and whether the server still accepts
//! requests.

use crate::error::ServeError;
use crate::options::{ServerLimits, ServerOptions, Token};
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The state that all connections of a server share.
#[derive(Debug)]
pub(crate) struct Gate {
    token: Option<Token>,
    model_control: bool,
    pub(crate) limits: ServerLimits,
    requests: AtomicUsize,
    bytes: AtomicUsize,
    connections: AtomicUsize,
    is_draining: AtomicBool,
    is_closed: AtomicBool,
}

impl Gate {
    pub(crate) fn new(options: &ServerOptions) -> Arc<Self> {
        Arc::new(Self {
            token: options.token.clone(),
            model_control: options.model_control,
            limits: options.limits.clone(),
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Whether a request has the server's token.
    ///
    /// # Errors
    /// E1510 if it does not have it.
    pub(crate) fn authorize(&self, headers: &HeaderMap) -> Result<(), ServeError> {
        let Some(token) = &self.token else {
            return Ok(());
        };
        let found = match headers.get(AUTHORIZATION) {
            None => "no such header",
            Some(value) => {
                let given = value.to_str().ok().and_then(|text| text.split_once(' '));
                match given {
                    Some((scheme, given)) if scheme.eq_ignore_ascii_case("bearer") => {
                        if token.is(given.trim()) {
                            return Ok(());
                        }
                        "another token"
                    }
                    _ => "something else",
                }
            }
        };
        Err(ServeError::Unauthorized { found })
    }

    /// Rejects requests that a page of another site makes through a visitor's browser.
    ///
    /// # Errors
    /// E1511 for a request from a page that this server did not deliver.
    pub(crate) fn refuse_other_sites(headers: &HeaderMap) -> Result<(), ServeError> {
        let Some(origin) = headers.get(ORIGIN) else {
            return Ok(());
        };
        let origin = origin.to_str().ok();
        let origin = origin.and_then(|origin| Some(origin.split_once("://")?.1));
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        // A site can make its own host name resolve to this machine (DNS rebinding), but not an address.
        if origin.is_some() && origin == host && host.is_some_and(is_address) {
            return Ok(());
        }
        Err(ServeError::Forbidden {
            what: "a request from a web page",
            why: "its `origin` is not the address of this server",
        })
    }

    /// # Errors
    /// E1511 if clients may not load and unload models.
    pub(crate) fn allow_control(&self) -> Result<(), ServeError> {
        match self.model_control {
            true => Ok(()),
            false => Err(ServeError::Forbidden {
                what: "loading and unloading models",
                why: "the server was started without model control",
            }),
        }
    }

    /// Admits a request; it counts until the permit is dropped.
    ///
    /// # Errors
    /// E1506 when the limit is reached; E1508 when the server is shutting down.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, ServeError> {
        if self.is_closed.load(Ordering::Acquire) {
            let what = "the server".to_owned();
            return Err(ServeError::Draining { what });
        }
        let limit = self.limits.requests;
        let permit = Permit {
            gate: Arc::clone(self),
            bytes: AtomicUsize::new(0),
        };
        if self.requests.fetch_add(1, Ordering::AcqRel) >= limit {
            return Err(ServeError::Overloaded {
                what: "requests",
                limit,
            });
        }
        Ok(permit)
    }

    /// Admits a connection; it counts until the result is dropped. `None` when the limit is reached.
    pub(crate) fn connect(self: &Arc<Self>) -> Option<Connected> {
        let connected = Connected(Arc::clone(self));
        let before = self.connections.fetch_add(1, Ordering::AcqRel);
        (before < self.limits.connections).then_some(connected)
    }

    /// Makes the server report that it is not ready.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Makes the server reject requests.
    pub(crate) fn close(&self) {
        self.drain();
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}

/// A request that was admitted, with the bytes of its body.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    bytes: AtomicUsize,
}

impl Permit {
    /// Counts bytes of the request that are kept in memory.
    ///
    /// # Errors
    /// E1509 when the request exceeds the limit for one request; E1506 when all requests together exceed theirs.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), ServeError> {
        let limits = &self.gate.limits;
        let own = self
            .bytes
            .fetch_add(bytes, Ordering::AcqRel)
            .saturating_add(bytes);
        let all = self
            .gate
            .bytes
            .fetch_add(bytes, Ordering::AcqRel)
            .saturating_add(bytes);
        if own > limits.body_bytes {
            return Err(too_large(limits.body_bytes, "more"));
        }
        if all > limits.buffered_bytes {
            return Err(ServeError::Overloaded {
                what: "bytes of requests",
                limit: limits.buffered_bytes,
            });
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.gate.limits
    }
}

/// Whether a host, with or without a port, is an address rather than a name.
fn is_address(host: &str) -> bool {
    let is_ip = |text: &str| text.parse::<IpAddr>().is_ok() || text == "localhost";
    let without_port = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let in_brackets = without_port.trim_start_matches('[').trim_end_matches(']');
    host.parse::<SocketAddr>().is_ok() || is_ip(host) || is_ip(in_brackets)
}

/// The error of a body that is larger than the limit.
pub(crate) fn too_large(limit: usize, found: impl Into<String>) -> ServeError {
    ServeError::TooLarge {
        what: "the request's body",
        limit,
        found: found.into(),
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let bytes = self.bytes.load(Ordering::Acquire);
        self.gate.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.gate.requests.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection that was admitted.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Gate>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(change: impl FnOnce(&mut ServerOptions)) -> Arc<Gate> {
        let mut options = ServerOptions::default();
        change(&mut options);
        Gate::new(&options)
    }

    #[test]
    fn limits_are_those_of_all_requests_together_and_are_given_back() {
        let gate = gate(|options| {
            options.limits.requests = 2;
            options.limits.body_bytes = 10;
            options.limits.buffered_bytes = 12;
            options.limits.connections = 1;
        });
        let (first, second) = (gate.admit().unwrap(), gate.admit().unwrap());
        assert_eq!(gate.admit().unwrap_err().code(), "E1506");
        first.hold(8).unwrap();
        assert_eq!(first.hold(3).unwrap_err().code(), "E1509");
        assert_eq!(second.hold(5).unwrap_err().code(), "E1506");
        drop(first);
        second.hold(5).unwrap();
        drop(second);
        assert_eq!((gate.requests(), gate.bytes()), (0, 0));
        let connection = gate.connect().unwrap();
        assert!(gate.connect().is_none());
        drop(connection);
        assert!(gate.connect().is_some());
        gate.close();
        assert_eq!(gate.admit().unwrap_err().code(), "E1508");
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let refused = |host: &str, origin: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            headers.insert(ORIGIN, origin.parse().unwrap());
            Gate::refuse_other_sites(&headers).map_err(|error| error.code())
        };
        assert!(Gate::refuse_other_sites(&HeaderMap::new()).is_ok());
        for host in [
            "127.0.0.1:8000",
            "localhost:8000",
            "localhost",
            "[::1]:8000",
            "10.0.0.7",
        ] {
            assert_eq!(refused(host, &format!("http://{host}")), Ok(()), "{host}");
            assert_eq!(refused(host, "http://example.org"), Err("E1511"), "{host}");
            assert_eq!(refused(host, "null"), Err("E1511"), "{host}");
        }
        assert_eq!(
            refused("127.0.0.1:8000", "http://127.0.0.1:80001"),
            Err("E1511")
        );
        // The name of another site, made to resolve to this machine (DNS rebinding).
        assert_eq!(
            refused("example.org:8000", "http://example.org:8000"),
            Err("E1511")
        );
    }
}
