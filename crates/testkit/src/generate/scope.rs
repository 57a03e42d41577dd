//! A region being filled: the values in scope, and the choices about them.

use super::elements::{Flavor, random_tensor};
use super::{GraphOptions, Stop};
use crate::random::SplitMix64;
use arbitrary::Unstructured;
use kiln_ir::{Dims, TensorType, ValueId};
use kiln_shape_inference::GraphBuilder;
use kiln_symbolic_shape::DimId;
use kiln_tensor::{DType, Tensor};

/// The outcome of trying to add something.
pub(super) type Step = Result<(), Stop>;

/// The values in scope while a region is filled.
pub(super) struct Scope<'a, 'b> {
    pub(super) choices: &'a mut Unstructured<'b>,
    pub(super) builder: &'a mut GraphBuilder,
    pub(super) options: &'a GraphOptions,
    /// Values defined so far, oldest first.
    pub(super) values: Vec<ValueId>,
    /// Sizes that have a value here, other than constants.
    pub(super) sizes: Vec<DimId>,
    /// The number of surrounding regions.
    pub(super) depth: usize,
    /// The number of inputs so far, for their names.
    n_inputs: usize,
}

/// The symbols bound by inputs.
pub(super) const SYMBOLS: [&str; 3] = ["A", "B", "C"];

impl<'a, 'b> Scope<'a, 'b> {
    /// The body of a graph, empty.
    pub(super) fn body(
        choices: &'a mut Unstructured<'b>,
        builder: &'a mut GraphBuilder,
        options: &'a GraphOptions,
    ) -> Self {
        let (values, sizes) = (Vec::new(), Vec::new());
        Self {
            choices,
            builder,
            options,
            values,
            sizes,
            depth: 0,
            n_inputs: 0,
        }
    }

    /// A region whose parameters are `values`.
    pub(super) fn region(
        choices: &'a mut Unstructured<'b>,
        builder: &'a mut GraphBuilder,
        options: &'a GraphOptions,
        values: &[ValueId],
        sizes: &[DimId],
        depth: usize,
    ) -> Self {
        let (values, sizes) = (values.to_vec(), sizes.to_vec());
        Self {
            choices,
            builder,
            options,
            values,
            sizes,
            depth,
            n_inputs: 0,
        }
    }

    /// A number from `low` to `high`, both included; `low` once there are no more choices.
    pub(super) fn between(&mut self, low: usize, high: usize) -> Result<usize, Stop> {
        Ok(self.choices.int_in_range(low..=high.max(low))?)
    }

    /// True once in `n` times.
    pub(super) fn one_in(&mut self, n: usize) -> Result<bool, Stop> {
        Ok(self.between(1, n)? == n)
    }

