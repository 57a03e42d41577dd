//! Conversion between data and sizes: `dims` turns sizes into data, `bind` turns data into sizes.

use super::GraphBuilder;
use crate::error::{InferError, InferErrorKind};
use kiln_ir::{Op, ValueId};
use kiln_symbolic_shape::{DimId, SymbolicDimension};
use kiln_tensor::DType;

impl GraphBuilder {
    /// Sizes as data: `i64[len]`.
    ///
    /// # Errors
    /// When the table of sizes is full.
    pub fn dims_tensor(&mut self, sizes: &[DimId]) -> Result<ValueId, InferError> {
        self.op1(
            Op::Dims {
                sizes: sizes.into(),
            },
            &[],
        )
    }

    /// The sizes of a tensor as data: `i64[rank]`.
    ///
    /// # Errors
    /// When the value is not a tensor.
    pub fn dims_of(&mut self, x: ValueId) -> Result<ValueId, InferError> {
        let sizes = self.shape(x)?;
        self.dims_tensor(&sizes)
    }

    /// The index along `axis` of a tensor of sizes `dims`.
    ///
    /// # Errors
    /// When the axis does not exist.
    pub fn iota(
        &mut self,
        dtype: DType,
        dims: &[DimId],
        axis: usize,
    ) -> Result<ValueId, InferError> {
        self.op1(
            Op::Iota {
                dims: dims.into(),
                axis,
                dtype,
            },
            &[],
        )
    }

    /// The elements of an integer scalar or vector as sizes: known ones as they are, others as symbols that the run
    /// time binds to any integer.
    ///
    /// # Errors
    /// When the value is not an integer scalar or vector of known length.
    pub fn bind(&mut self, x: ValueId) -> Result<Vec<DimId>, InferError> {
        self.bind_with(x, SymbolicDimension::integer)
    }

    /// As [`bind`](Self::bind), for elements that must be at least 0: a negative one is an error at run time.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_sizes(&mut self, x: ValueId) -> Result<Vec<DimId>, InferError> {
        self.bind_with(x, SymbolicDimension::named)
    }

    fn bind_with(
        &mut self,
        x: ValueId,
        symbol: fn(String) -> SymbolicDimension,
    ) -> Result<Vec<DimId>, InferError> {
        if let Some(known) = self.known_values(x) {
            return Ok(known.to_vec());
        }
        let ty = self.tensor(x)?;
        let length = match ty.dims.as_slice() {
            [] => Some(1),
            &[length] => self.dims().as_constant(length),
            _ => None,
        };
        let limit = crate::KNOWN_LIMIT;
        let Some(length) = length
            .and_then(|length| usize::try_from(length).ok())
            .filter(|&length| length <= limit)
        else {
            return Err(self.mistake(InferErrorKind::Operand {
                index: 0,
                expected: format!("an integer scalar or a vector of at most {limit} elements"),
                found: self.describe(x),
            }));
        };
        let mut symbols = Vec::with_capacity(length);
        let mut sizes = Vec::with_capacity(length);
        for index in 0..length {
            let declared = loop {
                let name = format!("n{}", self.n_bound);
                self.n_bound += 1;
                if self.dims().symbol_named(&name).is_none() {
                    break self.dims_mut().declare(symbol(name));
                }
            };
            let declared = self.place(declared)?;
            symbols.push(declared);
            // A known element carries more information than a symbol.
            let known = self
                .known(x)
                .and_then(|known| known.element(index).as_dim());
            sizes.push(known.unwrap_or_else(|| self.dims_mut().dim(declared)));
        }
        self.append(Op::Bind, &[x], &[], &symbols)?;
        Ok(sizes)
    }
}
