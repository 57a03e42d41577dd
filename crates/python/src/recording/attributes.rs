//! Reads the attributes of an op from keyword arguments: the names and kinds are those of [`Op::visit_fields`].

use std::collections::BTreeMap;

use kiln::DType;
use kiln::internals::ir::{Constant, Dims, FieldVisitor, Indices, Integers, Op, ValueId, Word};
use kiln::internals::shape_inference::{GraphBuilder, InferError, InferErrorKind};
use kiln::internals::symbolic_shape::{DimId, DimTable};
use kiln::internals::tensor::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyList, PyString, PyTuple};
use smallvec::SmallVec;

use super::{Length, Recorder};
use crate::dtypes;

/// The value of a keyword argument.
#[derive(Clone)]
pub(super) enum Attribute {
    Flag(bool),
    Number(f64),
    Text(String),
    Size(Length),
    List(Vec<Attribute>),
}

impl Attribute {
    pub(super) fn read(given: &Bound<'_, PyAny>, recorder: &Recorder) -> PyResult<Self> {
        if given.is_instance_of::<PyBool>() {
            return Ok(Self::Flag(given.extract()?));
        }
        if given.is_instance_of::<PyFloat>() {
            return Ok(Self::Number(given.extract()?));
        }
        if let Ok(text) = given.cast::<PyString>() {
            return Ok(Self::Text(text.extract()?));
        }
        if given.is_instance_of::<PyList>() || given.is_instance_of::<PyTuple>() {
            let items = given.try_iter()?;
            let items = items.map(|item| Self::read(&item?, recorder));
            return Ok(Self::List(items.collect::<PyResult<_>>()?));
        }
        match Length::read(given, recorder)? {
            Some(length) => Ok(Self::Size(length)),
            None => {
                let found = given.get_type().name()?;
                let message = format!(
                    "expected an attribute to be a number, a size, text or a list, found a {found}"
                );
                Err(PyTypeError::new_err(message))
            }
        }
    }

    fn shown(&self, table: &DimTable) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.escape_debug().to_string(),
            Self::Size(Length::Known(size)) => size.to_string(),
            Self::Size(Length::Symbolic(dim)) => table.display(*dim).to_string(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.shown(table)).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }
}

/// The op with this mnemonic and these attributes; omitted attributes have their defaults.
pub(super) fn op(
    builder: &mut GraphBuilder,
    mnemonic: &str,
    operands: &[ValueId],
    given: BTreeMap<String, Attribute>,
) -> Result<Op, InferError> {
    let out = match operands.first() {
        Some(&first) => builder.dtype(first)?,
        None => DType::F32,
    };
    let dim = builder.size(0);
    let placeholder = Tensor::zeros(DType::Bool, &[0]).and_then(Constant::new);
    let placeholder =
        placeholder.map_err(|cause| InferError::new("builder", InferErrorKind::Tensor(cause)))?;
    let found = Op::of_mnemonic(mnemonic, dim, &placeholder, out);
    let Some(mut op) = found.filter(|op| !matches!(op, Op::Constant(_) | Op::If | Op::Loop { .. }))
    else {
        let expected = "the mnemonic of an op without regions";
        return Err(mistake(
            "function",
            expected,
            mnemonic.escape_debug().to_string(),
        ));
    };
    let mut filling = Filling {
        given,
        table: builder.dims_mut(),
        known: Vec::new(),
        failed: None,
    };
    op.visit_fields(&mut filling);
    if let Some(error) = filling.failed {
        return Err(error);
    }
    match filling.given.into_keys().next() {
        Some(unknown) => {
            let expected = match filling.known.is_empty() {
                true => format!("none for {mnemonic}"),
                false => format!("one of {mnemonic}'s: {}", filling.known.join(", ")),
            };
            Err(mistake(
                "name",
                expected,
                unknown.escape_debug().to_string(),
            ))
        }
        None => Ok(op),
    }
}

fn mistake(name: &'static str, expected: impl Into<String>, found: String) -> InferError {
    let expected = expected.into();
    InferError::new(
        "builder",
        InferErrorKind::Attribute {
            name,
            expected,
            found,
        },
    )
}