    /// One of the items.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> Result<T, Stop> {
        let index = self.between(0, items.len().saturating_sub(1))?;
        items.get(index).copied().ok_or(Stop::NoOperand)
    }

    /// A dtype for new data: f32 half of the time.
    pub(super) fn dtype(&mut self) -> Result<DType, Stop> {
        if self.options.smooth || self.one_in(2)? {
            return Ok(DType::F32);
        }
        self.pick(&DType::ALL)
    }

    /// A size: a symbol in scope, an expression over one, or a constant.
    pub(super) fn size(&mut self) -> Result<DimId, Stop> {
        const CONSTANTS: [i64; 10] = [1, 2, 3, 4, 5, 7, 8, 9, 17, 0];
        let kind = self.between(0, 9)?;
        if self.sizes.is_empty() || kind < 4 {
            let size = self.pick(&CONSTANTS)?;
            return Ok(self.builder.size(size));
        }
        let sizes = self.sizes.clone();
        let symbol = self.pick(&sizes)?;
        let (one, two) = (self.builder.size(1), self.builder.size(2));
        let dims = self.builder.dims_mut();
        let derived = match kind {
            8 => dims.add(symbol, one),
            9 => dims.ceil_div(symbol, two),
            _ => return Ok(symbol),
        };
        Ok(derived.unwrap_or(symbol))
    }

    /// Sizes of a new tensor of rank 1 to `max_rank`.
    pub(super) fn random_shape(&mut self, max_rank: usize) -> Result<Dims, Stop> {
        let rank = self.between(0, max_rank)?;
        (0..rank).map(|_| self.size()).collect()
    }

    /// An axis of a tensor.
    pub(super) fn axis(&mut self, x: ValueId) -> Result<usize, Stop> {
        let rank = self.builder.rank(x)?;
        if rank == 0 {
            return Err(Stop::NoOperand);
        }
        self.between(0, rank - 1)
    }

    /// Adds a value to the scope.
    pub(super) fn keep(&mut self, value: ValueId) {
        self.values.push(value);
    }

    /// The newest value.
    pub(super) fn last(&self) -> Result<ValueId, Stop> {
        self.values.last().copied().ok_or(Stop::NoOperand)
    }

    /// Any value in scope.
    pub(super) fn any(&mut self) -> Result<ValueId, Stop> {
        self.find(|_| true)
    }

    /// A numeric tensor in scope.
    pub(super) fn number(&mut self) -> Result<ValueId, Stop> {
        self.find(|ty| ty.dtype != DType::Bool)
    }

    /// A value in scope that satisfies `fits`; half of the time one of the newest.
    pub(super) fn find(&mut self, fits: impl Fn(&TensorType) -> bool) -> Result<ValueId, Stop> {
        let fitting: Vec<ValueId> = self
            .values
            .iter()
            .copied()
            .filter(|&value| self.builder.graph().tensor_ty(value).is_some_and(&fits))
            .collect();
        let newest = fitting.len().saturating_sub(4);
        let among = if self.one_in(2)? {
            &fitting[newest..]
        } else {
            &fitting[..]
        };
        self.pick(among)
    }

    /// A tensor of exactly this type: one in scope, or a new one.
    pub(super) fn of_type(&mut self, dtype: DType, dims: &[DimId]) -> Result<ValueId, Stop> {
        if !self.one_in(3)?
            && let Ok(value) = self.find(|ty| ty.dtype == dtype && ty.dims.as_slice() == dims)
        {
            return Ok(value);
        }
        self.fresh(dtype, dims)
    }

    /// A new tensor of this type: an input, a constant, a counter or a repeated scalar.
    pub(super) fn fresh(&mut self, dtype: DType, dims: &[DimId]) -> Result<ValueId, Stop> {
        let known: Option<Vec<usize>> = dims
            .iter()
            .map(|&dim| usize::try_from(self.builder.dims().as_constant(dim)?).ok())
            .collect();
        let small = known.filter(|shape| shape.iter().product::<usize>() <= 512);
        let kind = self.between(0, 3)?;
        let value = match small {
            _ if kind == 0 && self.depth == 0 && self.are_declared(dims) => {
                return Ok(self.add_input(dtype, dims));
            }
            Some(shape) => {
                let tensor = self.random_tensor(dtype, &shape)?;
                self.builder.constant(tensor)?
            }
            None if kind == 1 && !self.options.smooth => {
                let axis = self.between(0, dims.len() - 1)?;
                let counter = self.builder.iota(DType::I32, dims, axis)?;
                self.builder.cast(counter, dtype)?
            }
            None => {
                let tensor = self.random_tensor(dtype, &[])?;
                let scalar = self.builder.constant(tensor)?;
                self.builder.broadcast_to(scalar, dims)?
            }
        };
        self.keep(value);
        Ok(value)
    }

    /// Whether the sizes contain only declared symbols, not those from data.
    fn are_declared(&self, dims: &[DimId]) -> bool {
        let table = self.builder.dims();
        let mut symbols = dims.iter().flat_map(|&dim| table.symbols_in(dim));
        symbols.all(|symbol| SYMBOLS.contains(&table.symbol_name(symbol)))
    }

    /// Adds an input; only in the body.
    pub(super) fn add_input(&mut self, dtype: DType, dims: &[DimId]) -> ValueId {
        let name = format!("x{}", self.n_inputs);
        self.n_inputs += 1;
        let value = self.builder.input(&name, dtype, dims);
        self.keep(value);
        value
    }

    /// A tensor of random elements.
    pub(super) fn random_tensor(&mut self, dtype: DType, shape: &[usize]) -> Result<Tensor, Stop> {
        let mut random = SplitMix64::new(self.choices.arbitrary()?);
        let flavor = if self.options.smooth {
            Flavor::Smooth
        } else if self.one_in(6)? {
            Flavor::Edges
        } else {
            Flavor::Small
        };
        random_tensor(&mut random, dtype, shape, flavor).map_err(|_| Stop::NoOperand)
    }

    /// A scalar constant.
    pub(super) fn scalar(&mut self, dtype: DType, value: f64) -> Result<ValueId, Stop> {
        Ok(self.builder.scalar_nearest(dtype, value)?)
    }
}
