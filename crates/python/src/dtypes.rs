//! Element types under their Python names.

use kiln::{DType, ErrorKind};
use pyo3::prelude::*;

use crate::errors::exception;

/// A dtype's names.
pub(crate) struct Named {
    pub(crate) dtype: DType,
    /// NumPy's name for it.
    pub(crate) name: &'static str,
    /// Its letter in Python's module `struct`, if it has one.
    pub(crate) format: Option<&'static str>,
    /// DLPack's code.
    pub(crate) code: u8,
}

const INTEGER: u8 = 0;
const UNSIGNED: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const BOOL: u8 = 6;

const ALL: [Named; 13] = [
    named(DType::F64, "float64", Some("d"), FLOAT),
    named(DType::F32, "float32", Some("f"), FLOAT),
    named(DType::F16, "float16", Some("e"), FLOAT),
    named(DType::BF16, "bfloat16", None, BFLOAT),
    named(DType::I64, "int64", Some("q"), INTEGER),
    named(DType::I32, "int32", Some("i"), INTEGER),
    named(DType::I16, "int16", Some("h"), INTEGER),
    named(DType::I8, "int8", Some("b"), INTEGER),
    named(DType::U64, "uint64", Some("Q"), UNSIGNED),
    named(DType::U32, "uint32", Some("I"), UNSIGNED),
    named(DType::U16, "uint16", Some("H"), UNSIGNED),
    named(DType::U8, "uint8", Some("B"), UNSIGNED),
    named(DType::Bool, "bool", Some("?"), BOOL),
];

const fn named(dtype: DType, name: &'static str, format: Option<&'static str>, code: u8) -> Named {
    Named {
        dtype,
        name,
        format,
        code,
    }
}

/// The names of a dtype; `None` if this package does not support it.
pub(crate) fn of(dtype: DType) -> Option<&'static Named> {
    ALL.iter().find(|named| named.dtype == dtype)
}

/// The dtype with a name of NumPy's.
pub(crate) fn by_name(name: &str) -> Option<DType> {
    let found = ALL.iter().find(|named| named.name == name);
    found.map(|named| named.dtype)
}

/// Like [`by_name`], but any other name is an error.
pub(crate) fn expect(py: Python<'_>, name: &str) -> PyResult<DType> {
    by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|named| named.name).collect();
        let message = format!(
            "expected a dtype, one of {}, found {}",
            names.join(", "),
            name.escape_debug()
        );
        exception(py, ErrorKind::InvalidInput, "E0999", &message)
    })
}

/// The dtype with a code and bits of DLPack's.
pub(crate) fn of_dlpack(code: u8, bits: u8) -> Option<DType> {
    let fits =
        |named: &&Named| named.code == code && named.dtype.size_in_bytes() * 8 == usize::from(bits);
    ALL.iter().find(fits).map(|named| named.dtype)
}

/// The dtype for a format of Python's module `struct`, with elements of a given number of bytes in native byte order.
pub(crate) fn of_format(format: &str, bytes: usize) -> Option<DType> {
    let native = match cfg!(target_endian = "little") {
        true => '<',
        false => '>',
    };
    let letter = format
        .strip_prefix(['@', '=', '|', native])
        .unwrap_or(format);
    // The widths of C's integer types differ between systems, so the letter determines only the kind.
    let code = match letter {
        "b" | "h" | "i" | "l" | "q" | "n" => INTEGER,
        "B" | "H" | "I" | "L" | "Q" | "N" => UNSIGNED,
        "e" | "f" | "d" => FLOAT,
        "?" => BOOL,
        _ => return None,
    };
    of_dlpack(code, u8::try_from(8 * bytes).ok()?)
}
