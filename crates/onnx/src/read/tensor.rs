//! Reads tensors: the source of their elements, their expected number, and the budget for all of them.

use kiln_tensor::{DType, Tensor, element_count};

use super::dense::{raw_elements, typed_elements};
use super::external::ExternalFiles;
use super::narrow::narrow_elements;
use super::sparse::densify;
use crate::model::{ElementType, ModelTensor, NarrowType, TensorPlace};
use crate::proto::{SparseTensorProto, TensorProto};
use crate::{Error, Fs, LimitKind, Limits, Name};

/// Reads the tensors of one model.
pub(crate) struct TensorReader<'a> {
    limits: &'a Limits,
    external: ExternalFiles<'a>,
    /// The address of the model's first byte, which tensors in it are slices of.
    model: Option<usize>,
    /// Bytes of the tensors read so far, and of the dense forms of sparse ones among them.
    read_bytes: u64,
    dense_bytes: u64,
}

/// The expected contents of a tensor; checked against the address space and the limits.
pub(crate) struct Expected<'a> {
    pub(crate) name: &'a Name,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) elements: usize,
}

impl<'a> TensorReader<'a> {
    /// A reader that finds data files in `files`.
    pub(crate) fn new(files: &'a dyn Fs, limits: &'a Limits) -> Self {
        Self {
            limits,
            external: ExternalFiles::new(files),
            model: None,
            read_bytes: 0,
            dense_bytes: 0,
        }
    }

    /// The same, for tensors that are slices of these bytes.
    pub(crate) fn within(self, model: &[u8]) -> Self {
        Self {
            model: Some(model.as_ptr().addr()),
            ..self
        }
    }

    /// The place of the elements, if they are stored verbatim.
    fn place_of(&self, proto: &TensorProto, dtype: DType) -> Option<TensorPlace> {
        // For a bool, any nonzero byte may mean true.
        if dtype == DType::Bool || proto.segment.is_some() {
            return None;
        }
        match proto.data_location {
            0 if !proto.raw_data.is_empty() => {
                let offset = proto.raw_data.as_ptr().addr().checked_sub(self.model?)?;
                Some(TensorPlace {
                    file: None,
                    offset: offset as u64,
                })
            }
            1 => ExternalFiles::place(&proto.external_data),
            _ => None,
        }
    }

    /// The reader's limits.
    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    /// Reads a tensor under the given name.
    pub(crate) fn read(&mut self, proto: TensorProto, name: Name) -> Result<ModelTensor, Error> {
        let element = ElementType::from_number(proto.data_type);
        let mut place = None;
        let content = match element {
            ElementType::Supported(dtype) => {
                place = self.place_of(&proto, dtype);
                Some(self.read_elements(proto, dtype, &name)?)
            }
            ElementType::Narrow(narrow) => Some(self.read_narrow(proto, narrow, &name)?),
            ElementType::Unsupported(_) => None,
        };
        Ok(ModelTensor::new(name, element, content).at(place))
    }

    /// Reads a sparse tensor under the given name, and makes it dense.
    pub(crate) fn read_sparse(
        &mut self,
        proto: SparseTensorProto,
        name: Name,
    ) -> Result<ModelTensor, Error> {
        let missing = || Error::TensorContent {
            tensor: name.clone(),
            reason: "a sparse tensor lacks values or indices",
        };
        let values = proto.values.ok_or_else(missing)?;
        let ElementType::Supported(dtype) = ElementType::from_number(values.data_type) else {
            let element = ElementType::from_number(values.data_type);
            return Ok(ModelTensor::new(name, element, None));
        };
        let indices = proto.indices.ok_or_else(missing)?;
        if ElementType::from_number(indices.data_type) != ElementType::Supported(DType::I64) {
            return Err(Error::TensorContent {
                tensor: name,
                reason: "the indices of a sparse tensor are not i64",
            });
        }
        let expected = self.expect(&name, dtype, &proto.dims)?;
        self.dense_bytes = self.dense_bytes.saturating_add(expected.bytes());
        self.limits.check(LimitKind::DenseBytes, self.dense_bytes)?;
        let values = self.read_elements(values, dtype, &name)?;
        let indices = self.read_elements(indices, DType::I64, &name)?;
        let tensor = densify(&expected, &values, &indices)?;
        let element = ElementType::Supported(dtype);
        Ok(ModelTensor::new(name, element, Some(tensor)))
    }

    fn read_narrow(
        &mut self,
        proto: TensorProto,
        narrow: NarrowType,
        name: &Name,
    ) -> Result<Tensor, Error> {
        let expected = self.expect(name, narrow.kept_in(), &proto.dims)?;
        if proto.segment.is_some() {
            return Err(expected.malformed("it is stored in segments; expected it in one piece"));
        }
        narrow_elements(&expected, narrow, proto, &mut self.external)
    }

    fn read_elements(
        &mut self,
        proto: TensorProto,
        dtype: DType,
        name: &Name,
    ) -> Result<Tensor, Error> {
        let expected = self.expect(name, dtype, &proto.dims)?;
        if proto.segment.is_some() {
            return Err(expected.malformed("it is stored in segments; expected it in one piece"));
        }
        match proto.data_location {
            0 if proto.raw_data.is_empty() => typed_elements(&expected, proto),
            0 => raw_elements(&expected, &proto.raw_data),
            1 => self.external.read(&expected, &proto.external_data),
            _ => Err(expected.malformed("its data location is not one that ONNX defines")),
        }
    }

    /// Checks sizes and counts them towards the limits.
    fn expect<'n>(
        &mut self,
        name: &'n Name,
        dtype: DType,
        dims: &[i64],
    ) -> Result<Expected<'n>, Error> {
        self.limits.check(LimitKind::Rank, dims.len() as u64)?;
        let shape = dims
            .iter()
            .map(|&size| usize::try_from(size))
            .collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| Error::TensorContent {
            tensor: name.clone(),
            reason: "it has a negative size",
        })?;
        let elements = element_count(dtype, &shape);
        let elements = elements.map_err(|source| Error::Tensor {
            tensor: name.clone(),
            source,
        })?;
        let expected = Expected {
            name,
            dtype,
            shape,
            elements,
        };
        self.read_bytes = self.read_bytes.saturating_add(expected.bytes());
        self.limits.check(LimitKind::TensorBytes, self.read_bytes)?;
        Ok(expected)
    }
}

impl Expected<'_> {
    /// The size of the elements. It does not overflow: [`element_count`] has accepted the shape.
    pub(crate) fn bytes(&self) -> u64 {
        self.elements as u64 * self.dtype.size_in_bytes() as u64
    }

    /// An error about this tensor's description.
    pub(crate) fn malformed(&self, reason: &'static str) -> Error {
        Error::TensorContent {
            tensor: self.name.clone(),
            reason,
        }
    }

    /// Attaches this tensor's name to an error of storage.
    pub(crate) fn at(&self, source: kiln_tensor::TensorError) -> Error {
        Error::Tensor {
            tensor: self.name.clone(),
            source,
        }
    }

    /// An error about the number of elements or bytes found, unless it is the expected one.
    pub(crate) fn check_length(
        &self,
        expected: u64,
        found: usize,
        unit: &'static str,
    ) -> Result<(), Error> {
        let found = found as u64;
        if found == expected {
            return Ok(());
        }
        Err(Error::TensorLength {
            tensor: self.name.clone(),
            dtype: self.dtype,
            expected,
            found,
            unit,
        })
    }
}
