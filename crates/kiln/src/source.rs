//! What a model is loaded from: data, possibly untrusted.
//!
//! Bundles are not a source: they contain code, and are opened by separate functions.

use kiln_ir::Graph;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a model is loaded from: a file, a graph's text, an ONNX model in memory, or a graph.
///
/// Paths and graphs convert into sources. All of it is data: nothing in a source is executed as machine code. A bundle is
/// code and not a source; see [`Model::open_bundle`](crate::Model::open_bundle).
///
/// ```
/// use kiln::{Model, Source};
///
/// let model = Model::load(Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }"))?;
/// assert_eq!(model.inputs()[0].name(), "x");
/// assert_eq!(Model::load("no model.txt").err().map(|error| error.code()), Some("E0971"));
/// # Ok::<(), kiln::Error>(())
/// ```
pub struct Source<'a>(pub(crate) Kind<'a>);

pub(crate) enum Kind<'a> {
    File(Cow<'a, Path>),
    Text(&'a str),
    #[cfg(feature = "onnx")]
    Onnx {
        bytes: &'a [u8],
        files: Option<&'a dyn kiln_onnx::Fs>,
    },
    Graph(Box<Graph>),
}

impl<'a> Source<'a> {
    /// A file: ONNX (`.onnx`) or a graph's text (`.kiln`). Files beside it may be read too: those that an ONNX model refers
    /// to, and the archive with the large constants of a text.
    pub fn file(path: &'a (impl AsRef<Path> + ?Sized)) -> Self {
        Self(Kind::File(path.as_ref().into()))
    }

    /// A graph's text; types of results may be omitted.
    pub fn text(text: &'a str) -> Self {
        Self(Kind::Text(text))
    }

    /// An ONNX model in memory. Tensors that it keeps in external files come from `files`, if given.
    ///
    /// ```
    /// use kiln::{Model, Source};
    ///
    /// let error = Model::load(Source::onnx(b"no model", None)).err();
    /// assert_eq!(error.map(|error| error.code()), Some("E0901"));
    /// ```
    #[cfg(feature = "onnx")]
    pub fn onnx(bytes: &'a [u8], files: Option<&'a dyn kiln_onnx::Fs>) -> Self {
        Self(Kind::Onnx { bytes, files })
    }

    /// A graph that was built or recorded. Loading rejects a graph that is not well formed, or whose types do not
    /// follow from its ops.
    ///
    /// ```
    /// use kiln::internals::ir::{Graph, Type};
    /// use kiln::{DType, Model, Source};
    ///
    /// let mut graph = Graph::new("identity");
    /// let n = graph.dims_mut().symbol("N")?;
    /// let x = graph.add_input("x", Type::tensor(DType::F32, [n]));
    /// graph.set_outputs([("y", x)]);
    /// assert_eq!(Model::load(Source::graph(graph))?.outputs()[0].to_string(), "y: f32[N]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn graph(graph: Graph) -> Self {
        Self(Kind::Graph(Box::new(graph)))
    }
}

impl<'a> From<&'a str> for Source<'a> {
    /// A file.
    fn from(path: &'a str) -> Self {
        Self::file(path)
    }
}

impl<'a> From<&'a String> for Source<'a> {
    /// A file.
    fn from(path: &'a String) -> Self {
        Self::file(path)
    }
}

impl<'a> From<&'a Path> for Source<'a> {
    fn from(path: &'a Path) -> Self {
        Self::file(path)
    }
}

impl<'a> From<&'a PathBuf> for Source<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Self::file(path)
    }
}

impl From<PathBuf> for Source<'_> {
    fn from(path: PathBuf) -> Self {
        Self(Kind::File(path.into()))
    }
}

impl From<Graph> for Source<'_> {
    fn from(graph: Graph) -> Self {
        Self::graph(graph)
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::File(path) => write!(f, "Source(file {})", path.display()),
            Kind::Text(text) => write!(f, "Source(text of {} bytes)", text.len()),
            #[cfg(feature = "onnx")]
            Kind::Onnx { bytes, .. } => write!(f, "Source(ONNX of {} bytes)", bytes.len()),
            Kind::Graph(graph) => write!(f, "Source(graph {})", graph.name()),
        }
    }
}
