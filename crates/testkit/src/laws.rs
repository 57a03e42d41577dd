//! Laws of every valid graph: its text, its types and its hash.

use kiln_interpreter::{InterpretError, bind_symbols};
use kiln_ir::{BlobMap, Graph, Op, structural_hash, text, verify};
use kiln_shape_inference::{check_types, read_graph};
use kiln_symbolic_shape::text::Diagnostics;
use kiln_tensor::Tensor;

/// A law that a graph violates, with the graph's text if that helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenLaw {
    /// The verifier rejects it.
    #[error("verify: {errors}\n{text}")]
    Verify {
        /// The verifier's errors.
        errors: String,
        /// The graph.
        text: String,
    },
    /// Its types do not follow from its operands.
    #[error("check_types: {errors}\n{text}")]
    Types {
        /// The errors of inference.
        errors: String,
        /// The graph.
        text: String,
    },
    /// A reader rejects what the printer wrote.
    #[error("{reader} rejects what was printed: {errors}\n{text}")]
    Read {
        /// Which reader.
        reader: &'static str,
        /// Its error.
        errors: String,
        /// The graph.
        text: String,
    },
    /// Printing a graph that was read gives a different text.
    #[error(
        "printed again after {reader}, a line differs: expected {expected:?}, found {found:?}\n{text}"
    )]
    Fixpoint {
        /// Which reader.
        reader: &'static str,
        /// The line as printed first.
        expected: String,
        /// The line as printed again.
        found: String,
        /// The graph.
        text: String,
    },
    /// Reading printed text changes the structural hash.
    #[error("the structural hash changes by printing and reading\n{text}")]
    Hash {
        /// The graph.
        text: String,
    },
    /// An output's shape differs from its type.
    #[error("output {output}: expected {expected}, found {found}")]
    OutputType {
        /// Which output.
        output: usize,
        /// Its type in the graph.
        expected: String,
        /// The computed shape.
        found: String,
    },
    /// The shapes do not fit the graph.
    #[error(transparent)]
    Bind(#[from] InterpretError),
}

/// Checks that a graph is valid and that printing and reading it are inverses.
///
/// # Errors
/// The first violated law.
pub fn check_graph(graph: &Graph) -> Result<(), BrokenLaw> {
    let printed = excerpt(&text::print(graph));
    if let Err(errors) = verify(graph) {
        let errors = errors.to_string();
        return Err(BrokenLaw::Verify {
            errors,
            text: printed,
        });
    }
    if let Err(errors) = check_types(graph) {
        let errors = errors.to_string();
        return Err(BrokenLaw::Types {
            errors,
            text: printed,
        });
    }
    check_text(graph)
}

/// A reader of graph text.
type Reader = fn(&str, &BlobMap) -> Result<Graph, Diagnostics>;

/// Checks that both readers read the printer's output. The typed reader returns a graph with the same text and hash. The
/// inferring one may add facts that inference requires, once: its result prints to a text that it reads back unchanged.
///
/// # Errors
/// The first violated law.
pub fn check_text(graph: &Graph) -> Result<(), BrokenLaw> {
    let (printed, blobs) = (text::print(graph), blobs_of(graph));
    let again = reread("the typed reader", text::read, &printed, &blobs)?;
    expect_alike("the typed reader", &printed, &text::print(&again))?;
    if structural_hash(&again) != structural_hash(graph) {
        let text = excerpt(&printed);
        return Err(BrokenLaw::Hash { text });
    }
    let inferred = reread("the inferring reader", read_graph, &printed, &blobs)?;
    let first = text::print(&inferred);
    if first != printed {
        let inferred = reread("the inferring reader", read_graph, &first, &blobs)?;
        expect_alike("the inferring reader", &first, &text::print(&inferred))?;
    }
    Ok(())
}

fn reread(
    reader: &'static str,
    read: Reader,
    printed: &str,
    blobs: &BlobMap,
) -> Result<Graph, BrokenLaw> {
    read(printed, blobs).map_err(|errors| BrokenLaw::Read {
        reader,
        errors: excerpt(&errors.render(printed)),
        text: excerpt(printed),
    })
}

fn expect_alike(reader: &'static str, printed: &str, again: &str) -> Result<(), BrokenLaw> {
    if printed == again {
        return Ok(());
    }
    let differing = printed.lines().zip(again.lines()).find(|(a, b)| a != b);
    let (expected, found) = differing.unwrap_or(("the same lines", "more or fewer lines"));
    Err(BrokenLaw::Fixpoint {
        reader,
        expected: expected.to_owned(),
        found: found.to_owned(),
        text: excerpt(printed),
    })
}

/// A text for a message: truncated if it is long.
fn excerpt(text: &str) -> String {
    const LIMIT: usize = 20_000;
    let end = text.char_indices().nth(LIMIT).map(|(end, _)| end);
    end.and_then(|end| text.get(..end))
        .map_or_else(|| text.to_owned(), |start| format!("{start}…"))
}

/// Checks that outputs have the shapes of the graph's types for these inputs, as far as these follow only from the
/// inputs.
///
/// # Errors
/// The first output that differs.
pub fn check_output_types(
    graph: &Graph,
    inputs: &[Tensor],
    outputs: &[Tensor],
) -> Result<(), BrokenLaw> {
    let shapes: Vec<&[usize]> = inputs.iter().map(Tensor::shape).collect();
    let binding = bind_symbols(graph, &shapes)?;
    for (index, (&value, tensor)) in graph.outputs().iter().zip(outputs).enumerate() {
        let ty = graph.ty(value).innermost();
        let size = |&dim| graph.dims().evaluate(dim, &binding).ok();
        let same_size = |(dim, &found): (_, &usize)| {
            size(dim).is_none_or(|size| usize::try_from(size) == Ok(found))
        };
        let same = ty.dtype == tensor.dtype()
            && ty.rank() == tensor.rank()
            && ty.dims.iter().zip(tensor.shape()).all(same_size);
        if !same {
            return Err(BrokenLaw::OutputType {
                output: index,
                expected: graph.ty(value).display(graph.dims()).to_string(),
                found: format!("{}{:?}", tensor.dtype(), tensor.shape()),
            });
        }
    }
    Ok(())
}

/// Every constant of a graph, including small ones: one with unusual NaNs prints as a digest at any size.
pub fn blobs_of(graph: &Graph) -> BlobMap {
    let mut blobs = BlobMap::new();
    for (_, data) in graph.ops() {
        if let Op::Constant(constant) = &data.op {
            blobs.insert(constant.clone());
        }
    }
    blobs
}
