//! Routes: maps a path and a method to an operation.

use crate::error::{ServeError, excerpt};
use http::Method;

/// The resource or action that a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    StatusPage,
    Metrics,
    Server,
    Live,
    Ready,
    Model(Target),
    ModelReady(Target),
    Config(Target),
    Infer(Target),
    Stats(Option<Target>),
    Index,
    Load(String),
    Unload(String),
}

/// A model, and the requested version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) version: Option<String>,
}

impl Route {
    /// # Errors
    /// E1513 for a path or method that does not exist.
    pub(super) fn of(method: &Method, path: &str) -> Result<Self, ServeError> {
        let parts: Vec<&str> = path
            .trim_start_matches('/')
            .trim_end_matches('/')
            .split('/')
            .collect();
        let reads = method == Method::GET || method == Method::HEAD;
        let writes = method == Method::POST;
        let found = match parts.as_slice() {
            [""] if reads => Some(Self::StatusPage),
            ["metrics"] if reads => Some(Self::Metrics),
            ["v2"] if reads => Some(Self::Server),
            ["v2", "health", "live"] if reads => Some(Self::Live),
            ["v2", "health", "ready"] if reads => Some(Self::Ready),
            ["v2", "models", "stats"] if reads => Some(Self::Stats(None)),
            ["v2", "models", name, "versions", version, rest @ ..] => {
                Self::of_model(reads, writes, Target::new(name, Some(version)), rest)
            }
            ["v2", "models", name, rest @ ..] => {
                Self::of_model(reads, writes, Target::new(name, None), rest)
            }
            ["v2", "repository", "index"] if writes => Some(Self::Index),
            ["v2", "repository", "models", name, "load"] if writes => {
                Some(Self::Load((*name).to_owned()))
            }
            ["v2", "repository", "models", name, "unload"] if writes => {
                Some(Self::Unload((*name).to_owned()))
            }
            _ => None,
        };
        found.ok_or_else(|| {
            let method: String = method.as_str().chars().take(20).collect();
            ServeError::NotFound {
                method: method.escape_debug().to_string(),
                path: excerpt(path),
            }
        })
    }

    fn of_model(reads: bool, writes: bool, target: Target, rest: &[&str]) -> Option<Self> {
        match rest {
            [] if reads => Some(Self::Model(target)),
            ["ready"] if reads => Some(Self::ModelReady(target)),
            ["config"] if reads => Some(Self::Config(target)),
            ["stats"] if reads => Some(Self::Stats(Some(target))),
            ["infer"] if writes => Some(Self::Infer(target)),
            _ => None,
        }
    }

    /// Whether it is used by load balancers, which have no token.
    pub(super) fn is_health(&self) -> bool {
        matches!(self, Self::Live | Self::Ready)
    }

    /// Whether it changes which models are served.
    pub(super) fn is_control(&self) -> bool {
        matches!(self, Self::Load(_) | Self::Unload(_))
    }
}

impl Target {
    fn new(name: &str, version: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            version: version.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_protocol_is_found() {
        let of = |method: Method, path: &str| Route::of(&method, path).unwrap();
        let model = |version: Option<&str>| Target::new("m", version);
        let get = Method::GET;
        assert_eq!(of(get.clone(), "/"), Route::StatusPage);
        assert_eq!(of(get.clone(), "/v2"), Route::Server);
        assert_eq!(of(get.clone(), "/v2/"), Route::Server);
        assert_eq!(of(Method::HEAD, "/v2/health/live"), Route::Live);
        assert_eq!(of(get.clone(), "/v2/models/stats"), Route::Stats(None));
        assert_eq!(of(get.clone(), "/v2/models/m"), Route::Model(model(None)));
        assert_eq!(
            of(get.clone(), "/v2/models/m/versions/3"),
            Route::Model(model(Some("3")))
        );
        assert_eq!(
            of(Method::POST, "/v2/models/m/versions/3/infer"),
            Route::Infer(model(Some("3")))
        );
        assert_eq!(
            of(Method::POST, "/v2/repository/models/m/unload"),
            Route::Unload("m".to_owned())
        );
    }

    #[test]
    fn other_paths_and_methods_are_not() {
        for (method, path) in [
            (Method::GET, "/v2/models/m/infer"),
            (Method::POST, "/v2"),
            (Method::GET, "/v2/models"),
            (Method::DELETE, "/v2/models/m"),
            (Method::GET, "/v3\u{1b}"),
            (Method::POST, "/v2/models/m/versions"),
        ] {
            let error = Route::of(&method, path).unwrap_err();
            assert_eq!(error.code(), "E1513", "{method} {path}");
            assert!(!error.to_string().contains('\u{1b}'));
        }
    }
}
