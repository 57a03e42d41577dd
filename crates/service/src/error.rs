//! The crate's error: what is wrong with a blueprint and where, and why a package was not built, stored or run.

use crate::blueprint::Place;
use kiln::ErrorKind;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One problem of a blueprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The stable code.
    pub code: &'static str,
    /// Where in the document.
    pub place: Place,
    /// What was expected, and what was found.
    pub message: String,
}

impl Problem {
    pub(crate) const MALFORMED: &'static str = "E1401";
    pub(crate) const VERSION: &'static str = "E1402";
    pub(crate) const LIMIT: &'static str = "E1403";
    pub(crate) const NAME: &'static str = "E1404";
    pub(crate) const UNKNOWN_VALUE: &'static str = "E1405";
    pub(crate) const CYCLE: &'static str = "E1406";
    pub(crate) const UNKNOWN_KIND: &'static str = "E1407";
    pub(crate) const COUNT: &'static str = "E1408";
    pub(crate) const ATTRIBUTE: &'static str = "E1409";
    pub(crate) const SIZE: &'static str = "E1410";
    pub(crate) const NODE: &'static str = "E1411";

    pub(crate) fn new(code: &'static str, path: &str, message: impl Into<String>) -> Self {
        let place = Place::of_path(path);
        let message = message.into();
        Self {
            code,
            place,
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// All problems of a blueprint; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    pub(crate) fn of(problems: Vec<Problem>) -> Option<Self> {
        (!problems.is_empty()).then_some(Self(problems))
    }

    /// The problems; those of one kind are in the document's order.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    pub(crate) fn code(&self) -> &'static str {
        self.0
            .first()
            .map_or(Problem::MALFORMED, |first| first.code)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

/// Why something could not be done. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// E1401 to E1411: a blueprint that cannot be used.
    #[error("{0}")]
    Blueprint(Problems),
    /// E1412: a graph that has no blueprint.
    #[error("{what} has no form in a blueprint; keep the graph as text or ONNX")]
    NoBlueprint {
        /// The part of the graph.
        what: String,
    },
    /// E1420: a stage of the pipeline failed below this crate.
    #[error("{stage}: {source}")]
    Stage {
        /// The stage.
        stage: &'static str,
        /// What the layer below reports.
        source: kiln::Error,
    },
    /// E1421: the build has no compiler for the target.
    #[error("cannot optimise for {target}: {problem}")]
    Target {
        /// The target.
        target: &'static str,
        /// What is missing, and what to do.
        problem: &'static str,
    },
    /// E1422: no sizes could be drawn that meet the blueprint's facts.
    #[error(
        "no sizes meet the facts of {name} in {attempts} attempts; set `likely` of its symbols"
    )]
    NoSizes {
        /// The blueprint or graph.
        name: String,
        /// The number of bindings tried.
        attempts: usize,
    },
    /// E1423: a package that did not pass validation.
    #[error("validation rejected {name}: {failures}")]
    Rejected {
        /// The blueprint.
        name: String,
        /// The failed checks.
        failures: String,
    },
    /// E1424: the program that runs memory checks did not work.
    #[error("the memory check could not run: {problem}")]
    GuardProgram {
        /// What happened.
        problem: String,
    },
    /// E1425: a package that this build cannot load.
    #[error("package {key} is refused: {reason}; it is compiled again from its blueprint")]
    PackageRefused {
        /// Its key.
        key: String,
        /// The reason.
        reason: String,
    },
    /// E1426: the folder of packages failed.
    #[error("cannot {action} {path}: {source}")]
    Store {
        /// What was attempted.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// E1427: the store that servers share failed.
    #[error(
        "cannot {action} package {key} in the {store} store: {reason}; the service continues without it"
    )]
    SharedStore {
        /// What was attempted.
        action: &'static str,
        /// The package's key.
        key: String,
        /// The store's name.
        store: String,
        /// The reason.
        reason: String,
    },
    /// E1430: too many requests wait.
    #[error("{what} {waiting} requests wait, the limit is {limit}; retry later")]
    QueueFull {
        /// The owner of the limit.
        what: String,
        /// How many wait.
        waiting: usize,
        /// The limit.
        limit: usize,
    },
    /// E1431: the request was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// E1432: the service was stopped.
    #[error("the service is stopped; start another one")]
    Stopped,
    /// E1433: an invalid setting.
    #[error("setting {name}: expected {expected}, found {found}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// What it takes.
        expected: String,
        /// What it was given.
        found: String,
    },
    /// E1434: a layer's kernel failed, and fallback is off.
    #[error("layer {layer}: the compiled kernel failed and fallback is off: {problem}")]
    NoFallback {
        /// The layer.
        layer: String,
        /// Why the kernel failed.
        problem: String,
    },
    /// E1435: the request was not answered in time.
    #[error("no answer within {limit:?}; the compile continues, ask again")]
    Deadline {
        /// The time that was allowed.
        limit: Duration,
    },
    /// E1436: the work panicked: a defect.
    #[error("{doing} panicked: {message}; this is a defect: report it with the blueprint")]
    Panicked {
        /// What was being done.
        doing: &'static str,
        /// The panic's message.
        message: String,
    },
    /// The same error, returned to several requests.
    #[error(transparent)]
    Shared(#[from] Arc<ServiceError>),
}

impl ServiceError {
    /// The stable code, documented in the book's error reference; for an error of a layer below, that layer's.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Blueprint(problems) => problems.code(),
            Self::NoBlueprint { .. } => "E1412",
            Self::Stage { .. } => "E1420",
            Self::Target { .. } => "E1421",
            Self::NoSizes { .. } => "E1422",
            Self::Rejected { .. } => "E1423",
            Self::GuardProgram { .. } => "E1424",
            Self::PackageRefused { .. } => "E1425",
            Self::Store { .. } => "E1426",
            Self::SharedStore { .. } => "E1427",
            Self::QueueFull { .. } => "E1430",
            Self::Cancelled => "E1431",
            Self::Stopped => "E1432",
            Self::Setting { .. } => "E1433",
            Self::NoFallback { .. } => "E1434",
            Self::Deadline { .. } => "E1435",
            Self::Panicked { .. } => "E1436",
            Self::Shared(error) => error.code(),
        }
    }

    /// The error of the layer below, if one caused this.
    pub fn cause(&self) -> Option<&kiln::Error> {
        match self {
            Self::Stage { source, .. } => Some(source),
            Self::Shared(error) => error.cause(),
            _ => None,
        }
    }

    pub(crate) fn stage(stage: &'static str) -> impl FnOnce(kiln::Error) -> Self {
        move |source| match source.kind() {
            ErrorKind::Cancelled => Self::Cancelled,
            _ => Self::Stage { stage, source },
        }
    }

    pub(crate) fn store(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Store {
            action,
            path,
            source,
        }
    }
}

impl From<Problem> for ServiceError {
    fn from(problem: Problem) -> Self {
        Self::Blueprint(problem.into())
    }
}
