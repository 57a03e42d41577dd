//! Compares the types that a model states for its values with the inferred types.

use super::GraphBuilder;
use crate::context::Mode;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Definition, Op, Type, ValueId};
use kiln_symbolic_shape::{DimId, Proof};
use kiln_tensor::DType;
use std::collections::BTreeSet;

/// A stated type that is not proved to be the inferred one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The value.
    pub value: ValueId,
    /// The inferred type, in the text form.
    pub inferred: String,
    /// The stated type, in the text form; `?` where nothing was stated.
    pub stated: String,
}

impl GraphBuilder {
    /// States a value's type; `None` where it is unknown. A stated size that is proved is adopted, because it reads
    /// better; sizes with symbols that have no value here are skipped.
    ///
    /// # Errors
    /// In strict mode, when the statement is not proved to equal the inferred type. In lenient mode, it becomes a
    /// [`Disagreement`]; a wrong statement is discarded, otherwise the proved sizes are kept.
    pub fn annotate(
        &mut self,
        value: ValueId,
        dtype: Option<DType>,
        dims: &[Option<DimId>],
    ) -> Result<(), InferError> {
        let ty = self.tensor(value)?;
        let proofs: Vec<Proof> =
            match dtype.is_some_and(|dtype| dtype != ty.dtype) || dims.len() != ty.rank() {
                true => vec![Proof::Disproved],
                false => ty
                    .dims
                    .iter()
                    .zip(dims)
                    .map(|(&dim, &stated)| self.agreement(dim, stated))
                    .collect(),
            };
        if proofs.contains(&Proof::Disproved) {
            return self.disagree(value, dtype, dims, true);
        }
        if proofs.contains(&Proof::Unknown) {
            self.disagree(value, dtype, dims, false)?;
        }
        // The sizes of a control op's results are symbols of that op.
        let symbols_stay = match self.graph.value(value).definition {
            Definition::Result { op, .. } => {
                matches!(self.graph.op(op).op, Op::If | Op::Loop { .. })
            }
            Definition::Parameter { .. } => false,
        };
        let mut refined = ty.clone();
        for ((dim, &stated), proof) in refined.dims.iter_mut().zip(dims).zip(proofs) {
            let Some(stated) = stated else { continue };
            if proof == Proof::Proved && !symbols_stay && self.reads_better(stated, *dim) {
                *dim = stated;
            }
        }
        self.graph.set_ty(value, Type::Tensor(refined));
        Ok(())
    }

    /// The statements that were not proved, in order.
    pub fn disagreements(&self) -> &[Disagreement] {
        &self.disagreements
    }

    /// Whether every symbol in the size has a value here.
    pub fn is_defined(&self, dim: DimId) -> bool {
        let mut seen = BTreeSet::new();
        let mut unseen = self.dims().symbols_in(dim);
        while let Some(symbol) = unseen.pop() {
            if self.defined.contains(&symbol) || !seen.insert(symbol) {
                continue;
            }
            match self.dims().definition(symbol) {
                Some(definition) => unseen.extend(self.dims().symbols_in(definition)),
                None => return false,
            }
        }
        true
    }

    fn agreement(&self, dim: DimId, stated: Option<DimId>) -> Proof {
        match stated {
            Some(stated) if stated != dim && self.is_defined(stated) => {
                self.dims().equal(dim, stated)
            }
            _ => Proof::Proved,
        }
    }

    fn reads_better(&self, stated: DimId, inferred: DimId) -> bool {
        let weight = |dim: DimId| match (self.dims().as_constant(dim), self.dims().as_symbol(dim)) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) => 2,
        };
        weight(stated) < weight(inferred) && self.is_defined(stated)
    }

    fn disagree(
        &mut self,
        value: ValueId,
        dtype: Option<DType>,
        dims: &[Option<DimId>],
        disproved: bool,
    ) -> Result<(), InferError> {
        let sizes: Vec<String> = dims
            .iter()
            .map(|dim| {
                dim.map_or_else(
                    || "?".to_owned(),
                    |dim| self.dims().display(dim).to_string(),
                )
            })
            .collect();
        let dtype = dtype.map_or_else(|| "?".to_owned(), |dtype| dtype.to_string());
        let stated = format!("{dtype}[{}]", sizes.join(", "));
        let inferred = self.ty(value).display(self.dims()).to_string();
        if self.mode == Mode::Lenient {
            self.disagreements.push(Disagreement {
                value,
                inferred,
                stated,
            });
            return Ok(());
        }
        let what = self.graph.value(value).name.as_deref().map_or_else(
            || value.to_string(),
            |name| format!("%{}", name.escape_debug()),
        );
        Err(self.mistake(InferErrorKind::Annotation {
            what,
            expected: inferred,
            found: stated,
            disproved,
        }))
    }
}