/// Fills in the fields of an op.
struct Filling<'a> {
    given: BTreeMap<String, Attribute>,
    table: &'a mut DimTable,
    /// The names of the fields.
    known: Vec<&'static str>,
    failed: Option<InferError>,
}

impl Filling<'_> {
    /// If the field was given, sets it to the result of `convert`.
    fn fill<T>(
        &mut self,
        name: &'static str,
        expected: &str,
        field: &mut T,
        convert: impl FnOnce(&mut DimTable, &Attribute) -> Option<T>,
    ) {
        self.known.push(name);
        let Some(given) = self.given.remove(name) else {
            return;
        };
        match convert(self.table, &given) {
            Some(value) => *field = value,
            None => {
                let found = given.shown(self.table);
                self.failed
                    .get_or_insert_with(|| mistake(name, expected, found));
            }
        }
    }
}

fn integer(given: &Attribute) -> Option<i64> {
    match given {
        Attribute::Size(Length::Known(integer)) => Some(*integer),
        _ => None,
    }
}

fn number(given: &Attribute) -> Option<f64> {
    match given {
        Attribute::Number(number) => Some(*number),
        _ => integer(given).map(|integer| integer as f64),
    }
}

fn size(table: &mut DimTable, given: &Attribute) -> Option<DimId> {
    match given {
        Attribute::Size(length) => Some(length.dim(table)),
        _ => None,
    }
}

fn each<T, C: FromIterator<T>>(
    given: &Attribute,
    mut convert: impl FnMut(&Attribute) -> Option<T>,
) -> Option<C> {
    match given {
        Attribute::List(items) => items.iter().map(&mut convert).collect(),
        _ => None,
    }
}

impl FieldVisitor for Filling<'_> {
    fn flag(&mut self, name: &'static str, value: &mut bool) {
        self.fill(name, "True or False", value, |_, given| match given {
            Attribute::Flag(flag) => Some(*flag),
            _ => None,
        });
    }

    fn index(&mut self, name: &'static str, value: &mut usize) {
        let convert = |given: &Attribute| usize::try_from(integer(given)?).ok();
        self.fill(name, "an integer of at least 0", value, |_, given| {
            convert(given)
        });
    }

    fn indices(&mut self, name: &'static str, value: &mut Indices) {
        let convert = |given: &Attribute| usize::try_from(integer(given)?).ok();
        self.fill(name, "integers of at least 0", value, |_, given| {
            each(given, convert)
        });
    }

    fn integers(&mut self, name: &'static str, value: &mut Integers) {
        self.fill(name, "integers", value, |_, given| each(given, integer));
    }

    fn float(&mut self, name: &'static str, value: &mut f64) {
        self.fill(name, "a number", value, |_, given| number(given));
    }

    fn floats(&mut self, name: &'static str, value: &mut SmallVec<[f64; 4]>) {
        self.fill(name, "numbers", value, |_, given| each(given, number));
    }

    fn dim(&mut self, name: &'static str, value: &mut DimId) {
        self.fill(name, "a size", value, size);
    }

    fn dims(&mut self, name: &'static str, value: &mut Dims) {
        self.fill(name, "sizes", value, |table, given| {
            each(given, |given| size(table, given))
        });
    }

    fn dtype(&mut self, name: &'static str, value: &mut DType) {
        self.fill(name, "the name of a dtype", value, |_, given| match given {
            Attribute::Text(text) => dtypes::by_name(text),
            _ => None,
        });
    }

    fn result_dtype(&mut self, name: &'static str, value: &mut DType) {
        self.dtype(name, value);
    }

    fn word(&mut self, name: &'static str, value: &mut dyn Word) {
        self.known.push(name);
        let Some(given) = self.given.remove(name) else {
            return;
        };
        let is_set = matches!(&given, Attribute::Text(text) if value.set_word(text));
        if !is_set {
            let expected = format!("one of {}", value.words().join(", "));
            let found = given.shown(self.table);
            self.failed
                .get_or_insert_with(|| mistake(name, expected, found));
        }
    }

    fn text(&mut self, name: &'static str, value: &mut String) {
        self.fill(name, "text", value, |_, given| match given {
            Attribute::Text(text) => Some(text.clone()),
            _ => None,
        });
    }
}
