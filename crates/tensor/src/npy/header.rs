//! The header of a `.npy` file: a Python dictionary with three known keys.
//!
//! Only the keys of the format's definition are accepted: `descr` (a string), `fortran_order` (a bool) and `shape` (a tuple
//! of integers), each once, in any order.

use crate::{DType, TensorError};

/// The maximum number of axes, more than any file in use has; NumPy's limit is 64.
const MAX_RANK: usize = 64;

/// The contents of a header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: DType,
    pub(crate) byte_order: ByteOrder,
    pub(crate) fortran_order: bool,
    pub(crate) shape: Vec<usize>,
}

/// The byte order of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl Header {
    pub(crate) fn parse(text: &str) -> Result<Header, TensorError> {
        let mut cursor = Cursor { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        cursor.expect('{')?;
        while !cursor.eat('}') {
            let key = cursor.string()?;
            cursor.expect(':')?;
            let repeated = match key {
                "descr" => descr.replace(parse_descr(&mut cursor)?).is_some(),
                "fortran_order" => fortran_order.replace(cursor.bool()?).is_some(),
                "shape" => shape.replace(cursor.shape()?).is_some(),
                other => {
                    return Err(malformed(format!(
                        "unknown key `{}` in the header",
                        other.escape_default()
                    )));
                }
            };
            if repeated {
                return Err(malformed(format!(
                    "the key `{key}` appears twice in the header"
                )));
            }
            if !cursor.eat(',') {
                cursor.expect('}')?;
                break;
            }
        }
        if !cursor.rest.trim().is_empty() {
            return Err(malformed("the header continues after its dictionary"));
        }
        let missing = |key| malformed(format!("the header lacks the key `{key}`"));
        let (dtype, byte_order) = descr.ok_or_else(|| missing("descr"))?;
        Ok(Header {
            dtype,
            byte_order,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }
}

/// NumPy's name of a dtype, little-endian.
pub(crate) fn descr(dtype: DType) -> Result<&'static str, TensorError> {
    Ok(match dtype {
        DType::F64 => "<f8",
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::BF16 => {
            return Err(unsupported(
                "bf16, which NumPy does not have: write it as u16 or f32",
            ));
        }
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::I16 => "<i2",
        DType::I8 => "|i1",
        DType::U64 => "<u8",
        DType::U32 => "<u4",
        DType::U16 => "<u2",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
    })
}

fn parse_descr(cursor: &mut Cursor<'_>) -> Result<(DType, ByteOrder), TensorError> {
    if cursor.peek() == Some('[') {
        return Err(unsupported("a structured dtype"));
    }
    let name = cursor.string()?;
    let (byte_order, kind) = match name.strip_prefix(['<', '|', '=']) {
        Some(kind) => (ByteOrder::Little, kind),
        None => (ByteOrder::Big, name.strip_prefix('>').unwrap_or(name)),
    };
    let dtype = DType::ALL
        .into_iter()
        .filter_map(|dtype| Some((dtype, descr(dtype).ok()?)))
        .find(|(_, known)| known.get(1..) == Some(kind) && name != kind)
        .map(|(dtype, _)| dtype)
        .ok_or_else(|| unsupported(format!("the dtype `{}`", name.escape_default())))?;
    Ok((dtype, byte_order))
}

pub(crate) fn malformed(reason: impl Into<String>) -> TensorError {
    TensorError::Malformed {
        format: ".npy",
        reason: reason.into(),
    }
}

pub(crate) fn unsupported(what: impl Into<String>) -> TensorError {
    TensorError::Unsupported {
        format: ".npy",
        what: what.into(),
    }
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest = self.rest.get(wanted.len_utf8()..).unwrap_or_default();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), TensorError> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{wanted}`")))
        }
    }

    fn unexpected(&mut self, expected: &str) -> TensorError {
        let found = match self.peek() {
            Some(found) => format!("`{}`", found.escape_default()),
            None => "the end".to_owned(),
        };
        malformed(format!("expected {expected} in the header, found {found}"))
    }

    fn string(&mut self) -> Result<&'a str, TensorError> {
        let quote = match self.peek() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(self.unexpected("a string")),
        };
        let (text, rest) = self
            .rest
            .get(1..)
            .and_then(|rest| rest.split_once(quote))
            .ok_or_else(|| malformed("a string in the header is unterminated"))?;
        self.rest = rest;
        Ok(text)
    }

    fn bool(&mut self) -> Result<bool, TensorError> {
        self.peek();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("True or False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, TensorError> {
        self.expect('(')?;
        let mut shape = Vec::new();
        while !self.eat(')') {
            if shape.len() == MAX_RANK {
                return Err(malformed(format!("a shape of more than {MAX_RANK} axes")));
            }
            shape.push(self.dim()?);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn dim(&mut self) -> Result<usize, TensorError> {
        self.peek();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        if digits.is_empty() {
            return Err(self.unexpected("a size"));
        }
        // Python 2 wrote long integers with an `L`.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits
            .parse()
            .map_err(|_| malformed("a size in the header does not fit 64 bits"))
    }
}
