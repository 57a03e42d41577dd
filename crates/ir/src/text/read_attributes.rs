//! Reads `{name = value, flag}` into an op's fields.
//!
//! Attributes may come in any order, each once; every field but a flag is required. The kind of a field's value is known
//! from the op ([`Op::visit_fields`]), so the text needs no types.

use super::input::Input;
use super::read::Read;
use crate::op::{FieldVisitor, Indices, Integers, Op, Word};
use crate::ty::Dims;
use kiln_symbolic_shape::text::{Diagnostic, TokenKind, parse_dim};
use kiln_symbolic_shape::{DimId, DimTable};
use kiln_tensor::DType;
use std::collections::BTreeSet;

pub(super) fn read(input: &mut Input<'_>, dims: &mut DimTable, op: &mut Op) -> Read<()> {
    let mut seen = BTreeSet::new();
    let before = input.span();
    if input.accept(&TokenKind::OpenBrace) {
        while !input.at(&TokenKind::CloseBrace) {
            let start = input.span();
            let name = input.identifier("the name of an attribute")?;
            let mnemonic = op.mnemonic();
            let mut field = OneField {
                input: &mut *input,
                dims: &mut *dims,
                name: &name,
                found: false,
                failed: None,
            };
            op.visit_fields(&mut field);
            let (found, failed) = (field.found, field.failed);
            if let Some(error) = failed {
                return Err(error);
            }
            if !found {
                return Err(input.error_at(
                    start,
                    "E0124",
                    format!("{mnemonic} has no attribute {name}"),
                ));
            }
            if !seen.insert(name.clone()) {
                return Err(input.error_at(
                    start,
                    "E0124",
                    format!("attribute {name} is given twice"),
                ));
            }
            if !input.accept(&TokenKind::Comma) {
                break;
            }
        }
        input.expect(&TokenKind::CloseBrace)?;
    }
    // The parameters of scalar functions have defaults.
    if matches!(op, Op::Map { .. }) {
        return Ok(());
    }
    let mut missing = Missing {
        seen: &seen,
        missing: None,
    };
    op.visit_fields(&mut missing);
    match missing.missing {
        Some(name) => Err(input.error_at(
            before,
            "E0124",
            format!("{} needs attribute {name}", op.mnemonic()),
        )),
        None => Ok(()),
    }
}

/// Fills in the field with this name from the text that follows it.
struct OneField<'a, 'text> {
    input: &'a mut Input<'text>,
    dims: &'a mut DimTable,
    name: &'a str,
    found: bool,
    failed: Option<Diagnostic>,
}

impl<'text> OneField<'_, 'text> {
    fn take<T>(
        &mut self,
        name: &str,
        value: &mut T,
        read: impl FnOnce(&mut Input<'text>, &mut DimTable) -> Read<T>,
    ) {
        if name != self.name || self.found {
            return;
        }
        self.found = true;
        let taken = self
            .input
            .expect(&TokenKind::Equal)
            .and_then(|()| read(self.input, self.dims));
        match taken {
            Ok(taken) => *value = taken,
            Err(error) => self.failed = Some(error),
        }
    }
}

impl FieldVisitor for OneField<'_, '_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        if name == self.name {
            self.found = true;
            *value = true;
        }
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        self.take(name, value, |input, _| input.index());
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        self.take(name, value, |input, _| input.list(Input::index));
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        self.take(name, value, |input, _| input.list(Input::integer));
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        self.take(name, value, |input, _| input.float());
    }

    fn floats(&mut self, name: &'static str, value: &mut smallvec::SmallVec<[f64; 4]>) {
        self.take(name, value, |input, _| input.list(Input::float));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        self.take(name, value, |input, dims| parse_dim(input.cursor(), dims));
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        self.take(name, value, |input, dims| input.dim_list(dims));
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        self.take(name, value, |input, _| input.dtype());
    }

    fn result_dtype(&mut self, name: &'static str, value: &mut DType) {
        self.dtype(name, value);
    }

    fn word(&mut self, name: &'static str, value: &mut dyn Word) {
        let words = value.words().join(", ");
        let mut taken = String::new();
        self.take(name, &mut taken, |input, _| input.identifier(&words));
        if !taken.is_empty() && !value.set_word(&taken) {
            let message = format!("attribute {name}: expected one of {words}, found {taken}");
            self.failed = Some(self.input.error("E0124", message));
        }
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        self.take(name, value, |input, _| input.string());
    }
}

/// Finds a field that was not given.
struct Missing<'a> {
    seen: &'a BTreeSet<String>,
    missing: Option<&'static str>,
}

impl Missing<'_> {
    fn need(&mut self, name: &'static str) {
        if self.missing.is_none() && !self.seen.contains(name) {
            self.missing = Some(name);
        }
    }
}

impl FieldVisitor for Missing<'_> {
    fn index(&mut self, name: &'static str, _value: &mut usize) {
        self.need(name);
    }

    fn indices(&mut self, name: &'static str, _value: &mut Indices) {
        self.need(name);
    }

    fn integers(&mut self, name: &'static str, _value: &mut Integers) {
        self.need(name);
    }

    fn float(&mut self, name: &'static str, _value: &mut f64) {
        self.need(name);
    }

    fn floats(&mut self, name: &'static str, _value: &mut smallvec::SmallVec<[f64; 4]>) {
        self.need(name);
    }

    fn dim(&mut self, name: &'static str, _value: &mut DimId) {
        self.need(name);
    }

    fn dims(&mut self, name: &'static str, _value: &mut Dims) {
        self.need(name);
    }

    fn dtype(&mut self, name: &'static str, _value: &mut DType) {
        self.need(name);
    }

    fn word(&mut self, name: &'static str, _value: &mut dyn Word) {
        self.need(name);
    }

    fn text(&mut self, name: &'static str, _value: &mut String) {
        self.need(name);
    }
}
