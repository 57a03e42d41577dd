//! The rewrite of products to their formats.

mod integers;
mod narrow_floats;
mod weights;

use crate::emit::Emit;
use crate::error::PrecisionError;
use crate::format::{Bits, Format, WeightFormat};
use crate::precision::Precision;
use crate::product::{Kind, Product};
use crate::report::{Change, PrecisionReport, Reason, Unchanged};
use kiln_ir::{Graph, Rebuild, Visit};
use kiln_tensor::Tensor;

/// How activations are treated if weights are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activations {
    AsTheyAre,
    /// i8 with a scale per row.
    Int8,
}

/// The maximum number of names listed in an error.
const LISTED: usize = 8;

/// A product that was replaced.
struct Narrowed {
    bytes_after: usize,
    weight_error: Option<f64>,
}

/// What a rewrite returns: the new bytes and error, or why the product was left unchanged.
type Rewritten = Result<Result<Narrowed, Reason>, PrecisionError>;

/// Rewrites the products of a verified graph, including those of nested regions.
///
/// # Errors
/// E0644 when a pattern matches no product; the tensor's code when memory cannot be allocated.
pub fn reduce_precision(
    graph: &Graph,
    precision: &Precision,
) -> Result<(Graph, PrecisionReport), PrecisionError> {
    let _span = tracing::info_span!("precision.reduce").entered();
    check_patterns(graph, precision)?;
    let mut report = PrecisionReport::default();
    let reduced = Rebuild::new(graph).run::<PrecisionError>(&mut |rebuild, region, op| {
        let Some(product) = Product::of(rebuild.old(), op) else {
            return Ok(Visit::Copy);
        };
        let format = precision.format_of(&product.name);
        if format == Format::F32 {
            return Ok(Visit::Copy);
        }
        let product = product.with_weights(rebuild.old());
        let mut emit = Emit::new(rebuild, region, op, &product.name);
        let rewritten = match format {
            Format::F32 | Format::BF16 | Format::F16 => {
                narrow_floats::rewrite(&mut emit, &product, format)
            }
            Format::Weights(format) => {
                weights::rewrite(&mut emit, &product, format, Activations::AsTheyAre)
            }
            Format::Int4Int8(groups) => {
                weights::rewrite(&mut emit, &product, groups.into(), Activations::Int8)
            }
            Format::Int8 => integers::rewrite(&mut emit, &product),
        }?;
        let op = product.name.clone();
        Ok(match rewritten {
            Ok(narrowed) => {
                let before = product.weights.as_ref().map_or(0, Tensor::byte_len);
                tracing::debug!(op, %format, before, after = narrowed.bytes_after, "narrowed");
                report.changes.push(Change {
                    op,
                    value: product.result,
                    format,
                    bytes_before: before,
                    bytes_after: narrowed.bytes_after,
                    weight_error: narrowed.weight_error,
                });
                Visit::Done
            }
            Err(reason) => {
                report.unchanged.push(Unchanged { op, format, reason });
                Visit::Copy
            }
        })
    })?;
    Ok((reduced, report))
}

fn check_patterns(graph: &Graph, precision: &Precision) -> Result<(), PrecisionError> {
    let products = graph.ops().filter_map(|(op, _)| Product::of(graph, op));
    let names: Vec<String> = products.map(|product| product.name).collect();
    let Some(found) = precision.unmatched(names.iter().map(String::as_str)) else {
        return Ok(());
    };
    let mut known = match names.len() {
        0 => "no products of f32".to_owned(),
        _ => names[..names.len().min(LISTED)].join(", "),
    };
    if names.len() > LISTED {
        known.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    Err(PrecisionError::NoMatch {
        found: found.to_owned(),
        known,
    })
}

/// The weights of a product as finite numbers in row-major order, with their shape.
fn finite_weights(product: &Product) -> Result<(Vec<f32>, Vec<usize>), Reason> {
    let weights = product.weights.as_ref().ok_or(Reason::NoWeights)?;
    if weights.is_empty() {
        return Err(Reason::Empty);
    }
    let elements = weights.to_vec::<f32>().map_err(|_| Reason::NoWeights)?;
    match elements.iter().all(|element| element.is_finite()) {
        true => Ok((elements, weights.shape().to_vec())),
        false => Err(Reason::NotFinite),
    }
}

/// Whether weights of this format are supported for a kind of product.
fn check_kind(kind: Kind, format: WeightFormat) -> Result<(), Reason> {
    let per_channel = format.bits == Bits::Eight && format.group.is_none() && !format.zero_points;
    match kind {
        Kind::Conv if !per_channel => Err(Reason::Convolution),
        Kind::Conv | Kind::Matmul => Ok(()),
    }
}
