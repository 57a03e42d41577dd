//! The types that a model states for the values inside it and for its results, against the inferred ones.
//!
//! In strict mode each must be confirmed. In lenient mode wrong ones are dropped, and those that are neither confirmed nor
//! refuted are checked by each call; but where such statements contradict each other, one of them is wrong and nobody knows
//! which, so that none of them is taken. Names of sizes that inputs do not have say nothing.

use kiln_ir::{Graph, Type, ValueId};
use kiln_shape_inference::{GraphBuilder, check_types};
use kiln_symbolic_shape::{ContractFact, DimId, DimTable, FactOrigin, Proof};
use kiln_tensor::DType;

use super::WrongType;
use super::inputs::Sizes;
use super::names::Names;
use crate::{Dim, Error, Model, Name, ValueType};

/// Which statements are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Those that are not refuted.
    Unrefuted,
    /// Those that are confirmed.
    Confirmed,
}

/// What the statements came to.
pub(super) struct Outcome {
    /// Those that are not taken.
    pub(super) wrong_types: Vec<WrongType>,
    /// Whether some contradict each other.
    pub(super) is_contradictory: bool,
}

/// What the model states of one value.
struct Stated<'a> {
    name: &'a str,
    value: ValueId,
    dtype: Option<DType>,
    dims: Vec<Option<DimId>>,
    /// As inferred, before any statement was taken.
    inferred: Type,
}

/// Compares what the model states of outputs and other values with what was inferred, and takes what is to be taken.
pub(super) fn annotate(
    builder: &mut GraphBuilder,
    model: &Model,
    sizes: &Sizes,
    names: &Names,
    trust: Trust,
) -> Result<Outcome, Error> {
    let statements = statements(builder, model, sizes, names);
    let before = builder.dims().clone();
    let mut outcome = Outcome {
        wrong_types: Vec::new(),
        is_contradictory: false,
    };
    for mut stated in statements {
        let wrong = stated.as_wrong(&before);
        if trust == Trust::Confirmed && stated.drop_unconfirmed(builder, &before) {
            outcome.wrong_types.push(wrong.clone());
        }
        let n_disagreements = builder.disagreements().len();
        let result = builder.annotate(stated.value, stated.dtype, &stated.dims);
        result.map_err(|source| Error::Infer {
            node: format!("stated type of {}", Name::from(stated.name)),
            source,
        })?;
        if builder.disagreements().len() > n_disagreements {
            outcome.wrong_types.push(wrong);
            outcome.is_contradictory |= !stated.is_refuted(builder, &before);
        }
    }
    Ok(outcome)
}

/// Whether the sizes that a model states, and each call is to confirm, can all be so: each was looked at when it was taken,
/// and what came later may say otherwise.
pub(super) fn can_hold(graph: &Graph) -> bool {
    let facts = graph.dims().contract_facts();
    let is_stated = |fact: &ContractFact| matches!(&fact.origin, FactOrigin::Required(origin) if origin.starts_with("stated type of"));
    !facts.iter().any(is_stated) || check_types(graph).is_ok()
}

fn statements<'a>(
    builder: &mut GraphBuilder,
    model: &'a Model,
    sizes: &Sizes,
    names: &Names,
) -> Vec<Stated<'a>> {
    let graph = model.graph();
    let all = graph.annotations().iter().chain(graph.outputs());
    let stated = all.filter_map(|stated| {
        let value = names.value(&stated.name)?;
        let Some(ValueType::Tensor {
            element,
            shape: Some(shape),
        }) = &stated.ty
        else {
            return None;
        };
        let dims = shape.iter().map(|dim| match dim {
            Dim::Known(size) => Some(builder.size(i64::try_from(*size).unwrap_or(i64::MAX))),
            Dim::Named(name) => sizes.get(name),
            Dim::Anonymous => None,
        });
        Some(Stated {
            name: &stated.name,
            value,
            dtype: element.dtype(),
            dims: dims.collect(),
            inferred: builder.graph().ty(value).clone(),
        })
    });
    stated.collect()
}

impl Stated<'_> {
    /// How each stated size relates to the inferred one; none where the rank differs, or there is no tensor.
    fn proofs(&self, builder: &GraphBuilder, dims: &DimTable) -> Option<Vec<Proof>> {
        let inferred = self.inferred.as_tensor()?;
        if inferred.dims.len() != self.dims.len() {
            return None;
        }
        let pairs = inferred.dims.iter().zip(&self.dims);
        let proofs = pairs.map(|(&inferred, &stated)| match stated {
            Some(stated) if builder.is_defined(stated) => dims.equal(inferred, stated),
            _ => Proof::Proved,
        });
        Some(proofs.collect())
    }

    /// Whether the operators alone say that the statement is wrong.
    fn is_refuted(&self, builder: &GraphBuilder, before: &DimTable) -> bool {
        let inferred = self.inferred.innermost().dtype;
        self.dtype.is_some_and(|dtype| dtype != inferred)
            || self
                .proofs(builder, before)
                .is_none_or(|proofs| proofs.contains(&Proof::Disproved))
    }

    /// Forgets the sizes that the operators do not confirm; says whether there were any.
    fn drop_unconfirmed(&mut self, builder: &GraphBuilder, before: &DimTable) -> bool {
        if self.is_refuted(builder, before) {
            return false;
        }
        let proofs = self.proofs(builder, before).unwrap_or_default();
        let mut any = false;
        for (dim, proof) in self.dims.iter_mut().zip(proofs) {
            if proof != Proof::Proved {
                *dim = None;
                any = true;
            }
        }
        any
    }

    fn as_wrong(&self, dims: &DimTable) -> WrongType {
        let sizes = self.dims.iter().map(|dim| match dim {
            Some(dim) => dims.display(*dim).to_string(),
            None => "?".to_owned(),
        });
        let dtype = self
            .dtype
            .map_or_else(|| "?".to_owned(), |dtype| dtype.to_string());
        WrongType {
            value: Name::from(self.name),
            inferred: self.inferred.display(dims).to_string(),
            stated: format!("{dtype}[{}]", sizes.collect::<Vec<_>>().join(", ")),
        }
    }
}
