//! The activations that a recurrent operator names, with their parameters.

use kiln_ir::ValueId;
use kiln_shape_inference::{GraphBuilder, InferError};

use crate::{Error, NodeContext};

/// A named activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Activation {
    kind: Kind,
    alpha: f64,
    beta: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// A scalar function without parameters.
    Plain(&'static str),
    /// A scalar function of `alpha`.
    OfAlpha(&'static str),
    /// A scalar function of `alpha` and `beta`.
    OfBoth(&'static str),
    /// `alpha * x + beta`.
    Affine,
    /// `alpha * tanh(beta * x)`.
    ScaledTanh,
}

impl Activation {
    /// One per use and direction: those named by the node, or `defaults` for each direction.
    pub(super) fn read(
        ctx: &NodeContext<'_>,
        defaults: &[&str],
        directions: usize,
    ) -> Result<Vec<Self>, Error> {
        let attributes = ctx.attributes();
        let count = defaults.len() * directions;
        let names: Vec<String> = match attributes.get::<&[Vec<u8>]>("activations")? {
            Some(names) if names.len() == count => {
                let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
                names.iter().map(text).collect()
            }
            Some(names) => {
                let expected = format!("{count} names");
                return Err(ctx.attribute_error("activations", expected, names.len()));
            }
            None => {
                let repeated = (0..directions).flat_map(|_| defaults.iter().copied());
                repeated.map(str::to_owned).collect()
            }
        };
        // Parameters are listed for those that have some, in order.
        let mut alphas = attributes.get_or::<&[f32]>("activation_alpha", &[])?.iter();
        let mut betas = attributes.get_or::<&[f32]>("activation_beta", &[])?.iter();
        let mut next = |name: &String| {
            let Some((kind, alpha, beta)) = by_name(name) else {
                let expected = "activations that ONNX defines";
                return Err(ctx.attribute_error("activations", expected, name.escape_debug()));
            };
            let (takes_alpha, takes_beta) = match kind {
                Kind::Plain(_) => (false, false),
                Kind::OfAlpha(_) => (true, false),
                Kind::OfBoth(_) | Kind::Affine | Kind::ScaledTanh => (true, true),
            };
            let given = |list: &mut std::slice::Iter<'_, f32>, takes: bool, default: f64| {
                let given = if takes { list.next() } else { None };
                given.map_or(default, |&value| f64::from(value))
            };
            Ok(Self {
                kind,
                alpha: given(&mut alphas, takes_alpha, alpha),
                beta: given(&mut betas, takes_beta, beta),
            })
        };
        names.iter().map(&mut next).collect()
    }

    pub(super) fn apply(
        self,
        builder: &mut GraphBuilder,
        x: ValueId,
    ) -> Result<ValueId, InferError> {
        let dtype = builder.dtype(x)?;
        match self.kind {
            Kind::Plain(name) => builder.map(name, &[x]),
            Kind::OfAlpha(name) => builder.map_with(name, &[self.alpha], &[x]),
            Kind::OfBoth(name) => builder.map_with(name, &[self.alpha, self.beta], &[x]),
            Kind::Affine => {
                let (alpha, beta) = (
                    builder.scalar_nearest(dtype, self.alpha)?,
                    builder.scalar_nearest(dtype, self.beta)?,
                );
                let scaled = builder.mul(alpha, x)?;
                builder.add(scaled, beta)
            }
            Kind::ScaledTanh => {
                let (alpha, beta) = (
                    builder.scalar_nearest(dtype, self.alpha)?,
                    builder.scalar_nearest(dtype, self.beta)?,
                );
                let scaled = builder.mul(beta, x)?;
                let curve = builder.tanh(scaled)?;
                builder.mul(alpha, curve)
            }
        }
    }
}

/// The activation and its default parameters, from the operators' specifications.
fn by_name(name: &str) -> Option<(Kind, f64, f64)> {
    Some(match name.to_ascii_lowercase().as_str() {
        "relu" => (Kind::Plain("relu"), 0.0, 0.0),
        "tanh" => (Kind::Plain("tanh"), 0.0, 0.0),
        "sigmoid" => (Kind::Plain("sigmoid"), 0.0, 0.0),
        "softsign" => (Kind::Plain("softsign"), 0.0, 0.0),
        "softplus" => (Kind::Plain("softplus"), 0.0, 0.0),
        "affine" => (Kind::Affine, 1.0, 0.0),
        "leakyrelu" => (Kind::OfAlpha("leaky_relu"), 0.01, 0.0),
        "thresholdedrelu" => (Kind::OfAlpha("thresholded_relu"), 1.0, 0.0),
        "elu" => (Kind::OfAlpha("elu"), 1.0, 0.0),
        "scaledtanh" => (Kind::ScaledTanh, 1.0, 1.0),
        "hardsigmoid" => (Kind::OfBoth("hard_sigmoid"), 0.2, 0.5),
        _ => return None,
    })
}
