//! Elements in other files, read directly into a tensor's storage.
//!
//! The range is checked against the size of the open file before memory is taken. Tensors that name the same range share
//! storage; ranges that overlap otherwise are rejected, so that a small file cannot fill the memory.

use std::collections::BTreeMap;
use std::io;

use kiln_tensor::{DType, Element, Tensor, bf16, f16};

use super::tensor::Expected;
use crate::files::{DataFile, Location};
use crate::model::TensorPlace;
use crate::proto::StringStringEntryProto;
use crate::{Error, FileError, Fs, Name};

/// The data files of one model.
pub(crate) struct ExternalFiles<'a> {
    files: &'a dyn Fs,
    /// The file opened last: models keep their tensors in one file, or each tensor in a separate file.
    open: Option<(Location, Box<dyn DataFile>)>,
    /// The ranges read so far, by file and first byte.
    read: BTreeMap<Location, BTreeMap<u64, ReadRange>>,
}

struct ReadRange {
    end: u64,
    name: Name,
    tensor: Tensor,
}

/// A tensor's entries.
struct Entries<'p> {
    location: &'p str,
    offset: u64,
    length: Option<u64>,
}

impl<'a> ExternalFiles<'a> {
    /// No file is open yet.
    pub(crate) fn new(files: &'a dyn Fs) -> Self {
        Self {
            files,
            open: None,
            read: BTreeMap::new(),
        }
    }

    /// The location given by valid entries.
    pub(crate) fn place(entries: &[StringStringEntryProto]) -> Option<TensorPlace> {
        let value = |key: &str| entries.iter().find(|entry| entry.key == key);
        let file = Location::parse(&value("location")?.value).ok()?;
        let offset = match value("offset") {
            Some(entry) => entry.value.parse().ok()?,
            None => 0,
        };
        Some(TensorPlace {
            file: Some(file),
            offset,
        })
    }

    /// Reads the elements that `entries` point to.
    pub(crate) fn read(
        &mut self,
        expected: &Expected<'_>,
        entries: &[StringStringEntryProto],
    ) -> Result<Tensor, Error> {
        let Entries {
            location: raw,
            offset,
            length,
        } = parse_entries(expected, entries)?;
        let located = |source: FileError| Error::ExternalFile {
            tensor: expected.name.clone(),
            location: Name::from(raw),
            source,
        };
        let location = Location::parse(raw).map_err(|refusal| located(refusal.into()))?;
        let bytes = expected.bytes();
        if let Some(found) = length
            && found != bytes
        {
            let (tensor, dtype) = (expected.name.clone(), expected.dtype);
            return Err(Error::TensorLength {
                tensor,
                dtype,
                expected: bytes,
                found,
                unit: "bytes",
            });
        }

        let file = match self.open.take() {
            Some((opened, file)) if opened == location => file,
            _ => self.files.open(&location).map_err(located)?,
        };
        let size = file.size();
        let end = offset
            .checked_add(bytes)
            .filter(|&end| end <= size)
            .ok_or_else(|| Error::ExternalRange {
                tensor: expected.name.clone(),
                location: Name::from(raw),
                offset,
                length: bytes,
                size,
            })?;

        let tensor = match self.find_shared(expected, &location, offset, end)? {
            Some(shared) => shared,
            None => {
                let tensor = fill(expected, &*file, offset).map_err(|failure| match failure {
                    Failure::Read(error) => located(error.into()),
                    Failure::Storage(error) => expected.at(error),
                })?;
                if bytes > 0 {
                    let range = ReadRange {
                        end,
                        name: expected.name.clone(),
                        tensor: tensor.clone(),
                    };
                    self.read
                        .entry(location.clone())
                        .or_default()
                        .insert(offset, range);
                }
                tensor
            }
        };
        self.open = Some((location, file));
        Ok(tensor)
    }

