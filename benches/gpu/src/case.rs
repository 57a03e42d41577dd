//! The cases: JSON lines that testkit's `export_gpu_cases` wrote.

use anyhow::{Context, Error, anyhow};
use kiln::internals::tensor::{DType, Tensor};
use serde::Deserialize;

/// A kernel or a graph with operands.
#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// The text of the kernel or the graph.
    pub(crate) text: String,
    /// The values of a kernel's symbols.
    pub(crate) symbols: Vec<i64>,
    /// A tensor per buffer, or per input.
    pub(crate) tensors: Vec<Elements>,
}

/// A tensor.
#[derive(Deserialize)]
pub(crate) struct Elements {
    dtype: String,
    shape: Vec<usize>,
    /// Its bytes, row-major, in hexadecimal.
    bytes: String,
}

/// Reads cases.
pub(crate) fn read(file: &str) -> Result<Vec<Case>, Error> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
}

impl Elements {
    /// The tensor.
    pub(crate) fn tensor(&self) -> Result<Tensor, Error> {
        let dtype: DType = self
            .dtype
            .parse()
            .map_err(|_| anyhow!("unknown dtype {}", self.dtype))?;
        let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let pairs = self.bytes.as_bytes().chunks_exact(2);
        let bytes: Vec<u8> = pairs
            .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
            .collect();
        Ok(Tensor::from_bytes(dtype, &self.shape, &bytes)?)
    }
}

impl Case {
    /// The tensors.
    pub(crate) fn tensors(&self) -> Result<Vec<Tensor>, Error> {
        self.tensors.iter().map(Elements::tensor).collect()
    }
}
