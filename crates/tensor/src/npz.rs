//! NumPy's `.npz`: named tensors in a zip archive, one `.npy` each.
//!
//! Archives are untrusted and may be compressed, so the reader is given a limit on the bytes of tensors. Writing does not
//! compress and is deterministic: same tensors, same bytes.

use std::collections::BTreeMap;
use std::io::{Read, Seek, Write};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::npy::{read_npy_within, write_npy};
use crate::{Tensor, TensorError};

/// Reads every tensor of an archive, by name; `limit` bounds the total bytes of all tensors.
///
/// Members that are not `.npy` files are skipped, as in NumPy.
pub fn read_npz<R: Read + Seek>(
    reader: R,
    limit: usize,
) -> Result<BTreeMap<String, Tensor>, TensorError> {
    let mut archive = ZipArchive::new(reader).map_err(from_zip)?;
    let mut tensors = BTreeMap::new();
    let mut left = limit;
    for index in 0..archive.len() {
        let mut member = archive.by_index(index).map_err(from_zip)?;
        let Some(name) = member
            .name()
            .map_err(from_zip)?
            .strip_suffix(".npy")
            .map(str::to_owned)
        else {
            continue;
        };
        let tensor = read_npy_within(&mut member, left)?;
        left -= tensor.byte_len();
        if tensors.insert(name.clone(), tensor).is_some() {
            let reason = format!("two tensors are named `{}`", name.escape_default());
            return Err(TensorError::Malformed {
                format: ".npz",
                reason,
            });
        }
    }
    Ok(tensors)
}

/// Writes tensors under their names, in the order given.
pub fn write_npz<'a, W: Write + Seek>(
    tensors: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    writer: W,
) -> Result<(), TensorError> {
    let mut archive = ZipWriter::new(writer);
    for (name, tensor) in tensors {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(tensor.byte_len() as u64 >= u64::from(u32::MAX) - (1 << 16));
        archive
            .start_file(format!("{name}.npy"), options)
            .map_err(from_zip)?;
        write_npy(tensor, &mut archive)?;
    }
    archive.finish().map_err(from_zip)?;
    Ok(())
}

fn from_zip(error: ZipError) -> TensorError {
    match error {
        ZipError::Io(error) => TensorError::Io(error),
        ZipError::UnsupportedArchive(what) => TensorError::Unsupported {
            format: ".npz",
            what: what.to_owned(),
        },
        other => TensorError::Malformed {
            format: ".npz",
            reason: other.to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn archive(names: &[&str]) -> Vec<u8> {
        let tensors: Vec<Tensor> = (0..names.len())
            .map(|i| Tensor::full(&[i + 1, 2], i as f32).unwrap())
            .collect();
        let mut bytes = Cursor::new(Vec::new());
        write_npz(names.iter().copied().zip(&tensors), &mut bytes).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn named_tensors_round_trip() {
        let bytes = archive(&["x", "weights/0"]);
        assert_eq!(bytes, archive(&["x", "weights/0"]));
        let tensors = read_npz(Cursor::new(bytes), 1000).unwrap();
        assert_eq!(tensors.keys().collect::<Vec<_>>(), ["weights/0", "x"]);
        assert_eq!(tensors["weights/0"].to_vec::<f32>().unwrap(), [1.0; 4]);
    }

    #[test]
    fn compressed_members_are_read_and_others_skipped() {
        let mut npy = Vec::new();
        write_npy(
            &Tensor::zeros(crate::DType::F64, &[1000]).unwrap(),
            &mut npy,
        )
        .unwrap();
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        zip.start_file("a.npy", options).unwrap();
        zip.write_all(&npy).unwrap();
        zip.start_file("notes.txt", options).unwrap();
        zip.write_all(b"not a tensor").unwrap();
        let bytes = zip.finish().unwrap().into_inner();
        assert!(bytes.len() < 1000);
        let tensors = read_npz(Cursor::new(bytes.clone()), 8000).unwrap();
        assert_eq!((tensors.len(), tensors["a"].len()), (1, 1000));
        assert_eq!(
            read_npz(Cursor::new(bytes), 7999).unwrap_err().code(),
            "E0941"
        );
    }

    #[test]
    fn damaged_archives_are_errors() {
        let whole = archive(&["x"]);
        for length in 0..whole.len() {
            assert!(
                read_npz(Cursor::new(&whole[..length]), 1000).is_err(),
                "cut to {length}"
            );
        }
        for position in 0..whole.len() {
            let mut changed = whole.clone();
            changed[position] ^= 0x55;
            let _ = read_npz(Cursor::new(changed), 1000);
        }
    }
}