    /// The tensor already read from the same range, if there is one.
    ///
    /// # Errors
    /// [`Error::ExternalOverlap`] when an earlier range overlaps without being the same.
    fn find_shared(
        &self,
        expected: &Expected<'_>,
        location: &Location,
        offset: u64,
        end: u64,
    ) -> Result<Option<Tensor>, Error> {
        if offset == end {
            return Ok(None);
        }
        let Some(ranges) = self.read.get(location) else {
            return Ok(None);
        };
        // Earlier ranges do not overlap, so only the last one that begins before our end can reach into ours.
        let Some((&start, range)) = ranges
            .range(..end)
            .next_back()
            .filter(|(_, range)| range.end > offset)
        else {
            return Ok(None);
        };
        if start == offset && range.end == end && range.tensor.dtype() == expected.dtype {
            return range
                .tensor
                .reshape(&expected.shape)
                .map(Some)
                .map_err(|error| expected.at(error));
        }
        Err(Error::ExternalOverlap {
            tensor: expected.name.clone(),
            other: range.name.clone(),
            location: Name::from(location.as_str()),
            offset,
            length: end - offset,
        })
    }
}

fn parse_entries<'p>(
    expected: &Expected<'_>,
    entries: &'p [StringStringEntryProto],
) -> Result<Entries<'p>, Error> {
    let bad = |key, reason| Error::ExternalEntry {
        tensor: expected.name.clone(),
        key,
        reason,
    };
    let (mut location, mut offset, mut length) = (None, None, None);
    for entry in entries {
        // Other entries, such as `checksum`, do not locate the data.
        let (key, slot) = match entry.key.as_str() {
            "location" => ("location", &mut location),
            "offset" => ("offset", &mut offset),
            "length" => ("length", &mut length),
            _ => continue,
        };
        if slot.replace(entry.value.as_str()).is_some() {
            return Err(bad(key, "expected it once, found it twice"));
        }
    }
    let number = |key, text: Option<&str>| match text {
        None => Ok(None),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
            .parse::<u64>()
            .map(Some)
            .map_err(|_| bad(key, "expected a number of bytes within 64 bits")),
        Some(_) => Err(bad(key, "expected a number of bytes in decimal digits")),
    };
    Ok(Entries {
        location: location.ok_or_else(|| bad("location", "expected it, found none"))?,
        offset: number("offset", offset)?.unwrap_or(0),
        length: number("length", length)?,
    })
}

enum Failure {
    Read(io::Error),
    Storage(kiln_tensor::TensorError),
}

/// Allocates storage for the tensor and reads the file into it.
fn fill(expected: &Expected<'_>, file: &dyn DataFile, offset: u64) -> Result<Tensor, Failure> {
    match expected.dtype {
        DType::F64 => fill_as::<f64>(expected, file, offset),
        DType::F32 => fill_as::<f32>(expected, file, offset),
        DType::F16 => fill_as::<f16>(expected, file, offset),
        DType::BF16 => fill_as::<bf16>(expected, file, offset),
        DType::I64 => fill_as::<i64>(expected, file, offset),
        DType::I32 => fill_as::<i32>(expected, file, offset),
        DType::I16 => fill_as::<i16>(expected, file, offset),
        DType::I8 => fill_as::<i8>(expected, file, offset),
        DType::U64 => fill_as::<u64>(expected, file, offset),
        DType::U32 => fill_as::<u32>(expected, file, offset),
        DType::U16 => fill_as::<u16>(expected, file, offset),
        DType::U8 => fill_as::<u8>(expected, file, offset),
        // Not every byte is a bool, so these are read separately and converted.
        _ => {
            let size = expected
                .elements
                .saturating_mul(expected.dtype.size_in_bytes());
            let mut bytes = kiln_tensor::zeroed_bytes(size).map_err(Failure::Storage)?;
            file.read_at(offset, &mut bytes).map_err(Failure::Read)?;
            Tensor::from_bytes(expected.dtype, &expected.shape, &bytes).map_err(Failure::Storage)
        }
    }
}

fn fill_as<T: Element + bytemuck::Pod>(
    expected: &Expected<'_>,
    file: &dyn DataFile,
    offset: u64,
) -> Result<Tensor, Failure> {
    let mut tensor = Tensor::zeros(T::DTYPE, &expected.shape).map_err(Failure::Storage)?;
    let elements = tensor.as_mut_slice::<T>().map_err(Failure::Storage)?;
    file.read_at(offset, bytemuck::cast_slice_mut(elements))
        .map_err(Failure::Read)?;
    Ok(tensor)
}
